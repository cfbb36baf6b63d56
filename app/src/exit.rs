//! How a command ends: the one place that knows the exit codes.

use std::fmt;
use std::process::ExitCode;

/// Why the process ends, as its exit code says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Something else went wrong.
    Failure = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// The configuration is wrong or does not fit this machine, such as a port in use.
    Configuration = 3,
    /// The broker does not answer.
    Unreachable = 4,
    /// A token, grant or certificate is missing or wrong.
    Authentication = 5,
    /// It worked, but a threshold the caller gave was missed.
    Threshold = 10,
}

/// An error for the person (or script) that called the command: what happened, what to do.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Decides the exit code.
    pub(crate) exit: Exit,
    /// What happened.
    pub(crate) message: String,
    /// What to do about it; may be empty.
    pub(crate) hint: String,
}

impl Failure {
    /// A failure without advice.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            hint: String::new(),
        }
    }

    /// The same failure with advice.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Writes the failure to standard error, as text or as one JSON line.
    pub(crate) fn report(&self, json: bool) -> ExitCode {
        if json {
            let line = serde_json::json!({
                "error": self.message, "hint": self.hint, "exit_code": self.exit as u8,
            });
            eprintln!("{line}");
        } else {
            eprintln!("error: {self}");
        }
        ExitCode::from(self.exit as u8)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if self.hint.is_empty() {
            return Ok(());
        }
        write!(f, "\n  hint: {}", self.hint)
    }
}

impl std::error::Error for Failure {}

/// Turns an I/O error into a [`Failure`] that says what was tried.
pub(crate) fn io(what: impl fmt::Display) -> impl FnOnce(std::io::Error) -> Failure {
    move |error| Failure::new(Exit::Failure, format!("{what}: {error}"))
}
