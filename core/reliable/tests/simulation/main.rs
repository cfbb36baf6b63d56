//! Networks of keepers and members on virtual time, with links that are cut, brokers that die and
//! come back empty, and clients that move. Every run follows from its seed.
//!
//! `RELIABLE_SEEDS=FIRST..END cargo test -p sangam-reliable --test simulation` runs others.

#![allow(clippy::unwrap_used)] // The helpers of tests are tests, too.

mod check;
mod client;
mod disk;
mod pause;
mod ways;
mod world;

use core::time::Duration;
use std::ops::Range;

use sangam_reliable::Limits;

use world::{Faults, World};

/// The first so many, and those that once found something.
#[allow(
    clippy::disallowed_methods,
    reason = "which runs to replay is told from outside"
)]
fn seeds(count: u64, known: &[u64]) -> Vec<u64> {
    let text = std::env::var("RELIABLE_SEEDS").unwrap_or_default();
    let range = text.split_once("..").map(|(first, end)| -> Range<u64> {
        let number = |text: &str| text.parse().expect("RELIABLE_SEEDS=FIRST..END");
        number(first)..number(end)
    });
    range.map_or_else(
        || (1..=count).chain(known.iter().copied()).collect(),
        Iterator::collect,
    )
}

/// Once all know what has changed, everything goes on within so long.
const PAUSE_MAX: Duration = Duration::from_millis(1_000);

#[test]
fn with_one_failure_at_a_time_nothing_is_lost_or_doubled_and_all_is_in_order() {
    let limits = Limits {
        keep_events: 100,
        ..Limits::default()
    };
    for seed in seeds(40, &[]) {
        let mut world = World::new(seed, limits, Faults::OneAtATime);
        world.run();
        world.check_complete();
        world.check_pauses(PAUSE_MAX);
    }
}

#[test]
fn whatever_fails_nothing_is_doubled_and_what_is_missing_is_told() {
    let limits = Limits {
        keep_events: 50,
        topic_bytes: 48 << 10,
        gap_after: Duration::from_secs(3),
        ..Limits::default()
    };
    for seed in seeds(40, &[]) {
        let mut world = World::new(seed, limits, Faults::Any);
        world.run();
        world.check_honest();
    }
}

#[test]
fn what_durable_brokers_have_acknowledged_survives_the_death_of_all() {
    let limits = Limits {
        keep_events: 100,
        gap_after: Duration::from_secs(3),
        ..Limits::default()
    };
    for seed in seeds(10, &[106]) {
        let mut world = World::new(seed, limits, Faults::Blackout);
        world.run();
        world.check_complete();
        world.check_pauses(PAUSE_MAX);
    }
}

#[test]
fn a_topic_that_is_full_holds_its_publishers_back_and_loses_nothing() {
    let limits = Limits {
        keep_events: 50,
        topic_bytes: 24 << 10,
        ..Limits::default()
    };
    for seed in seeds(10, &[233]) {
        let mut world = World::new(seed, limits, Faults::None);
        world.slow_readers();
        world.run();
        world.check_complete();
    }
}

/// Whoever listens at the end of a chain lags behind the last failure while the next one comes, and
/// the home that fed it comes back empty; meanwhile more is published than is kept for latecomers.
#[test]
fn a_listener_whose_home_dies_again_and_again_finds_all_of_a_busy_topic() {
    let limits = Limits {
        keep_events: 50,
        topic_bytes: 64 << 10,
        ..Limits::default()
    };
    for seed in seeds(40, &[]) {
        let mut world = World::new(seed, limits, Faults::Chain);
        world.run();
        world.check_complete();
    }
}
