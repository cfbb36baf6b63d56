//! Reports as digests and back.

use std::collections::HashMap;

use sangam_digest::{BROKER, Digest, LINK, Link, Names, broker, link};
use sangam_model::{BrokerId, Time};

use super::report::{At, BrokerMap, BrokerReport, LinkReport, Load, SCHEMA, Traffic};

/// The digest of a report that was measured now. Filters, streams and reasons of drops are left
/// to the report.
#[must_use]
pub fn digest(now: Time, report: &BrokerReport) -> Digest {
    Digest {
        incarnation: report.incarnation,
        number: report.number,
        figures: Some(broker_figures(report)),
        names: Some(Names {
            name: report.name.clone(),
            version: report.version.clone(),
            region: report.region.clone().unwrap_or_default(),
        }),
        links: report.links.iter().map(|link| of_link(now, link)).collect(),
        ..Digest::new(report.broker, now)
    }
}

fn broker_figures(report: &BrokerReport) -> [Option<u64>; BROKER] {
    let thousandths = |value: f64| (value * 1_000.0).round().max(0.0) as u64;
    let traffic = &report.traffic;
    let mut figures = [None; BROKER];
    for (place, value) in [
        (broker::UNIX_MS, Some(report.at.unix_ms)),
        (broker::UPTIME_S, Some(report.uptime_s)),
        (broker::DRAINING, Some(u64::from(report.draining))),
        (broker::CLIENTS, Some(report.clients)),
        (broker::STREAMS, Some(report.streams)),
        (broker::FILTERS, Some(report.filters)),
        (broker::CPU_CORES, report.load.cpu_cores.map(thousandths)),
        (broker::CPU_SHARE, report.load.cpu_share.map(thousandths)),
        (broker::MEMORY, report.load.memory_bytes),
        (broker::RECEIVED_PACKETS, Some(traffic.received_packets)),
        (broker::RECEIVED_BYTES, traffic.received_bytes),
        (broker::RELAYED_PACKETS, Some(traffic.relayed_packets)),
        (broker::RELAYED_BYTES, Some(traffic.relayed_bytes)),
        (broker::DELIVERED_PACKETS, Some(traffic.delivered_packets)),
        (broker::DELIVERED_BYTES, Some(traffic.delivered_bytes)),
        (broker::DROPPED_PACKETS, Some(traffic.dropped_packets)),
        (broker::DROPPED_PER_S, Some(traffic.dropped_per_s)),
        (broker::KNOWN_BROKERS, Some(report.map.brokers)),
        (broker::EPOCH, report.map.epoch),
    ] {
        figures[place] = value;
    }
    figures
}

fn of_link(now: Time, report: &LinkReport) -> Link {
    let mut figures = [None; LINK];
    for (place, value) in [
        (link::UP, Some(u64::from(report.up))),
        (link::SUSPECT, report.suspect.map(u64::from)),
        (link::WEIGHT, report.weight.map(u64::from)),
        (link::RTT_US, report.rtt_us),
        (link::JITTER_US, report.jitter_us),
        (link::LOSS_PPM, report.loss_ppm.map(u64::from)),
        (link::BANDWIDTH_BPS, report.bandwidth_bps),
        (link::IN_BPS, report.in_bps),
        (link::OUT_BPS, report.out_bps),
        (link::QUEUE_PACKETS, report.queue_packets),
        (link::QUEUE_BYTES, report.queue_bytes),
        (link::QUEUE_US, report.queue_us),
        (link::DROPPED_PACKETS, report.dropped_packets),
    ] {
        figures[place] = value;
    }
    Link {
        peer: report.peer,
        way: [report.address.clone(), report.transport.clone()],
        at: now,
        figures,
    }
}

/// The report that a whole digest stands for, with names and ways as `known` has them where it
/// leaves them out.
#[must_use]
pub(super) fn report(digest: &Digest, known: Option<&BrokerReport>) -> BrokerReport {
    let known = known.filter(|known| known.incarnation == digest.incarnation);
    let mut report = known.cloned().unwrap_or_default();
    report.schema = SCHEMA;
    report.broker = digest.broker;
    report.incarnation = digest.incarnation;
    report.number = digest.number;
    // Of the full report before, which may be long ago.
    report.drops.clear();
    report.interest.clear();
    report.origins.clear();
    report.planned.clear();
    if let Some(names) = &digest.names {
        report.name.clone_from(&names.name);
        report.version.clone_from(&names.version);
        report.region = Some(names.region.clone()).filter(|region| !region.is_empty());
    }
    if let Some(figures) = &digest.figures {
        figures_of(&mut report, figures);
    }
    let ways = report
        .links
        .iter()
        .map(|link| (link.peer, [&link.address, &link.transport]));
    let ways: HashMap<Option<BrokerId>, [&String; 2]> = ways.collect();
    let links = digest.links.iter().map(|link| {
        let way = ways.get(&link.peer).filter(|_| link.peer.is_some());
        link_report(link, way.map(|way| way.map(String::as_str)))
    });
    report.links = links.collect();
    report
}

fn figures_of(report: &mut BrokerReport, figures: &[Option<u64>; BROKER]) {
    let of = |place: usize| figures[place].unwrap_or(0);
    let share = |place: usize| figures[place].map(|value| value as f64 / 1_000.0);
    report.at = At {
        unix_ms: of(broker::UNIX_MS),
        ..At::default()
    };
    report.uptime_s = of(broker::UPTIME_S);
    report.draining = of(broker::DRAINING) != 0;
    report.clients = of(broker::CLIENTS);
    report.streams = of(broker::STREAMS);
    report.filters = of(broker::FILTERS);
    report.load = Load {
        cpu_cores: share(broker::CPU_CORES),
        cpu_share: share(broker::CPU_SHARE),
        memory_bytes: figures[broker::MEMORY],
    };
    report.traffic = Traffic {
        received_packets: of(broker::RECEIVED_PACKETS),
        received_bytes: figures[broker::RECEIVED_BYTES],
        relayed_packets: of(broker::RELAYED_PACKETS),
        relayed_bytes: of(broker::RELAYED_BYTES),
        delivered_packets: of(broker::DELIVERED_PACKETS),
        delivered_bytes: of(broker::DELIVERED_BYTES),
        dropped_packets: of(broker::DROPPED_PACKETS),
        dropped_per_s: of(broker::DROPPED_PER_S),
    };
    report.map = BrokerMap {
        epoch: figures[broker::EPOCH],
        brokers: of(broker::KNOWN_BROKERS),
    };
}

/// A link's figures, with its address and transport as they were known where they are not told.
#[must_use]
pub(super) fn link_report(told: &Link, known: Option<[&str; 2]>) -> LinkReport {
    let figures = &told.figures;
    let small = |place: usize| figures[place].map(|value| value.try_into().unwrap_or(u32::MAX));
    let [address, transport] = match known {
        Some(known) if told.way.iter().all(String::is_empty) => known.map(str::to_owned),
        _ => told.way.clone(),
    };
    LinkReport {
        peer: told.peer,
        address,
        transport,
        age_ms: 0,
        up: figures[link::UP] == Some(1),
        suspect: figures[link::SUSPECT].map(|value| value != 0),
        weight: small(link::WEIGHT),
        pinned_by: None,
        rtt_us: figures[link::RTT_US],
        jitter_us: figures[link::JITTER_US],
        loss_ppm: small(link::LOSS_PPM),
        bandwidth_bps: figures[link::BANDWIDTH_BPS],
        in_bps: figures[link::IN_BPS],
        out_bps: figures[link::OUT_BPS],
        queue_packets: figures[link::QUEUE_PACKETS],
        queue_bytes: figures[link::QUEUE_BYTES],
        queue_us: figures[link::QUEUE_US],
        dropped_packets: figures[link::DROPPED_PACKETS],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_comes_back_from_its_digest_but_for_its_lists() {
        let link = LinkReport {
            peer: Some(BrokerId(9)),
            address: "192.0.2.1:4600".to_owned(),
            transport: "quic".to_owned(),
            up: true,
            suspect: Some(false),
            weight: Some(120),
            rtt_us: Some(12_345),
            loss_ppm: Some(7),
            out_bps: Some(123_456),
            ..LinkReport::default()
        };
        let whole = BrokerReport {
            schema: SCHEMA,
            broker: BrokerId(7),
            incarnation: 3,
            number: 12,
            name: "oslo".to_owned(),
            version: "0.1.0".to_owned(),
            region: Some("north".to_owned()),
            at: At {
                unix_ms: 1_700_000_000_000,
                ..At::default()
            },
            uptime_s: 77,
            draining: true,
            clients: 5,
            load: Load {
                cpu_cores: Some(1.25),
                cpu_share: Some(0.312),
                memory_bytes: None,
            },
            traffic: Traffic {
                delivered_packets: 1 << 40,
                ..Traffic::default()
            },
            map: BrokerMap {
                epoch: Some(u64::MAX),
                brokers: 2,
            },
            links: vec![link],
            ..BrokerReport::default()
        };
        let digest = digest(Time::from_millis(5), &whole);
        assert_eq!(report(&digest, None), whole);

        let mut brief = digest;
        brief.names = None;
        brief.links[0].way = Default::default();
        let mut known = whole.clone();
        known.interest = vec!["demo/#".to_owned()];
        assert_eq!(
            report(&brief, Some(&known)),
            whole,
            "names and ways stay, lists do not"
        );
        known.incarnation = 2;
        let anew = report(&brief, Some(&known));
        assert!(anew.name.is_empty(), "nor does anything of another life");
    }
}
