//! Brokers that join a network make their links by themselves, and streams survive who leaves.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use sangam_io::quic::broker_of;
use sangam_model::{BrokerId, Incarnation};
use sangam_node::{Broker, BrokerConfig, LinkWay, Neighbour, Transport};

use crate::support::certificates::Authority;
use crate::support::switch::Switch;
use crate::support::*;

/// Calls rest about as long as the cut lasted; a busy machine needs longer.
const HEALING: Duration = Duration::from_secs(60);

/// Brokers that all joined by the first one.
fn joined(count: u32) -> Vec<Broker> {
    let first = start(config(1));
    let seed = udp_of(&first);
    let join = |id| {
        start(BrokerConfig {
            join: vec![seed.into()],
            ..config(id)
        })
    };
    let others: Vec<Broker> = (2..=count).map(join).collect();
    std::iter::once(first).chain(others).collect()
}

#[test]
fn brokers_that_join_by_one_find_each_other_and_close_up_when_some_leave() {
    let mut brokers = joined(7);
    // In a circle of seven each is linked with those 1 and 2 places away; the seed lets others go.
    for broker in &brokers {
        links_up(broker, 4);
    }
    let mut publisher = udp(&brokers[0]);
    let mut listener = udp(&brokers[5]);
    subscribe(&mut listener, "hall/#");
    let mut flow = Flow::open(&mut publisher, "hall/stage", &mut [&mut listener]);
    flow.pump(20, &mut [&mut listener]);
    // Two of them leave; the rest is a circle again, and the stream finds its way.
    for at in [3, 1] {
        drop(brokers.remove(at));
        flow.reach(&mut [&mut listener]);
        flow.pump(20, &mut [&mut listener]);
    }
    for broker in &brokers {
        links_up(broker, 4);
    }
}

#[test]
fn in_a_ring_a_stream_takes_the_other_way_when_a_broker_leaves() {
    let first = start(config(1));
    let mut ways = vec![start(linked(2, &[&first])), start(linked(3, &[&first]))];
    let last = start(linked(4, &[&ways[0], &ways[1]]));
    for broker in [&first, &last] {
        links_up(broker, 2);
    }
    let mut publisher = udp(&first);
    let mut listener = udp(&last);
    subscribe(&mut listener, "hall/#");
    let mut flow = Flow::open(&mut publisher, "hall/stage", &mut [&mut listener]);
    flow.pump(20, &mut [&mut listener]);
    let relays = |broker: &Broker| counted(broker, "sangam_relayed_packets_total") > 0;
    let carrier = usize::from(relays(&ways[1]));
    assert!(relays(&ways[carrier]), "one of them carries the stream");
    drop(ways.remove(carrier));
    flow.reach(&mut [&mut listener]);
    flow.pump(20, &mut [&mut listener]);
    assert!(relays(&ways[0]));
}

/// Whom a broker has links with.
fn linked_with(broker: &Broker) -> BTreeSet<BrokerId> {
    let links = broker.links();
    let up = links.iter().filter(|link| link.up);
    up.filter_map(|link| Some(link.peer?.0)).collect()
}

/// Waits until each has links with all others of them, and nobody else.
#[track_caller]
fn all_linked(brokers: &[&Broker]) {
    let ids: BTreeSet<BrokerId> = brokers.iter().map(|broker| broker.id()).collect();
    let is_linked = |broker: &&Broker| {
        let mut with = linked_with(broker);
        with.insert(broker.id()) && with == ids
    };
    let links = || brokers.iter().map(|broker| linked_with(broker)).collect();
    patiently(links, || brokers.iter().all(is_linked));
}

/// Waits until each has, for a moment, stopped dialling those who do not answer.
#[track_caller]
fn given_up(brokers: &[&Broker]) {
    for broker in brokers {
        let links = || vec![linked_with(broker)];
        patiently(links, || broker.links().iter().all(|link| link.up));
    }
}

#[track_caller]
fn patiently(links: impl Fn() -> Vec<BTreeSet<BrokerId>>, holds: impl Fn() -> bool) {
    let until = Instant::now() + HEALING;
    while !holds() {
        assert!(
            Instant::now() < until,
            "not within {HEALING:?}: {:?}",
            links()
        );
        thread::park_timeout(Duration::from_millis(20));
    }
}

#[test]
fn a_network_that_was_cut_in_two_for_long_grows_together_again() {
    let switch = Switch::new(4);
    let seed = switch.address(0);
    let brokers: Vec<Broker> = (0..4)
        .map(|port| {
            let join = if port == 0 {
                Vec::new()
            } else {
                vec![seed.into()]
            };
            let broker = start(BrokerConfig {
                join,
                public_address: Some(switch.address(port)),
                ..config(port as u32 + 1)
            });
            switch.plug(port, udp_of(&broker));
            broker
        })
        .collect();
    let all: Vec<&Broker> = brokers.iter().collect();
    all_linked(&all);
    switch.cut_off(&[2, 3]);
    all_linked(&all[..2]);
    all_linked(&all[2..]);
    given_up(&all);
    switch.mend();
    all_linked(&all);
}

#[test]
fn the_broker_that_others_joined_by_dies_and_is_a_member_again_when_it_is_back() {
    let mut brokers = joined(4);
    all_linked(&brokers.iter().collect::<Vec<_>>());
    let seed = brokers.remove(0);
    let (udp, tcp) = (udp_of(&seed), tcp_of(&seed));
    drop(seed);
    all_linked(&brokers.iter().collect::<Vec<_>>());
    given_up(&brokers.iter().collect::<Vec<_>>());
    let seed = start(BrokerConfig {
        incarnation: Incarnation(2),
        udp: vec![udp],
        tcp: vec![tcp],
        ..config(1)
    });
    brokers.insert(0, seed);
    all_linked(&brokers.iter().collect::<Vec<_>>());
}

#[test]
fn brokers_that_take_no_links_in_the_clear_make_theirs_by_certificates() {
    let authority = Authority::new();
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let member = |quic: bool, join: Vec<Neighbour>| {
        let own = authority.sign();
        start(BrokerConfig {
            id: broker_of(&own.chain()[0]).expect("an Ed25519 key"),
            quic_links: if quic { vec![loopback] } else { Vec::new() },
            streams: vec![(Transport::Tls, loopback)],
            authorities: Some(authority.roots()),
            identity: Some(own),
            accept_links: Vec::new(),
            join,
            ..config(1)
        })
    };
    let first = member(true, Vec::new());
    let address = first.addresses().quic_links[0];
    let name = address.ip().to_string();
    let by_first = || {
        let ways = vec![LinkWay::Quic {
            address,
            name: name.clone(),
        }];
        vec![Neighbour { ways }]
    };
    // The last one is dialled by TLS: it takes no QUIC.
    let others = [member(true, by_first()), member(false, by_first())];
    let all = [&first, &others[0], &others[1]];
    all_linked(&all);
    for link in all.iter().flat_map(|broker| broker.links()) {
        assert!(["quic", "tls"].contains(&link.transport), "{link:?}");
    }
}
