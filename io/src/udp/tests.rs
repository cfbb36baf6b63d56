//! Sends that the kernel refuses or stops, provoked from inside.

use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram};

use super::*;

/// Longer than the path of [`over_a_short_path`] carries in one piece.
const LONG: usize = 1_400;

/// An IPv6 socket that takes its path for 1,280 bytes: longer packets leave in fragments, which
/// cannot be had together with segments.
fn over_a_short_path() -> UdpSocket {
    let socket = bind("[::1]:0");
    sys::set_option(socket.fd(), (libc::IPPROTO_IPV6, libc::IPV6_MTU), 1_280).unwrap();
    socket
}

fn bind(address: &str) -> UdpSocket {
    UdpSocket::bind(address.parse().unwrap(), &UdpOptions::default()).unwrap()
}

/// A datagram socket of the UNIX family in the place of a UDP socket, with the address of
/// another one that is never read: unlike the loopback's, its senders come to a full buffer.
fn with_stuck_peer(name: &str) -> (UdpSocket, UnixDatagram, Address) {
    let name = format!("sangam-{}-{name}", std::process::id());
    let peer = UnixDatagram::bind_addr(&UnixAddr::from_abstract_name(name).unwrap()).unwrap();
    peer.set_nonblocking(true).unwrap();
    let address = sys::local_address(peer.as_fd()).unwrap();
    let sender = UnixDatagram::unbound().unwrap();
    sender.set_nonblocking(true).unwrap();
    let socket = UdpSocket {
        fd: sender.into(),
        local: ([0, 0, 0, 0], 0).into(),
        gro: false,
    };
    (socket, peer, address)
}

fn queued(peer: &UnixDatagram) -> u64 {
    let mut bytes = [0; 64];
    (0..).take_while(|_| peer.recv(&mut bytes).is_ok()).count() as u64
}

#[test]
fn a_path_too_short_for_segments_gets_its_bursts_packet_by_packet() {
    let (sender, receiver) = (over_a_short_path(), bind("[::1]:0"));
    let to = [Address::from(receiver.local_addr()); 20];
    let packets = [[1; LONG], [2; LONG]];
    let burst = [&packets[0][..], &packets[1][..], b"end"];
    let (mut fanout, mut report) = (Fanout::new(), SendReport::default());
    fanout.send(&sender, &burst, &to, &mut report);
    assert_eq!(
        (report.packets, report.messages, report.errors),
        (60, 60, 0)
    );
    assert_eq!(report.bytes, 20 * (2 * LONG as u64 + 3));
    assert_eq!(report.unsegmented, 20);
    let mut batch = RecvBatch::new(128, 2_048);
    receiver.recv(&mut batch).unwrap();
    let got: Vec<&[u8]> = batch.datagrams().map(|one| one.bytes).collect();
    assert_eq!(got, burst.repeat(20));

    // It is remembered: the next burst does not try.
    fanout.send(&sender, &burst, &to, &mut report);
    assert_eq!((report.packets, report.unsegmented), (120, 20));
    assert_eq!(receiver.recv(&mut batch).unwrap(), 60);
}

#[test]
fn a_batch_that_cannot_be_segmented_keeps_its_source_address() {
    let (sender, receiver) = (over_a_short_path(), bind("[::1]:0"));
    let packet = Outgoing {
        to: receiver.local_addr().into(),
        from: Some(receiver.local_addr().ip()),
        bytes: &[7; LONG],
    };
    let mut report = SendReport::default();
    SendBatch::new().send(&sender, [packet; 4], &mut report);
    assert_eq!((report.packets, report.errors), (4, 0));
    assert_eq!(report.unsegmented, 1);
    assert_eq!(receiver.recv(&mut RecvBatch::new(8, 2_048)).unwrap(), 4);
}

#[test]
fn a_full_send_buffer_ends_a_fan_out_and_the_rest_is_counted() {
    let (socket, peer, address) = with_stuck_peer("fanout");
    let to = vec![address; 200];
    let mut report = SendReport::default();
    // Two runs: the second is not tried any more.
    Fanout::new().send(&socket, &[b"a", b"bb"], &to, &mut report);
    assert!(report.packets > 0 && report.would_block > 200);
    assert_eq!(report.packets + report.would_block, 400);
    assert_eq!((report.packets, report.errors), (queued(&peer), 0));
}

#[test]
fn a_full_send_buffer_ends_a_batch_and_the_rest_is_counted() {
    let (socket, peer, address) = with_stuck_peer("batch");
    // Each longer than the one before, so that none joins another.
    let bytes = [0; 50];
    let items = (1..=50).map(|size| (address, &bytes[..size]));
    let mut report = SendReport::default();
    SendBatch::new().send(&socket, items.clone().chain(items), &mut report);
    assert!(report.packets > 0 && report.would_block > 0);
    assert_eq!(report.packets + report.would_block, 100);
    assert_eq!((report.packets, report.errors), (queued(&peer), 0));
}
