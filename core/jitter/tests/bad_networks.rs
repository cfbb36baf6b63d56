//! Networks, senders and clocks as they are not in papers.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use core::time::Duration;

use common::{Told, packet};
use sangam_jitter::{Config, HELD_MAX, Input, Kind, Packet, Receiver};
use sangam_model::Time;

const LIVE: [Kind; 4] = [Kind::Fixed, Kind::NetEq, Kind::WmJitter, Kind::Ours];

fn receiver(kind: Kind) -> Receiver {
    Receiver::new(kind, &Config::default())
}

/// Packets `seqs`, each `delay_ms` after it was sent.
fn sent(seqs: impl Iterator<Item = u64>, delay_ms: impl Fn(u64) -> u64) -> Vec<(Time, Packet)> {
    let arrival = |seq| (Time::from_millis(10 * seq + delay_ms(seq)), packet(seq));
    let mut arrivals: Vec<_> = seqs.map(arrival).collect();
    arrivals.sort_by_key(|(at, packet)| (*at, packet.seq));
    arrivals
}

/// Longest time from arrival to playout in milliseconds, of packets from `from` on but the last
/// ones, which a buffer of four keeps until it is sure that nothing follows.
fn longest_wait(told: &Told, arrivals: &[(Time, Packet)], from: u64) -> u64 {
    let arrived = |seq| arrivals.iter().find(|(_, packet)| packet.seq == seq);
    let wait = |(seq, at): &(u64, Time)| at.since(arrived(*seq).unwrap().0);
    let plays = &told.plays[..told.plays.len() - 4];
    let plays = plays.iter().filter(|(seq, _)| *seq >= from);
    plays.map(wait).max().unwrap().as_millis() as u64
}

#[test]
fn a_calm_network_costs_little_delay() {
    let arrivals = sent(0..3_000, |_| 50);
    for (kind, most_ms) in LIVE.into_iter().zip([60, 60, 60, 20]) {
        let (mut receiver, mut told) = (receiver(kind), Told::default());
        told.arrivals(&mut receiver, &arrivals, true);
        told.until(&mut receiver, Time::from_millis(40_000));
        assert_eq!(told.plays.len(), 3_000, "{kind}");
        let wait = longest_wait(&told, &arrivals, 2_000);
        assert!(wait <= most_ms, "{kind} waits {wait} ms");
    }
}

#[test]
fn the_end_of_an_utterance_does_not_wait_for_the_next() {
    // Ten seconds of silence after every second; sequences go on, timestamps jump.
    for kind in LIVE {
        let (mut receiver, mut told) = (receiver(kind), Told::default());
        for utterance in 0..5 {
            for number in 0..100 {
                let sent = Time::from_millis(11_000 * utterance + 10 * number);
                let packet = Packet {
                    seq: 100 * utterance + number,
                    sent,
                };
                let now = sent + Duration::from_millis(80);
                told.until(&mut receiver, now);
                receiver.handle(now, Input::Packet(packet));
            }
            let over = Time::from_millis(11_000 * utterance + 2_000);
            told.until(&mut receiver, over);
            let played = told.plays.len() as u64;
            assert_eq!(
                played,
                100 * (utterance + 1),
                "{kind} in utterance {utterance}"
            );
        }
        let concealed = receiver.stats().concealed;
        assert!(
            concealed < Duration::from_secs(1),
            "{kind} took silence for loss: {concealed:?}"
        );
    }
}

#[test]
fn to_the_letter_the_watermark_stalls_in_silence() {
    let (mut receiver, mut told) = (receiver(Kind::WmJitterLiteral), Told::default());
    told.arrivals(&mut receiver, &sent(0..100, |_| 80), true);
    told.until(&mut receiver, Time::from_millis(60_000));
    assert_eq!(told.releases.len(), 99);
    assert_eq!(receiver.deadline(), None);
}

#[test]
fn clocks_may_drift_for_hours() {
    // 200 ppm either way for an hour: 720 ms apart in the end.
    for (kind, drift) in LIVE
        .into_iter()
        .flat_map(|kind| [(kind, -200_i64), (kind, 200)])
    {
        let mut receiver = receiver(kind);
        let mut told = Told::default();
        for seq in 0..360_000_u64 {
            let us = 10_000 * seq as i64;
            let now = Time::from_micros((5_000_000 + us + us * drift / 1_000_000) as u64);
            receiver.handle(now, Input::Packet(packet(seq)));
            told.read(&mut receiver);
            told.plays.clear();
            told.releases.clear();
        }
        let stats = receiver.stats();
        assert_eq!(stats.late, 0, "{kind} at {drift} ppm");
        let wait = stats.mean_waited();
        assert!(
            wait < Duration::from_millis(60),
            "{kind} at {drift} ppm waits {wait:?}"
        );
        let concealed = stats.concealed;
        assert!(
            concealed < Duration::from_secs(3),
            "{kind} at {drift} ppm: {concealed:?}"
        );
    }
}

#[test]
fn a_burst_of_loss_is_passed_over() {
    let arrivals = sent((0..500).chain(600..2_000), |_| 50);
    for kind in LIVE {
        let (mut receiver, mut told) = (receiver(kind), Told::default());
        told.arrivals(&mut receiver, &arrivals, true);
        told.until(&mut receiver, Time::from_millis(30_000));
        assert_eq!(told.plays.len(), 1_900, "{kind}");
        let wait = longest_wait(&told, &arrivals, 1_500);
        assert!(wait <= 100, "{kind} still waits {wait} ms long after");
        let concealed = receiver.stats().concealed;
        let expected = Duration::from_millis(900)..Duration::from_millis(1_500);
        assert!(
            expected.contains(&concealed),
            "{kind} concealed {concealed:?}"
        );
    }
}

#[test]
fn a_gap_longer_than_the_memory_begins_anew() {
    let far = 500 + 3 * HELD_MAX as u64;
    let arrivals = sent((0..500).chain(far..far + 500), |_| 50);
    for kind in Kind::ALL {
        let (mut receiver, mut told) = (receiver(kind), Told::default());
        told.arrivals(&mut receiver, &arrivals, true);
        told.until(&mut receiver, Time::from_millis(90_000));
        assert!(
            told.releases.len() >= 990,
            "{kind}: {}",
            told.releases.len()
        );
        assert_eq!(told.discarded, [], "{kind}");
    }
}

#[test]
fn a_path_that_becomes_slower_for_good_is_followed() {
    // NetEQ forgets the two seconds in which its base was too low for half a minute.
    let arrivals = sent(0..5_000, |seq| if seq < 1_000 { 50 } else { 250 });
    for kind in LIVE {
        let (mut receiver, mut told) = (receiver(kind), Told::default());
        told.arrivals(&mut receiver, &arrivals, true);
        told.until(&mut receiver, Time::from_millis(60_000));
        assert_eq!(told.plays.len(), 5_000, "{kind}");
        let wait = longest_wait(&told, &arrivals, 4_000);
        assert!(wait <= 100, "{kind} still waits {wait} ms");
    }
}

#[test]
fn neteq_that_ran_dry_plays_nothing_before_what_still_sounds() {
    // The first packets are stretched, so that they sound beyond the tick at which the third comes.
    let ms = [(112, 0), (112, 1), (119, 0), (119, 1), (132, 2), (139, 2)];
    let arrivals = ms.map(|(at, seq)| (Time::from_millis(1_000 + at), packet(100 + seq)));
    let (mut receiver, mut told) = (receiver(Kind::NetEq), Told::default());
    told.arrivals(&mut receiver, &arrivals, true);
    told.until(&mut receiver, Time::from_millis(60_000));
    let plays: Vec<_> = told.plays.iter().map(|(_, at)| *at).collect();
    assert_eq!(plays.len(), 3);
    assert!(plays.is_sorted(), "{plays:?}");
}

#[test]
fn a_path_that_becomes_faster_is_used() {
    let arrivals = sent(0..4_000, |seq| if seq < 1_000 { 400 } else { 50 });
    for kind in LIVE {
        let (mut receiver, mut told) = (receiver(kind), Told::default());
        told.arrivals(&mut receiver, &arrivals, true);
        told.until(&mut receiver, Time::from_millis(60_000));
        let wait = longest_wait(&told, &arrivals, 3_000);
        assert!(wait <= 100, "{kind} still waits {wait} ms");
    }
}

#[test]
fn video_frames_of_many_packets_play_at_once() {
    // 25 frames a second of 12 packets each.
    for kind in LIVE {
        let (mut receiver, mut told) = (receiver(kind), Told::default());
        for seq in 0..12 * 250 {
            let sent = Time::from_millis(40 * (seq / 12));
            let now = sent + Duration::from_micros(30_000 + 500 * (seq % 12));
            told.until(&mut receiver, now);
            receiver.handle(now, Input::Packet(Packet { seq, sent }));
        }
        told.until(&mut receiver, Time::from_millis(20_000));
        assert_eq!(told.plays.len(), 3_000, "{kind}");
        let concealed = receiver.stats().concealed;
        assert!(
            concealed < Duration::from_millis(500),
            "{kind} concealed {concealed:?}"
        );
    }
}
