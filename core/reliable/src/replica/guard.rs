//! What a home keeps for receivers that come back, or that lost the other home: nobody here knows
//! how far those are.

use core::time::Duration;
use std::collections::VecDeque;

use sangam_model::Time;

/// What happens so closely one after another is one.
const APART: Duration = Duration::from_millis(250);

/// From where on the log is kept, and since when: one for each time that receivers may have been
/// left alone.
#[derive(Debug, Default)]
pub(crate) struct Guards(VecDeque<(Time, u64)>);

impl Guards {
    /// From now on what lies in the log from `index` on is kept for a while.
    pub(crate) fn add(&mut self, now: Time, index: u64) {
        match self.0.back_mut() {
            Some((since, first)) if now - *since < APART => *first = index.min(*first),
            _ => self.0.push_back((now, index)),
        }
    }

    /// Forgets those that are as old as this: nothing is kept for ever, whatever goes on happening.
    pub(crate) fn expire(&mut self, now: Time, age: Duration) {
        while self.0.front().is_some_and(|(since, _)| now - *since >= age) {
            self.0.pop_front();
        }
    }

    /// The first index that is kept.
    pub(crate) fn first(&self) -> Option<u64> {
        self.0.iter().map(|(_, index)| *index).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_kept_for_as_long_and_no_longer() {
        let at = Time::from_millis;
        let mut guards = Guards::default();
        for (now, index) in [
            (1_000, 10),
            (1_100, 20),
            (3_000, 30),
            (4_000, 25),
            (4_100, 5),
        ] {
            guards.add(at(now), index);
        }
        let age = Duration::from_secs(10);
        let mut first = |now| {
            guards.expire(at(now), age);
            guards.first()
        };
        assert_eq!(first(4_100), Some(5));
        assert_eq!(first(10_999), Some(5));
        assert_eq!(first(13_999), Some(5));
        assert_eq!(first(14_000), None);
        guards.add(at(15_000), 40);
        guards.add(at(16_000), 50);
        assert_eq!(guards.first(), Some(40));
    }
}
