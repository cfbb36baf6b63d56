use std::net::{SocketAddr, UdpSocket as Receiver};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use sangam_io::pool::Pool;
use sangam_io::udp::UdpOptions;
use sangam_model::{BrokerId, Class, Incarnation, StreamId};
use sangam_wire::{Event, Extensions, Flags, Header};

use super::*;
use crate::addresses::Addresses;
use crate::welcome::Greeting;

const WIDE: u16 = 1_472;
const NARROW: u16 = 508;
const PATIENCE: Duration = Duration::from_secs(10);

fn socket() -> sangam_io::udp::UdpSocket {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    sangam_io::udp::UdpSocket::bind(address, &UdpOptions::default()).unwrap()
}

fn port() -> NativePort {
    let greeting = Greeting {
        broker: BrokerId(1),
        incarnation: Incarnation(0),
        media_port: 1,
        datagram_max: WIDE,
        keepalive_ms: 1_000,
        sessions: Default::default(),
        clients: Default::default(),
        clients_max: 64,
        addresses: Addresses::new(64).into(),
        segment: None,
    };
    let (_, admissions) = sync_channel(1);
    NativePort::new(socket(), admissions, greeting, Default::default())
}

/// Peers with these paths, and where each receives.
fn with_peers(paths: &[u16]) -> (NativePort, Vec<Receiver>, Vec<PeerKey>) {
    let mut port = port();
    let receivers: Vec<_> = paths
        .iter()
        .map(|_| {
            let receiver = Receiver::bind("127.0.0.1:0").unwrap();
            receiver.set_read_timeout(Some(PATIENCE)).unwrap();
            receiver
        })
        .collect();
    for ((key, path), receiver) in (0..).zip(paths).zip(&receivers) {
        let to = Address::from(receiver.local_addr().unwrap());
        port.reach(key, (to, *path));
    }
    let peers = (0..paths.len() as PeerKey).collect();
    (port, receivers, peers)
}

fn packet(pool: &Pool, sequence: u16, len: usize) -> Packet {
    let event = Event {
        header: Header {
            class: Class::Video,
            flags: Flags::NONE,
            stream: StreamId::new(BrokerId(1), Incarnation(0), 1),
            sequence,
            hop_limit: 1,
            layer: 0,
        },
        extensions: Extensions::NONE,
        payload: &vec![7; len],
    };
    let mut packet = pool.take(event.encoded_len()).unwrap();
    event.write(&mut packet).unwrap();
    packet.freeze()
}

/// Sequence number and length of what comes.
fn take(receiver: &Receiver, count: usize) -> Vec<(u16, usize)> {
    let mut bytes = [0; 2_048];
    let next = || {
        let len = receiver.recv(&mut bytes).expect("a datagram");
        (Header::decode(&bytes[..len]).unwrap().sequence, len)
    };
    std::iter::repeat_with(next).take(count).collect()
}

#[test]
fn one_narrow_path_leaves_the_others_their_segmented_bursts() {
    let mut paths = [WIDE; 30];
    paths[10] = NARROW;
    let (mut port, receivers, peers) = with_peers(&paths);
    let pool = Pool::new(8, 0);
    let burst: Vec<_> = (0..4).map(|n| packet(&pool, n, 1_000)).collect();
    let done = port.send_each(&burst, &peers);
    assert_eq!((done.peers, done.errors), (30, 0));
    // A message for each of the wide ones, and one for the three pieces of each packet.
    assert_eq!(done.messages, 29 + 4, "{done:?}");
    assert_eq!(done.packets, 29 * 4 + 4 * 3);
    for (place, receiver) in receivers.iter().enumerate() {
        let came = take(receiver, if place == 10 { 12 } else { 4 });
        let longest = came.iter().map(|(_, len)| *len).max();
        assert!(came.is_sorted_by_key(|(sequence, _)| *sequence), "{came:?}");
        assert_eq!(longest <= Some(508), place == 10, "{came:?}");
    }
}

#[test]
fn pieces_follow_what_was_gathered_before() {
    for paths in [&[NARROW][..], &[NARROW, WIDE, NARROW, WIDE]] {
        let (mut port, receivers, peers) = with_peers(paths);
        let pool = Pool::new(8, 0);
        for (sequence, len) in [(1, 100), (2, 1_200), (3, 100)] {
            let done = port.send_each(&[packet(&pool, sequence, len)], &peers);
            assert_eq!(done.peers, peers.len());
        }
        assert!(port.send_gathered(&mut Delivery::default()));
        for (receiver, path) in receivers.iter().zip(paths) {
            let came = take(receiver, if *path == NARROW { 5 } else { 3 });
            assert!(came.is_sorted_by_key(|(sequence, _)| *sequence), "{came:?}");
        }
    }
}

#[test]
fn without_its_narrowest_peer_a_port_looks_at_no_path_again() {
    let (mut port, _receivers, _) = with_peers(&[WIDE, NARROW, 1_300, 600]);
    let mut smallest = vec![port.smallest];
    for key in [2, 1, 3] {
        port.let_go(key);
        smallest.push(port.smallest);
    }
    assert_eq!(smallest, [NARROW, NARROW, 600, WIDE]);
}

#[test]
fn what_a_fan_out_left_over_is_told_by_whom_it_still_concerns() {
    let left = |destinations, packets| Left {
        destinations,
        packets,
    };
    assert_eq!(Left::of(0, 4), left(0, 0));
    assert_eq!(Left::of(3, 1), left(3, 0));
    assert_eq!(Left::of(4, 4), left(1, 0));
    // Of the three destinations two have nothing, and one lacks the last packet.
    assert_eq!(Left::of(9, 4), left(2, 1));
    assert_eq!(Left::of(0, 0), left(0, 0));
}
