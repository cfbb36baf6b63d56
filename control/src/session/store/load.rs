//! What session servers have to do, and which of them takes a new session.

use serde::{Deserialize, Serialize};

/// Share of its time, in percent, above which a server takes no further session.
const BUSY_MAX: u64 = 80;
/// A server that has so much more to do than another sends new sessions there: what two servers
/// know of each other is half a second old, and neither is to send them back.
const APART: u64 = 16;
/// A percent of a server's time weighs as much as a session,
const HALF_BUSY: u64 = 50;
/// and above half of it as much as so many: what is left goes soon then.
const DEAR: u64 = 10;

/// What a server has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Sessions it has.
    pub sessions: usize,
    /// Sessions it takes at most.
    #[serde(default = "no_limit")]
    pub sessions_max: usize,
    /// Share of its time that it is busy, in percent.
    #[serde(default)]
    pub busy_percent: u64,
}

/// A server of an earlier release says nothing of a limit.
const fn no_limit() -> usize {
    usize::MAX
}

impl Load {
    /// Whether it takes no further session.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.sessions >= self.sessions_max || self.busy_percent > BUSY_MAX
    }

    /// A number that grows with what it has to do. That sessions go only to where it is smaller
    /// is why they never go round.
    fn weight(&self) -> u64 {
        let dear = self.busy_percent.saturating_sub(HALF_BUSY);
        let busy = self.busy_percent.min(HALF_BUSY) + dear * DEAR;
        u64::try_from(self.sessions)
            .unwrap_or(u64::MAX)
            .saturating_add(busy)
    }
}

/// Which of others takes a new session instead of a server with this load: the one with least to
/// do, if that is much less, or if this one is full. Ties go to the first.
pub(super) fn lighter<T>(own: Load, others: impl Iterator<Item = (T, Load)>) -> Option<T> {
    let open = others.filter(|(_, load)| !load.is_full());
    let (least, load) = open.min_by_key(|(_, load)| load.weight())?;
    let is_lighter = load.weight().saturating_add(APART) < own.weight();
    (own.is_full() || is_lighter).then_some(least)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn load(sessions: usize, busy_percent: u64) -> Load {
        Load {
            sessions,
            sessions_max: 1_000,
            busy_percent,
        }
    }

    fn chosen(own: Load, others: &[Load]) -> Option<usize> {
        lighter(own, others.iter().copied().enumerate())
    }

    #[test]
    fn a_new_session_goes_to_the_least_busy_server() {
        let others = [load(10, 60), load(12, 5), load(10, 30)];
        assert_eq!(chosen(load(10, 70), &others), Some(1));
        // Of as busy ones it is the one with fewer sessions.
        assert_eq!(chosen(load(100, 5), &[load(60, 5), load(50, 5)]), Some(1));
    }

    #[test]
    fn small_differences_move_nothing() {
        assert_eq!(chosen(load(16, 12), &[load(12, 0)]), None);
        assert_eq!(chosen(load(17, 12), &[load(12, 0)]), Some(0));
        assert_eq!(chosen(load(0, 0), &[]), None);
    }

    #[test]
    fn many_quiet_sessions_do_not_drive_one_to_a_server_that_is_nearly_full() {
        assert_eq!(chosen(load(900, 5), &[load(800, 78)]), None);
        assert_eq!(chosen(load(900, 5), &[load(800, 10)]), Some(0));
    }

    #[test]
    fn a_full_server_sends_to_whoever_is_not() {
        let full = Load {
            sessions_max: 4,
            ..load(4, 0)
        };
        assert_eq!(chosen(full, &[load(90, 20)]), Some(0));
        assert_eq!(chosen(load(4, 90), &[load(90, 20)]), Some(0));
        assert_eq!(chosen(full, &[load(2, 81), full]), None);
    }

    #[test]
    fn a_server_of_an_earlier_release_is_not_full() {
        let load: Load = serde_json::from_str(r#"{"url": "http://b", "sessions": 3}"#).unwrap();
        assert_eq!((load.sessions, load.busy_percent), (3, 0));
        assert!(!load.is_full());
    }

    proptest! {
        /// Whatever servers there are, and whoever is asked first.
        #[test]
        fn a_session_never_goes_round(
            loads in prop::collection::vec((0_usize..200, 0_u64..=100, 1_usize..200), 1..8),
            first in 0_usize..8,
        ) {
            let loads: Vec<_> = loads
                .into_iter()
                .map(|(sessions, busy_percent, sessions_max)| Load {
                    sessions,
                    sessions_max,
                    busy_percent,
                })
                .collect();
            let mut at = first % loads.len();
            let mut hops = 0;
            loop {
                let others = (0..).zip(&loads).filter(|(other, _)| *other != at);
                let others = others.map(|(other, load)| (other, *load));
                let Some(next) = lighter(loads[at], others) else {
                    break;
                };
                prop_assert!(!loads[next].is_full());
                at = next;
                hops += 1;
                prop_assert!(hops <= loads.len());
            }
            // It ends at a server that takes it, if there is any.
            let all_full = loads.iter().all(Load::is_full);
            prop_assert!(all_full || !loads[at].is_full());
        }
    }
}
