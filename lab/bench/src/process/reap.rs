//! Children that die with the bench, however it ends.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, set_parent_process_death_signal};

use crate::error::Error;

/// Becomes the command, after asking the kernel to end this process with its parent: so no
/// broker stays behind when the bench is killed.
///
/// # Errors
/// Only if the command cannot be started; otherwise it does not return.
pub(crate) fn exec(command: &[OsString]) -> Result<(), Error> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Error::Option("a command is missing".to_owned()));
    };
    set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(|error| Error::System("prctl", error.into()))?;
    Err(Error::System(
        "exec",
        Command::new(program).args(arguments).exec(),
    ))
}
