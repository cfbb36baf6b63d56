//! Whether the peer lives, and when to ask it.

use core::time::Duration;

use sangam_model::Time;

use crate::timing::Timing;

/// A ping without an answer is repeated up to so many times faster than usual, as three lost
/// pings in a row are too likely on a bad path.
const HASTE: u32 = 4;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Liveness {
    interval: Option<Duration>,
    dead_after: Duration,
    heard: Time,
    /// The last ping, as long as nothing answers it.
    pinged: Option<Time>,
    ping_at: Time,
}

impl Liveness {
    pub(crate) fn new(timing: &Timing, now: Time) -> Self {
        Self {
            interval: timing.ping,
            dead_after: timing.dead_after,
            heard: now,
            pinged: None,
            ping_at: if timing.ping.is_some() {
                now
            } else {
                Time::NEVER
            },
        }
    }

    #[inline]
    pub(crate) fn heard(&mut self, now: Time) {
        self.heard = now;
    }

    pub(crate) fn is_dead(&self, now: Time) -> bool {
        now >= self.heard + self.dead_after
    }

    pub(crate) fn deadline(&self) -> Time {
        self.ping_at.min(self.heard + self.dead_after)
    }

    /// Whether this end pings, so that answers make sense.
    pub(crate) fn pings(&self) -> bool {
        self.interval.is_some()
    }

    /// The last ping was answered.
    pub(crate) fn answered(&mut self) {
        if let (Some(pinged), Some(interval)) = (self.pinged.take(), self.interval) {
            self.ping_at = pinged + interval;
        }
    }

    /// Whether to ping now; the next one is due after `patience` unless this one is answered.
    pub(crate) fn ping(&mut self, now: Time, patience: Duration) -> bool {
        let Some(interval) = self.interval else {
            return false;
        };
        if self.pinged.is_some_and(|pinged| self.heard > pinged) {
            // Something else proved life: no haste.
            self.answered();
        }
        if now < self.ping_at {
            return false;
        }
        self.pinged = Some(now);
        self.ping_at = now + patience.clamp(interval / HASTE, interval);
        true
    }
}
