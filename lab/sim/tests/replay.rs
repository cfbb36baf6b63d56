//! Sessions over traces: they repeat exactly, count every packet, and outlive what networks do.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use sangam_sim::replay::{Outcome, Plan, Replay, Roster};
use sangam_sim::study::Unit;
use sangam_sim::trace::{Columns, Family, Gaps, Importing, import};

const PACKETS: u64 = 4_000;

fn run(family: Family, session: usize) -> (Roster, Outcome) {
    let roster = Roster::study();
    let unit = Unit {
        family,
        session,
        seed: 1,
    };
    let outcome = unit.run(&roster, Plan::study(PACKETS, 1, || 0)).unwrap();
    (roster, outcome)
}

#[test]
fn a_session_repeats_to_the_last_packet_and_survives_its_file() {
    let (_, first) = run(Family::T2(4), 3);
    let (_, second) = run(Family::T2(4), 3);
    assert_eq!(first, second);
    let bytes = first.to_bytes();
    assert_eq!(Outcome::from_bytes(&bytes).as_ref(), Some(&first));
    assert_eq!(Outcome::from_bytes(&bytes[..bytes.len() - 1]), None);
}

#[test]
fn every_packet_is_handed_on_or_late_and_none_before_it_came() {
    let (roster, outcome) = run(Family::T3, 5);
    for (entry, stream) in roster.entries.iter().zip(&outcome.streams) {
        assert_eq!(stream.expected(), PACKETS * 4 / 5, "{}", entry.name);
        assert_eq!(stream.costs.packets, PACKETS);
        let transit_us: u64 = stream.sent.iter().map(|sent| sent.transit_us).sum();
        let transit_ms = transit_us as f64 / stream.expected() as f64 / 1e3;
        for (listener, tally) in entry.receivers.iter().zip(&stream.tallies) {
            let name = format!("{} {}", entry.name, listener.name);
            assert!(tally.release.count() <= stream.expected(), "{name}");
            assert!(tally.release.count() > stream.expected() / 2, "{name}");
            let all = tally.release.count() == stream.expected();
            assert!(
                !all || tally.release.mean_ms() >= transit_ms - 0.1,
                "{name}"
            );
            assert!(
                tally.playout.mean_ms() >= tally.release.mean_ms() - 20.0,
                "{name}"
            );
        }
    }
}

#[test]
fn no_single_path_is_faster_than_the_oracle() {
    for family in [Family::T2(4), Family::T3, Family::T4(9), Family::T5(true)] {
        let (roster, outcome) = run(family, 0);
        let transit = |name: &str| {
            let place = roster.entries.iter().position(|e| e.name == name).unwrap();
            outcome.streams[place]
                .sent
                .iter()
                .map(|sent| sent.transit_us)
                .sum::<u64>()
        };
        assert!(transit("oracle") <= transit("direct"), "{family:?}");
        assert!(transit("oracle") <= transit("best-static"), "{family:?}");
        assert!(transit("oracle") <= transit("vcroute"), "{family:?}");
    }
}

/// A direct path and one relay; the body tells delays of direct, up and down.
fn replay_text(body: &str, packets: u64) -> (Roster, Outcome) {
    let head = "sangam-delays 1\nname x\nnode a\nnode b\nnode r\nlink 0 1\nlink 0 2\nlink 2 1\n\
                session 0 1\n\n";
    let head = head.replace("session 0 1\n", "session 0 1 2\n");
    let text = format!("{head}{body}");
    let how = Importing {
        gaps: Gaps::Lost,
        ..Importing::default()
    };
    let imported = import(text.as_bytes(), how).unwrap();
    let overlay = &imported.overlay;
    let roster = Roster::study();
    let plan = Plan::study(packets, 1, || 0);
    let links = overlay.session_links(0).unwrap();
    let mut replay = Replay::new(overlay, 0, &roster, plan).unwrap();
    let mut own = Columns::new(links.len());
    for whole in imported.chunks() {
        own.select(&whole, &links);
        replay.chunk(&own);
    }
    (roster, replay.finish())
}

#[test]
fn a_path_that_vanishes_costs_its_packets_and_nothing_else() {
    let mut body = String::new();
    for at in (0..40_000).step_by(1_000) {
        let direct = if (20_000..30_000).contains(&at) {
            "lost"
        } else {
            "20"
        };
        body += &format!("{at},0,{direct}\n{at},1,30\n{at},2,30\n");
    }
    let (roster, outcome) = replay_text(&body, 3_900);
    let of = |name: &str| {
        let place = roster.entries.iter().position(|e| e.name == name).unwrap();
        &outcome.streams[place]
    };
    // 10 s and the second before the first that is lost again.
    assert!(of("direct").expected() < 3_900 * 4 / 5 - 900);
    assert_eq!(of("oracle").expected(), 3_120);
    for stream in &outcome.streams {
        for tally in &stream.tallies {
            assert!(tally.release.count() + 400 >= stream.expected());
        }
    }
}

#[test]
fn a_network_that_loses_everything_ends_all_the_same() {
    let (_, outcome) = replay_text(
        "0,0,lost\n0,1,lost\n0,2,lost\n9000,0,lost\n9000,1,lost\n9000,2,lost\n",
        900,
    );
    for stream in &outcome.streams {
        assert_eq!(stream.expected(), 0);
        assert!(
            stream
                .tallies
                .iter()
                .all(|tally| tally.release.count() == 0)
        );
    }
}
