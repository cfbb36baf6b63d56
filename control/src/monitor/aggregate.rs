//! Many brokers' reports, merged: the newest of each, for as long as it means something.

use std::collections::BTreeMap;
use std::time::Duration;

use sangam_digest::{Digest, Link, Merged, Row, beat_every};
use sangam_model::{BrokerId, Time};

use super::clocks;
use super::digests;
use super::network::{BrokerView, Network};
use super::report::{BrokerReport, LinkReport};

/// Without news for this long a broker is stale: five reports did not come.
pub const STALE_AFTER: Duration = Duration::from_secs(5);
/// Beats of its cell that a broker is missing in before it is stale.
const BEATS: u32 = 3;
/// While full reports of a broker come its digests say nothing new.
const DETAIL_LASTS: Duration = Duration::from_secs(3);
/// Without news for this long a broker is forgotten.
pub const FORGET_AFTER: Duration = Duration::from_secs(60);
/// Brokers kept; with 64 links each about 100 MiB.
pub const BROKERS_MAX: usize = 4_096;

/// What an aggregation node knows. Pure: time is given.
#[derive(Debug, Default)]
pub struct Aggregate {
    brokers: BTreeMap<BrokerId, Entry>,
    refused: Refused,
    /// Brokers of the network, as the heads of cells count them, and when they said so.
    told: BTreeMap<String, (u64, Time)>,
}

/// Who tells digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Teller<'a> {
    /// The head of a cell, by its name: of its brokers, seldom.
    Head(&'a str),
    /// A broker of itself, each second.
    Broker(BrokerId),
}

#[derive(Debug)]
struct Entry {
    report: BrokerReport,
    /// When the broker sent it, by our clock.
    sent: Time,
    /// When it was last known to live.
    alive: Time,
    /// When each link was measured, in the order of the report's.
    links_at: Vec<Time>,
    /// When the last full report was sent; `None` if the figures are a digest's.
    detail: Option<Time>,
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
            Some(known) => known.yields_to(now, sent, &report),
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
        let entry = Entry {
            sent,
            alive: sent,
            links_at: report
                .links
                .iter()
                .map(|link| link_sent(now, link, sent))
                .collect(),
            detail: Some(sent),
            via: via.map(str::to_owned),
            report,
        };
        self.brokers.insert(entry.report.broker, entry);
        true
    }

    /// Takes digests. Those in which a broker speaks of another are refused.
    pub fn merge_digests(&mut self, now: Time, merged: Merged, teller: Teller<'_>) {
        let via = match teller {
            Teller::Head(via) => Some(via),
            Teller::Broker(_) => None,
        };
        if let Some(via) = via
            && (self.told.len() < BROKERS_MAX || self.told.contains_key(via))
        {
            self.told.insert(via.to_owned(), (merged.brokers, now));
        }
        for row in merged.rows {
            if !teller.may_tell(&row) {
                self.refused.malformed += 1;
                continue;
            }
            match row {
                Row::Digest(digest) => self.merge_digest(now, &digest, via),
                Row::Beat(alive) => {
                    for (broker, heard) in alive {
                        if let Some(entry) = self.brokers.get_mut(&broker) {
                            entry.alive = entry.alive.max(heard);
                        }
                    }
                }
            }
        }
    }

    fn merge_digest(&mut self, now: Time, digest: &Digest, via: Option<&str>) {
        let Some(known) = self.brokers.get_mut(&digest.broker) else {
            self.first_digest(now, digest, via);
            return;
        };
        if known
            .detail
            .is_some_and(|sent| now.since(sent) <= DETAIL_LASTS)
        {
            return;
        }
        let news = if digest.figures.is_some() {
            known.digest(now, digest)
        } else {
            known.links(digest)
        };
        if news {
            known.alive = known.alive.max(digest.at);
            known.via = via.map(str::to_owned);
        } else {
            self.refused.outdated += 1;
        }
    }

    fn first_digest(&mut self, now: Time, digest: &Digest, via: Option<&str>) {
        // Links alone say too little of a broker, and the whole follows.
        if digest.figures.is_none() || now.since(digest.at) >= FORGET_AFTER {
            self.refused.outdated += 1;
        } else if self.brokers.len() >= BROKERS_MAX {
            self.refused.full += 1;
        } else {
            let entry = Entry {
                report: digests::report(digest, None),
                sent: digest.at,
                alive: digest.at,
                links_at: digest.links.iter().map(|link| link.at).collect(),
                detail: None,
                via: via.map(str::to_owned),
            };
            self.brokers.insert(digest.broker, entry);
        }
    }

    /// Counts an event that was no report.
    pub fn refuse(&mut self) {
        self.refused.malformed += 1;
    }

    /// Forgets brokers without news.
    pub fn expire(&mut self, now: Time) {
        self.brokers
            .retain(|_, entry| now.since(entry.alive) < FORGET_AFTER);
        self.told.retain(|_, (_, at)| now.since(*at) < FORGET_AFTER);
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

    /// Brokers of the network as that head of a cell counts them that knows most; 0 until one was
    /// heard.
    #[must_use]
    pub fn told(&self) -> u64 {
        let told = self.told.values().map(|(brokers, _)| *brokers);
        told.max().unwrap_or(0)
    }

    /// Whether all brokers that were heard of within five seconds have sent full reports.
    #[must_use]
    pub fn is_detailed(&self, now: Time) -> bool {
        let fresh = |entry: &&Entry| now.since(entry.alive) <= STALE_AFTER;
        let mut fresh = self.brokers.values().filter(fresh);
        fresh.all(|entry| entry.detail.is_some())
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

    /// The full reports behind `after` in the order of brokers, each with its present age: for
    /// passing them on a few at a time. Nobody could tell a digest from them any more.
    pub fn after(
        &self,
        now: Time,
        after: Option<BrokerId>,
    ) -> impl Iterator<Item = BrokerReport> + use<'_> {
        use std::ops::Bound::{Excluded, Unbounded};

        let start = after.map_or(Unbounded, Excluded);
        let behind = self.brokers.range((start, Unbounded));
        let detailed = behind.filter(|(_, entry)| entry.detail.is_some());
        detailed.map(move |(_, entry)| entry.aged(now))
    }

    /// The merged view.
    #[must_use]
    pub fn network(&self, now: Time, name: &str, unix_ms: u64) -> Network {
        let patience = self.patience();
        let stale = |entry: &Entry| match entry.is_of_cell() {
            true => now.since(entry.alive) > patience,
            false => now.since(entry.alive) > STALE_AFTER,
        };
        let own = clocks::offset(unix_ms, now);
        let clock = |entry: &Entry| {
            let told = entry.report.at.unix_ms;
            (told > 0).then(|| clocks::offset(told, entry.sent))
        };
        let fresh = self.brokers.values().filter(|entry| !stale(entry));
        let median = clocks::median(own, fresh.filter_map(clock));
        let view = |entry: &Entry| {
            let off = clock(entry).map(|offset| offset.saturating_sub(median));
            BrokerView {
                report: BrokerReport {
                    clock_off_ms: off,
                    ..entry.aged(now)
                },
                stale: stale(entry),
                clock_wrong: off.is_some_and(clocks::is_wrong),
                digest: entry.detail.is_none(),
                via: entry.via.clone(),
            }
        };
        let mut network = Network::new(name, unix_ms, self.brokers.values().map(view).collect());
        network.clock_off_ms = (!self.is_empty()).then(|| own.saturating_sub(median));
        network.summary.refused = self.refused.malformed + self.refused.full;
        network
    }

    /// How long the brokers of cells may be silent.
    fn patience(&self) -> Duration {
        beat_every(self.told()) * BEATS
    }
}

impl Teller<'_> {
    fn may_tell(self, row: &Row) -> bool {
        match (self, row) {
            (Self::Head(_), _) => true,
            (Self::Broker(broker), Row::Digest(digest)) => digest.broker == broker,
            (Self::Broker(_), Row::Beat(_)) => false,
        }
    }
}

impl Entry {
    /// Whether it is told seldom, by the head of a cell.
    fn is_of_cell(&self) -> bool {
        self.detail.is_none() && self.via.is_some()
    }

    /// Whether a report that was sent then is news.
    fn yields_to(&self, now: Time, sent: Time, report: &BrokerReport) -> bool {
        let stale = now.since(self.alive) > STALE_AFTER && sent > self.sent;
        // A full report has lists that a digest lacks.
        let more = self.detail.is_none()
            && report.incarnation == self.report.incarnation
            && sent + DETAIL_LASTS > self.sent;
        report.is_later_than(&self.report) || more || stale && self.report.is_later_than(report)
    }

    /// Takes a whole digest; whether it is news.
    fn digest(&mut self, now: Time, digest: &Digest) -> bool {
        let report = digests::report(digest, Some(&self.report));
        // Ages are rounded, so the digest of the same moment may look a little later.
        let later = digest.at.since(self.sent) > DETAIL_LASTS;
        let stale = now.since(self.alive) > STALE_AFTER && later;
        if !report.is_later_than(&self.report) && !stale {
            return false;
        }
        self.report = report;
        self.sent = digest.at;
        self.links_at = digest.links.iter().map(|link| link.at).collect();
        self.detail = None;
        true
    }

    /// Takes links that are told by themselves; whether they are news.
    fn links(&mut self, digest: &Digest) -> bool {
        let same = digest.incarnation == self.report.incarnation;
        if !same || digest.number < self.report.number {
            return false;
        }
        digest.links.iter().for_each(|link| self.link(link));
        true
    }

    fn link(&mut self, told: &Link) {
        let links = self.report.links.iter_mut().zip(&mut self.links_at);
        let mut same = links.filter(|(link, _)| match told.peer {
            Some(peer) => link.peer == Some(peer),
            None => link.peer.is_none() && link.address == told.way[0],
        });
        if let Some((link, at)) = same.next().filter(|(_, at)| **at <= told.at) {
            let way = [link.address.clone(), link.transport.clone()];
            *link = digests::link_report(told, Some([&way[0], &way[1]]));
            *at = told.at;
        }
    }

    fn aged(&self, now: Time) -> BrokerReport {
        let age = |at: Time| now.since(at).as_millis() as u64;
        let mut report = self.report.clone();
        report.age_ms = age(self.sent);
        for (link, at) in report.links.iter_mut().zip(&self.links_at) {
            link.age_ms = age(*at);
        }
        report
    }
}

/// When a link was measured that was passed on with its age.
fn link_sent(now: Time, link: &LinkReport, sent: Time) -> Time {
    match link.age_ms {
        0 => sent,
        age => Time::from_micros(now.as_micros().saturating_sub(age.saturating_mul(1_000))),
    }
}

#[cfg(test)]
mod tests;
