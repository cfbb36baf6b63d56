//! Subscribers that do not read: what is kept for them is bounded, and nobody waits for them.

use std::time::Duration;

use sangam_broker::DropReason;
use sangam_client::{Buffers, ClientOptions, Outgoing, Received, Target};
use sangam_model::{Class, StreamId};
use sangam_node::{Broker, BrokerConfig};
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
fn subscribers_that_break_off_while_they_are_served_cost_the_others_nothing() {
    let broker = start(BrokerConfig {
        shards: 1,
        ..config(1)
    });
    // More than are served in one go, so that a delivery goes on after somebody has left.
    let mut crowd: Vec<_> = (0..400).map(|_| Raw::tcp(tcp_of(&broker))).collect();
    crowd
        .iter_mut()
        .for_each(|client| drop(client.subscribe("hall/#")));
    let mut last: Vec<_> = (0..3).map(|_| tcp(&broker)).collect();
    last.iter_mut()
        .for_each(|client| subscribe(client, "hall/#"));
    let mut last: Vec<_> = last.iter_mut().collect();
    let mut publisher = udp(&broker);
    let mut flow = Flow::open(&mut publisher, "hall/stage", &mut last);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Unread events make the kernel reset the connection, so that writing to it fails.
            while crowd.pop().is_some() {
                std::thread::yield_now();
            }
        });
        flow.pump(600, &mut last);
    });
    eventually("the crowd has left", || broker.peers() == 4);
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

/// A frame and a sound at a time, in step with one who reads.
struct Show {
    source: Raw,
    reader: Raw,
    camera: Camera,
    microphone: StreamId,
    sounds: u16,
}

impl Show {
    fn at(broker: &Broker) -> Self {
        let mut source = Raw::tcp(tcp_of(broker));
        let stream = source.publish("hall/video", video());
        let microphone = source.publish("hall/audio", audio());
        let mut reader = Raw::tcp(tcp_of(broker));
        reader.subscribe("hall/#");
        let camera = Camera {
            stream,
            sequence: 0,
            frame: 0,
        };
        Self {
            source,
            reader,
            camera,
            microphone,
            sounds: 0,
        }
    }

    fn go_on(&mut self) {
        let payload = numbered(self.sounds.into(), 160);
        let sound = event(Class::Audio, self.microphone, self.sounds, &payload);
        self.sounds += 1;
        let frame = self.camera.next();
        let all = frame.iter().chain([&sound]);
        all.for_each(|bytes| self.source.send(bytes));
        while let Some(bytes) = self.reader.event(Duration::from_millis(500)) {
            if Header::decode(&bytes).is_ok_and(|header| header.class == Class::Audio) {
                break;
            }
        }
    }
}

fn all_that_comes(client: &mut Raw) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| client.event(Duration::from_millis(300))).collect()
}

#[test]
fn a_slow_tcp_subscriber_loses_whole_video_frames_until_a_key_frame_and_no_audio() {
    let broker = start(BrokerConfig {
        pool_small: 16_384,
        shards: 1,
        ..config(1)
    });
    let mut show = Show::at(&broker);
    let mut sleeper = Raw::tcp(tcp_of(&broker));
    sleeper.subscribe("hall/#");
    eventually("the show reaches it", || {
        show.go_on();
        sleeper.event(Duration::from_millis(20)).is_some()
    });
    let mut got = all_that_comes(&mut sleeper);
    let (first, sounds_before) = (show.camera.frame, show.sounds);
    got.clear();
    while dropped(&broker, DropReason::PeerQueueFull) < 100 {
        show.go_on();
        assert!(show.camera.frame < TOO_MANY, "nothing is shed");
    }
    got.extend(all_that_comes(&mut sleeper));
    // Now that it reads again it gets the next key frame, and what follows.
    (0..25).for_each(|_| show.go_on());
    got.extend(all_that_comes(&mut sleeper));

    let is_video = |bytes: &&Vec<u8>| bytes[0] & 0x0f == Class::Video as u8;
    let packets: Vec<_> = got
        .iter()
        .filter(is_video)
        .map(|bytes| place(bytes))
        .collect();
    let sounds = got.len() - packets.len();
    assert_eq!(
        sounds,
        usize::from(show.sounds - sounds_before),
        "every sound comes"
    );
    let frames: Vec<u32> = packets.chunks(PACKETS.into()).map(whole_frame).collect();
    let gaps: Vec<_> = frames
        .windows(2)
        .filter(|two| two[1] != two[0] + 1)
        .collect();
    assert!(!gaps.is_empty(), "no frame is shed");
    for gap in gaps {
        assert!(
            gap[1].is_multiple_of(10),
            "goes on at frame {} after {}",
            gap[1],
            gap[0]
        );
    }
    assert_eq!(
        (frames.first(), frames.last()),
        (Some(&first), Some(&(show.camera.frame - 1)))
    );
}

/// The number of a frame of which every packet is there, in order.
#[track_caller]
fn whole_frame(packets: &[(u32, u8)]) -> u32 {
    let frame = packets[0].0;
    let whole: Vec<_> = (0..PACKETS as u8).map(|packet| (frame, packet)).collect();
    assert_eq!(packets, whole, "a frame in part");
    frame
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
