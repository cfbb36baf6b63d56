//! A pool hands each buffer to one owner at a time and gets every one of them back.

use std::sync::Barrier;
use std::thread;

use sangam_io::pool::{Packet, Pool};
use sangam_model::limits::{EVENT_LEN_MAX, EVENT_LEN_SMALL};
use sangam_model::{Class, StreamId};
use sangam_wire::{Flags, Header};

#[test]
fn every_buffer_returns_after_its_last_owner() {
    let pool = Pool::new(4, 2);
    let first = pool.copy(b"one").unwrap().freeze();
    let second = first.clone();
    assert_eq!(pool.free(), (3, 2));
    drop(first);
    assert_eq!(pool.free(), (3, 2));
    assert_eq!(&*second, b"one");
    drop(second);
    assert_eq!(pool.free(), (4, 2));
}

#[test]
fn an_exhausted_pool_says_so_and_recovers() {
    let pool = Pool::new(2, 1);
    let taken: Vec<_> = (0..3).map_while(|_| pool.take(100)).collect();
    assert_eq!(taken.len(), 3, "the large buffer stands in");
    assert!(pool.take(1).is_none());
    drop(taken);
    assert_eq!(pool.free(), (2, 1));
    assert!(pool.take(1).is_some());
}

#[test]
fn a_pool_of_nothing_gives_nothing() {
    let pool = Pool::new(0, 0);
    assert!(pool.take(0).is_none());
    assert_eq!(pool.free(), (0, 0));
}

#[test]
fn lengths_choose_the_buffer() {
    let pool = Pool::new(1, 1);
    let large = pool.take(EVENT_LEN_SMALL + 1).unwrap();
    assert_eq!(large.len(), EVENT_LEN_SMALL + 1);
    assert_eq!(pool.free(), (1, 0));
    assert!(pool.take(EVENT_LEN_SMALL + 1).is_none());
    assert_eq!(pool.take(EVENT_LEN_SMALL).unwrap().len(), EVENT_LEN_SMALL);
    drop(large);
    assert!(pool.take(EVENT_LEN_MAX).is_some());
    assert!(pool.take(EVENT_LEN_MAX + 1).is_none());
}

#[test]
fn the_hottest_buffer_is_used_next() {
    let pool = Pool::new(8, 0);
    let packet = pool.copy(b"hot").unwrap();
    let place = packet.as_ptr();
    drop(packet);
    assert_eq!(pool.take(3).unwrap().as_ptr(), place);
}

#[test]
fn truncation_only_shortens() {
    let pool = Pool::new(1, 0);
    let mut packet = pool.copy(b"abcdef").unwrap();
    packet.truncate(100);
    assert_eq!(&*packet, b"abcdef");
    packet.truncate(2);
    assert_eq!(&*packet.freeze(), b"ab");
}

#[test]
fn a_packet_reads_its_header() {
    let header = Header {
        class: Class::Video,
        flags: Flags::KEY,
        stream: StreamId::from_bits(7),
        sequence: 9,
        hop_limit: 15,
        layer: 1,
    };
    let pool = Pool::new(1, 0);
    let packet = pool.copy(&header.encode()).unwrap().freeze();
    assert_eq!(packet.header(), Ok(header));
}

#[test]
fn packets_outlive_their_pool() {
    let pool = Pool::new(3, 1);
    let mut packets: Vec<Packet> = (0..3_u8)
        .map(|n| pool.copy(&[n; 50]).unwrap().freeze())
        .collect();
    drop(pool.clone());
    drop(pool);
    for (n, packet) in packets.iter().enumerate() {
        assert_eq!(**packet, [n as u8; 50]);
    }
    packets.extend_from_within(..);
    drop(packets);
}

#[test]
fn a_pool_may_close_while_packets_come_home() {
    for _ in 0..200 {
        let pool = Pool::new(64, 0);
        let start = Barrier::new(3);
        let packets: Vec<Packet> = (0..40).map(|_| pool.copy(b"x").unwrap().freeze()).collect();
        let (one, two) = (packets.clone(), packets);
        thread::scope(|scope| {
            for packets in [one, two] {
                scope.spawn(|| {
                    start.wait();
                    drop(packets);
                });
            }
            start.wait();
            drop(pool);
        });
    }
}

/// Each thread marks what it takes, and clones and drops in an order of its own; a buffer with
/// two owners would show a foreign mark.
#[test]
fn no_buffer_ever_has_two_owners() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 100_000;
    let pool = Pool::new(24, 4);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let pool = pool.clone();
            scope.spawn(move || {
                let mut held: Vec<(u64, Packet)> = Vec::new();
                let mut random = thread + 1;
                for round in 0..ROUNDS {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let mark = thread << 32 | round;
                    if let Some(mut packet) = pool.take(16) {
                        packet[..8].copy_from_slice(&mark.to_ne_bytes());
                        packet[8..].copy_from_slice(&mark.to_ne_bytes());
                        held.push((mark, packet.freeze()));
                    }
                    if random & 1 == 0
                        && let Some((mark, packet)) = held.last()
                    {
                        held.push((*mark, packet.clone()));
                    }
                    while held.len() > (random >> 8) as usize % 8 {
                        let (mark, packet) = held.swap_remove(random as usize % held.len());
                        assert_eq!(packet[..8], mark.to_ne_bytes());
                        assert_eq!(packet[8..], mark.to_ne_bytes());
                    }
                }
            });
        }
    });
    assert_eq!(pool.free(), (24, 4));
}

#[test]
fn packets_cross_threads_and_return() {
    let pool = Pool::new(32, 0);
    let (mut out, mut into) = rtrb::RingBuffer::<Packet>::new(16);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut sent = 0_u32;
            while sent < 200_000 {
                let Some(packet) = pool.copy(&sent.to_ne_bytes()) else {
                    thread::yield_now();
                    continue;
                };
                let mut packet = packet.freeze();
                while let Err(rtrb::PushError::Full(back)) = out.push(packet) {
                    packet = back;
                    thread::yield_now();
                }
                sent += 1;
            }
        });
        let mut expected = 0_u32;
        while expected < 200_000 {
            match into.pop() {
                Ok(packet) => {
                    assert_eq!(*packet, expected.to_ne_bytes());
                    expected += 1;
                }
                Err(_) => thread::yield_now(),
            }
        }
    });
    assert_eq!(pool.free(), (32, 0));
}
