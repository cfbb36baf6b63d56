//! Links between neighbours: how they come up, end, come back, and carry what is too large.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sangam_broker::DropReason;
use sangam_client::{ClientOptions, Target};
use sangam_model::{BrokerId, Class, Incarnation, MediaInfo, StreamId, limits};
use sangam_node::{Broker, BrokerConfig, Network};
use sangam_wire::{Capabilities, Frame, Hello, Message, Refusal, Refuse, Role};

use crate::support::cable::Cable;
use crate::support::raw::*;
use crate::support::*;

/// A broker at an address of its own, so that nobody else takes its port while it is away.
fn at(id: u32, host: [u8; 4]) -> BrokerConfig {
    let address = SocketAddr::from((host, 0));
    BrokerConfig {
        udp: vec![address],
        tcp: vec![address],
        ..config(id)
    }
}

/// The next life of a broker, at the same addresses.
fn again(broker: Broker, before: BrokerConfig) -> Broker {
    let addresses = broker.addresses().clone();
    drop(broker);
    let incarnation = Incarnation(before.incarnation.0 + 1);
    start(BrokerConfig {
        udp: addresses.udp,
        tcp: addresses.tcp,
        incarnation,
        ..before
    })
}

#[test]
fn a_subscribers_broker_dies_and_returns_and_streams_flow_again() {
    let first = start(config(1));
    let mut witness = Witness::of(&first);
    let mut publisher = udp(&first);
    let second_config = BrokerConfig {
        links: vec![udp_of(&first)],
        ..at(2, [127, 9, 1, 2])
    };
    let second = start(second_config.clone());
    let (mut by_udp, mut by_tcp) = (udp(&second), tcp(&second));
    subscribe(&mut by_udp, "hall/#");
    subscribe(&mut by_tcp, "hall/#");
    let mut subscribers = [&mut by_udp, &mut by_tcp];
    let mut flow = Flow::open(&mut publisher, "hall/stage", &mut subscribers);
    flow.pump(20, &mut subscribers);

    let second = again(second, second_config);
    witness.is_unharmed();
    flow.reach(&mut subscribers);
    flow.pump(20, &mut subscribers);
    links_up(&first, 1);
    links_up(&second, 1);
    assert_eq!(first.links().len(), 1);
}

#[test]
fn a_broker_without_its_neighbour_sends_it_nothing() {
    let first = start(config(1));
    let second = start(linked(2, &[&first]));
    let mut witness = Witness::between(&first, &second);
    witness.is_unharmed();
    let mut local = Witness::of(&first);
    drop(second);
    routed(&first, witness.topic(), 0);
    links_up(&first, 0);
    local.is_unharmed();
    assert_eq!(dropped(&first, DropReason::SendError), 0);
}

#[test]
fn a_publishers_broker_dies_and_returns_and_streams_flow_again() {
    let first_config = at(1, [127, 9, 2, 1]);
    let first = start(first_config.clone());
    let second = start(linked(2, &[&first]));
    let (mut publisher, mut subscriber) = (udp(&first), udp(&second));
    let mut local = Witness::of(&second);
    subscribe(&mut subscriber, "hall/#");
    let mut flow = Flow::open(&mut publisher, "hall/stage", &mut [&mut subscriber]);
    flow.pump(20, &mut [&mut subscriber]);
    let before = flow.publisher.stream();

    let first = again(first, first_config);
    local.is_unharmed();
    flow.reach(&mut [&mut subscriber]);
    flow.pump(20, &mut [&mut subscriber]);
    assert_ne!(flow.publisher.stream(), before);
    links_up(&first, 1);
    // Nothing is left of the earlier life.
    eventually("the old stream is gone", || {
        let streams = second.streams();
        streams
            .iter()
            .filter(|stream| stream.topic == topic("hall/stage"))
            .count()
            == 1
    });
}

#[test]
fn a_link_that_falls_silent_is_given_up_and_comes_back() {
    let first = start(config(1));
    let cable = Cable::to(udp_of(&first));
    let second = start(BrokerConfig {
        links: vec![cable.near],
        ..config(2)
    });
    let (mut publisher, mut subscriber) = (udp(&first), udp(&second));
    subscribe(&mut subscriber, "hall/#");
    let mut flow = Flow::open(&mut publisher, "hall/stage", &mut [&mut subscriber]);
    flow.pump(20, &mut [&mut subscriber]);
    let mut near = Witness::of(&first);
    let mut far = Witness::of(&second);

    let cut = Instant::now();
    cable.cut();
    links_up(&first, 0);
    links_up(&second, 0);
    assert!(
        cut.elapsed() < Duration::from_secs(4),
        "{:?}",
        cut.elapsed()
    );
    near.is_unharmed();
    far.is_unharmed();

    cable.mend();
    links_up(&first, 1);
    links_up(&second, 1);
    flow.reach(&mut [&mut subscriber]);
    flow.pump(20, &mut [&mut subscriber]);
}

#[test]
fn brokers_that_dial_each_other_have_one_link() {
    let port = free_port();
    let addresses = [[127, 9, 3, 1], [127, 9, 3, 2]].map(|host| SocketAddr::from((host, port)));
    let both = |id: u32| {
        let (own, other) = (addresses[id as usize - 1], addresses[2 - id as usize]);
        BrokerConfig {
            udp: vec![own],
            links: vec![other],
            ..at(id, [127, 9, 3, id as u8])
        }
    };
    let (first, second) = (start(both(1)), start(both(2)));
    let mut witness = Witness::between(&first, &second);
    let mut back = Witness::between(&second, &first);
    for broker in [&first, &second] {
        assert_eq!(broker.links().len(), 1, "{:?}", broker.links());
    }
    let relayed = || settled(|| counted(&first, "sangam_relayed_packets_total"));
    let before = relayed();
    witness.is_unharmed();
    back.is_unharmed();
    assert_eq!(relayed() - before, 40);
    links_up(&first, 1);
    links_up(&second, 1);
}

/// What a broker answers to the hello of another, from this socket.
fn answer_to(broker: &Broker, role: Role) -> Frame<'static> {
    let hello = Hello {
        role,
        ..hello(3, None)
    };
    answer_to_hello(broker, &hello)
}

pub(crate) fn answer_to_hello(broker: &Broker, hello: &Hello) -> Frame<'static> {
    let socket = socket_beside(udp_of(broker));
    let say = |cookie| {
        let bytes = bytes_of(&Frame::Hello(Hello {
            cookie,
            ..hello.clone()
        }));
        socket.send_to(&bytes, udp_of(broker)).expect("sent");
        datagram(&socket)
    };
    let retry = say(None);
    let Ok(Frame::Retry { cookie, .. }) = Frame::decode(&retry) else {
        panic!("no cookie");
    };
    match Frame::decode(&say(Some(cookie))) {
        Ok(Frame::Refuse(refuse)) => Frame::Refuse(refuse),
        Ok(Frame::Welcome(welcome)) => Frame::Welcome(welcome),
        other => panic!("neither yes nor no: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn is_refused(answer: &Frame<'_>, wanted: Refusal) {
    let refused = matches!(answer, Frame::Refuse(Refuse { reason, .. }) if *reason == wanted);
    assert!(refused, "{answer:?}");
}

#[test]
fn a_second_way_is_welcomed_as_such_where_there_is_a_link_alone() {
    let broker = start(config(1));
    let role = Role::Broker(BrokerId(66), Incarnation(0));
    let asking = Hello {
        role,
        capabilities: Capabilities::OURS.with(Capabilities::SECOND_WAY),
        ..hello(3, None)
    };
    let says_second = || match answer_to_hello(&broker, &asking) {
        Frame::Welcome(welcome) => welcome.capabilities.contains(Capabilities::SECOND_WAY),
        other => panic!("no welcome: {other:?}"),
    };
    // The first is a link of its own.
    assert!(!says_second());
    assert!(says_second());
}

#[test]
fn a_neighbour_is_dialled_again_when_a_call_that_took_its_links_place_is_over() {
    let first = start(config(1));
    let second = start(linked(2, &[&first]));
    links_up(&second, 1);
    // Somebody says to be the neighbour's next life, and falls silent.
    let role = Role::Broker(BrokerId(1), Incarnation(2));
    let answer = answer_to(&second, role);
    assert!(matches!(answer, Frame::Welcome(_)), "{answer:?}");
    eventually("the neighbour is dialled", || {
        let links = second.links();
        links
            .iter()
            .any(|link| link.up && link.peer == Some((BrokerId(1), Incarnation(1))))
    });
    Witness::between(&first, &second).is_unharmed();
}

#[test]
fn a_link_from_a_network_that_is_not_allowed_is_refused() {
    let elsewhere = Network {
        address: [10, 0, 0, 0].into(),
        prefix: 8,
    };
    let closed = start(BrokerConfig {
        accept_links: vec![elsewhere],
        ..config(1)
    });
    let caller = start(linked(2, &[&closed]));
    let mut witness = Witness::of(&closed);
    let role = Role::Broker(BrokerId(9), Incarnation(0));
    is_refused(&answer_to(&closed, role), Refusal::Forbidden);
    witness.is_unharmed();
    assert!(closed.links().is_empty());
    assert!(caller.links().iter().all(|link| !link.up));

    // A neighbour it dials itself may also dial.
    let port = free_port();
    let own = SocketAddr::from(([127, 9, 4, 1], port));
    let neighbour = start(BrokerConfig {
        links: vec![own],
        ..config(3)
    });
    let open = BrokerConfig {
        udp: vec![own],
        links: vec![udp_of(&neighbour)],
        accept_links: Vec::new(),
        ..config(4)
    };
    let open = start(open);
    links_up(&open, 1);
}

#[test]
fn two_brokers_with_one_identity_are_never_linked() {
    let first = start(config(1));
    let twin = start(linked(1, &[&first]));
    let same = Role::Broker(BrokerId(1), Incarnation(7));
    is_refused(&answer_to(&first, same), Refusal::Identity);
    assert!(first.links().is_empty());
    assert!(twin.links().iter().all(|link| !link.up));

    // A neighbour's identity is taken as long as it is there, except for its own next life.
    let second = start(linked(2, &[&first]));
    let mut witness = Witness::between(&first, &second);
    let again =
        |incarnation| answer_to(&first, Role::Broker(BrokerId(2), Incarnation(incarnation)));
    is_refused(&again(1), Refusal::Invalid);
    is_refused(&again(0), Refusal::Identity);
    witness.is_unharmed();
    assert!(matches!(again(2), Frame::Welcome(_)));
}

#[test]
fn what_a_neighbour_sends_back_or_invents_is_dropped() {
    let broker = start(config(1));
    let mut witness = Witness::of(&broker);
    let role = Role::Broker(BrokerId(9), Incarnation(0));
    let mut neighbour = Raw::udp_with(
        udp_of(&broker),
        Hello {
            role,
            ..hello(7, None)
        },
    );
    let invented = StreamId::new(BrokerId(9), Incarnation(0), 1);
    neighbour.send(&event(
        Class::Data,
        witness.stream(),
        30_000,
        &numbered(7, 100),
    ));
    neighbour.send(&event(Class::Data, invented, 1, &numbered(7, 100)));
    eventually("both are counted", || {
        dropped(&broker, DropReason::CameHome) == 1
            && dropped(&broker, DropReason::UnknownStream) == 1
    });
    // Nor can it announce a stream of the broker itself, or end one.
    let stream = witness.stream();
    let media = MediaInfo::data();
    neighbour.tell(&[
        Message::Announce {
            stream,
            topic: topic("forged"),
            media,
        },
        Message::Retire { stream },
    ]);
    witness.is_unharmed();
    assert_eq!(broker.streams().len(), 1);
    assert!(broker.streams()[0].local);
}

#[test]
fn an_event_larger_than_a_links_datagram_crosses_it_in_pieces() {
    let first = start(BrokerConfig {
        datagram_max: 1_472,
        ..config(1)
    });
    let cable = Cable::to(udp_of(&first));
    let narrow = BrokerConfig {
        datagram_max: limits::DATAGRAM_LEN_SAFE as u16,
        links: vec![cable.near],
        ..config(2)
    };
    let second = start(narrow);
    let (mut publisher, mut near, mut far) = (udp(&first), udp(&first), udp(&second));
    let mut back = udp(&second);
    for subscriber in [&mut near, &mut far] {
        subscribe(subscriber, "hall/#");
    }
    let mut subscribers = [&mut near, &mut far];
    let mut flow = Flow::open(&mut publisher, "hall/stage", &mut subscribers);
    let mut return_flow = Flow::open(&mut back, "hall/back", &mut subscribers);
    let before = [drops(&first), drops(&second)];
    for flow in [&mut flow, &mut return_flow] {
        // As a camera sends them, and up to the largest event.
        for len in [1_460, 1_218, 1_219, 4_000, 16_000] {
            flow.len = len;
            // Few at a time: the cable's own sockets are small.
            for _ in 0..8 {
                flow.pump(2, &mut subscribers);
            }
        }
    }
    assert!(
        cable.longest() <= limits::DATAGRAM_LEN_SAFE,
        "{} bytes crossed",
        cable.longest()
    );
    assert_eq!(cable.longest(), limits::DATAGRAM_LEN_SAFE);
    assert_eq!([drops(&first), drops(&second)], before);
}

#[test]
fn a_client_with_a_narrow_path_gets_large_events_in_pieces() {
    const NARROW: u16 = 600;
    let broker = start(config(1));
    let (mut publisher, mut wide) = (udp(&broker), udp(&broker));
    let narrow = ClientOptions {
        datagram_max: Some(NARROW),
        ..options()
    };
    let mut client = connect_with(Target::Udp(udp_of(&broker)), narrow);
    assert_eq!(client.up().expect("a link").datagram_max, NARROW);
    subscribe(&mut wide, "hall/#");
    subscribe(&mut client, "hall/#");
    let mut subscribers = [&mut wide, &mut client];
    let mut flow = Flow::open(&mut publisher, "hall/stage", &mut subscribers);
    for len in [100, 586, 587, 1_460, 10_000] {
        flow.len = len;
        flow.pump(8, &mut subscribers);
    }

    let mut raw = Raw::udp_with(
        udp_of(&broker),
        Hello {
            datagram_max: NARROW,
            ..hello(7, None)
        },
    );
    raw.subscribe("hall/#");
    flow.len = 1_460;
    let mut pieces = Vec::new();
    eventually("pieces come", || {
        flow.pump(1, &mut [&mut client]);
        pieces.extend(raw.event(Duration::from_millis(20)));
        pieces.len() > 3
    });
    assert!(
        pieces
            .iter()
            .all(|piece| piece.len() <= usize::from(NARROW))
    );
    assert_eq!(drops(&broker), []);
}
