//! The broker's time and the library's.

use std::time::Instant;

use sangam_io::clock;
use sangam_model::Time;

/// Turns one into the other: both read the same clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    time: Time,
    instant: Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            time: clock::now(),
            instant: Instant::now(),
        }
    }

    pub(crate) fn instant(&self, time: Time) -> Instant {
        self.instant + time.since(self.time)
    }

    pub(crate) fn time(&self, instant: Instant) -> Time {
        self.time + instant.saturating_duration_since(self.instant)
    }
}
