//! `sangam bench` is a program of its own, so that the load generator is no part of the product.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::exit::{Exit, Failure};

const PROGRAM: &str = "sangam-bench";

/// Becomes `sangam-bench`, beside this program or in PATH. Returns only if that fails.
pub(super) fn run(args: &[OsString], json: bool) -> Failure {
    let mut command = Command::new(beside().unwrap_or_else(|| PROGRAM.into()));
    command.args(args);
    if json && !args.iter().any(|arg| arg == OsStr::new("--json")) {
        command.arg("--json");
    }
    let error = command.exec();
    let failure = Failure::new(Exit::Failure, format!("cannot start {PROGRAM}: {error}"));
    match error.kind() {
        ErrorKind::NotFound => failure.hint(
            "it is built with the rest: `cargo build --release -p sangam-bench`; \
             put it beside this program or into PATH",
        ),
        _ => failure,
    }
}

fn beside() -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?.with_file_name(PROGRAM);
    path.exists().then_some(path)
}
