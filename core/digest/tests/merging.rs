//! What a merger says of those it hears.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

use sangam_digest::{
    BROKER, Budget, Digest, EVENT_HEADERS, EVENT_LEN_MAX, LINK, LINKS_MAX, Link, MEMBERS_MAX,
    Merged, Merger, Names, Row, WORD_MAX, broker, decode, link,
};
use sangam_model::{BrokerId, Time};

const FULL: Budget = Budget {
    bytes_per_s: 6_000,
    brokers: 32,
};

fn s(seconds: u64) -> Time {
    Time::from_millis(100_000 + seconds * 1_000)
}

/// A broker of as many links as most, whose figures depend on the moment but hardly move.
fn digest(broker: u32, second: u64) -> Digest {
    let link = |peer: u32| {
        let mut figures = [Some(1_000 + (u64::from(peer) * 37 + second) % 50); LINK];
        figures[link::UP] = Some(1);
        figures[link::SUSPECT] = Some(0);
        figures[link::DROPPED_PACKETS] = Some(3);
        Link {
            peer: Some(BrokerId(peer)),
            way: ["192.0.2.1:4600".to_owned(), "udp".to_owned()],
            at: s(second),
            figures,
        }
    };
    let mut figures = [Some(1_000_000 + second); BROKER];
    figures[broker::CLIENTS] = Some(12);
    figures[broker::DRAINING] = Some(0);
    figures[broker::DROPPED_PER_S] = Some(0);
    figures[broker::CPU_SHARE] = Some(300);
    Digest {
        number: second + 1,
        figures: Some(figures),
        names: Some(Names {
            name: format!("broker-{broker}"),
            version: "0.1.0".to_owned(),
            region: "europe".to_owned(),
        }),
        links: (1..=5).map(|n| link(broker + n)).collect(),
        ..Digest::new(BrokerId(broker), s(second))
    }
}

fn hear_all(merger: &mut Merger, second: u64) {
    for broker in 0..30 {
        merger.hear(s(second), Row::Digest(digest(broker, second)));
    }
}

fn said(now: Time, event: Option<Vec<u8>>) -> Merged {
    event.map_or(
        Merged {
            brokers: 0,
            rows: Vec::new(),
        },
        |event| decode(now, &event).unwrap(),
    )
}

fn digests(merged: &Merged) -> Vec<&Digest> {
    let rows = merged.rows.iter().filter_map(|row| match row {
        Row::Digest(digest) => Some(digest),
        Row::Beat(_) => None,
    });
    rows.collect()
}

#[test]
fn a_merger_keeps_to_its_budget_whatever_happens() {
    let mut merger = Merger::new(Budget {
        bytes_per_s: 180,
        brokers: 1_000,
    });
    let mut bytes = 0;
    for second in 0..200 {
        for broker in 0..30 {
            let mut digest = digest(broker, second);
            digest.links[0].figures[link::UP] = Some(second % 2);
            digest.links[1].figures[link::RTT_US] = Some(1 << (second % 40));
            merger.hear(s(second), Row::Digest(digest));
        }
        bytes += merger
            .next(s(second))
            .map_or(0, |event| event.len() + EVENT_HEADERS);
    }
    let most = 180 * 200 + 180 * 2 + 1_000;
    assert!(bytes < most, "{bytes}");
    assert!(bytes > most / 2, "{bytes}");
}

#[test]
fn everybody_has_a_turn_and_nobody_sooner_than_needed() {
    let mut merger = Merger::new(FULL);
    let mut told = [0; 30];
    for second in 0..20 {
        hear_all(&mut merger, second);
        let said = said(s(second), merger.next(s(second)));
        digests(&said)
            .iter()
            .for_each(|one| told[one.broker.0 as usize] += 1);
    }
    assert_eq!(told, [4; 30], "every five seconds");
}

#[test]
fn a_link_that_goes_is_told_at_once_and_alone() {
    let mut merger = Merger::new(Budget {
        bytes_per_s: 180,
        brokers: 1_000,
    });
    for second in 0..90 {
        hear_all(&mut merger, second);
        merger.next(s(second));
    }
    hear_all(&mut merger, 90);
    let mut gone = digest(17, 91);
    gone.links[2].figures[link::UP] = Some(0);
    merger.hear(s(91), Row::Digest(gone));
    let said = said(s(92), merger.next(s(92)));
    let first = digests(&said)[0];
    assert_eq!((first.broker, first.figures), (BrokerId(17), None));
    let [link] = first.links.as_slice() else {
        panic!("{first:?}")
    };
    assert_eq!(
        (link.peer, link.figures[link::UP]),
        (Some(BrokerId(20)), Some(0))
    );
    assert_eq!(link.at, s(91));
}

#[test]
fn what_one_merger_says_another_knows() {
    let mut cell = Merger::new(FULL);
    let mut above = Merger::new(FULL);
    for second in 0..40 {
        hear_all(&mut cell, second);
        let said = said(s(second), cell.next(s(second)));
        said.rows
            .into_iter()
            .for_each(|row| above.hear(s(second), row));
    }
    assert_eq!(above.len(), 30);
    for known in above.digests() {
        let mut then = digest(known.broker.0, known.number - 1);
        assert!(known.number > 30, "{}", known.number);
        assert_eq!(known.names, then.names);
        then.links
            .iter_mut()
            .zip(&known.links)
            .for_each(|(then, known)| {
                assert_eq!(then.way, known.way);
                assert_eq!((then.at, then.figures), (known.at, known.figures));
            });
    }
}

#[test]
fn a_beat_keeps_a_quiet_broker_and_a_dead_one_is_forgotten() {
    let mut merger = Merger::new(FULL);
    merger.hear(s(0), Row::Digest(digest(1, 0)));
    merger.hear(s(0), Row::Digest(digest(2, 0)));
    merger.hear(
        s(40),
        Row::Beat(vec![(BrokerId(2), s(39)), (BrokerId(3), s(39))]),
    );
    merger.next(s(61));
    assert_eq!(
        merger.digests().map(|one| one.broker.0).collect::<Vec<_>>(),
        [2]
    );
    let said = said(s(66), merger.next(s(66)));
    assert!(said.rows.contains(&Row::Beat(vec![(BrokerId(2), s(39))])));
}

#[test]
fn brokers_past_the_bound_are_refused_and_counted() {
    let mut merger = Merger::new(FULL);
    for broker in 0..MEMBERS_MAX as u32 + 5 {
        merger.hear(s(0), Row::Digest(digest(broker, 0)));
    }
    assert_eq!((merger.len(), merger.refused()), (MEMBERS_MAX, 5));
    merger.keep(|broker| broker.0 < 10);
    assert_eq!(merger.len(), 10);
}

#[test]
fn old_news_changes_nothing_and_lives_are_counted() {
    let mut merger = Merger::new(FULL);
    merger.hear(s(9), Row::Digest(digest(1, 9)));
    merger.hear(s(9), Row::Digest(digest(1, 8)));
    assert_eq!(merger.digests().next().unwrap().number, 10);
    let born = Digest {
        incarnation: 1,
        ..digest(1, 3)
    };
    merger.hear(s(9), Row::Digest(born.clone()));
    assert_eq!(merger.digests().next().unwrap(), &born);
}

#[test]
fn the_longest_digest_fits_an_event() {
    let mut merger = Merger::new(FULL);
    let mut long = digest(1, 0);
    let most = Link {
        way: ["x".repeat(WORD_MAX), "y".repeat(WORD_MAX)],
        figures: [Some(u64::MAX); LINK],
        ..long.links[0].clone()
    };
    long.figures = Some([Some(u64::MAX); BROKER]);
    let link = |peer| Link {
        peer: Some(BrokerId(peer)),
        ..most.clone()
    };
    long.links = (0..LINKS_MAX as u32).map(link).collect();
    merger.hear(s(0), Row::Digest(long));
    let event = merger.next(s(0)).unwrap();
    assert!(event.len() <= EVENT_LEN_MAX);
    assert_eq!(
        digests(&decode(s(0), &event).unwrap())[0].links.len(),
        LINKS_MAX
    );
}

#[test]
fn links_that_only_long_ways_tell_apart_stay_away() {
    let mut merger = Merger::new(FULL);
    let mut long = digest(1, 0);
    let link = |n| Link {
        peer: (n == 0).then_some(BrokerId(9)),
        way: [format!("{n:0WORD_MAX$}"), "y".repeat(WORD_MAX)],
        ..long.links[0].clone()
    };
    long.links = (0..LINKS_MAX).map(link).collect();
    merger.hear(s(0), Row::Digest(long));
    let event = merger.next(s(0)).unwrap();
    let merged = decode(s(0), &event).unwrap();
    let peers = digests(&merged)[0].links.iter().map(|link| link.peer);
    assert_eq!(peers.collect::<Vec<_>>(), [Some(BrokerId(9))]);
}

#[test]
fn the_figures_of_a_lone_broker_are_refreshed_by_the_least_budget() {
    let mut merger = Merger::new(Budget {
        bytes_per_s: 32,
        brokers: 1_000,
    });
    let (mut beats, mut last, mut longest, mut bytes) = (0, 0, 0, 0);
    for second in 0..600 {
        merger.hear(s(second), Row::Digest(digest(1, second)));
        let event = merger.next(s(second));
        bytes += event
            .as_ref()
            .map_or(0, |event| event.len() + EVENT_HEADERS);
        let said = said(s(second), event);
        beats += said.rows.len() - digests(&said).len();
        if !digests(&said).is_empty() {
            longest = longest.max(second - last);
            last = second;
        }
    }
    assert!(longest.max(600 - last) <= 30, "{longest}");
    assert_eq!(beats, 120, "every five seconds");
    assert!(bytes < 32 * 600 + 1_000, "{bytes}");
}

#[test]
fn links_alone_do_not_pass_for_the_whole() {
    let mut merger = Merger::new(FULL);
    merger.hear(s(5), Row::Digest(digest(1, 5)));
    let mut links = digest(1, 7);
    links.figures = None;
    links.links.truncate(1);
    links.links[0].figures[link::UP] = Some(0);
    merger.hear(s(7), Row::Digest(links));
    let known = merger.digests().next().unwrap();
    assert_eq!((known.number, known.links.len()), (6, 5));
    assert_eq!(
        (known.links[0].figures[link::UP], known.links[0].at),
        (Some(0), s(7))
    );
    merger.hear(s(7), Row::Digest(digest(1, 7)));
    assert_eq!(
        merger.digests().next().unwrap(),
        &digest(1, 7),
        "the whole of that moment"
    );
}

#[test]
fn figures_that_never_rest_do_not_keep_the_whole_from_being_told() {
    let mut merger = Merger::new(Budget {
        bytes_per_s: 210,
        brokers: 1_000,
    });
    let mut told = [0_u64; 30];
    let mut longest = 0;
    for second in 0..600 {
        for broker in 0..30 {
            let mut digest = digest(broker, second);
            digest.links[1].figures[link::RTT_US] = Some(1 << (second % 40));
            merger.hear(s(second), Row::Digest(digest));
        }
        let said = said(s(second), merger.next(s(second)));
        let whole = digests(&said)
            .into_iter()
            .filter(|one| one.figures.is_some());
        for one in whole {
            let last = &mut told[one.broker.0 as usize];
            longest = longest.max(second - *last);
            *last = second;
        }
    }
    let longest = told
        .iter()
        .map(|last| 600 - last)
        .max()
        .unwrap()
        .max(longest);
    assert!(longest <= 90, "{longest}");
}
