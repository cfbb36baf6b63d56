//! How far the peer's clock is from ours.

use core::time::Duration;

use sangam_model::Time;

/// Two clocks drift apart by no more than this: crystals keep within 50 ppm each.
const DRIFT_PPM: u64 = 100;

/// An estimate of the peer's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    /// Microseconds to add to our time to get the peer's.
    pub offset_us: i64,
    /// How far from the truth the offset may be.
    pub uncertainty: Duration,
}

/// The best sample so far, as a shorter round trip says more about the offset: the answer was
/// written somewhere between our two readings, so half the round trip bounds the error.
#[derive(Clone, Copy, Debug)]
struct Sample {
    offset_us: i64,
    half_us: u64,
    at: Time,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock(Option<Sample>);

impl Clock {
    /// Takes a ping sent at `sent`, answered at `peer_us` of the peer's clock, back at `now`.
    pub(crate) fn sample(&mut self, sent: Time, peer_us: u64, now: Time) {
        let round_us = now.as_micros().saturating_sub(sent.as_micros());
        let middle = sent.as_micros() + round_us / 2;
        let sample = Sample {
            offset_us: peer_us.wrapping_sub(middle).cast_signed(),
            half_us: round_us / 2 + 1,
            at: now,
        };
        if self
            .0
            .is_none_or(|best| sample.half_us <= best.uncertainty_us(now))
        {
            self.0 = Some(sample);
        }
    }

    pub(crate) fn offset(&self, now: Time) -> Option<ClockOffset> {
        self.0.map(|best| ClockOffset {
            offset_us: best.offset_us,
            uncertainty: Duration::from_micros(best.uncertainty_us(now)),
        })
    }
}

impl Sample {
    fn uncertainty_us(&self, now: Time) -> u64 {
        let age_us = now.as_micros().saturating_sub(self.at.as_micros());
        self.half_us + age_us / 1_000_000 * DRIFT_PPM + age_us % 1_000_000 * DRIFT_PPM / 1_000_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER_AHEAD_US: u64 = 5_000_000;

    #[test]
    fn the_shortest_round_trip_wins_until_drift_makes_it_worse() {
        let mut clock = Clock::default();
        // 1 ms each way.
        let sent = Time::from_millis(100);
        clock.sample(sent, 101_000 + PEER_AHEAD_US, Time::from_millis(102));
        // 30 ms out, 1 ms back: ignored.
        clock.sample(
            Time::from_millis(200),
            230_000 + PEER_AHEAD_US,
            Time::from_millis(231),
        );
        let near = clock.offset(Time::from_millis(231)).unwrap();
        assert_eq!(near.offset_us, 5_000_000);
        assert!(near.uncertainty < Duration::from_micros(1_100));
        // 200 s later the old sample is worth 20 ms: the same bad round trip is taken.
        clock.sample(Time::from_millis(200_000), 200_030_000 + PEER_AHEAD_US, {
            Time::from_millis(200_031)
        });
        let far = clock.offset(Time::from_millis(200_031)).unwrap();
        assert_eq!(far.offset_us, 5_014_500);
        assert!(far.uncertainty >= Duration::from_micros(14_500));
    }
}
