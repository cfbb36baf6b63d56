//! When connections want to be looked at: to the microsecond, as packets are paced by it.

use core::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use sangam_model::Time;

use super::Key;

/// quinn-proto reads time as [`Instant`]: both run by the same clock, from different epochs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Epoch {
    instant: Instant,
    time: Time,
}

impl Epoch {
    pub(super) fn new() -> Self {
        Self {
            instant: Instant::now(),
            time: crate::clock::now(),
        }
    }

    pub(super) fn instant(&self, time: Time) -> Instant {
        self.instant + (time - self.time)
    }

    /// Rounded up: a timer must not fire before its time.
    pub(super) fn time(&self, instant: Instant) -> Time {
        let since = instant.saturating_duration_since(self.instant);
        self.time + since + core::time::Duration::from_micros(1)
    }
}

/// Deadlines of connections. An entry whose connection wants something else by then is skipped,
/// so a deadline that moves further away, as most do with every packet, costs nothing.
#[derive(Debug, Default)]
pub(super) struct Timers {
    entries: BinaryHeap<Reverse<(Time, Key)>>,
}

impl Timers {
    pub(super) fn add(&mut self, at: Time, key: Key) {
        self.entries.push(Reverse((at, key)));
    }

    /// The earliest entry.
    pub(super) fn first(&self) -> Option<Time> {
        self.entries.peek().map(|Reverse((at, _))| *at)
    }

    /// The next connection whose entry is due, and the entry's time.
    pub(super) fn pop(&mut self, now: Time) -> Option<(Time, Key)> {
        self.first().filter(|at| *at <= now)?;
        self.entries.pop().map(|Reverse(entry)| entry)
    }
}
