//! How long packets wait at the bottleneck, from delays of which only the changes mean something.

use core::time::Duration;

use sangam_model::Time;

/// Parts of the window of a [`Minimum`].
const PARTS: usize = 10;

/// The least value of a window of time, exact to a tenth of the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Minimum {
    part: Duration,
    /// The least of each part of the window, the running one first.
    least: [i64; PARTS],
    since: Time,
}

impl Minimum {
    pub(super) fn new(window: Duration) -> Self {
        Self {
            part: window / PARTS as u32,
            least: [i64::MAX; PARTS],
            since: Time::ZERO,
        }
    }

    pub(super) fn note(&mut self, now: Time, value: i64) {
        if now - self.since >= self.part * PARTS as u32 {
            self.least = [i64::MAX; PARTS];
            self.since = now;
        }
        while now - self.since >= self.part {
            self.least.rotate_right(1);
            self.least[0] = i64::MAX;
            self.since += self.part;
        }
        self.least[0] = self.least[0].min(value);
    }

    /// The least value; `i64::MAX` before the first.
    pub(super) fn get(&self) -> i64 {
        self.least.into_iter().min().unwrap_or(i64::MAX)
    }

    /// Forgets all but `value`.
    pub(super) fn restart(&mut self, value: i64) {
        self.least = [i64::MAX; PARTS];
        self.least[0] = value;
    }
}

/// A jump is remembered so long.
const JUMP_KEPT: Duration = Duration::from_secs(5);

/// The queueing delay: what a packet's way took above the least of the last ten seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queueing {
    base: Minimum,
    /// The last few delays: their least is the standing queue, without the noise of schedulers.
    recent: [(Time, i64); 4],
    /// The largest rise from one delay to the next in a while.
    jump: (Time, i64),
}

impl Queueing {
    pub(super) fn new(window: Duration) -> Self {
        Self {
            base: Minimum::new(window),
            recent: [(Time::ZERO, i64::MAX); 4],
            jump: (Time::ZERO, 0),
        }
    }

    /// Whether nothing was noted yet.
    pub(super) fn is_new(&self) -> bool {
        self.base.get() == i64::MAX
    }

    /// An empty path takes so long.
    pub(super) fn seed(&mut self, now: Time, delay_us: i64) {
        self.base.note(now, delay_us);
    }

    pub(super) fn note(&mut self, now: Time, delay_us: i64) {
        self.base.note(now, delay_us);
        let rise = delay_us.saturating_sub(self.recent[0].1);
        if rise > self.jump.1 || now - self.jump.0 > JUMP_KEPT {
            self.jump = (now, rise);
        }
        self.recent.rotate_right(1);
        self.recent[0] = (now, delay_us);
    }

    /// The standing queue: the least delay in the last `span`, of four samples at most.
    pub(super) fn standing(&self, now: Time, span: Duration) -> Duration {
        let fresh = |(at, delay): (Time, i64)| (now - at <= span).then_some(delay);
        let least = self.recent.into_iter().filter_map(fresh).min();
        self.above_base(least.unwrap_or(self.recent[0].1))
    }

    /// What the last packet waited.
    pub(super) fn latest(&self) -> Duration {
        self.above_base(self.recent[0].1)
    }

    /// Whether the delay rose to this at once, as a queue does not.
    pub(super) fn jumped(&self, queue: Duration) -> bool {
        self.jump.1.max(0).unsigned_abs() >= micros(queue) / 2
    }

    /// The way has become longer: its delay is now the least there is.
    pub(super) fn moved(&mut self, queue: Duration) {
        let base = self.base.get().saturating_add_unsigned(micros(queue));
        self.base.restart(base);
    }

    fn above_base(&self, delay: i64) -> Duration {
        let base = self.base.get();
        if base == i64::MAX || delay == i64::MAX {
            return Duration::ZERO;
        }
        Duration::from_micros(delay.saturating_sub(base).max(0).unsigned_abs())
    }
}

pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
