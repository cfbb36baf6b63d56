//! Brokers that join a network make their links by themselves, and streams survive who leaves.

use sangam_node::{Broker, BrokerConfig};

use crate::support::*;

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
