//! `sangam bench` is a program of its own, so that the load generator is no part of the product.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::beside;
use crate::exit::{Exit, Failure};

const PROGRAM: &str = "sangam-bench";

/// Becomes `sangam-bench`, beside this program or in PATH. Returns only if that fails.
pub(super) fn run(args: &[OsString], json: bool) -> Failure {
    let mut command = Command::new(beside::program(PROGRAM));
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
