//! Many brokers' reports, merged: the newest of each, for as long as it means something.

use std::collections::BTreeMap;
use std::time::Duration;

use sangam_model::{BrokerId, Time};

use super::network::{BrokerView, Network};
use super::report::BrokerReport;

/// Without news for this long a broker is stale: five reports did not come.
pub const STALE_AFTER: Duration = Duration::from_secs(5);
/// Without news for this long a broker is forgotten.
pub const FORGET_AFTER: Duration = Duration::from_secs(60);
/// Brokers kept; with 64 links each about 100 MiB.
pub const BROKERS_MAX: usize = 4_096;

/// What an aggregation node knows. Pure: time is given.
#[derive(Debug, Default)]
pub struct Aggregate {
    brokers: BTreeMap<BrokerId, Entry>,
    refused: Refused,
}

#[derive(Debug)]
struct Entry {
    report: BrokerReport,
    /// When the broker sent it, by our clock.
    sent: Time,
    via: Option<String>,
}

/// Reports that changed nothing, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// No report, or not of the broker whose topic it came on.
    pub malformed: u64,
    /// One broker more than [`BROKERS_MAX`].
    pub full: u64,
    /// Known already, by another way, or older than what is known.
    pub outdated: u64,
}

impl Aggregate {
    /// Takes a report; `via` names the aggregation node it came through. Whether it is news.
    pub fn merge(&mut self, now: Time, report: BrokerReport, via: Option<&str>) -> bool {
        let age = Duration::from_millis(report.age_ms);
        let full = self.brokers.len() >= BROKERS_MAX;
        let sent = Time::from_micros(now.as_micros().saturating_sub(age.as_micros() as u64));
        let news = match self.brokers.get(&report.broker) {
            Some(known) => {
                let stale = now.since(known.sent) > STALE_AFTER && sent > known.sent;
                let other = |known: &BrokerReport| known.is_later_than(&report);
                report.is_later_than(&known.report) || stale && other(&known.report)
            }
            None if full => {
                self.refused.full += 1;
                return false;
            }
            None => true,
        };
        // One that is about to be forgotten here must not come back from a neighbour for ever.
        if !news || age >= FORGET_AFTER {
            self.refused.outdated += 1;
            return false;
        }
        let via = via.map(str::to_owned);
        let broker = report.broker;
        self.brokers.insert(broker, Entry { report, sent, via });
        true
    }

    /// Counts an event that was no report.
    pub fn refuse(&mut self) {
        self.refused.malformed += 1;
    }

    /// Forgets brokers without news.
    pub fn expire(&mut self, now: Time) {
        self.brokers
            .retain(|_, entry| now.since(entry.sent) < FORGET_AFTER);
    }

    /// Reports that changed nothing.
    #[must_use]
    pub fn refused(&self) -> Refused {
        self.refused
    }

    /// Brokers known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.brokers.len()
    }

    /// Whether none is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.brokers.is_empty()
    }

    /// The newest report of each broker, as it was sent.
    pub fn reports(&self) -> impl Iterator<Item = &BrokerReport> {
        self.brokers.values().map(|entry| &entry.report)
    }

    /// The reports behind `after` in the order of brokers, each with its present age: for passing
    /// them on a few at a time.
    pub fn after(
        &self,
        now: Time,
        after: Option<BrokerId>,
    ) -> impl Iterator<Item = BrokerReport> + use<'_> {
        use std::ops::Bound::{Excluded, Unbounded};

        let start = after.map_or(Unbounded, Excluded);
        let behind = self.brokers.range((start, Unbounded));
        behind.map(move |(_, entry)| entry.aged(now))
    }

    /// The merged view.
    #[must_use]
    pub fn network(&self, now: Time, name: &str, unix_ms: u64) -> Network {
        let view = |entry: &Entry| BrokerView {
            report: entry.aged(now),
            stale: now.since(entry.sent) > STALE_AFTER,
            via: entry.via.clone(),
        };
        let mut network = Network::new(name, unix_ms, self.brokers.values().map(view).collect());
        network.summary.refused = self.refused.malformed + self.refused.full;
        network
    }
}

impl Entry {
    fn aged(&self, now: Time) -> BrokerReport {
        BrokerReport {
            age_ms: now.since(self.sent).as_millis() as u64,
            ..self.report.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::LinkReport;

    fn report(broker: u32, number: u64) -> BrokerReport {
        BrokerReport {
            broker: BrokerId(broker),
            number,
            links: vec![
                LinkReport {
                    up: true,
                    ..LinkReport::default()
                },
                LinkReport::default(),
            ],
            ..BrokerReport::default()
        }
    }

    fn s(seconds: u64) -> Time {
        Time::from_millis(100_000 + seconds * 1_000)
    }

    fn ages(aggregate: &Aggregate, now: Time) -> Vec<(u32, u64, bool)> {
        let network = aggregate.network(now, "test", 0);
        let row = |view: &BrokerView| (view.report.broker.0, view.report.age_ms, view.stale);
        network.brokers.iter().map(row).collect()
    }

    #[test]
    fn the_newest_report_of_each_broker_wins_whichever_way_it_came() {
        let mut aggregate = Aggregate::default();
        assert!(aggregate.merge(s(0), report(2, 5), None));
        assert!(aggregate.merge(s(0), report(1, 1), Some("east")));
        assert!(!aggregate.merge(s(1), report(2, 5), Some("east")));
        assert!(!aggregate.merge(s(1), report(2, 4), None));
        let restarted = BrokerReport {
            incarnation: 1,
            ..report(2, 1)
        };
        assert!(aggregate.merge(s(1), restarted, None), "a later life");
        assert_eq!(
            ages(&aggregate, s(2)),
            [(1, 2_000, false), (2, 1_000, false)]
        );
        assert_eq!(aggregate.refused().outdated, 2);
    }

    #[test]
    fn a_silent_broker_is_stale_then_forgotten() {
        let mut aggregate = Aggregate::default();
        aggregate.merge(s(0), report(1, 1), None);
        assert_eq!(ages(&aggregate, s(6)), [(1, 6_000, true)]);
        let summary = aggregate.network(s(6), "test", 0).summary;
        assert_eq!((summary.brokers, summary.stale, summary.links), (0, 1, 0));
        aggregate.expire(s(59));
        assert_eq!(aggregate.len(), 1);
        aggregate.expire(s(60));
        assert!(aggregate.is_empty());
    }

    #[test]
    fn two_aggregators_do_not_keep_a_dead_broker_alive_between_them() {
        let (mut a, mut b) = (Aggregate::default(), Aggregate::default());
        a.merge(s(0), report(1, 9), None);
        for second in 1..=70 {
            let now = s(second);
            let of_a: Vec<_> = a.after(now, None).collect();
            of_a.into_iter().for_each(|report| {
                b.merge(now, report, Some("a"));
            });
            let of_b: Vec<_> = b.after(now, None).collect();
            of_b.into_iter().for_each(|report| {
                a.merge(now, report, Some("b"));
            });
            a.expire(now);
            b.expire(now);
        }
        assert!(a.is_empty() && b.is_empty());
    }

    #[test]
    fn a_broker_that_lost_count_is_believed_once_its_old_life_is_stale() {
        let mut aggregate = Aggregate::default();
        aggregate.merge(s(0), report(1, 900), None);
        assert!(!aggregate.merge(s(1), report(1, 1), None));
        assert!(aggregate.merge(s(7), report(1, 7), None));
    }

    #[test]
    fn brokers_past_the_bound_are_refused_and_counted() {
        let mut aggregate = Aggregate::default();
        for broker in 0..BROKERS_MAX as u32 {
            assert!(aggregate.merge(s(0), report(broker, 1), None));
        }
        assert!(!aggregate.merge(s(0), report(u32::MAX, 1), None));
        assert_eq!(aggregate.refused().full, 1);
        assert!(
            aggregate.merge(s(1), report(7, 2), None),
            "known ones go on"
        );
    }

    #[test]
    fn the_summary_adds_up() {
        let mut aggregate = Aggregate::default();
        aggregate.merge(s(0), report(1, 1), None);
        aggregate.merge(s(0), report(2, 1), None);
        let summary = aggregate.network(s(1), "test", 0).summary;
        assert_eq!(
            (summary.links, summary.links_up, summary.links_down),
            (4, 2, 2)
        );
    }
}
