//! What a broker tells schedulers each second: how its links are, in few bytes.

use sangam_digest::{Digest, LINK, Merged, Row, link};
use sangam_model::Time;

use super::digests::digest;
use super::report::BrokerReport;

/// Figures of links that are told each second.
const TOLD: [usize; 6] = [
    link::UP,
    link::SUSPECT,
    link::WEIGHT,
    link::RTT_US,
    link::JITTER_US,
    link::LOSS_PPM,
];
/// The whole digest is told once in so many: who begins to listen knows a broker after that many
/// seconds.
const WHOLE_EVERY: u64 = 8;

/// The whole of a broker now and then and when something comes or goes, its links' figures
/// otherwise.
#[derive(Debug, Default)]
pub(super) struct Measured {
    told: Option<Digest>,
}

impl Measured {
    /// The event that tells a report which was measured now.
    pub(super) fn tell(&mut self, now: Time, report: &BrokerReport) -> Vec<u8> {
        let whole = digest(now, report);
        let told = match self.needs_links_only(&whole) {
            true => links_only(&whole),
            false => whole.clone(),
        };
        self.told = Some(whole);
        let rows = vec![Row::Digest(told)];
        let brokers = report.map.brokers;
        Merged { brokers, rows }.encode(now)
    }

    fn needs_links_only(&self, next: &Digest) -> bool {
        self.told.as_ref().is_some_and(|told| {
            !next.number.is_multiple_of(WHOLE_EVERY) && stands(told) == stands(next)
        })
    }
}

/// What a listener must not miss: whether the broker drains, which links there are, and whether
/// they carry anything.
fn stands(digest: &Digest) -> impl PartialEq {
    let figures = digest.figures.as_ref();
    let drains = figures.and_then(|figures| figures[sangam_digest::broker::DRAINING]);
    let links = digest.links.iter();
    let links = links.map(|one| (one.peer, one.way.clone(), one.figures[link::UP]));
    (drains, links.collect::<Vec<_>>())
}

fn links_only(whole: &Digest) -> Digest {
    let links = whole.links.iter().map(|one| {
        let mut figures = [None; LINK];
        TOLD.into_iter()
            .for_each(|place| figures[place] = one.figures[place]);
        // Links whose other end is not known have nothing but their address.
        let way = match one.peer {
            Some(_) => Default::default(),
            None => one.way.clone(),
        };
        sangam_digest::Link {
            way,
            figures,
            ..one.clone()
        }
    });
    Digest {
        figures: None,
        names: None,
        links: links.collect(),
        ..whole.clone()
    }
}

#[cfg(test)]
mod tests {
    use sangam_digest::EVENT_LEN_MAX;
    use sangam_model::{BrokerId, limits::LINKS_PER_BROKER};

    use super::*;
    use crate::monitor::LinkReport;

    fn report(number: u64, links: usize) -> BrokerReport {
        let link = |peer| LinkReport {
            peer: Some(BrokerId(peer)),
            address: format!("192.0.2.{peer}:4600"),
            transport: "udp".to_owned(),
            up: true,
            suspect: Some(false),
            weight: Some(120),
            rtt_us: Some(45_678),
            jitter_us: Some(1_234),
            loss_ppm: Some(0),
            out_bps: Some(1_000_000),
            ..LinkReport::default()
        };
        BrokerReport {
            broker: BrokerId(7),
            number,
            name: "oslo".to_owned(),
            links: (0..links as u32).map(link).collect(),
            ..BrokerReport::default()
        }
    }

    fn told(measured: &mut Measured, report: &BrokerReport) -> (Digest, usize) {
        let now = Time::from_millis(5_000);
        let event = measured.tell(now, report);
        let mut merged = sangam_digest::decode(now, &event).unwrap();
        match merged.rows.pop() {
            Some(Row::Digest(digest)) if merged.rows.is_empty() => (digest, event.len()),
            rows => panic!("{rows:?}"),
        }
    }

    #[test]
    fn links_are_told_each_second_and_the_whole_at_first_and_once_in_a_while() {
        let mut measured = Measured::default();
        for number in 3..20 {
            let (digest, len) = told(&mut measured, &report(number, 9));
            let whole = number == 3 || number % WHOLE_EVERY == 0;
            assert_eq!((digest.figures.is_some(), digest.links.len()), (whole, 9));
            assert_eq!(digest.links[0].figures[link::RTT_US], Some(45_678));
            let out = digest.links[0].figures[link::OUT_BPS];
            assert_eq!(out.is_some(), whole);
            assert!(whole || len < 16 + 9 * 20, "{len} bytes");
        }
    }

    #[test]
    fn what_comes_or_goes_is_told_whole_at_once() {
        let mut measured = Measured::default();
        let mut is_whole = |report: &BrokerReport| told(&mut measured, report).0.figures.is_some();
        assert!(is_whole(&report(1, 2)) && !is_whole(&report(2, 2)));
        let mut down = report(3, 2);
        down.links[1].up = false;
        assert!(is_whole(&down));
        assert!(is_whole(&report(4, 3)) && !is_whole(&report(5, 3)));
        let drains = BrokerReport {
            draining: true,
            ..report(6, 3)
        };
        assert!(is_whole(&drains));
    }

    #[test]
    fn as_many_links_as_a_broker_may_have_fit_into_an_event() {
        let (digest, len) = told(&mut Measured::default(), &report(1, LINKS_PER_BROKER));
        assert_eq!(digest.links.len(), LINKS_PER_BROKER);
        assert!(len < EVENT_LEN_MAX, "{len}");
    }
}
