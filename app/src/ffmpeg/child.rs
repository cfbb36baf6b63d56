//! A child process that never outlives its owner, and whose last words are kept.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::exit::{Exit, Failure, io};

/// Lines of standard error kept for messages.
const TAIL_LINES: usize = 8;

/// A running program. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Child {
    process: process::Child,
    /// Disconnected once standard error is closed, which is when the program has ended.
    ended: Receiver<()>,
    tail: Arc<Mutex<VecDeque<String>>>,
}

impl Child {
    /// Starts a program with its input piped and its output discarded or piped by `stdout`.
    ///
    /// It is killed with the thread that called this, even if that never gets to say so: call it
    /// from a thread that lives as long as the child is needed.
    ///
    /// # Errors
    /// The program is not there or cannot be started.
    pub(crate) fn start<S: AsRef<OsStr>>(
        program: &str,
        args: impl IntoIterator<Item = S>,
        stdout: Stdio,
    ) -> Result<Self, Failure> {
        let found = find(program).ok_or_else(|| missing(program))?;
        let mut command = dying_with_parent(&found);
        command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(stdout)
            .stderr(Stdio::piped());
        // Ctrl-c on a terminal goes to a whole process group: only the owner is to hear it, who
        // then ends its children in good order.
        command.process_group(0);
        // Children are told everything by their arguments.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("SANGAM_") {
                command.env_remove(name);
            }
        }
        tracing::debug!(?command, "starting");
        let failed = io(format!("cannot start {program}"));
        let mut process = command.spawn().map_err(failed)?;
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let (alive, ended) = channel();
        if let Some(stderr) = process.stderr.take() {
            let tail = Arc::clone(&tail);
            thread::spawn(move || {
                let _alive = alive;
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    keep(&tail, line);
                }
            });
        }
        Ok(Self {
            process,
            ended,
            tail,
        })
    }

    /// Process id, for messages.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// The program's standard output, once.
    pub(crate) fn stdout(&mut self) -> Option<process::ChildStdout> {
        self.process.stdout.take()
    }

    /// Whether the program ends within `timeout`.
    pub(crate) fn ends_within(&mut self, timeout: Duration) -> bool {
        match self.ended.recv_timeout(timeout) {
            Err(RecvTimeoutError::Timeout) => false,
            Ok(()) | Err(RecvTimeoutError::Disconnected) => true,
        }
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// The program failed; the message holds its last words.
    pub(crate) fn wait(&mut self) -> Result<(), Failure> {
        let status = self.process.wait().map_err(io("cannot wait for a child"))?;
        self.judge(status)
    }

    /// Writes to the program's standard input; a program that has ended is no error here.
    pub(crate) fn tell(&mut self, text: &str) {
        if let Some(stdin) = &mut self.process.stdin
            && let Err(error) = stdin
                .write_all(text.as_bytes())
                .and_then(|()| stdin.flush())
        {
            tracing::debug!(%error, "the child no longer listens");
        }
    }

    /// Closes the program's input, gives it `grace` to end by itself, and kills it otherwise.
    /// True if it ended by itself.
    pub(crate) fn end(&mut self, grace: Duration) -> bool {
        drop(self.process.stdin.take());
        let by_itself = self.ends_within(grace);
        if !by_itself {
            self.kill();
        }
        by_itself
    }

    /// What the program last said on standard error.
    pub(crate) fn last_words(&self) -> String {
        let tail = self
            .tail
            .lock()
            .map(|tail| tail.iter().cloned().collect::<Vec<_>>());
        tail.unwrap_or_default().join("\n")
    }

    fn judge(&self, status: ExitStatus) -> Result<(), Failure> {
        if status.success() {
            return Ok(());
        }
        // The reader may still be at the last line.
        let _ = self.ended.recv_timeout(Duration::from_secs(1));
        let words = self.last_words();
        Err(Failure::new(
            Exit::Failure,
            format!("the child process failed ({status}): {words}"),
        ))
    }

    pub(crate) fn kill(&mut self) {
        let gone = self.process.kill().and_then(|()| self.process.wait());
        if let Err(error) = gone {
            tracing::debug!(%error, id = self.id(), "the child is gone already");
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !matches!(self.process.try_wait(), Ok(Some(_))) {
            self.kill();
        }
    }
}

fn keep(tail: &Mutex<VecDeque<String>>, line: String) {
    tracing::debug!(target: "child", "{line}");
    if let Ok(mut tail) = tail.lock() {
        if tail.len() == TAIL_LINES {
            tail.pop_front();
        }
        tail.push_back(line);
    }
}

/// Where a program is: as a path, or by PATH.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Path::new(program).is_file().then(|| program.into());
    }
    let folders = std::env::var_os("PATH")?;
    let mut paths = std::env::split_paths(&folders).map(|folder| folder.join(program));
    paths.find(|path| path.is_file())
}

/// A command whose process is killed by the kernel when its parent is gone: an encoder that loops
/// over a file would go on for ever. Where util-linux is missing, only our own end ends it.
fn dying_with_parent(program: &Path) -> Command {
    let Some(setpriv) = find("setpriv") else {
        return Command::new(program);
    };
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

fn missing(program: &str) -> Failure {
    Failure::new(
        Exit::Failure,
        format!("cannot start {program}: it is not installed"),
    )
    .hint("install it: `apt-get install ffmpeg`, or see `sangam doctor`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_of_a_failed_child_are_in_the_message() {
        let script = "for i in 1 2 3 4 5 6 7 8 9; do echo line$i >&2; done; exit 3";
        let mut child = Child::start("sh", ["-c", script], Stdio::null()).unwrap();
        let error = child.wait().unwrap_err();
        assert!(error.message.contains("line9"), "{error}");
        assert!(!error.message.contains("line1\n"), "{error}");
    }

    #[test]
    fn a_child_that_does_not_end_is_killed() {
        let mut child = Child::start("sh", ["-c", "exec sleep 600"], Stdio::null()).unwrap();
        assert!(!child.ends_within(Duration::from_millis(1)));
        assert!(!child.end(Duration::from_millis(1)));
        assert!(child.ends_within(Duration::from_secs(5)));
    }

    #[test]
    fn a_child_ends_with_its_owner() {
        let child = Child::start("sh", ["-c", "exec sleep 600"], Stdio::null()).unwrap();
        let proc = format!("/proc/{}", child.id());
        drop(child);
        assert!(!std::path::Path::new(&proc).exists());
    }

    #[test]
    fn a_missing_program_is_named_with_what_to_install() {
        let error = Child::start("sangam-no-such-program", ["x"], Stdio::null()).unwrap_err();
        assert!(error.message.contains("sangam-no-such-program"), "{error}");
        assert!(error.hint.contains("apt-get"), "{error}");
    }
}
