//! How fast a link may send: by delay, so that loss alone starves nothing and queues stay short;
//! by loss as long as somebody beside us fills the bottleneck's buffer.
//!
//! The window moves towards a standing queue of 7 to 20 ms, as in FAST (Wei, Jin, Low, Hegde:
//! "FAST TCP", IEEE/ACM ToN 14(6), 2006): the larger a flow, the less queue it wants, and that
//! makes flows of this kind fair to each other. Beside a flow that fills the buffer such a window
//! would starve. Copa (Arun, Balakrishnan, NSDI 2018, section 2.2) tells that from a queue that
//! does not empty although it should; here a [`drain::Drain`] asks on purpose, and as long as the
//! answer is "others", the window is CUBIC's. Only the queue on the way to the peer counts: what
//! comes back may be queued, too.

mod cubic;
mod delay;
mod drain;
mod feed;
mod loss;
mod recent;

use core::time::Duration;

use sangam_model::{Bitrate, Time};

use crate::measure::Sample;
use cubic::{Cubic, SEGMENT};
use delay::{Minimum, Queueing, micros};
use drain::{Drain, Verdict};
pub use feed::AckFeed;
use loss::Loss;
use recent::Recent;

/// The window before anything is known: five times that of RFC 6928, as a link carries many flows.
const WINDOW_START: f64 = 64_000.0;
/// Audio passes whatever happens.
const RATE_MIN: f64 = 100_000.0 / 8.0;
const RATE_MAX: f64 = 100e9 / 8.0;
/// The delay of an empty path is the least of so long: a longer way is believed after it.
const BASE_WINDOW: Duration = Duration::from_secs(10);
/// Rates do not follow faster than pings tell of them: shorter round trips count as this.
const ROUND_MIN: Duration = Duration::from_millis(25);
/// The control loop takes at least so long for one step: the standing queue is told by three or
/// four pings.
const STEP_MIN: Duration = Duration::from_millis(100);
/// Part of the way to the target in one step; 0.5 oscillates at 200 ms of round trip.
const GAIN: f64 = 0.4;
/// The most a window grows in one step while there is no queue at all.
const BOOST_MAX: f64 = 0.25;
/// Without an empty queue for so long the least delay may be somebody's queue: it is drained.
const STALE: Duration = Duration::from_secs(5);
/// So often a competing flow looks whether it is alone.
const PEACE_EVERY: Duration = Duration::from_secs(4);

/// What the controller holds for the nature of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The window doubles each round trip until a queue begins.
    SlowStart,
    /// The window follows the queueing delay.
    Delay,
    /// Somebody fills the buffer: the window follows loss.
    Compete,
}

/// A congestion controller, fed by [`Sample`]s.
#[derive(Clone, Debug)]
pub struct RateController {
    /// Bytes that may be under way in a [`RateController::span`].
    window: f64,
    mode: Mode,
    /// While competing.
    cubic: Cubic,
    queueing: Queueing,
    /// In microseconds.
    base_rtt: Minimum,
    loss: Loss,
    recent: Recent,
    drain: Option<Drain>,
    /// Since when the queue has been longer than wanted, and the window then.
    above: Option<(Time, f64)>,
    /// Since when it has been shorter.
    below: Option<Time>,
    /// Grows by no more until then.
    hold_until: Time,
    /// The longest queue of late, as a negative number of microseconds.
    deepest: Minimum,
    /// Drains in a row that found nobody else.
    alone: u8,
    look_at: Time,
    rate: f64,
}

impl RateController {
    /// A controller for a path of about this round trip.
    #[must_use]
    pub fn new(now: Time, rtt: Duration) -> Self {
        let rtt = rtt.max(Duration::from_micros(200));
        let span = rtt.max(ROUND_MIN);
        let window = WINDOW_START * span.as_secs_f64() / rtt.as_secs_f64();
        let mut base_rtt = Minimum::new(BASE_WINDOW);
        base_rtt.note(now, micros(rtt).cast_signed());
        Self {
            window,
            mode: Mode::SlowStart,
            cubic: Cubic::new(now, window),
            queueing: Queueing::new(BASE_WINDOW),
            base_rtt,
            loss: Loss::new(),
            recent: Recent::default(),
            drain: None,
            above: None,
            below: None,
            hold_until: now,
            deepest: Minimum::new(BASE_WINDOW),
            alone: 0,
            look_at: now + STALE,
            rate: window / span.as_secs_f64(),
        }
    }

    /// Takes what was measured.
    pub fn handle(&mut self, now: Time, sample: Sample) {
        self.base_rtt.note(now, micros(sample.rtt).cast_signed());
        self.queueing.note(now, sample.one_way_us);
        self.recent.note(sample);
        let queue = self.queue(now);
        self.deepest
            .note(now, -micros(self.queueing.latest()).cast_signed());
        match self.mode {
            Mode::SlowStart => self.slow_start(now, &sample, queue),
            Mode::Delay => self.follow_delay(now, &sample, queue),
            Mode::Compete => self.compete(now, &sample, queue),
        }
        let left = 1.0 - self.drain.map_or(0.0, |drain| drain.part);
        self.rate = left * self.window / self.span(queue).as_secs_f64();
        self.rate = self.rate.clamp(RATE_MIN, RATE_MAX);
    }

    /// What may be sent, frames and events alike.
    #[must_use]
    pub fn rate(&self) -> Bitrate {
        Bitrate::from_bps((self.rate * 8.0) as u64)
    }

    /// Bytes that may be under way, for transports that limit these; twice what the rate alone
    /// would have, as acknowledgements come in batches.
    #[must_use]
    pub fn window_bytes(&self) -> u64 {
        let rtt = self.base().as_secs_f64() + 0.01;
        (2.0 * self.rate * rtt).max(4.0 * SEGMENT) as u64
    }

    /// What the controller holds for the nature of the path.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// How long packets wait at the bottleneck.
    #[must_use]
    pub fn queue(&self, now: Time) -> Duration {
        self.queueing.standing(now, self.base().max(3 * ROUND_MIN))
    }

    fn slow_start(&mut self, now: Time, sample: &Sample, queue: Duration) {
        let loss = self
            .loss
            .note(now, sample.packets, sample.lost, self.base());
        // HyStart (RFC 9406 section 4.2).
        let bound = (self.base() / 8).clamp(Duration::from_millis(4), Duration::from_millis(16));
        if queue < bound && loss.is_none() {
            if !self.is_limited() {
                self.window += (sample.delivered as f64).min(self.window);
            }
            return;
        }
        self.mode = Mode::Delay;
        self.fall_to_delivered();
    }

    fn follow_delay(&mut self, now: Time, sample: &Sample, queue: Duration) {
        if let Some(excess) = self
            .loss
            .note(now, sample.packets, sample.lost, self.base())
        {
            self.window *= (1.0 - excess).max(0.5);
            self.hold_until = now + self.base() + STEP_MIN;
        }
        if let Some(drain) = &mut self.drain {
            if let Some(verdict) = drain.note(now, self.queueing.latest()) {
                self.drained(now, verdict);
            }
            return;
        }
        self.step(now, sample, queue);
        if self.is_limited() {
            self.above = None;
            self.look_at = now + STALE;
            return;
        }
        let (rtt, target) = (self.base() + queue, self.target());
        if queue <= target * 5 / 4 {
            self.above = None;
        } else {
            let (since, _) = *self.above.get_or_insert((now, self.window));
            if now - since > (6 * rtt).max(Duration::from_millis(400)) {
                self.drain = Some(Drain::new(now, rtt, queue));
                return;
            }
        }
        if now - self.queueing.emptied() >= STALE && now >= self.look_at {
            self.look_at = now + STALE;
            self.drain = Some(Drain::deep(now, rtt, queue));
        }
    }

    /// One step of the window towards the target.
    fn step(&mut self, now: Time, sample: &Sample, queue: Duration) {
        let target = self.target();
        let span = self.span(queue).as_secs_f64();
        let time = sample.sent_over.as_secs_f64() / span.max(STEP_MIN.as_secs_f64());
        let away = (target.as_secs_f64() - queue.as_secs_f64()) / span;
        if queue > 2 * target && !self.is_limited() && now >= self.hold_until {
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
        if grows && (self.is_limited() || now < self.hold_until) {
            return;
        }
        // A path that stays empty for some round trips has room for more than small steps.
        let rounds = ((now - since).as_secs_f64() / span.max(0.1)).min(8.0);
        let gain = GAIN * (1.0 + rounds * rounds / 4.0);
        let change = (gain * away).clamp(-0.5, BOOST_MAX);
        self.window *= 1.0 + change * time.min(1.0);
    }

    fn drained(&mut self, now: Time, verdict: Verdict) {
        let window = self.above.take().map_or(self.window, |(_, before)| before);
        self.drain = None;
        match verdict {
            Verdict::Alone => {}
            Verdict::Moved(by) => {
                self.queueing.moved(now, by);
                self.base_rtt
                    .restart(micros(self.base() + by).cast_signed());
            }
            Verdict::Shared => {
                let scale = self.base().as_secs_f64() / self.base().max(ROUND_MIN).as_secs_f64();
                self.mode = Mode::Compete;
                self.cubic = Cubic::new(now, (window * scale).max(4.0 * SEGMENT));
                self.window = self.cubic.window;
                self.alone = 0;
                self.look_at = now + PEACE_EVERY;
            }
        }
    }

    fn compete(&mut self, now: Time, sample: &Sample, queue: Duration) {
        let rtt = self.base() + self.queueing.latest();
        let deepest = Duration::from_micros(self.deepest.get().min(0).unsigned_abs());
        // Loss with a short queue is the path's own.
        if sample.lost > 0 && self.queueing.latest() >= deepest / 2 {
            self.cubic.lost(now, rtt);
        } else if self.drain.is_none() && !self.is_limited() {
            self.cubic.grow(now, sample.sent_over, rtt);
        }
        self.window = self.cubic.window;
        if let Some(drain) = &mut self.drain {
            if let Some(verdict) = drain.note(now, self.queueing.latest()) {
                self.drain = None;
                self.alone = if verdict == Verdict::Shared {
                    0
                } else {
                    self.alone + 1
                };
                if self.alone >= 2 {
                    self.mode = Mode::Delay;
                    self.fall_to_delivered();
                }
            }
        } else if now >= self.look_at {
            self.look_at = now
                + if self.alone > 0 {
                    PEACE_EVERY / 4
                } else {
                    PEACE_EVERY
                };
            self.drain = Some(Drain::new(now, rtt, queue));
        }
    }

    /// The window that just carries what is delivered, with the wanted queue.
    fn fall_to_delivered(&mut self) {
        let span = self.base().max(ROUND_MIN) + self.target();
        let carried = self.recent.delivered(ROUND_MIN) * span.as_secs_f64();
        self.window = self.window.min(carried.max(4.0 * SEGMENT));
    }

    /// Whether less is sent than might be.
    fn is_limited(&self) -> bool {
        self.recent.sent(self.base()) < 0.75 * self.rate
    }

    /// The standing queue that a flow of this rate wants: 20 ms at 1 Mb/s, 7 at 50.
    fn target(&self) -> Duration {
        let megabits = (self.rate * 8.0 / 1e6).max(0.1);
        Duration::from_secs_f64(0.005 + 0.015 / megabits.sqrt())
    }

    fn base(&self) -> Duration {
        Duration::from_micros(self.base_rtt.get().max(0).unsigned_abs())
    }

    /// The time for which the window lasts.
    fn span(&self, queue: Duration) -> Duration {
        match self.mode {
            Mode::Compete => self.base() + queue,
            _ => self.base().max(ROUND_MIN) + queue,
        }
        .max(Duration::from_micros(100))
    }
}
