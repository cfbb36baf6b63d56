//! `sangam bench` and `sangam sim` are programs of their own, so that the laboratory is no part of
//! the product.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::beside;
use crate::exit::{Exit, Failure};

/// Becomes a program of the laboratory, beside this one or in PATH. Returns only if that fails.
pub(super) fn run(program: &str, args: &[OsString], json: bool) -> Failure {
    let mut command = Command::new(beside::program(program));
    command.args(args);
    if json && !args.iter().any(|arg| arg == OsStr::new("--json")) {
        command.arg("--json");
    }
    let error = command.exec();
    let failure = Failure::new(Exit::Failure, format!("cannot start {program}: {error}"));
    match error.kind() {
        ErrorKind::NotFound => failure.hint(format!(
            "it is built with the rest: `cargo build --release -p {program}`; \
             put it beside this program or into PATH",
        )),
        _ => failure,
    }
}
