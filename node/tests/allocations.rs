//! Relaying and delivering an event allocates nothing. In a program of its own, as the allocator
//! belongs to the whole program.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use sangam_io::alloc::CountingAllocator;
use sangam_node::{Broker, BrokerConfig, LegSend, LegSpec, Queuing, RtcpPort};

mod support;

use support::raw::Raw;
use support::source::Source;
use support::torrent::Torrent;
use support::*;

/// Only the broker's own threads of the media plane: the test's and its clients' may allocate.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new(&["sangam-lane", "sangam-shard"]);

/// The count is of the whole program.
static ALONE: Mutex<()> = Mutex::new(());
/// Runs after which live media must have come through whole once.
const ATTEMPTS: usize = 10;

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

/// Listeners over UDP, TCP and an RTP leg; the first has to catch up with what control says.
fn audience(broker: &Broker, player: &UdpSocket) -> Raw {
    let mut listener = Raw::udp(udp_of(broker));
    listener.subscribe("hall/+");
    let mut reader = Raw::tcp(tcp_of(broker));
    reader.subscribe("hall/+");
    reader.read_on();
    let send = Some(LegSend {
        to: player.local_addr().expect("an address"),
        filter: filter("hall/+"),
    });
    let leg = broker.add_leg(LegSpec {
        name: "player".to_owned(),
        receive: None,
        send,
        rtcp: RtcpPort::Mux,
    });
    leg.expect("a leg");
    listener
}

/// Allocations of so many events of each kind of live media over two brokers, which deliver to
/// UDP, TCP and an RTP leg each, beyond those of link frames.
fn live_allocations(events: u64) -> Vec<(&'static str, u64)> {
    let patient = |config| BrokerConfig {
        pool_small: 16_384,
        publisher_packets_per_s: u32::MAX,
        keepalive_ms: 60_000,
        ..config
    };
    let first = start(patient(config(1)));
    let second = start(patient(linked(2, &[&first])));
    links_up(&first, 1);
    let brokers = [&first, &second];
    let player = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let mut listeners = brokers.map(|broker| audience(broker, &player));
    let everybody = (&brokers[..], 6);
    let mut sources = [
        Source::audio(&first),
        Source::video(&first),
        Source::rtcp(&first),
        Source::leg(&first),
    ];
    sources.iter_mut().for_each(|source| source.open(everybody));
    listeners.iter_mut().for_each(Raw::catch_up);
    let warm = Instant::now();
    while warm.elapsed() < Duration::from_millis(1_200) {
        for source in &mut sources {
            source.pour(1_000, everybody);
        }
    }
    let measured = sources.iter_mut().map(|source| {
        for _ in 0..ATTEMPTS {
            let before = frames(&brokers);
            ALLOCATOR.start();
            let whole = source.pour(events, everybody);
            let allocations = ALLOCATOR.stop();
            if whole {
                let of_frames = 3 * (frames(&brokers) - before);
                assert!(
                    of_frames < events / 10,
                    "heartbeats hide what is looked for"
                );
                return (source.name, allocations.saturating_sub(of_frames));
            }
        }
        panic!(
            "{} was never delivered whole: {:?}",
            source.name,
            brokers.map(drops)
        );
    });
    measured.collect()
}

#[test]
fn live_media_to_udp_tcp_and_rtp_allocates_nothing() {
    let _alone = ALONE.lock();
    let allocations = live_allocations(10_000);
    assert!(allocations.iter().all(|(_, n)| *n == 0), "{allocations:?}");
}

#[test]
fn a_hundred_thousand_events_over_two_brokers_allocate_nothing() {
    let _alone = ALONE.lock();
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
