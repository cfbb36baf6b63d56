//! Relaying and delivering an event allocates nothing. In a program of its own, as the allocator
//! belongs to the whole program.

use std::time::{Duration, Instant};

use sangam_io::alloc::CountingAllocator;
use sangam_node::{Broker, BrokerConfig, Queuing};

mod support;

use support::raw::Raw;
use support::torrent::Torrent;
use support::*;

/// Only the broker's own threads of the media plane: the test's and its clients' may allocate.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new(&["sangam-lane", "sangam-shard"]);

/// Frames of links and clients: heartbeats and what control says.
fn frames(brokers: &[&Broker]) -> u64 {
    brokers
        .iter()
        .map(|broker| counted(broker, "sangam_frames_total"))
        .sum()
}

/// Allocations of relaying and delivering so many events, beyond those of link frames.
fn allocations(queuing: Queuing, events: u64) -> u64 {
    let patient = |config| BrokerConfig {
        pool_small: 16_384,
        publisher_packets_per_s: u32::MAX,
        keepalive_ms: 60_000,
        queuing,
        ..config
    };
    let first = start(patient(config(1)));
    let second = start(patient(linked(2, &[&first])));
    links_up(&first, 1);
    let mut listeners: Vec<_> = [&first, &first, &second, &second]
        .iter()
        .map(|broker| Raw::udp(udp_of(broker)))
        .collect();
    listeners
        .iter_mut()
        .for_each(|listener| drop(listener.subscribe("hall/#")));
    let mut torrent = Torrent::at(&first, "hall/stage");
    routed(&first, "hall/stage", 1);
    let brokers = [&first, &second];
    torrent.open(&brokers);
    listeners.iter_mut().for_each(Raw::catch_up);
    // Queues and tables grow to what they need, and links show themselves every second.
    let warm = Instant::now();
    while warm.elapsed() < Duration::from_millis(1_200) {
        torrent.pour(10_000, (&brokers, 4));
    }
    let before = frames(&brokers);
    ALLOCATOR.start();
    torrent.pour(events, (&brokers, 4));
    let allocations = ALLOCATOR.stop();
    // Each frame that came was written into a buffer of its own, and answered at most once.
    let of_frames = 3 * (frames(&brokers) - before);
    assert!(
        of_frames < events / 10,
        "heartbeats hide what is looked for"
    );
    allocations.saturating_sub(of_frames)
}

#[test]
fn a_hundred_thousand_events_over_two_brokers_allocate_nothing() {
    the_count_sees_threads_of_these_names_only();
    assert_eq!(allocations(Queuing::Double, 100_000), 0);
    assert_eq!(allocations(Queuing::Single, 20_000), 0);
}

fn the_count_sees_threads_of_these_names_only() {
    let allocate = || (0..10).for_each(|_| drop(std::hint::black_box(Box::new([0_u8; 64]))));
    let seen = |name: &str| {
        let thread = std::thread::Builder::new().name(name.into());
        ALLOCATOR.start();
        thread
            .spawn(allocate)
            .expect("a thread")
            .join()
            .expect("no panic");
        ALLOCATOR.stop()
    };
    assert!(seen("sangam-lane") >= 10);
    assert_eq!(seen("elsewhere"), 0);
}
