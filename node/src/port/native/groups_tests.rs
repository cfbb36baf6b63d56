use std::net::IpAddr;

use sangam_io::interfaces::Interface;
use sangam_io::pool::Pool;
use sangam_model::{BrokerId, Class, Filter, Incarnation};
use sangam_wire::{Event, Extensions, Flags, Header};

use super::*;
use crate::segment::Multicast;

const STREAM: StreamId = StreamId::new(BrokerId(1), Incarnation(0), 1);

fn groups(clients: usize) -> Groups {
    let config = Multicast {
        interface: "eth0".to_owned(),
        groups: Vec::new(),
        port: 4_620,
        ttl: 1,
        clients,
        topics: vec![Filter::new("#").unwrap()],
        links: false,
    };
    let interface = Interface {
        index: 2,
        up: true,
        multicast: true,
        networks: Vec::new(),
    };
    let sources = Sources {
        free: [IpAddr::from([239, 192, 46, 0])].into(),
        source: IpAddr::from([10, 0, 0, 1]),
    };
    let segment = Segment::of(config, interface);
    Groups::new(Arc::new(segment), sources, Arc::new(Counters::default()))
}

fn announce(groups: &mut Groups, peer: PeerKey, now: Time) {
    let topic = Topic::new("hall/stage").unwrap();
    groups.announced((peer, 1_472), (STREAM, &topic), now);
}

/// Whom something was told, and whether it was a group.
fn told(groups: &mut Groups) -> Vec<(PeerKey, bool)> {
    let messages = std::iter::from_fn(|| groups.message());
    let mut told: Vec<_> = messages
        .map(|(peer, message)| {
            let begins = matches!(message, Message::Group { group: Some(_), .. });
            (peer, begins)
        })
        .collect();
    told.sort_unstable();
    told
}

fn burst(sequence: u16) -> [Packet; 1] {
    let event = Event {
        header: Header {
            class: Class::Data,
            flags: Flags::NONE,
            stream: STREAM,
            sequence,
            hop_limit: 1,
            layer: 0,
        },
        extensions: Extensions::NONE,
        payload: b"x",
    };
    let mut bytes = vec![0; event.encoded_len()];
    event.write(&mut bytes).unwrap();
    [Pool::new(4, 1).copy(&bytes).unwrap().freeze()]
}

/// Whom a slice is sent apart, and whether it goes to the group.
fn deliver(groups: &mut Groups, sequence: u16, peers: &[PeerKey]) -> (Vec<PeerKey>, bool) {
    let Some(turn) = groups.turn(&burst(sequence)) else {
        return (peers.to_vec(), false);
    };
    if !turn.done {
        groups.sent(&turn, 1, Time::ZERO);
    }
    (groups.apart(STREAM, peers), !turn.done)
}

#[test]
fn one_who_comes_and_goes_moves_nobody_else() {
    let mut groups = groups(2);
    let start = Time::from_millis(1_000);
    announce(&mut groups, 1, start);
    assert_eq!(told(&mut groups), []);
    announce(&mut groups, 2, start);
    assert_eq!(told(&mut groups), [(1, true), (2, true)]);
    for n in 0..20 {
        let now = start + Duration::from_millis(100) * n;
        groups.retired(2, STREAM, now);
        groups.tick(now);
        announce(&mut groups, 2, now);
        assert_eq!(told(&mut groups), [(2, true)]);
    }
    groups.retired(2, STREAM, start);
    groups.tick(start + LINGER);
    assert_eq!(told(&mut groups), [(1, false)]);
}

#[test]
fn a_burst_goes_to_a_group_once_however_many_slices_it_has() {
    let mut groups = groups(2);
    for peer in 0..3 {
        announce(&mut groups, peer, Time::ZERO);
    }
    assert_eq!(deliver(&mut groups, 1, &[0, 1, 2]), (vec![0, 1, 2], false));
    groups.hearing(0, STREAM, true);
    assert_eq!(deliver(&mut groups, 2, &[0, 1]), (vec![1], true));
    // It may have joined after the group had its turn.
    groups.hearing(2, STREAM, true);
    assert_eq!(deliver(&mut groups, 2, &[2]), (vec![2], false));
    assert_eq!(deliver(&mut groups, 3, &[0, 1, 2]), (vec![1], true));
    groups.hearing(0, STREAM, false);
    assert_eq!(deliver(&mut groups, 4, &[0, 1, 2]), (vec![0, 1], true));
    groups.gone(2, Time::ZERO);
    assert_eq!(deliver(&mut groups, 5, &[0, 1]), (vec![0, 1], false));
}

#[test]
fn who_was_not_asked_to_listen_changes_nothing() {
    let mut groups = groups(2);
    announce(&mut groups, 1, Time::ZERO);
    groups.hearing(1, STREAM, true);
    groups.hearing(9, STREAM, true);
    assert_eq!(deliver(&mut groups, 1, &[1, 9]), (vec![1, 9], false));
}

#[test]
fn beacons_fill_silence_and_are_rare_while_nobody_hears_them() {
    let mut groups = groups(2);
    let start = Time::from_millis(1_000);
    for peer in 0..2 {
        announce(&mut groups, peer, start);
    }
    let count = |groups: &mut Groups, from: Time, span: Duration| {
        let (mut now, mut count) = (from, 0);
        while now < from + span {
            groups.tick(now);
            groups.beacons(now, |_, _| count += 1);
            now += TICK;
        }
        count
    };
    assert_eq!(count(&mut groups, start, LIVELY), 20);
    assert_eq!(count(&mut groups, start + LIVELY, LIVELY), 2);
    groups.hearing(0, STREAM, true);
    assert_eq!(count(&mut groups, start + LIVELY * 2, LIVELY), 20);
}

#[test]
fn without_its_narrowest_member_a_crowd_gets_longer_datagrams() {
    let mut groups = groups(9);
    let topic = Topic::new("hall/stage").unwrap();
    let (wide, narrow) = (1, 2);
    for (peer, datagram_max) in [(wide, 1_472), (narrow, 1_300)] {
        groups.announced((peer, datagram_max), (STREAM, &topic), Time::ZERO);
    }
    assert_eq!(groups.crowds[&STREAM].datagram_max, 1_300);
    groups.gone(narrow, Time::ZERO);
    assert_eq!(groups.crowds[&STREAM].datagram_max, 1_472);
}
