//! The window while it follows the delay.

use core::time::Duration;

use sangam_model::Time;

use super::cubic::SEGMENT;
use super::delay::micros;
use super::drain::{Drain, Verdict};
use super::{Above, Mode, PEACE_EVERY, ROUND_MIN, RateController, STALE, STEP_MIN};
use crate::measure::Sample;

/// Part of the way to the target in one step; 0.5 oscillates at 200 ms of round trip.
const GAIN: f64 = 0.4;
/// The most a window grows in one step while there is no queue at all.
const BOOST_MAX: f64 = 0.25;
/// A window grows to no more than this times what was delivered.
const HEADROOM: f64 = 1.1;

impl RateController {
    pub(super) fn slow_start(&mut self, now: Time, sample: &Sample, queue: Duration) {
        let loss = self
            .loss
            .note(now, sample.packets, sample.lost, self.base());
        // HyStart (RFC 9406 section 4.2).
        let bound = (self.base() / 8).clamp(Duration::from_millis(4), Duration::from_millis(16));
        if self.is_limited() {
            // Whatever queue there is, it is not ours.
            return;
        }
        if queue < bound && loss.is_none() {
            self.window += (sample.delivered as f64).min(self.window);
            return;
        }
        self.mode = Mode::Delay;
        // Of the last two pings: before these the window was smaller.
        let span = self.base().max(ROUND_MIN) + self.target();
        self.window_for(self.recent.delivered(ROUND_MIN), span);
    }

    pub(super) fn follow_delay(&mut self, now: Time, sample: &Sample, queue: Duration) {
        if let Some(excess) = self
            .loss
            .note(now, sample.packets, sample.lost, self.base())
        {
            if !self.is_limited() {
                self.window *= (1.0 - excess).max(0.5);
            }
            self.hold_until = now + self.base() + STEP_MIN;
        }
        if let Some(drain) = &mut self.drain {
            if let Some(verdict) = drain.note(now, self.queueing.latest()) {
                self.drained(now, verdict);
            }
            return;
        }
        if self.is_limited() {
            self.above = None;
            self.below = None;
            self.look_at = now + STALE;
            return;
        }
        if self.overflow.persists() {
            return self.start_competing(now, self.window);
        }
        let rtt = self.base() + queue;
        if queue <= self.target() * 5 / 4 {
            self.above = None;
        } else {
            let above = *self.above.get_or_insert(Above {
                since: now,
                window: self.window,
                ours: false,
            });
            let patience = if above.ours {
                PEACE_EVERY
            } else {
                (2 * rtt).max(Duration::from_millis(250))
            };
            if now - above.since > patience {
                self.drain = Some(Drain::new(now, (rtt, queue), self.grain()));
                return;
            }
        }
        self.step(now, sample, queue);
        if let Some(above) = self.above.filter(|above| !above.ours) {
            self.window = self.window.max(above.window / 2.0);
        }
        if self.has_room(queue) {
            self.look_at = now + STALE;
        }
        if now >= self.look_at || self.overflow.wants_contrast(now) {
            self.look_at = now + STALE;
            self.overflow.contrasted(now);
            self.drain = Some(Drain::deep(now, (rtt, queue), self.grain()));
        }
    }

    /// One step of the window towards the target.
    fn step(&mut self, now: Time, sample: &Sample, queue: Duration) {
        let target = self.target();
        let span = self.span(queue).as_secs_f64();
        let time = sample.sent_over.as_secs_f64() / span.max(STEP_MIN.as_secs_f64());
        let away = (target.as_secs_f64() - queue.as_secs_f64()) / span;
        if queue > 2 * target && now >= self.hold_until {
            self.hold_until = now + self.base() + STEP_MIN;
            return self.fall_to_delivered();
        }
        let since = if queue < target / 2 {
            *self.below.get_or_insert(now)
        } else {
            self.below = None;
            now
        };
        let grows = away > 0.0;
        if grows && now < self.hold_until {
            return;
        }
        // A path that stays empty for some round trips has room for more than small steps.
        let rounds = ((now - since).as_secs_f64() / span.max(0.1)).min(8.0);
        let gain = GAIN * (1.0 + rounds * rounds / 4.0);
        let change = (gain * away).clamp(-0.5, BOOST_MAX);
        let window = self.window * (1.0 + change * time.min(1.0));
        // What was delivered tells of the window a round trip ago, the queue even later.
        let proven = HEADROOM * self.recent.delivered(self.lately()) * span;
        self.window = if grows {
            window.min(proven).max(self.window)
        } else {
            window
        };
    }

    fn drained(&mut self, now: Time, verdict: Verdict) {
        let above = self.above.take();
        let window = above.map_or(self.window, |above| above.window);
        self.drain = None;
        match verdict {
            Verdict::Alone => {
                self.above = above.map(|_| Above {
                    since: now,
                    window: self.window,
                    ours: true,
                });
            }
            Verdict::Moved(by) if self.queueing.jumped(by) => {
                self.queueing.moved(by);
                self.base_rtt
                    .restart(micros(self.base() + by).cast_signed());
            }
            // With a small share of the queue, its fall is small, too.
            Verdict::Shared | Verdict::Moved(_) => self.start_competing(now, window),
        }
    }

    /// The window that just carries what is delivered, with the wanted queue.
    pub(super) fn fall_to_delivered(&mut self) {
        let span = self.base().max(ROUND_MIN) + self.target();
        let delivered = self.recent.delivered(self.lately());
        self.window_for(delivered, span);
    }

    fn window_for(&mut self, delivered: f64, span: Duration) {
        let carried = delivered * span.as_secs_f64();
        self.window = self.window.min(carried.max(4.0 * SEGMENT));
    }
}
