//! The command line: files, threads and words around the library.

mod args;
mod brokers;
mod export;
mod record;
mod replay;
mod report;
mod run;
mod store;
mod study;
mod trace;

use core::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};

/// Why a command failed, for its user.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Does what the command line asks for.
pub(crate) fn run() -> ExitCode {
    let result = match Cli::parse().command {
        Command::List { json } => study::list(json),
        Command::Run(arguments) => study::run(&arguments),
        Command::Report { dir, json } => study::report(&dir, json),
        Command::Trace(command) => trace::run(&command),
        Command::Brokers(arguments) => brokers::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            note(&format!("sangam sim: {failure}"));
            ExitCode::FAILURE
        }
    }
}

/// What goes on, for whoever waits.
pub(crate) fn note(text: &str) {
    // Nothing is left to do if nobody reads.
    let _ = writeln!(io::stderr(), "{text}");
}

/// A result.
///
/// # Errors
/// If nobody takes it.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    writeln!(io::stdout(), "{text}").map_err(|error| Failure(format!("writing: {error}")))
}
