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

mod compete;
mod cubic;
mod delay;
mod drain;
mod feed;
mod follow;
mod loss;
mod overflow;
mod recent;

use core::time::Duration;

use sangam_model::{Bitrate, Time};

use crate::measure::Sample;
use cubic::{Cubic, SEGMENT};
use delay::{Minimum, Queueing, micros};
use drain::Drain;
pub use feed::AckFeed;
use loss::Loss;
use overflow::Overflow;
use recent::Recent;

/// The window before anything is known: five times that of RFC 6928, as a link carries many flows.
const WINDOW_START: f64 = 64_000.0;
/// Audio passes whatever happens.
const RATE_MIN: f64 = 100_000.0 / 8.0;
const RATE_MAX: f64 = 100e9 / 8.0;
/// The delay of an empty path is the least of so long: a longer way is believed after it.
const BASE_WINDOW: Duration = Duration::from_secs(10);
/// Shorter round trips count as this: within a machine it is the scheduler's.
const RTT_MIN: Duration = Duration::from_micros(200);
/// Rates do not follow faster than pings tell of them: shorter round trips count as this.
const ROUND_MIN: Duration = Duration::from_millis(25);
/// The control loop takes at least so long for one step: the standing queue is told by three or
/// four pings.
const STEP_MIN: Duration = Duration::from_millis(100);
/// A path that is full for so long is drained once, as BBR does: what looks like its delay may be
/// a queue that never emptied.
const STALE: Duration = Duration::from_secs(8);
/// Who sends less of its rate keeps it, whatever the delay says.
const LIMITED: f64 = 0.75;
/// Who sends so much of its rate fills it: less, and it has no more to send.
const FULL: f64 = 0.95;
/// So often a competing flow looks whether it is alone.
const PEACE_EVERY: Duration = Duration::from_secs(3);
/// An answer may be so much later than expected before that means anything.
const OVERDUE: Duration = Duration::from_millis(30);

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
    above: Option<Above>,
    /// Since when it has been shorter.
    below: Option<Time>,
    /// Grows by no more until then.
    hold_until: Time,
    overflow: Overflow,
    /// The most that was delivered, in negative bytes each second.
    peak: Minimum,
    /// Drains in a row that found nobody else.
    alone: u8,
    look_at: Time,
    rate: f64,
}

/// The queue is longer than wanted.
#[derive(Clone, Copy, Debug)]
struct Above {
    since: Time,
    /// The window then. Until it is known whose queue it is, half of it is kept.
    window: f64,
    /// A drain has shown that nobody else holds it up.
    ours: bool,
}

impl RateController {
    /// A controller for a path of about this round trip.
    #[must_use]
    pub fn new(now: Time, rtt: Duration) -> Self {
        let rtt = rtt.max(RTT_MIN);
        let window = start_window(rtt);
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
            overflow: Overflow::new(),
            peak: Minimum::new(BASE_WINDOW),
            alone: 0,
            look_at: now + STALE,
            rate: window / rtt.max(ROUND_MIN).as_secs_f64(),
        }
    }

    /// Takes what was measured.
    pub fn handle(&mut self, now: Time, sample: Sample) {
        if self.queueing.is_new() {
            // The hello found the path without our queue.
            let queue = micros(sample.rtt.saturating_sub(self.base())).cast_signed();
            self.queueing.seed(now, sample.one_way_us - queue);
            self.window = self.window.max(start_window(sample.rtt));
        }
        self.base_rtt.note(now, micros(sample.rtt).cast_signed());
        self.queueing.note(now, sample.one_way_us);
        self.recent.note(sample);
        let queue = self.queue(now);
        self.overflow.note(now, &sample, self.queueing.latest());
        let delivered = self.recent.delivered(self.lately());
        self.peak.note(now, -(delivered as i64));
        match self.mode {
            Mode::SlowStart => self.slow_start(now, &sample, queue),
            Mode::Delay => self.follow_delay(now, &sample, queue),
            Mode::Compete => self.compete(now, &sample, queue),
        }
        let left = 1.0 - self.drain.map_or(0.0, |drain| drain.part);
        self.rate = left * self.window / self.span(queue).as_secs_f64();
        self.rate = self.rate.clamp(RATE_MIN, RATE_MAX);
    }

    /// A ping has been without its answer for `age`: the queue is at least that long, and a window
    /// that nothing acknowledges carries less and less.
    pub fn overdue(&mut self, now: Time, age: Duration) {
        let queue = age.saturating_sub(self.base());
        if queue > self.queue(now) + 2 * self.target() + OVERDUE {
            let bound = self.window / self.span(queue).as_secs_f64();
            self.rate = self.rate.min(bound.max(RATE_MIN));
        }
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

    /// Long enough to count packets in: a round trip, and eight packets.
    fn lately(&self) -> Duration {
        let packets = Duration::from_secs_f64(8.0 * SEGMENT / self.rate);
        self.base().max(STEP_MIN).max(packets)
    }

    /// The most that was delivered of late, in bytes each second.
    fn peak(&self) -> f64 {
        self.peak.get().min(0).unsigned_abs() as f64
    }

    /// Half the time that one packet takes.
    fn grain(&self) -> Duration {
        Duration::from_secs_f64(SEGMENT / 2.0 / self.peak().max(RATE_MIN))
    }

    /// Whether less is sent than might be.
    fn is_limited(&self) -> bool {
        self.recent.sent(self.lately()) < LIMITED * self.rate
    }

    /// Whether the path is not full: nothing waits, and not all is sent that might be. What is
    /// delivered bounds the rate, so that a flow may stay for ever just below it.
    fn has_room(&self, queue: Duration) -> bool {
        queue < self.target() / 2 && self.recent.sent(self.lately()) < FULL * self.rate
    }

    /// The standing queue that a flow of this rate wants: 20 ms at 1 Mb/s, 7 at 50, and
    /// less where the buffer is too short for that: still more for a small flow than for a large.
    fn target(&self) -> Duration {
        let megabits = (self.rate * 8.0 / 1e6).max(0.1);
        let wanted = Duration::from_secs_f64(0.005 + 0.015 / megabits.sqrt());
        let Some(buffer) = self.overflow.buffer() else {
            return wanted;
        };
        let part = buffer.as_secs_f64() / (buffer + wanted).as_secs_f64();
        wanted.mul_f64(part)
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

/// The window at which a path of this round trip begins.
fn start_window(rtt: Duration) -> f64 {
    let rtt = rtt.max(RTT_MIN);
    WINDOW_START * rtt.max(ROUND_MIN).as_secs_f64() / rtt.as_secs_f64()
}
