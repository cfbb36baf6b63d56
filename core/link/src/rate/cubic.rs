//! The window of a loss-based flow, for the time in which one fills the bottleneck's buffer.

use core::time::Duration;

use sangam_model::Time;

/// RFC 9438 section 4.6: what is left of the window after a loss.
const BETA: f64 = 0.7;
/// RFC 9438 section 5.1: packets for each cubed second.
const C: f64 = 0.4;
/// Bytes of the packets that other flows send.
pub(super) const SEGMENT: f64 = 1_448.0;
/// RFC 9438 section 4.3: packets for each round trip that are as many as Reno's on average.
const RENO: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// CUBIC (RFC 9438), in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cubic {
    pub(super) window: f64,
    /// The window before the last loss.
    most: f64,
    /// What Reno would have by now.
    reno: f64,
    /// Since the last loss.
    since: Time,
    /// No further loss counts before.
    deaf_until: Time,
}

impl Cubic {
    pub(super) fn new(now: Time, window: f64) -> Self {
        Self {
            window,
            most: window,
            reno: window,
            since: now,
            deaf_until: now,
        }
    }

    /// Time passes without a loss.
    pub(super) fn grow(&mut self, now: Time, over: Duration, rtt: Duration) {
        let rounds = over.as_secs_f64() / rtt.as_secs_f64().max(1e-3);
        let step = if self.reno < self.most { RENO } else { 1.0 };
        self.reno += step * SEGMENT * rounds;
        let k = (self.most / SEGMENT * (1.0 - BETA) / C).cbrt();
        let t = (now - self.since).as_secs_f64() + rtt.as_secs_f64();
        let cubic = (C * (t - k).powi(3)) * SEGMENT + self.most;
        // RFC 9438 section 4.4: at most half as much again for each round trip.
        let target = cubic.max(self.reno).min(1.5 * self.window);
        if target > self.window {
            self.window += (target - self.window) * rounds.min(1.0);
        }
    }

    /// A packet was lost; counts once for each round trip.
    pub(super) fn lost(&mut self, now: Time, rtt: Duration) {
        if now < self.deaf_until {
            return;
        }
        // RFC 9438 section 4.7: make room for newcomers.
        self.most = if self.window < self.most {
            self.window * (1.0 + BETA) / 2.0
        } else {
            self.window
        };
        self.window = (self.window * BETA).max(2.0 * SEGMENT);
        self.reno = self.window;
        self.since = now;
        self.deaf_until = now + rtt;
    }
}
