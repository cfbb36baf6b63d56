//! The window while somebody else fills the buffer.

use core::time::Duration;

use sangam_model::Time;

use super::cubic::{Cubic, SEGMENT};
use super::drain::{Drain, Verdict};
use super::{Mode, PEACE_EVERY, ROUND_MIN, RateController, STALE};
use crate::measure::Sample;

/// A queue that stays short for so long is filled by nobody.
const EMPTY_FOR: Duration = Duration::from_millis(500);
/// Looks are at least so many round trips apart, as each takes two to three.
const PEACE_ROUNDS: u32 = 12;
/// So often in a row it has to be: one look may meet the other's step back.
const ALONE: u8 = 3;

impl RateController {
    pub(super) fn start_competing(&mut self, now: Time, window: f64) {
        let scale = self.base().as_secs_f64() / self.base().max(ROUND_MIN).as_secs_f64();
        self.mode = Mode::Compete;
        self.cubic = Cubic::new(now, (window * scale).max(4.0 * SEGMENT));
        self.window = self.cubic.window;
        self.alone = 0;
        self.look_at = now + PEACE_EVERY;
    }

    pub(super) fn compete(&mut self, now: Time, sample: &Sample, queue: Duration) {
        let rtt = self.base() + self.queueing.latest();
        // Loss with a short queue is the path's own.
        if sample.lost > 0 && self.queueing.latest() >= self.overflow.deepest() / 2 {
            self.cubic.lost(now, rtt);
        } else if self.drain.is_none() && !self.is_limited() {
            self.cubic.grow(now, sample.sent_over, rtt);
        }
        self.window = self.cubic.window;
        if let Some(drain) = &mut self.drain {
            if let Some(verdict) = drain.note(now, self.queueing.latest()) {
                self.drain = None;
                let shared = verdict == Verdict::Shared;
                self.alone = if shared { 0 } else { self.alone + 1 };
                if self.alone >= ALONE {
                    self.stop_competing(now);
                    self.fall_to_delivered();
                }
            }
            return;
        }
        if queue >= self.target() / 2 {
            self.below = None;
        } else if now - *self.below.get_or_insert(now) > (4 * rtt).max(EMPTY_FOR) {
            // Nobody fills it now; whoever does it again is noticed soon.
            return self.stop_competing(now);
        }
        if now >= self.look_at {
            self.look_at = now + PEACE_EVERY.max(PEACE_ROUNDS * rtt);
            self.drain = Some(Drain::new(now, (rtt, queue), self.grain()));
        }
    }

    fn stop_competing(&mut self, now: Time) {
        self.mode = Mode::Delay;
        self.window = self.rate * self.span(self.queue(now)).as_secs_f64();
        self.look_at = now + STALE;
        self.above = None;
        self.below = None;
        self.overflow.forget();
    }
}
