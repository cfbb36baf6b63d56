//! VCRoute paper, figure 6: ten packets out of order, by a buffer of four and by watermarks.
//!
//! The text fixes the first five arrivals and both rows up to 50 ms; the order of the other five
//! packets is ours.

mod common;

use core::time::Duration;

use common::{Told, packet};
use sangam_jitter::{Config, Kind, Packet, Receiver};
use sangam_model::Time;

/// One every 10 ms, from 0 on.
const ARRIVALS: [u64; 10] = [0, 2, 1, 3, 6, 4, 5, 8, 7, 9];

fn arrivals() -> Vec<(Time, Packet)> {
    let at = |(place, seq): (u64, &u64)| (Time::from_millis(10 * place), packet(*seq));
    (0..).zip(&ARRIVALS).map(at).collect()
}

/// Sequences and milliseconds.
fn releases(mut receiver: Receiver) -> Vec<(u64, u64)> {
    let mut told = Told::default();
    told.arrivals(&mut receiver, &arrivals(), true);
    let ms = |(seq, at): &(u64, Time)| (*seq, at.as_micros() / 1_000);
    told.releases.iter().map(ms).collect()
}

#[test]
fn the_buffer_of_four_lets_one_go_for_each_that_comes() {
    let receiver = Receiver::new(Kind::Fixed, &Config::default());
    // "Packet 0 is out at timestamp 30ms when the fourth packet (ID=3) arrives"; packet 2 "emits
    // at timestamp 50ms".
    assert_eq!(
        releases(receiver),
        [
            (0, 30),
            (1, 40),
            (2, 50),
            (3, 60),
            (4, 70),
            (5, 80),
            (6, 90)
        ]
    );
}

#[test]
fn the_watermark_lets_all_go_that_are_not_after_it() {
    let receiver = Receiver::figure_6(Duration::from_millis(30));
    // "When packet 6 arrives at timestamp 40ms, the watermark is updated to 30ms [...] we are safe
    // to output [...] packet 2, 1 and 3": with <=, other than in algorithm 1.
    assert_eq!(
        releases(receiver),
        [
            (0, 30),
            (1, 40),
            (2, 40),
            (3, 40),
            (4, 70),
            (5, 70),
            (6, 90)
        ]
    );
}

#[test]
fn watermarks_keep_packets_for_a_shorter_time() {
    let waited = |releases: Vec<(u64, u64)>| -> u64 {
        let arrived = |seq| 10 * ARRIVALS.iter().position(|id| *id == seq).unwrap() as u64;
        releases.iter().map(|(seq, ms)| ms - arrived(*seq)).sum()
    };
    let buffer = waited(releases(Receiver::new(Kind::Fixed, &Config::default())));
    let watermark = waited(releases(Receiver::figure_6(Duration::from_millis(30))));
    let ours = waited(releases(Receiver::new(Kind::Ours, &Config::default())));
    assert_eq!((buffer, watermark), (210, 170));
    assert!(ours < watermark, "ours: {ours}");
}
