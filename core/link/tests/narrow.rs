//! A path whose MTU shrinks while the link is up, and nobody says so.

mod pair;

use std::time::Duration;

use pair::{Pair, Path, Seen, config};
use sangam_link::DialerConfig;
use sangam_model::{BrokerId, Incarnation};
use sangam_wire::{Capabilities, Role};

/// Between two brokers, with media of two megabits each second.
fn link(capabilities: Capabilities, path: Path) -> Pair {
    let config = DialerConfig {
        role: Role::Broker(BrokerId(1), Incarnation(1)),
        capabilities,
        ..config(7)
    };
    Pair::joined(config, path)
}

fn stream(pair: &mut Pair, time: Duration) {
    let end = pair.now + time;
    while pair.now < end {
        pair.dialer.sent(pair.now, 2, 2_800);
        pair.run(Duration::from_millis(11));
    }
}

fn sizes(pair: &Pair) -> Vec<u16> {
    let sizes = pair.seen.iter().filter_map(|(_, seen)| match seen {
        Seen::Carries(size) => Some(*size),
        _ => None,
    });
    sizes.collect()
}

#[test]
fn a_path_that_shrinks_in_silence_is_noticed_within_a_second_and_stays_up() {
    let mut pair = link(Capabilities::OURS, Path::delay(15));
    stream(&mut pair, Duration::from_secs(3));
    assert_eq!(sizes(&pair), []);
    pair.path.narrow = 1_280 - 48;
    stream(&mut pair, Duration::from_secs(1));
    assert_eq!(sizes(&pair), [1_232]);
    stream(&mut pair, Duration::from_secs(5));
    assert_eq!(sizes(&pair), [1_232]);
    let ended = |(_, seen): &(_, Seen)| matches!(seen, Seen::Suspect | Seen::Down(_));
    assert!(!pair.seen.iter().any(ended), "{:?}", pair.seen);

    pair.path.narrow = 0;
    stream(&mut pair, Duration::from_secs(12));
    assert_eq!(sizes(&pair), [1_232, 1_472]);
}

#[test]
fn loss_and_overtaking_do_not_make_a_path_narrow_for_long() {
    let path = Path {
        lost: 20,
        jitter: Duration::from_millis(5),
        ..Path::delay(30)
    };
    let mut pair = link(Capabilities::OURS, path);
    stream(&mut pair, Duration::from_secs(120));
    assert_eq!(sizes(&pair), []);
}

#[test]
fn a_neighbour_that_does_not_answer_probes_gets_none() {
    let mut pair = link(Capabilities::FRAGMENTS, Path::delay(15));
    pair.path.narrow = 1_280 - 48;
    stream(&mut pair, Duration::from_secs(5));
    assert_eq!(sizes(&pair), []);
    assert!(!pair.seen.iter().any(|(_, seen)| *seen == Seen::Suspect));
}
