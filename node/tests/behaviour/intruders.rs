//! Neighbours that lie, and brokers that take each other's name: the rest of the network goes on.

use sangam_model::{BrokerId, Incarnation};
use sangam_node::{Broker, BrokerConfig};
use sangam_wire::{Hello, LinkState, LinkView, Message, Role, Version};

use crate::support::raw::*;
use crate::support::*;

/// What a broker may say of itself, or another of it.
fn record((id, life): (u32, u8), sequence: u32, links: &[u32]) -> Message {
    let link = |to: &u32| LinkView {
        to: BrokerId(*to),
        weight: 1,
    };
    Message::LinkState(LinkState {
        version: Version {
            origin: BrokerId(id),
            incarnation: Incarnation(life),
            sequence,
        },
        draining: false,
        keeps: false,
        load: 0,
        region: String::new(),
        address: String::new(),
        links: links.iter().map(link).collect(),
    })
}

/// A neighbour without manners.
fn intruder(broker: &Broker) -> Raw {
    let role = Role::Broker(BrokerId(66), Incarnation(0));
    let hello = Hello {
        role,
        ..hello(9, None)
    };
    Raw::udp_with(udp_of(broker), hello)
}

fn sequence_of(broker: &Broker, id: u32) -> usize {
    let map = broker.map().expect("it runs");
    let found = map.brokers.iter().find(|one| one.id == BrokerId(id));
    found.map_or(0, |one| one.links.len())
}

#[test]
fn forged_and_replayed_records_are_outbid_and_counted_and_streams_go_on() {
    let brokers = chain(3);
    let mut witness = Witness::between(&brokers[0], &brokers[2]);
    let mut intruder = intruder(&brokers[0]);
    intruder.tell(&[record((66, 0), 1, &[1])]);
    // The broker in the middle had no links; the last is in the intruder's hands; both say so
    // with numbers far ahead of their own.
    for round in 0..3 {
        let ahead = 1_000 * (round + 1);
        intruder.tell(&[
            record((2, 1), ahead, &[]),
            record((3, 1), ahead, &[66]),
            record((1, 1), ahead, &[66]),
        ]);
        eventually("every broker outbids what was said of it", || {
            let links = |id| brokers.iter().map(move |broker| sequence_of(broker, id));
            links(2).all(|links| links == 2) && links(3).all(|links| links == 1)
        });
        witness.is_unharmed();
    }
    // What it heard long ago comes again.
    for _ in 0..10 {
        intruder.tell(&[record((2, 1), 1, &[1, 3]), record((3, 1), 1, &[2])]);
        intruder.catch_up();
    }
    let refused = |broker: &Broker| broker.map().expect("it runs").refused;
    eventually("replays are counted", || refused(&brokers[0]).stale >= 20);
    assert!(
        refused(&brokers[0]).invalid >= 1,
        "and forgeries, by whom they are about"
    );
    assert!(refused(&brokers[1]).invalid >= 1);
    witness.is_unharmed();
    assert_eq!(refused(&brokers[1]).identity, 0);
}

#[test]
fn of_two_brokers_with_one_id_the_earlier_life_steps_aside_and_the_rest_goes_on() {
    // 1 - 2 - 3, and then a second 1 calls 3: somebody has copied its folder.
    let brokers = chain(3);
    let mut others = Witness::between(&brokers[1], &brokers[2]);
    let twin = start(BrokerConfig {
        incarnation: Incarnation(2),
        ..linked(1, &[&brokers[2]])
    });
    links_up(&twin, 1);
    links_up(&brokers[0], 0);
    links_up(&brokers[1], 1);
    others.is_unharmed();
    Witness::between(&twin, &brokers[1]).is_unharmed();
    // It serves those who are there, and nobody else any more.
    Witness::of(&brokers[0]).is_unharmed();
    assert!(brokers[0].map().expect("it runs").refused.identity >= 1);
    links_up(&brokers[0], 0);
}
