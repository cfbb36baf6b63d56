//! Networks of up to 30 brokers: every stream reaches exactly those who want it, whatever the
//! graph, and heals after every failure.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod graph;
mod model;

use std::collections::BTreeSet;
use std::time::Duration;

use graph::{Edges, Random, build, cyclic, tree};
use model::Network;
use sangam_broker::ORPHAN_GRACE;
use sangam_model::limits::HOP_LIMIT;
use sangam_model::{BrokerId, StreamId, Topic};

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

struct Published {
    broker: usize,
    stream: StreamId,
    topic: Topic,
}

fn populate(network: &mut Network, random: &mut Random) -> Vec<Published> {
    let brokers = network.brokers.len();
    for broker in 0..brokers {
        for filter in FILTERS {
            if random.chance(15) {
                network.subscribe(broker, filter);
            }
        }
    }
    TOPICS
        .map(|topic| publish(network, random.below(brokers), topic))
        .into()
}

fn publish(network: &mut Network, broker: usize, topic: &str) -> Published {
    let stream = network.publish(broker, topic);
    Published {
        broker,
        stream,
        topic: Topic::new(topic).unwrap(),
    }
}

/// Brokers that want the stream, other than its own, and are near enough.
fn listeners(network: &Network, published: &Published) -> BTreeSet<usize> {
    let distances = network.distances(published.broker);
    (0..network.brokers.len())
        .filter(|broker| distances[*broker].is_some_and(|hops| (1..=HOP_LIMIT).contains(&hops)))
        .filter(|broker| network.brokers[*broker].wants(&published.topic))
        .collect()
}

/// Sends an event of each stream and checks that each listener gets it exactly once, others not
/// at all, and that no link is crossed more than twice (once in each direction).
fn check_delivery(network: &mut Network, published: &[Published], sequence: u16, note: &str) {
    for each in published {
        network.forget_traffic();
        network.emit(each.broker, each.stream, sequence);
        network.run(Duration::from_secs(2));
        let mut want = listeners(network, each);
        if network.brokers[each.broker].wants(&each.topic) {
            want.insert(each.broker);
        }
        for (broker, it) in network.brokers.iter().enumerate() {
            let got = it
                .delivered
                .get(&(each.stream, sequence))
                .copied()
                .unwrap_or(0);
            let want = u32::from(want.contains(&broker));
            assert_eq!(got, want, "{note}: {} at broker {broker}", each.topic);
        }
        let most = network.crossings.values().max().copied().unwrap_or(0);
        assert!(
            most <= 1,
            "{note}: {} crossed a link {most} times",
            each.topic
        );
    }
}

/// Links of a tree on the way from the stream's broker to its listeners.
fn branches(network: &Network, published: &Published) -> BTreeSet<(usize, usize)> {
    let distances = network.distances(published.broker);
    let mut branches = BTreeSet::new();
    for mut at in listeners(network, published) {
        while at != published.broker {
            let (_, nearer) = network
                .neighbours(at)
                .find(|(_, far)| distances[*far] < distances[at])
                .unwrap();
            branches.insert((nearer, at));
            at = nearer;
        }
    }
    branches
}

#[test]
fn in_a_tree_streams_cross_each_link_once_and_only_where_somebody_listens() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let (brokers, edges) = tree(&mut random);
        let mut network = build(brokers, &edges, &mut random);
        network.use_windows = false;
        let published = populate(&mut network, &mut random);
        network.run(SETTLE);
        for each in &published {
            network.forget_traffic();
            network.emit(each.broker, each.stream, 1);
            network.run(SETTLE);
            let crossed: BTreeSet<_> = network.crossings.keys().copied().collect();
            assert_eq!(crossed, branches(&network, each), "seed {seed}");
            assert!(network.crossings.values().all(|n| *n == 1), "seed {seed}");
        }
        check_delivery(&mut network, &published, 2, &format!("seed {seed}"));
    }
}

#[test]
fn after_the_last_unsubscribe_nothing_remote_is_left() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let (brokers, edges) = if seed % 2 == 0 {
            tree(&mut random)
        } else {
            cyclic(&mut random)
        };
        let mut network = build(brokers, &edges, &mut random);
        populate(&mut network, &mut random);
        network.run(SETTLE);
        for broker in 0..brokers {
            FILTERS
                .iter()
                .for_each(|filter| network.unsubscribe(broker, filter));
        }
        network.run(SETTLE);
        let mut local = 0;
        for it in &network.brokers {
            let (own, joins, _) = it.routing.sizes();
            assert_eq!((own, joins), (0, 0), "seed {seed}");
            assert!(
                it.snapshot
                    .routes()
                    .iter()
                    .all(|route| route.hops.is_empty())
            );
            local += it.streams.len();
        }
        assert_eq!(
            local,
            TOPICS.len(),
            "seed {seed}: only publishers' brokers know the streams"
        );
    }
}

#[test]
fn in_any_graph_each_listener_gets_each_event_once() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let (brokers, edges) = cyclic(&mut random);
        let mut network = build(brokers, &edges, &mut random);
        let published = populate(&mut network, &mut random);
        network.run(SETTLE);
        check_maps(&mut network, seed);
        check_delivery(&mut network, &published, 1, &format!("seed {seed}"));
    }
}

/// Brokers that can reach each other have the same map, and each knows a way to exactly those.
fn check_maps(network: &mut Network, seed: u64) {
    for broker in 0..network.brokers.len() {
        let near = network.distances(broker);
        let epoch = network.brokers[broker].routing.epoch();
        for (other, hops) in near.iter().enumerate() {
            let id = BrokerId(other as u32 + 1);
            let has_way = network.brokers[broker].routing.has_way(id);
            assert_eq!(has_way, hops.is_some(), "seed {seed}: {broker} to {other}");
            let theirs = network.brokers[other].routing.epoch();
            assert!(
                hops.is_none() || epoch == theirs,
                "seed {seed}: maps of {broker}, {other}"
            );
        }
    }
}

#[test]
fn a_graph_heals_when_links_die_and_return() {
    for seed in 0..15 {
        let mut random = Random::new(seed);
        let (brokers, edges) = cyclic(&mut random);
        let mut network = build(brokers, &edges, &mut random);
        let published = populate(&mut network, &mut random);
        network.run(SETTLE);
        let dead: Edges = edges
            .iter()
            .copied()
            .filter(|_| random.chance(25))
            .collect();
        dead.iter().for_each(|(a, b)| network.unlink(*a, *b));
        network.run(SETTLE);
        check_maps(&mut network, seed);
        check_delivery(
            &mut network,
            &published,
            1,
            &format!("seed {seed}, links dead"),
        );
        for (a, b) in dead {
            let delay = random.delay();
            network.link(a, b, delay);
        }
        network.run(SETTLE);
        check_maps(&mut network, seed);
        check_delivery(
            &mut network,
            &published,
            2,
            &format!("seed {seed}, links back"),
        );
    }
}

#[test]
fn a_tree_heals_at_once_when_a_link_returns() {
    for seed in 0..15 {
        let mut random = Random::new(seed);
        let (brokers, edges) = tree(&mut random);
        let mut network = build(brokers, &edges, &mut random);
        let published = populate(&mut network, &mut random);
        network.run(SETTLE);
        let (a, b) = *edges.iter().nth(random.below(edges.len())).unwrap();
        network.unlink(a, b);
        network.run(ORPHAN_GRACE / 2);
        network.link(a, b, Duration::from_millis(30));
        network.run(Duration::from_secs(1));
        check_delivery(&mut network, &published, 1, &format!("seed {seed}"));
        for it in &network.brokers {
            let ended = published
                .iter()
                .filter(|each| it.removed.contains(&each.stream));
            let missed = ended.filter(|each| it.wants(&each.topic)).count();
            assert_eq!(
                missed, 0,
                "seed {seed}: a short absence ends no stream for a listener"
            );
        }
    }
}

#[test]
fn a_tree_turns_around_at_once_when_a_link_behind_it_dies() {
    let mut network = Network::new(4);
    for (a, b) in [(0, 1), (1, 2), (2, 3), (0, 3)] {
        network.link(a, b, Duration::from_millis(10));
    }
    (0..4).for_each(|broker| network.subscribe(broker, TOPICS[0]));
    let published = [publish(&mut network, 1, TOPICS[0])];
    network.run(SETTLE);
    // Of its two ways to broker 1, broker 3 takes the one by broker 0, which now needs it.
    network.unlink(0, 1);
    network.run(Duration::from_millis(100));
    check_delivery(&mut network, &published, 1, "0 is served by 3");
}

#[test]
fn a_stream_ends_where_its_neighbour_does_not_return() {
    let mut network = build(3, &[(0, 1), (1, 2)].into(), &mut Random::new(0));
    network.subscribe(2, "a/#");
    let stream = publish(&mut network, 0, TOPICS[0]).stream;
    network.run(SETTLE);
    assert!(network.brokers[2].streams.get(stream).is_some());
    network.kill(0);
    network.run(ORPHAN_GRACE - Duration::from_millis(1));
    assert!(network.brokers[2].streams.get(stream).is_some());
    network.run(Duration::from_millis(200));
    assert_eq!(network.brokers[1].removed, [stream]);
    assert_eq!(network.brokers[2].removed, [stream]);
}

#[test]
fn a_restarted_broker_replaces_its_earlier_life() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let (brokers, edges) = cyclic(&mut random);
        let mut network = build(brokers, &edges, &mut random);
        let mut published = populate(&mut network, &mut random);
        network.run(SETTLE);
        let again = random.below(brokers);
        network.restart(again);
        network.subscribe(again, "b/#");
        for &(a, b) in edges.iter().filter(|(a, b)| *a == again || *b == again) {
            let delay = random.delay();
            network.link(a, b, delay);
        }
        published.retain(|each| each.broker != again);
        published.push(publish(&mut network, again, TOPICS[3]));
        network.run(SETTLE);
        check_maps(&mut network, seed);
        check_delivery(&mut network, &published, 1, &format!("seed {seed}"));
        check_streams(&network, &published, seed);
    }
}

/// Brokers know the streams that are published, and no other.
fn check_streams(network: &Network, published: &[Published], seed: u64) {
    for (broker, it) in network.brokers.iter().enumerate() {
        for (id, stream) in it.streams.iter() {
            let known = published.iter().any(|each| each.stream == id);
            assert!(
                known,
                "seed {seed}: {broker} believes in {id} from {:?}",
                stream.parent
            );
        }
    }
}

#[test]
fn after_any_history_every_table_is_right() {
    for seed in 0..8 {
        let mut random = Random::new(seed);
        let (brokers, edges) = cyclic(&mut random);
        let mut network = build(brokers, &edges, &mut random);
        let mut published = populate(&mut network, &mut random);
        let edges: Vec<_> = edges.into_iter().collect();
        let mut down = Edges::new();
        for _ in 0..100 {
            disturb(&mut network, &mut published, &mut random);
            let edge = edges[random.below(edges.len())];
            if random.chance(10) && down.insert(edge) {
                network.unlink(edge.0, edge.1);
            } else if random.chance(30) && down.remove(&edge) {
                let delay = random.delay();
                network.link(edge.0, edge.1, delay);
            }
            network.run(Duration::from_millis(random.below(400) as u64));
        }
        network.run(Duration::from_secs(80));
        check_maps(&mut network, seed);
        check_delivery(&mut network, &published, 1, &format!("seed {seed}"));
        check_streams(&network, &published, seed);
    }
}

fn disturb(network: &mut Network, published: &mut Vec<Published>, random: &mut Random) {
    let broker = random.below(network.brokers.len());
    let filter = FILTERS[random.below(FILTERS.len())];
    match random.below(5) {
        0 | 1 => network.subscribe(broker, filter),
        2 | 3 => network.unsubscribe(broker, filter),
        _ if random.chance(50) => {
            published.push(publish(network, broker, TOPICS[random.below(TOPICS.len())]));
        }
        _ if !published.is_empty() => {
            let gone = published.swap_remove(random.below(published.len()));
            network.unpublish(gone.broker, gone.stream);
        }
        _ => {}
    }
}

#[test]
fn without_windows_the_hop_limit_alone_bounds_a_loop() {
    // Every broker of a ring that sends everything on, whatever came before.
    let mut network = build(3, &[(0, 1), (1, 2), (0, 2)].into(), &mut Random::new(0));
    (0..3).for_each(|broker| network.subscribe(broker, "#"));
    let stream = network.publish(0, "a/b");
    network.run(SETTLE);
    network.send_everywhere(stream);
    network.use_windows = false;
    network.emit(0, stream, 1);
    network.run(SETTLE);
    let total: u32 = network.crossings.values().sum();
    assert_eq!(
        total,
        2 * u32::from(HOP_LIMIT),
        "two events chase each other to the limit"
    );
    network.use_windows = true;
    network.forget_traffic();
    network.emit(0, stream, 2);
    network.run(SETTLE);
    let total: u32 = network.crossings.values().sum();
    assert_eq!(
        total, 4,
        "both neighbours offer it to each other, and that ends it"
    );
}
