//! A short step back that shows to whom the queue belongs.

use core::time::Duration;

use sangam_model::Time;

/// Less of a fall than this cannot be told from noise.
const TELLING: Duration = Duration::from_millis(2);
/// From this share of the expected fall on, the queue is all ours.
const OURS: f64 = 0.85;
/// Below this share, what looked like a queue is the way itself.
const NOBODYS: f64 = 0.15;
/// A delay that varies by more than this is a queue.
const FLAT: Duration = Duration::from_millis(2);
/// The least and the largest part of the window that steps back.
const PART: (f64, f64) = (0.1, 0.5);
/// How far the queue is to fall, if it is long enough for that.
const FALL: Duration = Duration::from_millis(20);

/// Sends less for a few round trips. In a queue that serves first come first, all waits together:
/// with a part of the window gone, the queue shrinks by that part of a round trip if nobody else
/// sends, by our share of it if others do, and not at all if there is no queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drain {
    /// Share of the window that is left out.
    pub(super) part: f64,
    queue: Duration,
    /// How far it falls if all of it is ours.
    expected: Duration,
    /// Before this the smaller window has not arrived at the queue and been reported.
    looks_from: Time,
    until: Time,
    least: Duration,
    most: Duration,
    /// Half the time a packet of ours takes: queues are no finer.
    grain: Duration,
}

/// What a drain has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The queue was ours, or there is none.
    Alone,
    /// Others hold the queue up.
    Shared,
    /// There is no queue: the way is longer by this.
    Moved(Duration),
}

impl Drain {
    /// Begins at a round trip of `rtt` with so much `queue` in it; `grain` is half the time that a
    /// packet takes.
    pub(super) fn new(now: Time, (rtt, queue): (Duration, Duration), grain: Duration) -> Self {
        let fall = (queue / 5).max(FALL).min(queue * 4 / 5);
        let part = fall.as_secs_f64() / rtt.as_secs_f64().max(1e-4);
        let part = part.clamp(PART.0, PART.1);
        Self::of(part, now, (rtt, queue), grain)
    }

    /// Begins one that is to empty the queue whoever it belongs to.
    pub(super) fn deep(now: Time, way: (Duration, Duration), grain: Duration) -> Self {
        Self::of(PART.1, now, way, grain)
    }

    fn of(part: f64, now: Time, (rtt, queue): (Duration, Duration), grain: Duration) -> Self {
        Self {
            part,
            queue,
            expected: rtt.mul_f64(part).min(queue),
            looks_from: now + rtt,
            until: now + rtt.mul_f64(2.5) + Duration::from_millis(60),
            least: Duration::MAX,
            most: Duration::ZERO,
            grain,
        }
    }

    /// Takes a new delay; the verdict when it is time for it.
    pub(super) fn note(&mut self, now: Time, queue: Duration) -> Option<Verdict> {
        if now >= self.looks_from {
            self.least = self.least.min(queue);
            self.most = self.most.max(queue);
        }
        (now >= self.until).then(|| self.verdict())
    }

    fn verdict(&self) -> Verdict {
        let fall = self.queue.saturating_sub(self.least) + self.grain;
        if self.expected < TELLING.max(self.grain * 2) {
            return Verdict::Alone;
        }
        let share = fall.as_secs_f64() / self.expected.as_secs_f64();
        if share >= OURS {
            Verdict::Alone
        } else if share < NOBODYS && self.most.saturating_sub(self.least) < FLAT {
            Verdict::Moved(self.least)
        } else {
            Verdict::Shared
        }
    }
}
