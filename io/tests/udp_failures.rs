//! A destination that fails harms no other, and every packet is accounted for.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::ErrorKind;
use std::net::SocketAddr;

use sangam_io::udp::{Address, Fanout, RecvBatch, SendBatch, SendReport, UdpOptions, UdpSocket};

fn bind(address: &str) -> UdpSocket {
    UdpSocket::bind(address.parse().unwrap(), &UdpOptions::default()).unwrap()
}

fn received(socket: &UdpSocket) -> usize {
    let mut batch = RecvBatch::new(64, 2_048);
    socket.recv(&mut batch).unwrap();
    batch.datagrams().count()
}

/// A good destination between others: a broadcast address without the permission for it, port 0,
/// and an address of the other family.
fn with_bad_neighbours(good: Address) -> Vec<Address> {
    let bad = ["255.255.255.255:9", "127.0.0.1:0", "[::1]:9"];
    let bad = bad.map(|text| Address::from(text.parse::<SocketAddr>().unwrap()));
    vec![bad[0], good, bad[1], good, good, bad[2]]
}

#[test]
fn a_fan_out_skips_destinations_that_fail() {
    let (sender, receiver) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let destinations = with_bad_neighbours(receiver.local_addr().into());
    let mut report = SendReport::default();
    Fanout::new().send(&sender, &[b"hello"], &destinations, &mut report);
    assert_eq!(received(&receiver), 3);
    assert_eq!((report.packets, report.errors, report.denied), (3, 3, 1));
    assert_eq!(report.would_block, 0);
}

#[test]
fn a_segmented_fan_out_skips_destinations_that_fail() {
    let (sender, receiver) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let destinations = with_bad_neighbours(receiver.local_addr().into());
    let mut report = SendReport::default();
    Fanout::new().send(&sender, &[b"one", b"two"], &destinations, &mut report);
    assert_eq!(received(&receiver), 6);
    assert_eq!((report.packets, report.errors), (6, 6));
}

#[test]
fn a_batch_skips_destinations_that_fail() {
    let (sender, receiver) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let destinations = with_bad_neighbours(receiver.local_addr().into());
    let mut report = SendReport::default();
    let items = destinations.iter().map(|&to| (to, &b"hello"[..]));
    SendBatch::new().send(&sender, items, &mut report);
    assert_eq!(received(&receiver), 3);
    assert_eq!((report.packets, report.errors), (3, 3));
}

#[test]
fn packets_longer_than_any_datagram_are_counted_as_oversized() {
    let (sender, receiver) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let mut report = SendReport::default();
    let long = vec![0; 65_508];
    let to = [Address::from(receiver.local_addr())];
    Fanout::new().send(&sender, &[&long, b"short"], &to, &mut report);
    assert_eq!((report.packets, report.errors, report.oversized), (1, 1, 1));
    assert_eq!(received(&receiver), 1);
}

#[test]
fn nothing_to_send_is_nothing_sent() {
    let sender = bind("[::1]:0");
    let to = [Address::from(sender.local_addr())];
    let (mut fanout, mut report) = (Fanout::new(), SendReport::default());
    fanout.send(&sender, &[], &to, &mut report);
    fanout.send(&sender, &[b"x"], &[], &mut report);
    SendBatch::new().send(&sender, Vec::<(Address, &[u8])>::new(), &mut report);
    assert_eq!(report, SendReport::default());
}

#[test]
fn a_port_in_use_is_named_with_a_way_out() {
    for family in ["127.0.0.1:0", "[::1]:0"] {
        let first = bind(family);
        let error = UdpSocket::bind(first.local_addr(), &UdpOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        let text = error.to_string();
        assert!(text.contains(&first.local_addr().to_string()), "{text}");
        assert!(text.contains("choose another port"), "{text}");
    }
}

#[test]
fn sockets_of_both_families_share_a_port_number() {
    let v6 = bind("[::]:0");
    let v4 = SocketAddr::from(([0, 0, 0, 0], v6.local_addr().port()));
    assert!(UdpSocket::bind(v4, &UdpOptions::default()).is_ok());
}

#[test]
fn threads_share_a_port_when_they_ask_for_it() {
    let options = UdpOptions {
        reuse_port: true,
        ..UdpOptions::default()
    };
    let first = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
    assert!(UdpSocket::bind(first.local_addr(), &options).is_ok());
}
