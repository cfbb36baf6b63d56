//! A short step back that shows to whom the queue belongs.

use core::time::Duration;

use sangam_model::Time;

/// Less of a fall than this cannot be told from noise.
const TELLING: Duration = Duration::from_millis(3);
/// From this share of the expected fall on, the queue is all ours.
const OURS: f64 = 0.75;
/// Below this share, what looked like a queue is the way itself.
const NOBODYS: f64 = 0.15;
/// The least and the largest part of the window that steps back.
const PART: (f64, f64) = (0.15, 0.5);

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
    /// Begins at a round trip of `rtt` with so much `queue` in it.
    pub(super) fn new(now: Time, rtt: Duration, queue: Duration) -> Self {
        let share = queue.as_secs_f64() / rtt.as_secs_f64().max(1e-4);
        let part = (0.8 * share).clamp(PART.0, PART.1);
        Self::of(part, now, (rtt, queue))
    }

    /// Begins one that is to empty the queue whoever it belongs to.
    pub(super) fn deep(now: Time, rtt: Duration, queue: Duration) -> Self {
        Self::of(PART.1, now, (rtt, queue))
    }

    fn of(part: f64, now: Time, (rtt, queue): (Duration, Duration)) -> Self {
        Self {
            part,
            queue,
            expected: rtt.mul_f64(part).min(queue),
            looks_from: now + rtt,
            until: now + rtt.mul_f64(2.5) + Duration::from_millis(60),
            least: Duration::MAX,
        }
    }

    /// Takes a new delay; the verdict when it is time for it.
    pub(super) fn note(&mut self, now: Time, queue: Duration) -> Option<Verdict> {
        if now >= self.looks_from {
            self.least = self.least.min(queue);
        }
        (now >= self.until).then(|| self.verdict())
    }

    fn verdict(&self) -> Verdict {
        let fall = self.queue.saturating_sub(self.least);
        if self.expected < TELLING {
            return Verdict::Alone;
        }
        let share = fall.as_secs_f64() / self.expected.as_secs_f64();
        if share >= OURS {
            Verdict::Alone
        } else if share < NOBODYS {
            Verdict::Moved(self.least)
        } else {
            Verdict::Shared
        }
    }
}
