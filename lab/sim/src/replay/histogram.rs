//! Delays by size, in memory that does not grow.

/// Steps between a power of two and the next: delays are known to 0.4 %.
const FINE: usize = 256;
/// Below this, buckets are a microsecond wide.
const EXACT: usize = 2 * FINE;
/// Longer delays count as this: 67 s.
const US_MAX: u64 = (1 << 26) - 1;
const BUCKETS: usize = EXACT + 17 * FINE;

/// How many delays there were of each size, and their exact sum. In microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    buckets: Vec<u32>,
    count: u64,
    sum_us: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: vec![0; BUCKETS],
            count: 0,
            sum_us: 0,
        }
    }
}

impl Histogram {
    /// Counts a delay.
    pub fn add(&mut self, us: u64) {
        let us = us.min(US_MAX);
        self.buckets[bucket(us)] += 1;
        self.count += 1;
        self.sum_us += us;
    }

    /// Counts all of another one's delays.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine = mine.saturating_add(*theirs);
        }
        self.count += other.count;
        self.sum_us += other.sum_us;
    }

    /// How many delays there were.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The mean in milliseconds; 0 if there was none.
    #[must_use]
    pub fn mean_ms(&self) -> f64 {
        self.sum_us as f64 / self.count.max(1) as f64 / 1e3
    }

    /// The delay in milliseconds that a share of all does not exceed; 0 if there was none.
    #[must_use]
    pub fn quantile_ms(&self, share: f64) -> f64 {
        let rank = (share * self.count as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        for (number, count) in self.buckets.iter().enumerate() {
            below += u64::from(*count);
            if below >= rank {
                return middle_ms(number);
            }
        }
        0.0
    }

    /// Delays in milliseconds and the share of all that do not exceed them, for a curve.
    pub fn curve(&self) -> impl Iterator<Item = (f64, f64)> {
        let mut below = 0;
        let full = self
            .buckets
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0);
        full.map(move |(number, count)| {
            below += u64::from(*count);
            (middle_ms(number), below as f64 / self.count as f64)
        })
    }

    /// As numbers, to be kept in a file.
    pub(super) fn put(&self, out: &mut Vec<u64>) {
        let full = self
            .buckets
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0);
        out.extend([self.sum_us, full.clone().count() as u64]);
        let mut before = 0;
        for (number, count) in full {
            out.extend([(number - before) as u64, u64::from(*count)]);
            before = number;
        }
    }

    /// What [`Histogram::put`] wrote, if it is that.
    pub(super) fn take(numbers: &mut impl Iterator<Item = u64>) -> Option<Self> {
        let mut histogram = Self {
            sum_us: numbers.next()?,
            ..Self::default()
        };
        let full = numbers.next().filter(|full| *full <= BUCKETS as u64)?;
        let mut number = 0_u64;
        for _ in 0..full {
            number = number.checked_add(numbers.next()?)?;
            let count = u32::try_from(numbers.next()?).ok()?;
            *histogram.buckets.get_mut(usize::try_from(number).ok()?)? = count;
            histogram.count += u64::from(count);
        }
        Some(histogram)
    }
}

const fn bucket(us: u64) -> usize {
    if us < EXACT as u64 {
        return us as usize;
    }
    let shift = us.ilog2() as usize - 8;
    EXACT + (shift - 1) * FINE + (us >> shift) as usize - FINE
}

fn middle_ms(bucket: usize) -> f64 {
    if bucket < EXACT {
        return bucket as f64 / 1e3;
    }
    let shift = (bucket - EXACT) / FINE + 1;
    let low = (FINE + (bucket - EXACT) % FINE) << shift;
    (low + (1 << shift) / 2) as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_delay_falls_near_the_middle_of_its_bucket() {
        for us in (0..2_000).chain((0..1_000).map(|n| n * 66_999)) {
            let found = middle_ms(bucket(us)) * 1e3;
            assert!(
                (found - us as f64).abs() <= us as f64 * 0.004,
                "{us}: {found}"
            );
        }
        assert_eq!(bucket(US_MAX), BUCKETS - 1);
    }

    #[test]
    fn means_are_exact_and_quantiles_near() {
        let mut histogram = Histogram::default();
        (1..=1_000).for_each(|ms| histogram.add(ms * 1_000));
        assert_eq!(histogram.mean_ms(), 500.5);
        for (share, ms) in [(0.5, 500.0), (0.95, 950.0), (0.99, 990.0), (1.0, 1_000.0)] {
            assert!((histogram.quantile_ms(share) - ms).abs() < 0.004 * ms);
        }
        let (last, all) = histogram.curve().last().unwrap();
        assert!((last - 1_000.0).abs() < 4.0 && all == 1.0);
        assert_eq!(Histogram::default().quantile_ms(0.5), 0.0);
    }

    #[test]
    fn numbers_bring_it_back() {
        let mut histogram = Histogram::default();
        [3, 3, 900, 1_000_000, u64::MAX]
            .into_iter()
            .for_each(|us| histogram.add(us));
        let mut numbers = Vec::new();
        histogram.put(&mut numbers);
        assert_eq!(
            Histogram::take(&mut numbers.iter().copied()),
            Some(histogram)
        );
        assert_eq!(Histogram::take(&mut numbers[..5].iter().copied()), None);
        assert_eq!(Histogram::take(&mut [0, 1, 9_999_999, 1].into_iter()), None);
    }
}
