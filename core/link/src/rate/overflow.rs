//! How much the bottleneck's buffer holds, where it is too short for the queue we want.

use core::time::Duration;

use sangam_model::Time;

use super::delay::{Minimum, micros};
use crate::measure::Sample;

/// Fewer packets say nothing about loss.
const TELLING: u64 = 40;
/// Counts are halved so often.
const HALVED_EVERY: Duration = Duration::from_secs(5);
/// Losses in so many spans in a row are no accident.
const SPANS: u8 = 4;
const SPAN: Duration = Duration::from_secs(2);
/// A contrast is asked for at most so often.
const CONTRAST_EVERY: Duration = Duration::from_secs(2);

/// Counts losses at long and at short queues. Where the buffer overflows, they are at the longest;
/// what the path loses anyhow is lost at any.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overflow {
    /// The longest queue of ten seconds, as a negative number of microseconds.
    deepest: Minimum,
    long: Count,
    short: Count,
    halved: Time,
    asked: Time,
    /// Losses at a long queue in this span, when it began, and spans in a row that had any.
    span: (u64, Time),
    spans: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    packets: u64,
    lost: u64,
}

impl Overflow {
    pub(super) fn new() -> Self {
        Self {
            deepest: Minimum::new(Duration::from_secs(10)),
            long: Count::default(),
            short: Count::default(),
            halved: Time::ZERO,
            asked: Time::ZERO,
            span: (0, Time::ZERO),
            spans: 0,
        }
    }

    pub(super) fn note(&mut self, now: Time, sample: &Sample, queue: Duration) {
        self.deepest.note(now, -micros(queue).cast_signed());
        if now - self.halved >= HALVED_EVERY {
            self.halved = now;
            self.long.halve();
            self.short.halve();
        }
        if now - self.span.1 >= SPAN {
            self.spans = if self.span.0 > 0 {
                self.spans.saturating_add(1)
            } else {
                0
            };
            self.span = (0, now);
        }
        let deepest = self.deepest();
        let count = if queue >= deepest * 3 / 4 {
            self.span.0 += sample.lost;
            &mut self.long
        } else if queue <= deepest / 2 {
            &mut self.short
        } else {
            return;
        };
        count.packets += sample.packets;
        count.lost += sample.lost;
    }

    /// The longest queue of late.
    pub(super) fn deepest(&self) -> Duration {
        Duration::from_micros(self.deepest.get().min(0).unsigned_abs())
    }

    /// How long a full buffer takes to empty, if it overflows.
    pub(super) fn buffer(&self) -> Option<Duration> {
        let told = self.short.packets >= TELLING && self.long.lost >= 3;
        let overflows = self.long.share() > 2.0 * self.short.share() + 0.001;
        (told && overflows).then(|| self.deepest())
    }

    /// Whether it goes on overflowing though we want half of it: somebody else fills it.
    pub(super) fn persists(&self) -> bool {
        self.spans >= SPANS && self.buffer().is_some()
    }

    /// Whether there are losses, but all at one length of the queue.
    pub(super) fn wants_contrast(&self, now: Time) -> bool {
        self.long.lost >= 3 && self.short.packets < TELLING && now - self.asked >= CONTRAST_EVERY
    }

    /// Nobody overflows it any more.
    pub(super) fn forget(&mut self) {
        self.spans = 0;
    }

    pub(super) fn contrasted(&mut self, now: Time) {
        self.asked = now;
    }
}

impl Count {
    fn share(&self) -> f64 {
        self.lost as f64 / self.packets.max(1) as f64
    }

    fn halve(&mut self) {
        self.packets /= 2;
        self.lost /= 2;
    }
}
