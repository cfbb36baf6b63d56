//! Latencies by when packets were sent, so that a bad minute does not drown in an hour.

use std::collections::BTreeMap;
use std::time::Duration;

use sangam_model::Time;

/// One slice.
const SLICE: Duration = Duration::from_secs(10);
/// What is told apart.
const GRAIN_US: u64 = 50;

/// Latencies of one stream or of several, slice by slice; slices begin at whole multiples of
/// [`SLICE`] of the clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slices(BTreeMap<u64, BTreeMap<u64, u64>>);

/// One slice's figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slice {
    /// From the first slice's beginning to this one's, in seconds.
    pub(crate) from_s: u64,
    /// Packets.
    pub(crate) packets: u64,
    /// Latencies in milliseconds that half of them, 99 % and all did not exceed, to 50 us.
    pub(crate) p50_ms: f64,
    /// See above.
    pub(crate) p99_ms: f64,
    /// See above.
    pub(crate) max_ms: f64,
}

impl Slices {
    /// Takes a packet.
    pub(super) fn take(&mut self, sent: Time, latency: Duration) {
        let slice = sent.as_micros() / SLICE.as_micros() as u64;
        let grain = (latency.as_micros() as u64).div_ceil(GRAIN_US);
        *self.0.entry(slice).or_default().entry(grain).or_default() += 1;
    }

    /// Joins what another receiver found.
    pub(super) fn merge(&mut self, other: &Self) {
        for (slice, counts) in &other.0 {
            let own = self.0.entry(*slice).or_default();
            for (grain, count) in counts {
                *own.entry(*grain).or_default() += count;
            }
        }
    }

    /// The figures of each slice, in order.
    pub(crate) fn figures(&self) -> Vec<Slice> {
        let first = self.0.keys().next().copied().unwrap_or(0);
        let slice = |(number, counts): (&u64, &BTreeMap<u64, u64>)| Slice {
            from_s: (number - first) * SLICE.as_secs(),
            packets: counts.values().sum(),
            p50_ms: percentile_ms(counts, 0.5),
            p99_ms: percentile_ms(counts, 0.99),
            max_ms: percentile_ms(counts, 1.0),
        };
        self.0.iter().map(slice).collect()
    }
}

fn percentile_ms(counts: &BTreeMap<u64, u64>, share: f64) -> f64 {
    let all: u64 = counts.values().sum();
    let mut left = (all as f64 * share).ceil() as u64;
    let grain = counts.iter().find(|(_, count)| {
        left = left.saturating_sub(**count);
        left == 0
    });
    grain.map_or(0.0, |(grain, _)| (grain * GRAIN_US) as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_ten_seconds_stand_out() {
        let mut all = Slices::default();
        for receiver in 0..2 {
            let mut slices = Slices::default();
            for second in 20..50 {
                let ms = if (30..40).contains(&second) {
                    90 + receiver
                } else {
                    45
                };
                slices.take(Time::from_millis(second * 1_000), Duration::from_millis(ms));
            }
            all.merge(&slices);
        }
        let figures = all.figures();
        let p50: Vec<f64> = figures.iter().map(|slice| slice.p50_ms).collect();
        assert_eq!(p50, [45.0, 90.0, 45.0]);
        let bad = figures[1];
        assert_eq!((bad.from_s, bad.packets), (10, 20));
        assert_eq!((bad.p99_ms, bad.max_ms), (91.0, 91.0));
    }
}
