//! Subscribers that do not read: what is kept for them is bounded, and nobody waits for them.

use std::time::Duration;

use sangam_broker::DropReason;
use sangam_client::{Buffers, ClientOptions, Outgoing, Received, Target};
use sangam_model::{Class, StreamId};
use sangam_node::BrokerConfig;
use sangam_wire::{Event, Flags, Header};

use crate::support::raw::*;
use crate::support::*;

const LEN: usize = 1_400;
/// More than any kernel buffers between two sockets on one machine.
const TOO_MANY: u32 = 40_000;

#[test]
fn a_tcp_subscriber_that_stops_reading_loses_events_and_the_others_do_not() {
    let pool_small = 16_384;
    let broker = start(BrokerConfig {
        pool_small,
        ..config(1)
    });
    let mut sleeper = Raw::tcp(tcp_of(&broker));
    sleeper.subscribe("hall/#");
    let (mut publisher, mut reader) = (udp(&broker), udp(&broker));
    subscribe(&mut reader, "hall/#");
    let mut flow = Flow::open(&mut publisher, "hall/stage", &mut [&mut reader]);
    flow.len = LEN;

    let mut sent = 0;
    while dropped(&broker, DropReason::PeerQueueFull) < 200 {
        assert!(sent < TOO_MANY, "nothing is dropped");
        flow.pump(200, &mut [&mut reader]);
        sent += 200;
    }
    // Half a MiB at most waits for it; the caches hold half of all.
    let used = pool_small as u64 - counted(&broker, "sangam_pool_free_small");
    let waiting = (512 << 10) / LEN as u64;
    assert!(
        used <= pool_small as u64 / 2 + waiting + 64,
        "{used} buffers are held"
    );
    assert_eq!(drops(&broker).len(), 1, "{:?}", drops(&broker));

    // It reads on, and is served again.
    while sleeper.event(Duration::from_millis(300)).is_some() {}
    let before = dropped(&broker, DropReason::PeerQueueFull);
    flow.pump(100, &mut [&mut reader]);
    for _ in 0..100 {
        assert!(sleeper.event(PATIENCE).is_some());
    }
    assert_eq!(dropped(&broker, DropReason::PeerQueueFull), before);
}

#[test]
fn many_that_stop_reading_cannot_hold_every_buffer() {
    let pool_small = 8_192;
    let broker = start(BrokerConfig {
        pool_small,
        shards: 1,
        ..config(1)
    });
    let mut publisher = udp(&broker);
    let mut reader = udp(&broker);
    subscribe(&mut reader, "hall/#");
    let mut flow = Flow::open(&mut publisher, "hall/stage", &mut [&mut reader]);
    flow.len = LEN;
    // Each begins to wait at another time, so that they wait for different events.
    let mut sleepers = Vec::new();
    for _ in 0..8 {
        let mut sleeper = Raw::tcp(tcp_of(&broker));
        sleeper.subscribe("hall/#");
        sleepers.push(sleeper);
        flow.pump(300, &mut [&mut reader]);
    }
    let mut sent = 0;
    while dropped(&broker, DropReason::PeerQueueFull) < 8 * 1_000 {
        assert!(sent < TOO_MANY, "nothing is dropped");
        flow.pump(200, &mut [&mut reader]);
        sent += 200;
    }
    assert_eq!(dropped(&broker, DropReason::PoolExhausted), 0);
    assert!(counted(&broker, "sangam_pool_free_small") >= 1_024);
    // What waits for those who leave is given back.
    drop(sleepers);
    eventually("they have left", || broker.peers() == 2);
    let used = pool_small as u64 - counted(&broker, "sangam_pool_free_small");
    assert!(
        used <= pool_small as u64 / 2 + 64,
        "{used} buffers are held"
    );
}

#[test]
fn events_in_large_buffers_flow_for_ever() {
    let broker = start(BrokerConfig {
        pool_large: 16,
        ..config(1)
    });
    let (mut publisher, mut reader) = (tcp(&broker), tcp(&broker));
    subscribe(&mut reader, "hall/#");
    let mut flow = Flow::open(&mut publisher, "hall/stage", &mut [&mut reader]);
    flow.len = 8_000;
    for _ in 0..50 {
        flow.pump(4, &mut [&mut reader]);
    }
    assert_eq!(drops(&broker), []);
}

#[test]
fn a_client_in_this_process_that_does_not_read_loses_its_events_only() {
    let broker = start(BrokerConfig {
        pool_small: 16_384,
        ..config(1)
    });
    let mut sleeper = door(&broker);
    subscribe(&mut sleeper, "hall/#");
    let (mut publisher, mut reader) = (udp(&broker), tcp(&broker));
    subscribe(&mut reader, "hall/#");
    let mut flow = Flow::open(&mut publisher, "hall/stage", &mut [&mut reader]);
    let mut sent = 0;
    while dropped(&broker, DropReason::PeerQueueFull) == 0 {
        assert!(sent < TOO_MANY, "nothing is dropped");
        flow.pump(500, &mut [&mut reader]);
        sent += 500;
    }
    flow.pump(100, &mut [&mut reader]);
    let mut got = 0;
    while let Some(received) = sleeper.recv(Duration::from_millis(200)) {
        got += u32::from(matches!(received, Received::Event(_)));
    }
    assert!(got > 1_000, "a door holds thousands, not {got}");
    flow.pump(50, &mut [&mut reader, &mut sleeper]);
}

/// Sends frames of three packets, a key frame in every ten.
struct Camera {
    stream: StreamId,
    sequence: u16,
    frame: u32,
}

const PACKETS: u16 = 3;

impl Camera {
    /// The packets of the next frame: each says which frame it is of, and which of its packets.
    fn next(&mut self) -> Vec<Vec<u8>> {
        let key = if self.frame.is_multiple_of(10) {
            Flags::KEY
        } else {
            Flags::NONE
        };
        let mut packets = Vec::new();
        for packet in 0..PACKETS {
            let start = if packet == 0 {
                Flags::FRAME_START
            } else {
                Flags::NONE
            };
            let end = if packet + 1 == PACKETS {
                Flags::FRAME_END
            } else {
                Flags::NONE
            };
            let flags = key.with(start).with(end);
            let mut payload = self.frame.to_be_bytes().to_vec();
            payload.push(packet as u8);
            payload.resize(LEN, 0);
            packets.push(flagged(
                (Class::Video, flags),
                self.stream,
                self.sequence,
                &payload,
            ));
            self.sequence = self.sequence.wrapping_add(1);
        }
        self.frame += 1;
        packets
    }
}

/// Frame and packet number of an event.
fn place(bytes: &[u8]) -> (u32, u8) {
    let event = Event::decode(bytes).expect("an event");
    let frame = event.payload.first_chunk().expect("a frame number");
    (u32::from_be_bytes(*frame), event.payload[4])
}

#[test]
fn a_slow_tcp_subscriber_loses_whole_video_frames_until_a_key_frame_and_no_audio() {
    let broker = start(BrokerConfig {
        pool_small: 16_384,
        ..config(1)
    });
    let mut source = Raw::tcp(tcp_of(&broker));
    let video = source.publish("hall/video", video());
    let audio = source.publish("hall/audio", audio());
    let mut camera = Camera {
        stream: video,
        sequence: 0,
        frame: 0,
    };
    let mut reader = Raw::tcp(tcp_of(&broker));
    let mut sleeper = Raw::tcp(tcp_of(&broker));
    reader.subscribe("hall/#");
    sleeper.subscribe("hall/#");
    let mut sounds = 0;
    let mut next = |source: &mut Raw, reader: &mut Raw| {
        let sound = event(Class::Audio, audio, sounds, &numbered(sounds.into(), 160));
        sounds = sounds.wrapping_add(1);
        let frame = camera.next();
        frame
            .iter()
            .chain([&sound])
            .for_each(|bytes| source.send(bytes));
        // In step with one who reads.
        while let Some(bytes) = reader.event(Duration::from_millis(500)) {
            if Header::decode(&bytes).is_ok_and(|header| header.class == Class::Audio) {
                break;
            }
        }
        (camera.frame, u64::from(sounds))
    };
    while dropped(&broker, DropReason::PeerQueueFull) < 100 {
        let (frames, _) = next(&mut source, &mut reader);
        assert!(frames < TOO_MANY, "nothing is shed");
    }
    let mut before_reading = Vec::new();
    while let Some(bytes) = sleeper.event(Duration::from_millis(300)) {
        before_reading.push(bytes);
    }
    let mut last = (0, 0);
    for _ in 0..25 {
        last = next(&mut source, &mut reader);
    }
    let mut got = before_reading;
    while let Some(bytes) = sleeper.event(Duration::from_millis(300)) {
        got.push(bytes);
    }

    let is_video = |bytes: &&Vec<u8>| bytes[0] & 0x0f == Class::Video as u8;
    let frames: Vec<_> = got
        .iter()
        .filter(is_video)
        .map(|bytes| place(bytes))
        .collect();
    let mut shed = 0;
    for packets in frames.chunks(PACKETS.into()) {
        let whole: Vec<_> = (0..PACKETS as u8)
            .map(|packet| (packets[0].0, packet))
            .collect();
        assert_eq!(packets, whole, "a frame in part");
    }
    for two in frames.chunks(PACKETS.into()).collect::<Vec<_>>().windows(2) {
        let (before, after) = (two[0][0].0, two[1][0].0);
        if after != before + 1 {
            assert!(
                after.is_multiple_of(10),
                "goes on at frame {after} after {before}"
            );
            shed += after - before - 1;
        }
    }
    assert!(shed > 0, "no frame is shed");
    let sounds = got.len() - frames.len();
    assert!(sounds as u64 + 1 >= last.1, "{sounds} of {} sounds", last.1);
    assert!(frames.last().is_some_and(|(frame, _)| frame + 1 == last.0));
}

#[test]
fn a_udp_subscriber_that_does_not_read_costs_nobody_anything() {
    let broker = start(config(1));
    let mut sleeper = Raw::udp(udp_of(&broker));
    sleeper.subscribe("#");
    let small = ClientOptions {
        queue: 64,
        receive_buffers: Buffers {
            small: 80,
            large: 1,
        },
        ..options()
    };
    let mut lazy = connect_with(Target::Udp(udp_of(&broker)), small);
    subscribe(&mut lazy, "#");
    let mut witness = Witness::of(&broker);
    for _ in 0..20 {
        witness.is_unharmed();
    }
    assert_eq!(drops(&broker), []);
    let counters = lazy.counters();
    assert!(
        counters.dropped_other + counters.dropped_pool > 100,
        "{counters:?}"
    );
    // Its own queue is the bound; what it asks for is still answered.
    subscribe(&mut lazy, "other/#");
}

#[test]
fn a_publisher_at_full_speed_is_told_when_its_queue_is_full() {
    let broker = start(config(1));
    let mut client = tcp(&broker);
    let mut publisher = publish(&mut client, "flood");
    let mut full = 0;
    for _ in 0..50_000 {
        full += u32::from(publisher.send(Outgoing::new(&[0; 1_000])).is_err());
    }
    let counters = client.counters();
    let lost = counters.dropped_send_queue + counters.dropped_pool;
    assert_eq!(u64::from(full), lost, "{counters:?}");
    Witness::of(&broker).is_unharmed();
}
