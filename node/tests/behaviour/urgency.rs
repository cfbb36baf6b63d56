//! The order of service and of sacrifice in a shard that has more to do than it can.

use std::collections::BTreeMap;
use std::time::Duration;

use sangam_broker::DropReason;
use sangam_client::{Buffers, Client, ClientOptions, Outgoing, Publisher, Received, Target};
use sangam_model::Class;
use sangam_node::{Broker, BrokerConfig};
use sangam_wire::{Event, Flags, Message};

use crate::support::raw::Raw;
use crate::support::*;

/// Receivers that make a shard busy for about a millisecond with every frame.
const CROWD: usize = 600;
const PACKETS: u8 = 3;
/// Frames from one key frame to the next.
const GROUP: u32 = 20;

/// Subscribers whose only purpose is to be served.
fn crowd(broker: &Broker, text: &str) -> Vec<Raw> {
    let mut crowd: Vec<_> = (0..CROWD).map(|_| Raw::udp(udp_of(broker))).collect();
    for client in &mut crowd {
        assert!(matches!(client.subscribe(text), Message::Accepted { .. }));
    }
    crowd
}

/// A client with room for all that is sent here.
fn measured(broker: &Broker) -> Client {
    let roomy = ClientOptions {
        queue: 8_192,
        receive_buffers: Buffers {
            small: 8_192,
            large: 1,
        },
        socket_buffer: 4 << 20,
        ..options()
    };
    let mut client = connect_with(Target::Udp(udp_of(broker)), roomy);
    subscribe(&mut client, "hall/#");
    client
}

/// Sends a frame of equal packets, each with the frame's number and its own.
fn send_frame(camera: &mut Publisher, frame: u32) {
    let payload = |packet: u8| {
        let mut payload = frame.to_be_bytes().to_vec();
        payload.push(packet);
        payload.resize(900, 0);
        payload
    };
    let payloads: Vec<_> = (0..PACKETS).map(payload).collect();
    let key = if frame.is_multiple_of(GROUP) {
        Flags::KEY
    } else {
        Flags::NONE
    };
    let flags = |packet: u8| match packet {
        0 => key.with(Flags::FRAME_START),
        last if last + 1 == PACKETS => key.with(Flags::FRAME_END),
        _ => key,
    };
    let burst: Vec<_> = (0..PACKETS)
        .map(|packet| Outgoing {
            flags: flags(packet),
            layer: 0,
            payload: &payloads[usize::from(packet)],
        })
        .collect();
    eventually("the publisher's queue has room", || {
        camera.send_burst(&burst).is_ok()
    });
}

/// What comes until nothing does for a while: class, frame or number, packet.
fn collect(client: &mut Client) -> Vec<(Class, u32, u8)> {
    receive(client, Duration::from_millis(500), |_| false)
}

/// The same, until something has come or nothing does for a moment.
fn collect_until(client: &mut Client, last: impl Fn((u32, u8)) -> bool) -> Vec<(Class, u32, u8)> {
    receive(client, Duration::from_millis(30), last)
}

fn receive(
    client: &mut Client,
    patience: Duration,
    last: impl Fn((u32, u8)) -> bool,
) -> Vec<(Class, u32, u8)> {
    let mut all = Vec::new();
    while let Some(received) = client.recv(patience) {
        let Received::Event(packet) = received else {
            continue;
        };
        let event = Event::decode(&packet).expect("an event");
        let number = u32::from_be_bytes(*event.payload.first_chunk().expect("a number"));
        all.push((event.header.class, number, event.payload[4]));
        if last((number, event.payload[4])) {
            break;
        }
    }
    all
}

/// Whole frames, by number.
#[track_caller]
fn whole_frames(events: &[(Class, u32, u8)]) -> Vec<u32> {
    let mut frames: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for (_, frame, packet) in events.iter().filter(|(class, ..)| *class == Class::Video) {
        frames.entry(*frame).or_default().push(*packet);
    }
    for (frame, packets) in &frames {
        assert_eq!(*packets, (0..PACKETS).collect::<Vec<_>>(), "frame {frame}");
    }
    frames.into_keys().collect()
}

#[test]
fn audio_overtakes_video_that_waits_in_a_busy_shard() {
    let broker = start(BrokerConfig {
        shards: 1,
        ..config(1)
    });
    let _crowd = crowd(&broker, "hall/video");
    let mut listener = measured(&broker);
    let mut source = udp(&broker);
    let mut camera = publish_media(&mut source, "hall/video", video());
    let mut speaker = door(&broker);
    let mut voice = publish_media(&mut speaker, "hall/voice", audio());
    announced(&mut listener, "hall/voice");
    send_frame(&mut camera, 0);
    voice.send(Outgoing::new(&numbered(0, 100))).expect("sent");
    collect(&mut listener);

    // At about a millisecond for each frame the shard is far behind when the voice comes.
    for frame in 1..=60 {
        send_frame(&mut camera, frame);
    }
    let taken = |broker: &Broker| counted(broker, "sangam_received_packets_total");
    let before = taken(&broker);
    eventually("the lane has taken most of it", || {
        taken(&broker) >= before.max(120)
    });
    voice.send(Outgoing::new(&numbered(1, 100))).expect("sent");
    let events = collect(&mut listener);
    let voice_at = events.iter().position(|(class, ..)| *class == Class::Audio);
    let voice_at = voice_at.expect("the voice is heard");
    let after = events.len() - 1 - voice_at;
    assert!(
        after >= 20,
        "only {after} of {} packets after the voice",
        events.len()
    );
    assert_eq!(dropped(&broker, DropReason::AudioLate), 0);
}

#[test]
fn an_overloaded_shard_sheds_whole_frames_until_a_key_frame_and_delays_no_neighbour() {
    const FRAMES: u32 = 300;
    let busy = start(BrokerConfig {
        shards: 1,
        ..config(1)
    });
    let quiet = start(linked(2, &[&busy]));
    links_up(&busy, 1);
    let _crowd = crowd(&busy, "hall/#");
    let (mut near, mut far) = (measured(&busy), measured(&quiet));
    let mut source = udp(&busy);
    let mut camera = publish_media(&mut source, "hall/video", video());
    routed(&busy, "hall/video", 1);
    for frame in 0..GROUP {
        send_frame(&mut camera, frame);
        let both = [&mut near, &mut far].map(|client| {
            wait_for(client, "a frame", |received| {
                matches!(received, Received::Event(_))
            })
        });
        assert_eq!(both.len(), 2);
    }
    collect(&mut near);
    collect(&mut far);

    let before = shed(&busy);
    for frame in GROUP..GROUP + FRAMES {
        send_frame(&mut camera, frame);
    }
    let (at_busy, at_quiet) = (collect(&mut near), collect(&mut far));
    let all: Vec<_> = (GROUP..GROUP + FRAMES).collect();
    assert_eq!(whole_frames(&at_quiet), all, "a neighbour gets everything");
    let served = whole_frames(&at_busy);
    assert!(served.len() < all.len(), "nothing was shed");
    assert_eq!(
        shed(&busy) - before,
        u64::from(FRAMES) * 3 - at_busy.len() as u64
    );
    goes_on_at_key_frames(&served);

    // Once there is time again, it goes on at the next key frame.
    let mut later = Vec::new();
    for frame in GROUP + FRAMES + 5..GROUP + FRAMES + 3 * GROUP {
        send_frame(&mut camera, frame);
        later.extend(collect_until(&mut near, |event| {
            event == (frame, PACKETS - 1)
        }));
    }
    let later = whole_frames(&later);
    goes_on_at_key_frames(&[&served[served.len() - 1..], &later].concat());
    assert_eq!(later.last(), Some(&(GROUP + FRAMES + 3 * GROUP - 1)));
}

/// Video packets the broker let go as the shard had no time for them.
fn shed(broker: &Broker) -> u64 {
    let reasons = [
        DropReason::VideoLate,
        DropReason::VideoShed,
        DropReason::RingFullVideo,
    ];
    reasons.iter().map(|reason| dropped(broker, *reason)).sum()
}

#[track_caller]
fn goes_on_at_key_frames(frames: &[u32]) {
    for two in frames.windows(2) {
        let gap = two[1] != two[0] + 1;
        assert!(
            !gap || two[1].is_multiple_of(GROUP),
            "frame {} after {}",
            two[1],
            two[0]
        );
    }
}
