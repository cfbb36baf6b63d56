//! What is known of the network, and for how long.

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

const HEAD: Teller<'_> = Teller::Head("head");

fn cell(rows: Vec<Row>) -> Merged {
    Merged { brokers: 40, rows }
}

fn of(broker: u32, number: u64, at: Time) -> Digest {
    let peers = [(8, true), (9, true)];
    let link = |(peer, up)| LinkReport {
        peer: Some(BrokerId(peer)),
        address: format!("192.0.2.{peer}:4600"),
        up,
        ..LinkReport::default()
    };
    let report = BrokerReport {
        links: peers.map(link).into(),
        ..report(broker, number)
    };
    digests::digest(at, &report)
}

#[test]
fn digests_tell_the_age_of_each_figure_and_beats_who_lives() {
    let mut aggregate = Aggregate::default();
    aggregate.merge_digests(s(0), cell(vec![Row::Digest(of(1, 5, s(0)))]), HEAD);
    let mut down = of(1, 9, s(4));
    down.figures = None;
    down.links.remove(0);
    down.links[0].figures[sangam_digest::link::UP] = Some(0);
    down.links[0].way = Default::default();
    aggregate.merge_digests(s(5), cell(vec![Row::Digest(down)]), HEAD);
    aggregate.merge_digests(
        s(20),
        cell(vec![Row::Beat(vec![(BrokerId(1), s(19))])]),
        HEAD,
    );

    let view = aggregate.network(s(20), "test", 0).brokers.remove(0);
    let ages = view.report.links.iter().map(|link| (link.up, link.age_ms));
    assert_eq!(ages.collect::<Vec<_>>(), [(true, 20_000), (false, 16_000)]);
    assert_eq!(view.report.links[1].address, "192.0.2.9:4600");
    assert_eq!(
        (view.report.age_ms, view.stale, view.digest),
        (20_000, false, true)
    );
    assert_eq!((view.via.as_deref(), aggregate.told()), (Some("head"), 40));
    assert!(
        aggregate.network(s(35), "test", 0).brokers[0].stale,
        "three beats missed"
    );
    aggregate.expire(s(79));
    assert!(aggregate.is_empty());
}

#[test]
fn a_broker_tells_digests_of_itself_each_second_and_is_soon_stale_without() {
    let mut aggregate = Aggregate::default();
    let teller = Teller::Broker(BrokerId(1));
    let tell = |aggregate: &mut Aggregate, at: Time, digest: Digest| {
        aggregate.merge_digests(at, cell(vec![Row::Digest(digest)]), teller);
    };
    tell(&mut aggregate, s(0), of(1, 5, s(0)));
    let mut measured = of(1, 6, s(1));
    measured.figures = None;
    measured.links[0].figures[sangam_digest::link::RTT_US] = Some(7_000);
    tell(&mut aggregate, s(1), measured);
    let view = aggregate.network(s(2), "test", 0).brokers.remove(0);
    let links = view
        .report
        .links
        .iter()
        .map(|link| (link.rtt_us, link.age_ms));
    let links: Vec<_> = links.collect();
    assert_eq!(links, [(Some(7_000), 1_000), (None, 1_000)]);
    assert_eq!((view.digest, view.via), (true, None));

    tell(&mut aggregate, s(3), of(2, 1, s(3)));
    let beat = cell(vec![Row::Beat(vec![(BrokerId(1), s(3))])]);
    aggregate.merge_digests(s(3), beat, teller);
    assert_eq!((aggregate.len(), aggregate.refused().malformed), (1, 2));

    let stale = |second| aggregate.network(s(second), "test", 0).brokers[0].stale;
    assert!(!stale(6) && stale(7));
}

#[test]
fn a_full_report_says_more_than_the_digest_of_the_same_moment() {
    let mut aggregate = Aggregate::default();
    aggregate.merge_digests(s(1), cell(vec![Row::Digest(of(1, 5, s(1)))]), HEAD);
    assert!(!aggregate.is_detailed(s(1)));
    let full = BrokerReport {
        interest: vec!["demo/#".to_owned()],
        ..report(1, 5)
    };
    assert!(aggregate.merge(s(1), full, None));
    aggregate.merge_digests(s(2), cell(vec![Row::Digest(of(1, 6, s(2)))]), HEAD);
    assert!(
        aggregate.is_detailed(s(2)),
        "while full reports come digests are not needed"
    );
    aggregate.merge_digests(s(9), cell(vec![Row::Digest(of(1, 13, s(9)))]), HEAD);
    let view = aggregate.network(s(9), "test", 0).brokers.remove(0);
    assert_eq!((view.digest, view.report.number), (true, 13));
    assert!(view.report.interest.is_empty(), "of long ago");
    assert_eq!(
        aggregate.after(s(9), None).count(),
        0,
        "not passed on as a report"
    );
}

#[test]
fn the_head_that_knows_most_says_how_many_brokers_there_are() {
    let mut aggregate = Aggregate::default();
    aggregate.merge_digests(s(0), cell(Vec::new()), HEAD);
    let part = Merged {
        brokers: 3,
        rows: Vec::new(),
    };
    aggregate.merge_digests(s(30), part, Teller::Head("another"));
    assert_eq!(aggregate.told(), 40);
    aggregate.expire(s(60));
    assert_eq!(aggregate.told(), 3);
}

#[test]
fn a_wrong_clock_is_noticed_whoever_has_it() {
    let told = |broker, unix_ms| BrokerReport {
        at: crate::monitor::At {
            unix_ms,
            ..Default::default()
        },
        ..report(broker, 1)
    };
    let unix_ms = 1_700_000_000_000;
    let mut aggregate = Aggregate::default();
    // Sent at different times; the third lags by a minute, the fourth has no clock.
    aggregate.merge(s(0), told(1, unix_ms), None);
    aggregate.merge(s(1), told(2, unix_ms + 1_300), None);
    aggregate.merge(s(2), told(3, unix_ms + 2_000 - 60_000), None);
    aggregate.merge(s(2), told(4, 0), None);
    let network = aggregate.network(s(3), "test", unix_ms + 3_000);
    let clocks = network
        .brokers
        .iter()
        .map(|view| (view.report.clock_off_ms, view.clock_wrong));
    let clocks: Vec<_> = clocks.collect();
    let right = [
        (Some(0), false),
        (Some(300), false),
        (Some(-60_000), true),
        (None, false),
    ];
    assert_eq!(clocks, right);
    assert_eq!(
        (network.summary.wrong_clocks, network.clock_off_ms),
        (1, Some(0))
    );

    let network = aggregate.network(s(3), "test", unix_ms + 3_000 + 7_200_000);
    assert_eq!(
        network.summary.wrong_clocks, 1,
        "brokers outvote the aggregator"
    );
    assert_eq!(network.clock_off_ms, Some(7_199_850));
}
