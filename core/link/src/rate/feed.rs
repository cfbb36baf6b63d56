//! Samples from a transport that acknowledges each packet, such as QUIC.

use core::time::Duration;

use sangam_model::Time;

use crate::measure::Sample;

/// Acknowledgements are gathered so long before they make a sample.
const GATHER: Duration = Duration::from_millis(10);

/// Makes [`Sample`]s of single acknowledgements. The delay is that of the whole round trip, as
/// acknowledgements do not tell the peer's clock.
#[derive(Clone, Copy, Debug)]
pub struct AckFeed {
    sample: Sample,
    since: Time,
}

impl AckFeed {
    /// A feed that gathers from `now` on.
    #[must_use]
    pub fn new(now: Time) -> Self {
        Self {
            sample: EMPTY,
            since: now,
        }
    }

    /// A packet of `bytes` left.
    pub fn on_sent(&mut self, bytes: u64) {
        self.sample.sent += bytes;
    }

    /// A packet of `bytes` that left `rtt` ago was acknowledged.
    pub fn on_ack(&mut self, bytes: u64, rtt: Duration) {
        self.sample.delivered += bytes;
        self.sample.packets += 1;
        self.sample.rtt = self.sample.rtt.min(rtt);
    }

    /// A packet was found lost.
    pub fn on_loss(&mut self) {
        self.sample.packets += 1;
        self.sample.lost += 1;
    }

    /// The sample of what was gathered, once that is enough.
    pub fn sample(&mut self, now: Time) -> Option<Sample> {
        let over = now - self.since;
        if over < GATHER || self.sample.rtt == Duration::MAX {
            return None;
        }
        let sample = core::mem::replace(&mut self.sample, EMPTY);
        self.since = now;
        Some(Sample {
            one_way_us: i64::try_from(sample.rtt.as_micros()).unwrap_or(i64::MAX),
            sent_over: over,
            delivered_over: over,
            ..sample
        })
    }
}

const EMPTY: Sample = Sample {
    rtt: Duration::MAX,
    one_way_us: 0,
    sent_over: Duration::ZERO,
    delivered_over: Duration::ZERO,
    sent: 0,
    delivered: 0,
    packets: 0,
    lost: 0,
};
