//! How many requests a peer may make, so that none keeps the shard and control busy alone.

use std::collections::HashMap;
use std::time::Duration;

use sangam_model::{Time, limits};

use super::audience::Subscriber;

/// Requests at once: twice what a client asks for that has all it may have and comes back.
const BURST: u32 = 2 * (limits::FILTERS_PER_CLIENT + limits::STREAMS_PER_CLIENT) as u32;
/// Requests that a token counts for: some 20 at once, three each second.
pub(super) const TOKEN: u32 = 32;
/// One more in so long: a hundred each second.
const EVERY: Duration = Duration::from_millis(10);

/// The allowances of a shard's peers; those who never asked have none yet.
#[derive(Debug, Default)]
pub(super) struct Allowances(HashMap<Subscriber, Allowance>);

#[derive(Debug)]
struct Allowance {
    left: u32,
    /// When the last one was added.
    since: Time,
}

impl Allowances {
    /// Whether the peer may make a request now that counts for `cost`.
    pub(super) fn take(&mut self, who: Subscriber, cost: u32, now: Time) -> bool {
        let fresh = Allowance {
            left: BURST,
            since: now,
        };
        let allowance = self.0.entry(who).or_insert(fresh);
        let more = (now - allowance.since).as_micros() / EVERY.as_micros();
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        if more > 0 {
            allowance.left = allowance.left.saturating_add(more).min(BURST);
            allowance.since = now;
        }
        let left = allowance.left.checked_sub(cost);
        allowance.left = left.unwrap_or(allowance.left);
        left.is_some()
    }

    /// Forgets a peer that left.
    pub(super) fn forget(&mut self, who: Subscriber) {
        self.0.remove(&who);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHO: Subscriber = Subscriber { port: 0, peer: 7 };

    #[test]
    fn a_peer_that_used_up_its_allowance_gets_it_back_slowly() {
        let mut allowances = Allowances::default();
        let start = Time::from_millis(5);
        assert!((0..BURST).all(|_| allowances.take(WHO, 1, start)));
        assert!(!allowances.take(WHO, 1, start));
        let other = Subscriber { peer: 8, ..WHO };
        assert!(allowances.take(other, 1, start));

        let later = start + EVERY * 3;
        assert_eq!(
            (0..10).filter(|_| allowances.take(WHO, 1, later)).count(),
            3
        );
        let much_later = later + EVERY * 1_000_000;
        assert!((0..BURST).all(|_| allowances.take(WHO, 1, much_later)));
        assert!(!allowances.take(WHO, 1, much_later));
    }
}
