//! A bar on standard error, on a terminal only.

use std::io::{IsTerminal, Write, stderr};

const WIDTH: usize = 30;

/// How far a run is.
pub(crate) struct Progress {
    shown: bool,
    steps: usize,
    done: usize,
}

impl Progress {
    /// A bar of so many steps; invisible where nobody looks.
    pub(crate) fn new(steps: usize) -> Self {
        Self {
            shown: stderr().is_terminal(),
            steps: steps.max(1),
            done: 0,
        }
    }

    /// Says what is being done now.
    pub(crate) fn at(&self, what: &str) {
        if self.shown {
            let full = (self.done * WIDTH / self.steps).min(WIDTH);
            let bar = "#".repeat(full) + &".".repeat(WIDTH - full);
            // Nobody is harmed if the terminal is gone.
            let _ = write!(
                stderr(),
                "\r\x1b[2K[{bar}] {}/{} {what}",
                self.done,
                self.steps
            );
            let _ = stderr().flush();
        }
    }

    /// One step is done.
    pub(crate) fn step(&mut self) {
        self.done += 1;
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(stderr(), "\r\x1b[2K");
        }
    }
}
