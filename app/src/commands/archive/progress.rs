//! A bar on standard error, on a terminal only.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// How often the bar is drawn.
const EVERY: Duration = Duration::from_millis(100);
const WIDTH: u64 = 40;

/// How far long work is.
#[derive(Debug)]
pub(super) struct Progress {
    what: &'static str,
    total: u64,
    drawn: Option<Instant>,
    terminal: bool,
}

impl Progress {
    /// Of `total` steps none is done.
    pub(super) fn new(what: &'static str, total: u64) -> Self {
        Self {
            what,
            total: total.max(1),
            drawn: None,
            terminal: stderr().is_terminal(),
        }
    }

    /// So many steps are done.
    pub(super) fn at(&mut self, done: u64) {
        let soon = self.drawn.is_some_and(|drawn| drawn.elapsed() < EVERY);
        if !self.terminal || soon {
            return;
        }
        self.drawn = Some(Instant::now());
        let full = (done.min(self.total) * WIDTH / self.total) as usize;
        let (bar, rest) = ("#".repeat(full), ".".repeat(WIDTH as usize - full));
        let percent = done.min(self.total) * 100 / self.total;
        // A terminal that has gone away is no error.
        let _ = write!(stderr(), "\r{} [{bar}{rest}] {percent:>3} %", self.what);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            // ECMA-48 EL: the line is free for what follows.
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}
