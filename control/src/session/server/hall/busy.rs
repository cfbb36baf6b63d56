//! How busy the thread is.

use std::time::{Duration, Instant};

/// How long it is measured before it is told.
const PERIOD: Duration = Duration::from_secs(1);

/// The share of its time that the thread was busy of late: half of it is the last second's, so that
/// a single batch sends nobody elsewhere.
#[derive(Default)]
pub(super) struct Busy {
    since: Option<Instant>,
    busy: Duration,
    percent: u64,
}

impl Busy {
    /// Adds a time of work; the share of late, in percent.
    pub(super) fn add(&mut self, began: Instant, ended: Instant) -> u64 {
        let since = *self.since.get_or_insert(began);
        self.busy += ended - began;
        let passed = ended - since;
        if passed >= PERIOD {
            let share = (self.busy.as_secs_f64() / passed.as_secs_f64()).min(1.0);
            // Rounded up, or a thread that is always busy would never be said to be.
            self.percent = (self.percent + (share * 100.0) as u64).div_ceil(2);
            (self.since, self.busy) = (Some(ended), Duration::ZERO);
        }
        self.percent
    }

    pub(super) const fn percent(&self) -> u64 {
        self.percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_busy_second_counts_half_and_many_count_wholly() {
        let mut busy = Busy::default();
        let mut at = Instant::now();
        let mut second = |work: u32| {
            let began = at;
            at += PERIOD;
            busy.add(began, began + PERIOD * work / 100);
            // It slept for the rest.
            busy.add(at, at)
        };
        assert_eq!(second(0), 0);
        let shares: Vec<_> = (0..8).map(|_| second(100)).collect();
        assert!(shares[0] <= 51 && shares[1] > 60, "{shares:?}");
        assert!(shares.is_sorted() && shares[7] >= 99, "{shares:?}");
        let rests: Vec<_> = (0..8).map(|_| second(0)).collect();
        assert!(rests[0] <= 50 && rests[7] <= 1, "{rests:?}");
    }
}
