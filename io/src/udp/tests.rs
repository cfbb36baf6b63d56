//! Sends that the kernel refuses or stops, provoked from inside.

use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram};

use super::send::{Segmentation, empty_header, slice_of, transmit};
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
    contents(peer).len() as u64
}

fn contents(peer: &UnixDatagram) -> Vec<Vec<u8>> {
    let mut bytes = [0; 64];
    let next = || peer.recv(&mut bytes).ok().map(|len| bytes[..len].to_vec());
    std::iter::from_fn(next).collect()
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
    // Two runs, so that a destination may get the first of them only.
    Fanout::new().send(&socket, &[b"a", b"bb"], &to, &mut report);
    assert!(report.packets > 0 && report.would_block > 200);
    assert_eq!(report.packets + report.would_block, 400);
    assert_eq!((report.packets, report.errors), (queued(&peer), 0));
}

#[test]
fn what_a_full_send_buffer_left_over_are_the_last_packets_of_the_last_destinations() {
    let (sender, receiver) = (over_a_short_path(), bind("[::1]:0"));
    let mut fanout = Fanout::new();
    let to = [Address::from(receiver.local_addr()); 20];
    let long: &[u8] = &[1; LONG];
    fanout.send(&sender, &[long; 2], &to, &mut SendReport::default());

    // Segmenting pauses now: runs of equal packets leave one by one.
    let (equal, growing) = ([&b"a"[..], b"b", b"c"], [&b"a"[..], b"bb", b"ccc"]);
    for (name, burst) in [("pause", equal), ("runs", growing)] {
        let (socket, peer, address) = with_stuck_peer(name);
        let mut report = SendReport::default();
        fanout.send(&socket, &burst, &[address; 40], &mut report);
        assert!(report.packets > 3, "{report:?}");
        assert_eq!(report.packets + report.would_block, 120);
        let wanted = burst.iter().cycle().take(report.packets as usize);
        let wanted: Vec<Vec<u8>> = wanted.map(|packet| packet.to_vec()).collect();
        assert_eq!(contents(&peer), wanted);
    }
}

#[test]
fn a_segmented_message_that_leaves_singly_ends_where_the_buffer_is_full() {
    let (socket, peer, address) = with_stuck_peer("singly");
    let mut paused = Segmentation::default();
    (0..8).for_each(|_| paused.refused());
    let mut slices = [slice_of(b"x"); 40];
    let mut header = empty_header();
    header.msg_hdr.msg_name = address.as_ptr().cast_mut().cast();
    header.msg_hdr.msg_namelen = address.len();
    header.msg_hdr.msg_iov = slices.as_mut_ptr();
    header.msg_hdr.msg_iovlen = slices.len();
    header.msg_hdr.msg_controllen = control::SEGMENT_SPACE;
    let mut report = SendReport::default();
    // SAFETY: the name and the slices outlive the call, and there is no control message left.
    let done = unsafe { transmit(&socket, &mut [header; 2], &mut paused, &mut report) };
    assert_eq!(done, 0, "the first message is not all away");
    assert!(report.packets > 0 && report.packets < 40);
    assert_eq!(report.unsegmented, 1, "the second was not tried");
    assert_eq!(
        (report.packets, report.would_block),
        (queued(&peer), 80 - report.packets)
    );
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
