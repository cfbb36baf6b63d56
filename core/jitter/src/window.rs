//! What the last two seconds say of delays.

use std::collections::VecDeque;

use sangam_model::Time;

/// WMJitter (section V-B) and NetEQ look back so far.
const WINDOW_US: u64 = 2_000_000;
/// Packets of a window; of a faster stream the window is shorter.
const SAMPLES_MAX: usize = 4_096;

/// Microseconds from the sender's timestamp to `at`: of no meaning but by comparison, as the
/// clocks have different origins.
pub(crate) fn delay_us(at: Time, sent: i64) -> i64 {
    (at.as_micros() as i64).saturating_sub(sent)
}

/// Microseconds from a moment to a later one, 0 if it is not later.
pub(crate) const fn us_since(now: Time, then: Time) -> u64 {
    now.as_micros().saturating_sub(then.as_micros())
}

/// The smallest delay of the window.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    /// Rising delays with their times: each may be the smallest once those before it are too old.
    minima: VecDeque<(Time, i64)>,
}

impl Base {
    pub(crate) fn new() -> Self {
        Self {
            minima: VecDeque::with_capacity(SAMPLES_MAX),
        }
    }

    /// Adds a delay and returns the smallest one, itself included.
    pub(crate) fn add(&mut self, now: Time, delay_us: i64) -> i64 {
        while self.minima.back().is_some_and(|(_, us)| *us >= delay_us) {
            self.minima.pop_back();
        }
        let old = |(at, _): &(Time, i64)| us_since(now, *at) > WINDOW_US;
        while self.minima.front().is_some_and(old) {
            self.minima.pop_front();
        }
        if self.minima.len() < SAMPLES_MAX {
            self.minima.push_back((now, delay_us));
        }
        self.get().unwrap_or(delay_us)
    }

    /// The smallest delay, if there was any.
    pub(crate) fn get(&self) -> Option<i64> {
        self.minima.front().map(|(_, us)| *us)
    }

    pub(crate) fn clear(&mut self) {
        self.minima.clear();
    }
}

/// A bucket and the hits up to it, its own included.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    bucket: usize,
    below: u32,
}

/// How often each bucket was hit, in the window or ever.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    counts: Box<[u32]>,
    total: u32,
    /// The last quantile, and the hits up to it: the next one is near.
    mark: Mark,
    /// What leaves the window and when it came; `None` for all history.
    window: Option<VecDeque<(Time, u16)>>,
}

impl Counts {
    /// Of the last two seconds.
    pub(crate) fn windowed(buckets: u16) -> Self {
        Self {
            window: Some(VecDeque::with_capacity(SAMPLES_MAX)),
            ..Self::ever(buckets)
        }
    }

    /// Of all history.
    pub(crate) fn ever(buckets: u16) -> Self {
        Self {
            counts: vec![0; usize::from(buckets)].into_boxed_slice(),
            total: 0,
            mark: Mark::default(),
            window: None,
        }
    }

    /// Counts a hit; one past the last bucket falls into the last.
    pub(crate) fn add(&mut self, now: Time, bucket: usize) {
        let bucket = bucket.min(self.counts.len() - 1);
        self.make_room(now);
        if let Some(window) = &mut self.window {
            window.push_back((now, bucket as u16));
        }
        // A year of the fastest stream; then the shares stay as they are.
        if self.total < u32::MAX {
            self.counts[bucket] += 1;
            self.total += 1;
            self.mark.below += u32::from(bucket <= self.mark.bucket);
        }
    }

    /// The first bucket up to which at least this share of the hits fell.
    pub(crate) fn quantile(&mut self, share: f64) -> usize {
        let wanted = f64::from(self.total) * share;
        let Mark { bucket, below } = &mut self.mark;
        while *bucket > 0 && f64::from(*below - self.counts[*bucket]) >= wanted {
            *below -= self.counts[*bucket];
            *bucket -= 1;
        }
        while f64::from(*below) < wanted && *bucket + 1 < self.counts.len() {
            *bucket += 1;
            *below += self.counts[*bucket];
        }
        *bucket
    }

    /// The bucket whose cost is least, if each bucket is `step` of delay, delay up to `free` costs
    /// nothing, and losing all later packets would cost `loss`: all three in the same unit.
    pub(crate) fn cheapest(&self, step: f64, free: f64, loss: f64) -> usize {
        let each = loss / f64::from(self.total.max(1));
        let (mut later, mut best) = (self.total, (0, f64::INFINITY));
        for (bucket, count) in self.counts.iter().enumerate() {
            later -= count;
            let delay = (bucket as f64 * step - free).max(0.0);
            let cost = delay + each * f64::from(later);
            if cost < best.1 {
                best = (bucket, cost);
            }
            if later == 0 || delay >= best.1 {
                break;
            }
        }
        best.0
    }

    fn make_room(&mut self, now: Time) {
        let Some(window) = &mut self.window else {
            return;
        };
        while let Some((at, bucket)) = window.front() {
            if us_since(now, *at) <= WINDOW_US && window.len() < SAMPLES_MAX {
                return;
            }
            self.counts[usize::from(*bucket)] -= 1;
            self.total -= 1;
            self.mark.below -= u32::from(usize::from(*bucket) <= self.mark.bucket);
            window.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_is_the_smallest_of_two_seconds() {
        let mut base = Base::new();
        let at = Time::from_millis;
        let steps = [
            (0, 50, 50),
            (500, 30, 30),
            (1_000, 40, 30),
            (2_500, 60, 30),
            (2_501, 60, 40),
        ];
        for (ms, delay, smallest) in steps {
            assert_eq!(base.add(at(ms), delay), smallest, "at {ms} ms");
        }
        assert_eq!(base.add(at(9_000), -5), -5);
    }

    #[test]
    fn what_leaves_the_window_counts_no_more() {
        let mut counts = Counts::windowed(10);
        counts.add(Time::from_millis(0), 9);
        for ms in 1..=19 {
            counts.add(Time::from_millis(ms), 2);
        }
        assert_eq!(counts.quantile(0.95), 2);
        assert_eq!(counts.quantile(0.96), 9);
        counts.add(Time::from_millis(2_001), 2);
        assert_eq!(counts.quantile(1.0), 2);
    }

    #[test]
    fn the_cheapest_bucket_weighs_delay_against_loss() {
        let mut counts = Counts::ever(10);
        for _ in 0..98 {
            counts.add(Time::ZERO, 0);
        }
        counts.add(Time::ZERO, 3);
        counts.add(Time::ZERO, 9);
        // One of a hundred is worth 20: waiting 30 for one is not, unless 30 is waited anyway.
        assert_eq!(counts.cheapest(10.0, 0.0, 2_000.0), 0);
        assert_eq!(counts.cheapest(10.0, 30.0, 2_000.0), 3);
        assert_eq!(counts.cheapest(10.0, 0.0, 20_000.0), 9);
    }
}
