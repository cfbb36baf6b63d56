//! For how long a group is not believed again that failed once.

use std::time::Duration;

use sangam_model::Time;

/// After the first time; doubled by each further one, so that a network that loses now and then
/// does not cost a gap each time.
const FIRST: Duration = Duration::from_secs(5);
/// Times it is doubled at most: 320 s.
const DOUBLED_MAX: u32 = 6;
/// Without a failure for so long all is forgotten.
const FORGIVEN: Duration = Duration::from_secs(3_600);

/// The failures of one neighbour.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Penalty {
    until: Time,
    failures: u32,
}

impl Penalty {
    /// It failed once more. Several groups that fail together fail once.
    pub(super) fn add(&mut self, now: Time) {
        if !self.is_over(now) {
            return;
        }
        if now - self.until >= FORGIVEN {
            self.failures = 0;
        }
        self.until = now + FIRST * (1 << self.failures.min(DOUBLED_MAX));
        self.failures += 1;
    }

    pub(super) fn is_over(&self, now: Time) -> bool {
        now >= self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_fails_again_waits_longer_and_who_does_not_is_forgiven() {
        let mut now = Time::from_millis(1);
        let mut penalty = Penalty::default();
        let mut waits = Vec::new();
        for _ in 0..9 {
            penalty.add(now);
            penalty.add(now);
            waits.push((penalty.until - now).as_secs());
            assert!(!penalty.is_over(now));
            now = penalty.until;
        }
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 320, 320, 320]);
        now += FORGIVEN;
        penalty.add(now);
        assert_eq!((penalty.until - now).as_secs(), 5);
    }
}
