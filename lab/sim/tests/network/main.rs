//! Networks of up to 30 brokers: every stream reaches exactly those who want it, whatever the
//! graph, and heals after every failure.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::time::Duration;

use sangam_broker::ORPHAN_GRACE;
use sangam_model::limits::HOP_LIMIT;
use sangam_model::{Filter, Random, Topic};
use sangam_sim::brokers::{Network, Path, Published, Shape, Topology, check, sessions::listeners};

mod failures;
mod trees;

const TOPICS: [&str; 4] = [
    "a/room/audio",
    "a/room/video",
    "a/hall/audio",
    "b/room/audio",
];
const FILTERS: [&str; 6] = [
    "a/room/audio",
    "a/room/#",
    "a/+/audio",
    "b/#",
    "#",
    "c/nobody",
];

const SETTLE: Duration = Duration::from_secs(3);

type Edges = Vec<(usize, usize)>;

fn topic(text: &str) -> Topic {
    Topic::new(text).unwrap()
}

fn filter(text: &str) -> Filter {
    Filter::new(text).unwrap()
}

/// A graph of 2 to 30 brokers and its links.
fn graph(shape: Shape, random: &mut Random) -> (Network, Edges) {
    let brokers = 2 + random.below(29);
    let topology = Topology::new(shape, brokers, random);
    let edges = topology.links.keys().copied().collect();
    (topology.build(random.below(1 << 30) as u64), edges)
}

fn populate(network: &mut Network, random: &mut Random) -> Vec<Published> {
    let brokers = network.brokers.len();
    for broker in 0..brokers {
        for text in FILTERS {
            if random.chance(0.15) {
                network.subscribe(broker, &filter(text));
            }
        }
    }
    TOPICS
        .map(|topic| publish(network, random.below(brokers), topic))
        .into()
}

fn publish(network: &mut Network, broker: usize, text: &str) -> Published {
    let topic = topic(text);
    let stream = network.publish(broker, &topic).unwrap();
    Published {
        broker,
        stream,
        topic,
    }
}

/// Everything that must hold once all is quiet.
fn check_all(network: &mut Network, published: &[Published], sequence: u16, note: &str) {
    let checks = [
        check::maps_agree(network),
        (0..network.brokers.len())
            .filter(|source| network.brokers[*source].alive)
            .try_for_each(|source| check::parents_form_a_tree(network, source)),
        check::everyone_is_served(network, published, sequence),
        check::nothing_twice(network),
    ];
    for checked in checks {
        assert_eq!(checked, Ok(()), "{note}");
    }
}
