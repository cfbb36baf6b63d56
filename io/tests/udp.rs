//! Real sockets on the loopback, both address families: what is sent is what arrives.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use sangam_io::poll::{Events, Interest, Poller};
use sangam_io::udp::{
    Address, Fanout, Outgoing, RecvBatch, SendBatch, SendReport, UdpOptions, UdpSocket, path_mtu,
};

const FAMILIES: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];
const DEADLINE: Duration = Duration::from_secs(20);

fn bind(address: &str, options: UdpOptions) -> UdpSocket {
    UdpSocket::bind(address.parse().unwrap(), &options).unwrap()
}

fn address(socket: &UdpSocket) -> Address {
    socket.local_addr().into()
}

/// Everything that arrives until there are `count` datagrams: payload, source, local address.
fn collect(socket: &UdpSocket, count: usize) -> Vec<(Vec<u8>, SocketAddr, Option<IpAddr>)> {
    let poller = Poller::new().unwrap();
    let mut events = Events::with_capacity(1);
    poller.add(socket.fd(), 0, Interest::Read).unwrap();
    let mut batch = RecvBatch::new(8, 65_535);
    let mut got = Vec::new();
    let until = Instant::now() + DEADLINE;
    while got.len() < count && Instant::now() < until {
        if socket.recv(&mut batch).unwrap() == 0 {
            poller.wait(&mut events, Some(DEADLINE)).unwrap();
        }
        let seen = batch.datagrams();
        got.extend(seen.map(|one| (one.bytes.to_vec(), one.source, one.local)));
    }
    got
}

fn payloads(socket: &UdpSocket, count: usize) -> Vec<Vec<u8>> {
    let got = collect(socket, count);
    got.into_iter().map(|(bytes, _, _)| bytes).collect()
}

fn packets(sizes: &[usize]) -> Vec<Vec<u8>> {
    let numbered = sizes.iter().enumerate();
    numbered.map(|(n, &size)| vec![n as u8; size]).collect()
}

fn slices(packets: &[Vec<u8>]) -> Vec<&[u8]> {
    packets.iter().map(Vec::as_slice).collect()
}

#[test]
fn a_burst_arrives_at_every_destination_as_it_was_sent() {
    for family in FAMILIES {
        let sender = bind(family, UdpOptions::default());
        let receivers: Vec<_> = (0..3)
            .map(|_| bind(family, UdpOptions::default()))
            .collect();
        let destinations: Vec<Address> = receivers.iter().map(address).collect();
        let burst = packets(&[700, 200, 900, 900, 300, 0, 5]);
        let mut report = SendReport::default();
        Fanout::new().send(&sender, &slices(&burst), &destinations, &mut report);
        for receiver in &receivers {
            let got = collect(receiver, burst.len());
            assert!(
                got.iter()
                    .all(|(_, source, _)| *source == sender.local_addr())
            );
            let got: Vec<_> = got.into_iter().map(|(bytes, _, _)| bytes).collect();
            assert_eq!(got, burst);
        }
        assert_eq!((report.packets, report.bytes), (21, 3 * 3_005));
        // [700 200] [900 900 300] [0] [5]
        assert_eq!(report.messages, 12);
        assert_eq!(
            (report.errors, report.would_block, report.unsegmented),
            (0, 0, 0)
        );
    }
}

#[test]
fn a_segmented_burst_with_a_shorter_end_keeps_its_bounds() {
    for family in FAMILIES {
        let sender = bind(family, UdpOptions::default());
        let plain = bind(family, UdpOptions::default());
        let joined = bind(
            family,
            UdpOptions {
                gro: true,
                ..UdpOptions::default()
            },
        );
        let burst = packets(&[1_100, 1_100, 1_100, 1_100, 17]);
        let mut report = SendReport::default();
        let destinations = [address(&plain), address(&joined)];
        Fanout::new().send(&sender, &slices(&burst), &destinations, &mut report);
        assert_eq!((report.packets, report.messages), (10, 2));
        assert_eq!(payloads(&plain, 5), burst);
        assert_eq!(payloads(&joined, 5), burst);
    }
}

#[test]
fn joined_packets_come_as_one_message_and_are_split() {
    for family in FAMILIES {
        let receiver = bind(
            family,
            UdpOptions {
                gro: true,
                ..UdpOptions::default()
            },
        );
        let sender = bind(family, UdpOptions::default());
        if !receiver.gro() {
            return;
        }
        let burst = packets(&[500; 10]);
        let mut report = SendReport::default();
        Fanout::new().send(&sender, &slices(&burst), &[address(&receiver)], &mut report);
        let mut batch = RecvBatch::new(16, 65_535);
        assert_eq!(receiver.recv(&mut batch).unwrap(), 1);
        let got: Vec<_> = batch.datagrams().map(|one| one.bytes.to_vec()).collect();
        assert_eq!(got, burst);
    }
}

#[test]
fn more_destinations_than_one_call_takes_are_all_served() {
    let receiver = bind(
        "127.0.0.1:0",
        UdpOptions {
            recv_buffer: 4 << 20,
            ..UdpOptions::default()
        },
    );
    let sender = bind("127.0.0.1:0", UdpOptions::default());
    let destinations = vec![address(&receiver); 150];
    let mut fanout = Fanout::new();
    for burst in [packets(&[60]), packets(&[60, 60])] {
        let mut report = SendReport::default();
        fanout.send(&sender, &slices(&burst), &destinations, &mut report);
        assert_eq!(report.packets, 150 * burst.len() as u64);
        assert_eq!(report.messages, 150);
        assert_eq!(
            payloads(&receiver, 150 * burst.len()).len(),
            150 * burst.len()
        );
    }
}

#[test]
fn a_datagram_tells_which_local_address_it_was_sent_to() {
    let pktinfo = UdpOptions {
        pktinfo: true,
        ..UdpOptions::default()
    };
    let receiver = bind("0.0.0.0:0", pktinfo);
    let sender = bind("127.0.0.1:0", UdpOptions::default());
    let port = receiver.local_addr().port();
    let destinations =
        [1, 9].map(|last| Address::from(SocketAddr::from(([127, 0, 0, last], port))));
    let mut report = SendReport::default();
    Fanout::new().send(&sender, &[b"x"], &destinations, &mut report);
    let locals: Vec<_> = collect(&receiver, 2)
        .into_iter()
        .map(|(_, _, local)| local)
        .collect();
    assert_eq!(locals, ["127.0.0.1", "127.0.0.9"].map(|ip| ip.parse().ok()));

    let receiver = bind("[::]:0", pktinfo);
    let sender = bind("[::1]:0", UdpOptions::default());
    let to = SocketAddr::new("::1".parse().unwrap(), receiver.local_addr().port());
    Fanout::new().send(&sender, &[b"x"], &[to.into()], &mut report);
    assert_eq!(collect(&receiver, 1)[0].2, "::1".parse().ok());
}

#[test]
fn a_batch_sends_from_the_addresses_it_is_told() {
    let receiver = bind("127.0.0.1:0", UdpOptions::default());
    let sender = bind("0.0.0.0:0", UdpOptions::default());
    let to = address(&receiver);
    let packet = [7; 40];
    let items = [2_u8, 3, 3].map(|last| Outgoing {
        to,
        from: Some(IpAddr::from([127, 0, 0, last])),
        bytes: &packet,
    });
    let mut report = SendReport::default();
    SendBatch::new().send(&sender, items, &mut report);
    let sources: Vec<_> = collect(&receiver, 3)
        .into_iter()
        .map(|(_, from, _)| from.ip())
        .collect();
    assert_eq!(
        sources,
        [2, 3, 3].map(|last| IpAddr::from([127, 0, 0, last]))
    );
    assert_eq!((report.packets, report.messages), (3, 2));
}

#[test]
fn a_batch_joins_neighbours_and_keeps_each_destinations_order() {
    for family in FAMILIES {
        let options = UdpOptions {
            recv_buffer: 4 << 20,
            ..UdpOptions::default()
        };
        let receivers = [bind(family, options), bind(family, options)];
        let sender = bind(family, UdpOptions::default());
        let [one, two] = [address(&receivers[0]), address(&receivers[1])];
        let packets = packets(&[80; 200]);
        // Three for one, two for the other, and so on: 80 messages, more than one call takes.
        let turns = packets.iter().enumerate();
        let items = turns.map(|(n, packet)| (if n % 5 < 3 { one } else { two }, packet.as_slice()));
        let mut report = SendReport::default();
        SendBatch::new().send(&sender, items.clone(), &mut report);
        assert_eq!((report.packets, report.messages), (200, 80));
        for (receiver, to) in receivers.iter().zip([one, two]) {
            let mine = items.clone().filter(|(at, _)| *at == to);
            let expected: Vec<_> = mine.map(|(_, packet)| packet.to_vec()).collect();
            assert_eq!(payloads(receiver, expected.len()), expected);
        }
    }
}

#[test]
fn a_full_receive_buffer_is_counted() {
    let receiver = bind(
        "127.0.0.1:0",
        UdpOptions {
            recv_buffer: 4_096,
            overflow_count: true,
            ..UdpOptions::default()
        },
    );
    let sender = bind("127.0.0.1:0", UdpOptions::default());
    let to = [address(&receiver)];
    let (mut fanout, mut report) = (Fanout::new(), SendReport::default());
    for _ in 0..100 {
        fanout.send(&sender, &[&[1; 1_000]], &to, &mut report);
    }
    let mut batch = RecvBatch::new(128, 2_048);
    let before = receiver.recv(&mut batch).unwrap() as u64;
    assert!(before > 0 && before < report.packets);
    // The counter travels with the next packet that finds room.
    fanout.send(&sender, &[b"last"], &to, &mut report);
    assert_eq!(receiver.recv(&mut batch).unwrap(), 1);
    let overflow = batch.datagrams().next().unwrap().overflow.unwrap();
    assert_eq!(u64::from(overflow) + before + 1, report.packets);
}

#[test]
fn a_datagram_longer_than_the_room_is_dropped_and_counted() {
    let receiver = bind("127.0.0.1:0", UdpOptions::default());
    let sender = bind("127.0.0.1:0", UdpOptions::default());
    let mut report = SendReport::default();
    let burst = packets(&[50, 101, 100]);
    Fanout::new().send(&sender, &slices(&burst), &[address(&receiver)], &mut report);
    let mut batch = RecvBatch::new(4, 100);
    assert_eq!(receiver.recv(&mut batch).unwrap(), 3);
    let sizes: Vec<_> = batch.datagrams().map(|one| one.bytes.len()).collect();
    assert_eq!(sizes, [50, 100]);
    assert_eq!(batch.truncated(), 1);
}

#[test]
fn an_empty_socket_gives_nothing_at_once() {
    let socket = bind("[::1]:0", UdpOptions::default());
    let mut batch = RecvBatch::new(4, 100);
    assert_eq!(socket.recv(&mut batch).unwrap(), 0);
    assert_eq!(batch.datagrams().count(), 0);
}

#[test]
fn the_loopback_carries_nearly_the_largest_datagram() {
    assert!(path_mtu("127.0.0.1:9".parse().unwrap()).unwrap() > 60_000);
    assert!(path_mtu("[::1]:9".parse().unwrap()).unwrap() > 60_000);
}
