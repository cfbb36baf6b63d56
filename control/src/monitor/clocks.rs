//! Clocks that are wrong: each against the median of all.

use std::collections::BTreeSet;
use std::time::Duration;

use sangam_model::{BrokerId, Time};

use super::network::Network;

/// A clock that is further off is wrong. Reports are up to a second on their way.
pub const CLOCK_TOLERANCE: Duration = Duration::from_secs(2);

/// How far clocks are from one moment of the reader's monotonic clock, in milliseconds. Reports of
/// different ages compare by it.
pub(super) fn offset(unix_ms: u64, at: Time) -> i64 {
    (unix_ms as i64).saturating_sub((at.as_micros() / 1_000) as i64)
}

/// What clocks of these offsets are compared with: their median. Where half of them disagree with
/// the other half nobody is right, and `own` decides; it is one of them.
pub(super) fn median(own: i64, offsets: impl Iterator<Item = i64>) -> i64 {
    let mut all: Vec<i64> = offsets.chain([own]).collect();
    all.sort_unstable();
    let upper = all[all.len() / 2];
    let lower = all[(all.len() - 1) / 2];
    if is_wrong(upper.saturating_sub(lower)) {
        return own;
    }
    i64::midpoint(lower, upper)
}

/// Whether a clock that is off by so many milliseconds is wrong.
pub(super) fn is_wrong(off_ms: i64) -> bool {
    u128::from(off_ms.unsigned_abs()) > CLOCK_TOLERANCE.as_millis()
}

/// Remembers whose clock was said to be wrong, so that it is said once.
#[derive(Debug, Default)]
pub struct Clocks {
    wrong: BTreeSet<BrokerId>,
    own: bool,
}

impl Clocks {
    /// Logs clocks that went wrong or came right since the last call.
    pub fn watch(&mut self, network: &Network) {
        let own = network.clock_off_ms.filter(|off| is_wrong(*off));
        match (own, std::mem::replace(&mut self.own, own.is_some())) {
            (Some(off_ms), false) => {
                tracing::warn!(
                    off_ms,
                    "this host's clock is wrong: most brokers differ from it"
                );
            }
            (None, true) => tracing::info!("this host's clock agrees with the brokers' again"),
            _ => {}
        }
        let fresh = network.brokers.iter().filter(|view| !view.stale);
        for view in fresh {
            let (broker, name) = (view.report.broker, &view.report.name);
            let off_ms = view.report.clock_off_ms;
            if view.clock_wrong && self.wrong.insert(broker) {
                tracing::warn!(
                    %broker,
                    name,
                    off_ms,
                    "this broker's clock differs from the median"
                );
            } else if !view.clock_wrong && self.wrong.remove(&broker) {
                tracing::info!(%broker, name, "this broker's clock agrees with the others' again");
            }
        }
        let known: BTreeSet<BrokerId> = network
            .brokers
            .iter()
            .map(|view| view.report.broker)
            .collect();
        self.wrong.retain(|broker| known.contains(broker));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_does_not_follow_the_one_that_is_wrong() {
        assert_eq!(median(0, [3, 5, 3_600_000].into_iter()), 4);
        assert_eq!(median(-86_400_000, [3, 5, 4].into_iter()), 3);
        assert_eq!(median(7, [].into_iter()), 7);
        assert_eq!(median(i64::MIN, [i64::MAX].into_iter()), i64::MIN);
    }

    #[test]
    fn where_nobody_can_tell_who_is_right_the_own_clock_counts() {
        assert_eq!(median(0, [5_000].into_iter()), 0);
        assert_eq!(median(0, [100, 60_000, 60_100].into_iter()), 0);
        assert_eq!(median(0, [1_000].into_iter()), 500);
    }
}
