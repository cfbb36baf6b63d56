//! Memory stays as it is, however many events pass and clients come and go. In a program of its
//! own, so that what other tests hold is not counted.

use std::fs;

use sangam_model::Class;
use sangam_node::{Broker, BrokerConfig};
use sangam_wire::feedback::{Feedback, Nack};
use sangam_wire::{Frame, Refusal};

mod support;

use support::raw::{Raw, bytes_of, event};
use support::source::Source;
use support::torrent::Torrent;
use support::*;

const PAGE: u64 = 4_096;
/// What an allocator may keep for itself.
const SLACK: u64 = 1 << 20;

/// Bytes of memory this process holds.
fn resident() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").expect("Linux' statistics");
    let pages = text
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("a number of pages") * PAGE
}

fn free_buffers(broker: &Broker) -> (u64, u64) {
    let free = |name| counted(broker, name);
    (
        free("sangam_pool_free_small"),
        free("sangam_pool_free_large"),
    )
}

const POOL: u64 = 16_384;

fn patient(config: BrokerConfig) -> BrokerConfig {
    BrokerConfig {
        pool_small: POOL as usize,
        publisher_packets_per_s: u32::MAX,
        keepalive_ms: 60_000,
        ..config
    }
}

#[test]
fn a_million_events_and_a_thousand_clients_leave_memory_as_it_was() {
    a_million_events();
    video_over_a_link();
    a_thousand_clients();
}

/// To subscribers over UDP, who ask for some of it again, and over TCP.
fn video_over_a_link() {
    let broker = start(patient(config(1)));
    let neighbour = start(patient(linked(2, &[&broker])));
    links_up(&broker, 1);
    let brokers = [&broker, &neighbour];
    let mut listeners = brokers.map(|broker| Raw::udp(udp_of(broker)));
    for listener in &mut listeners {
        listener.subscribe("hall/#");
    }
    let mut reader = Raw::tcp(tcp_of(&neighbour));
    reader.subscribe("hall/#");
    reader.read_on();
    let everybody = (&brokers[..], 3);
    let mut source = Source::video(&broker);
    source.open(everybody);
    listeners.iter_mut().for_each(Raw::catch_up);

    let stream = source.stream().expect("a link that stays up");
    let repaired = || brokers.map(|broker| counted(broker, "sangam_repaired_total"));
    let mut pour = |rounds: u64| {
        for _ in 0..rounds {
            source.pour(2_000, everybody);
            let before = repaired();
            let mut nack = Vec::new();
            let first = (source.sent() as u16).wrapping_sub(17);
            Feedback::Nack(Nack {
                first,
                also: 0xffff,
            })
            .encode(&mut nack);
            for listener in &mut listeners {
                listener.send(&event(Class::Feedback, stream, 0, &nack));
            }
            eventually("something is sent again", || {
                let now = repaired();
                now[0] > before[0] && now[1] > before[1]
            });
        }
    };
    pour(6);
    // All is back but what the caches keep.
    let free = || settled(|| brokers.map(free_buffers));
    let (buffers, memory) = (free(), resident());
    pour(12);
    let now = resident();
    assert!(now <= memory + SLACK, "{now} bytes after {memory}");
    assert_eq!(free(), buffers);
}

fn a_million_events() {
    let broker = start(patient(config(1)));
    let mut listeners: Vec<_> = (0..2).map(|_| Raw::udp(udp_of(&broker))).collect();
    listeners
        .iter_mut()
        .for_each(|listener| drop(listener.subscribe("hall/#")));
    let mut torrent = Torrent::at(&broker, "hall/stage");
    torrent.open(&[&broker]);
    listeners.iter_mut().for_each(Raw::catch_up);
    torrent.pour(100_000, (&[&broker], 2));
    let (memory, buffers) = (resident(), free_buffers(&broker));
    torrent.pour(900_000, (&[&broker], 2));

    assert!(
        resident() <= memory + SLACK,
        "{} bytes after {memory}",
        resident()
    );
    // All is back but what the caches keep.
    eventually("what is not cached is free", || {
        free_buffers(&broker) == buffers
    });
    assert!(POOL - buffers.0 <= POOL / 2, "{buffers:?} are free");
    assert_eq!(drops(&broker), []);
}

fn a_thousand_clients() {
    let broker = start(patient(config(1)));
    let neighbour = start(patient(linked(2, &[&broker])));
    links_up(&broker, 1);
    let mut memory = Vec::new();
    for _ in 0..10 {
        let mut guests: Vec<_> = (0..100)
            .map(|n| {
                if n % 2 == 0 {
                    Raw::udp(udp_of(&broker))
                } else {
                    Raw::tcp(tcp_of(&broker))
                }
            })
            .collect();
        for (n, guest) in guests.iter_mut().enumerate() {
            guest.subscribe("guests/#");
            guest.subscribe(&format!("private/{n}"));
            guest.publish(&format!("guests/{n}"), audio());
        }
        for guest in &mut guests {
            let session = guest.welcome.session;
            guest.send(&bytes_of(&Frame::Bye {
                session,
                reason: Refusal::Goodbye,
            }));
        }
        eventually("everybody has left", || {
            broker.peers() == 0 && broker.streams().is_empty() && neighbour.streams().is_empty()
        });
        drop(guests);
        memory.push(resident());
    }
    let (early, late) = (memory[2], memory[9]);
    assert!(late <= early + SLACK, "{memory:?}");
}
