//! Neighbours that lie, and brokers that take each other's name: the rest of the network goes on.

use std::io::{Read, Write};
use std::net::TcpStream;

use sangam_broker::DropReason;
use sangam_model::{BrokerId, Incarnation};
use sangam_node::{Broker, BrokerConfig};
use sangam_wire::{
    Capabilities, Frame, Hello, LinkState, LinkView, Message, Refusal, Role, Version,
    stream as units,
};

use crate::links::{answer_to_hello, is_refused};
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
        organises: false,
        load: 0,
        region: String::new(),
        address: String::new(),
        links: links.iter().map(link).collect(),
        ways: Vec::new(),
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

/// Whoever goes by this id says hello to the public UDP port, and asks for this.
fn calls(broker: &Broker, (id, nonce): (u32, u64), asks: Capabilities) -> Raw {
    let hello = Hello {
        role: Role::Broker(BrokerId(id), Incarnation(0)),
        capabilities: asks,
        ..hello(nonce, None)
    };
    Raw::udp_with(udp_of(broker), hello)
}

fn ping(raw: &mut Raw, session: u32) {
    raw.send(&bytes_of(&Frame::Ping {
        session,
        sent_us: 0,
        traffic: None,
    }));
}

#[test]
fn only_who_was_welcomed_by_another_way_moves_the_link_there() {
    let broker = start(config(1));
    let both = Capabilities::OURS.with(Capabilities::SECOND_WAY);
    let mut link = calls(&broker, (66, 9), Capabilities::OURS);
    links_up(&broker, 1);
    let at = || broker.links().first().map(|link| link.address);
    let before = at();
    let mut beside = calls(&broker, (66, 10), both);
    assert!(
        beside
            .welcome
            .capabilities
            .contains(Capabilities::SECOND_WAY)
    );
    // From that address, but of no session there: a forger's, or one of the link itself.
    let sessions = [link.welcome.session, beside.welcome.session + 1_000];
    let count = || counted(&broker, "sangam_frames_total");
    for session in sessions {
        let taken = count();
        ping(&mut beside, session);
        eventually("the frame is taken", || count() > taken);
        let of_link = link.welcome.session;
        ping(&mut link, of_link);
        assert_eq!(at(), before);
    }
    let own = beside.welcome.session;
    ping(&mut beside, own);
    eventually("the link moves", || at() != before && at().is_some());
}

#[test]
fn a_twin_is_refused_and_counted_at_every_door() {
    let broker = start(config(1));
    let hello = Hello {
        role: Role::Broker(broker.id(), Incarnation(9)),
        ..hello(5, None)
    };
    let count = || dropped(&broker, DropReason::LinkIdentity);
    is_refused(&answer_to_hello(&broker, &hello), Refusal::Identity);
    assert_eq!(count(), 1);
    let mut stream = TcpStream::connect(broker.addresses().tcp[0]).expect("a listener");
    let said = bytes_of(&Frame::Hello(hello));
    let unit = [&units::prefix(said.len())[..], &said].concat();
    stream.write_all(&unit).expect("sent");
    let mut answered = Vec::new();
    stream.read_to_end(&mut answered).expect("an end");
    let (answer, _) = units::next_unit(&answered).expect("units").expect("one");
    let frame = Frame::decode(answer).expect("a frame");
    is_refused(&frame, Refusal::Identity);
    assert_eq!(count(), 2);
}
