//! A network of its own, which has no name on the host and ends with its last user.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::Error;
use crate::sys;

/// A network namespace. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Namespace(Arc<OwnedFd>);

impl Namespace {
    /// Makes one, and does something inside.
    pub(crate) fn new<T: Send>(
        set_up: impl FnOnce() -> Result<T, Error> + Send,
    ) -> Result<(Self, T), Error> {
        // The thread stays in the new namespace, so it is one of its own.
        let inside = || {
            sys::new_network().map_err(Error::Namespace)?;
            let own = File::open("/proc/thread-self/ns/net").map_err(Error::Namespace)?;
            Ok((own, set_up()?))
        };
        let made = thread::scope(|scope| scope.spawn(inside).join());
        let (own, value) = made.unwrap_or(Err(Error::Gone))?;
        Ok((Self(Arc::new(own.into())), value))
    }

    /// Does something inside, in a thread of its own.
    pub(crate) fn enter<T: Send>(
        &self,
        what: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        let inside = || {
            let network = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(self.0.as_fd(), network)?;
            what()
        };
        thread::scope(|scope| scope.spawn(inside).join())
            .unwrap_or_else(|_| Err(io::Error::other("a thread inside a namespace panicked")))
    }

    /// Lets a command run inside.
    pub(crate) fn place(&self, command: &mut Command) {
        sys::start_in(command, Arc::clone(&self.0));
    }

    /// Where it is found while this process lives.
    pub(crate) fn path(&self) -> PathBuf {
        let descriptor = self.0.as_raw_fd();
        format!("/proc/{}/fd/{descriptor}", std::process::id()).into()
    }
}

/// Runs lines of `ip` in the calling thread's namespace.
pub(crate) fn ip(batch: &str) -> Result<(), Error> {
    run("ip", batch)
}

/// The same for `ip` and `bridge`, which are one package and read alike.
pub(crate) fn run(program: &'static str, batch: &str) -> Result<(), Error> {
    let mut child = Command::new(program)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Error::Setup(error.to_string()))?;
    if let Some(mut input) = child.stdin.take() {
        // Where it has ended early, what it says is better than this error.
        let _ = input.write_all(batch.as_bytes());
    }
    let output = child
        .wait_with_output()
        .map_err(|error| Error::System(program, error))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(Error::Setup(words.trim().replace('\n', "; ")))
}
