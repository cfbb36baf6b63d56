//! Reports as events: cut where they are long, joined where they arrive.
//!
//! A part is the report with some of its links, under `part` and `parts`; the first also holds
//! everything else. So a reader that knows nothing of parts still understands each of them.

use serde::{Deserialize, Serialize};

use super::report::{BrokerReport, LinkReport};

/// Bytes of one event's payload: below the largest event by more than its header and a trace.
pub const PART_LEN_MAX: usize = 15_360;
/// Parts of one report. The first holds at most 64 filters and 64 streams of 255 bytes, which is
/// bounded by dropping them; the others hold some twenty links each.
const PARTS_MAX: usize = 16;

/// A report or a part of one, as it arrived.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// All of it, or some of its links.
    #[serde(flatten)]
    pub report: BrokerReport,
    #[serde(default)]
    part: usize,
    #[serde(default = "one")]
    parts: usize,
}

fn one() -> usize {
    1
}

/// The payloads of a report's events. What is too long for any event (a first part with many long
/// filters or streams) goes without its lists.
#[must_use]
pub fn cut(report: &BrokerReport) -> Vec<Vec<u8>> {
    let whole = encode(report.clone(), 0, 1);
    if whole.len() <= PART_LEN_MAX {
        return vec![whole];
    }
    let mut head = BrokerReport {
        links: Vec::new(),
        ..report.clone()
    };
    if encode(head.clone(), 0, 1).len() > PART_LEN_MAX {
        head.interest.clear();
        head.origins.clear();
    }
    let rest = BrokerReport {
        schema: report.schema,
        broker: report.broker,
        incarnation: report.incarnation,
        number: report.number,
        ..BrokerReport::default()
    };
    let shares = shares(
        &report.links,
        PART_LEN_MAX - encode(rest.clone(), 0, 1).len(),
    );
    let parts = 1 + shares.len();
    let mut payloads = vec![encode(head, 0, parts)];
    for (part, links) in (1..).zip(shares) {
        let links = links.to_vec();
        payloads.push(encode(
            BrokerReport {
                links,
                ..rest.clone()
            },
            part,
            parts,
        ));
    }
    payloads
}

/// The links in runs that fit `room` bytes each.
fn shares(links: &[LinkReport], room: usize) -> Vec<&[LinkReport]> {
    let (mut shares, mut start, mut len) = (Vec::new(), 0, 0);
    for (at, link) in links.iter().enumerate() {
        // The comma, and digits of `part` and `parts`.
        let more = serde_json::to_vec(link).map_or(0, |json| json.len()) + 8;
        if len + more > room && at > start {
            shares.push(&links[start..at]);
            (start, len) = (at, 0);
        }
        len += more;
    }
    if start < links.len() {
        shares.push(&links[start..]);
    }
    shares
}

fn encode(report: BrokerReport, part: usize, parts: usize) -> Vec<u8> {
    let part = Part {
        report,
        part,
        parts,
    };
    serde_json::to_vec(&part).expect("a report holds only texts and finite numbers")
}

/// Why a payload is no part of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartError {
    /// No JSON of a report.
    Malformed,
    /// Lists, texts or numbers of parts beyond their bounds.
    Unbounded,
}

impl Part {
    /// Reads the payload of an event.
    ///
    /// # Errors
    /// See [`PartError`].
    pub fn decode(payload: &[u8]) -> Result<Self, PartError> {
        let part: Self = serde_json::from_slice(payload).map_err(|_| PartError::Malformed)?;
        if part.parts > PARTS_MAX || part.part >= part.parts || !part.report.is_bounded() {
            return Err(PartError::Unbounded);
        }
        Ok(part)
    }
}

/// Joins the parts of one broker's reports. Keeps one unfinished report, the latest.
#[derive(Debug, Default)]
pub struct Joiner {
    unfinished: Option<BrokerReport>,
    have: u32,
}

impl Joiner {
    /// Takes a part; the whole report once all its parts are here.
    pub fn join(&mut self, part: Part) -> Option<BrokerReport> {
        let Part {
            mut report,
            part,
            parts,
        } = part;
        if parts == 1 {
            return Some(report);
        }
        match &self.unfinished {
            Some(known) if known.is_later_than(&report) => return None,
            Some(known) if !report.is_later_than(known) => {}
            _ => *self = Self::default(),
        }
        if self.have & (1 << part) != 0 {
            return None;
        }
        self.have |= 1 << part;
        if let Some(mut known) = self.unfinished.take() {
            if part == 0 {
                std::mem::swap(&mut known, &mut report);
            }
            known.links.append(&mut report.links);
            report = known;
        }
        let whole = self.have.count_ones() as usize == parts;
        if whole || !report.is_bounded() {
            return Some(report).filter(|_| whole);
        }
        self.unfinished = Some(report);
        None
    }

    /// Whether nothing waits for its other parts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.unfinished.is_none()
    }
}

#[cfg(test)]
mod tests {
    use sangam_model::BrokerId;

    use super::*;

    fn report(links: usize) -> BrokerReport {
        let link = |n: usize| LinkReport {
            peer: Some(BrokerId(n as u32)),
            address: format!("[2001:db8::{n:x}]:4600"),
            transport: "udp".to_owned(),
            rtt_us: Some(u64::MAX),
            jitter_us: Some(u64::MAX),
            bandwidth_bps: Some(u64::MAX),
            in_bps: Some(u64::MAX),
            out_bps: Some(u64::MAX),
            queue_bytes: Some(u64::MAX),
            queue_us: Some(u64::MAX),
            ..LinkReport::default()
        };
        BrokerReport {
            schema: 1,
            broker: BrokerId(7),
            number: 3,
            name: "edge".to_owned(),
            links: (0..links).map(link).collect(),
            ..BrokerReport::default()
        }
    }

    /// A broker after a day of 50,000 packets a second.
    fn busy(links: usize) -> BrokerReport {
        let link = |n: usize| LinkReport {
            peer: Some(BrokerId(u32::MAX)),
            address: format!("203.0.113.{n}:4600"),
            transport: "quic".to_owned(),
            age_ms: 0,
            up: true,
            suspect: Some(false),
            weight: Some(1_234),
            pinned_by: Some("configuration".to_owned()),
            rtt_us: Some(123_456),
            jitter_us: Some(12_345),
            loss_ppm: Some(12_345),
            bandwidth_bps: Some(1_234_567_890),
            in_bps: Some(123_456_789),
            out_bps: Some(123_456_789),
            queue_packets: Some(1_234),
            queue_bytes: Some(1_234_567),
            queue_us: Some(123_456),
            dropped_packets: Some(1_234_567),
        };
        let day = 86_400 * 50_000;
        BrokerReport {
            schema: 1,
            broker: BrokerId(u32::MAX),
            incarnation: 99,
            number: 86_400,
            name: "frankfurt-3".to_owned(),
            version: "10.20.30".to_owned(),
            region: Some("europe-west".to_owned()),
            uptime_s: 86_400,
            clients: 1_234,
            streams: 1_234,
            filters: 1_234,
            traffic: crate::monitor::Traffic {
                received_packets: day,
                relayed_packets: day,
                relayed_bytes: day * 1_000,
                delivered_packets: day,
                delivered_bytes: day * 1_000,
                dropped_packets: 123_456,
                ..Default::default()
            },
            links: (0..links).map(link).collect(),
            ..report(0)
        }
    }

    /// lab/sim/src/study/monitoring.rs counts with these.
    #[test]
    fn a_report_costs_no_more_than_the_simulation_counts() {
        let len = |links| cut(&busy(links)).iter().map(Vec::len).sum::<usize>();
        assert!(len(0) <= 800, "{}", len(0));
        let link = (len(20) - len(0)) / 20;
        assert!(link <= 360, "{link}");
    }

    /// docs/adr/0051-digests.md promises this.
    #[test]
    fn a_digest_is_a_sixth_of_its_report() {
        let now = sangam_model::Time::ZERO;
        let mut event = Vec::new();
        let mut digest = crate::monitor::digests::digest(now, &busy(7));
        digest
            .links
            .iter_mut()
            .for_each(|link| link.way = Default::default());
        sangam_digest::encode(&mut event, now, &sangam_digest::Row::Digest(digest));
        let full: usize = cut(&busy(7)).iter().map(Vec::len).sum();
        assert!(
            event.len() <= 400 && event.len() * 6 < full,
            "{} of {full}",
            event.len()
        );
    }

    fn join(joiner: &mut Joiner, payload: &[u8]) -> Option<BrokerReport> {
        joiner.join(Part::decode(payload).unwrap())
    }

    fn later(mut report: BrokerReport) -> BrokerReport {
        report.number += 1;
        report
    }

    #[test]
    fn a_short_report_is_one_event() {
        let parts = cut(&report(2));
        assert_eq!(parts.len(), 1);
        assert_eq!(join(&mut Joiner::default(), &parts[0]), Some(report(2)));
    }

    #[test]
    fn a_long_report_is_cut_into_events_and_joined_in_any_order() {
        let mut parts = cut(&report(64));
        assert!(parts.len() > 1 && parts.iter().all(|part| part.len() <= PART_LEN_MAX));
        parts.reverse();
        let mut joiner = Joiner::default();
        let mut done = None;
        for part in parts.iter().chain(&parts[..1]) {
            done = join(&mut joiner, part).or(done);
        }
        let mut done = done.expect("all parts came");
        done.links.sort_by_key(|link| link.peer);
        assert_eq!(done, report(64));
    }

    #[test]
    fn a_later_report_replaces_one_whose_part_was_lost() {
        let (old, new) = (cut(&report(64)), cut(&later(report(64))));
        let mut joiner = Joiner::default();
        assert_eq!(join(&mut joiner, &old[0]), None);
        let mut done = None;
        for part in &new {
            done = join(&mut joiner, part).or(done);
        }
        assert_eq!(done.map(|report| report.number), Some(4));
        assert_eq!(join(&mut joiner, &old[1]), None, "an old part is of no use");
    }

    #[test]
    fn long_lists_go_before_a_report_grows_past_an_event() {
        let mut report = report(1);
        report.interest = vec!["x".repeat(255); 64];
        let parts = cut(&report);
        assert!(parts.iter().all(|part| part.len() <= PART_LEN_MAX));
    }

    #[test]
    fn what_is_no_report_is_refused() {
        for payload in ["[]", "", "{\"links\":7}", "{\"broker\":\"+0000007\"}"] {
            assert_eq!(
                Part::decode(payload.as_bytes()),
                Err(PartError::Malformed),
                "{payload}"
            );
        }
        let many = br#"{"broker":"00000007","part":0,"parts":4000000000}"#;
        assert_eq!(Part::decode(many), Err(PartError::Unbounded));
        let mut long = report(1);
        long.name = "x".repeat(65);
        assert_eq!(Part::decode(&cut(&long)[0]), Err(PartError::Unbounded));
    }

    #[test]
    fn what_later_versions_add_is_ignored() {
        let payload = br#"{"schema":9,"broker":"00000007","colour":"red","at":{"moon":1}}"#;
        assert_eq!(Part::decode(payload).unwrap().report.schema, 9);
    }
}
