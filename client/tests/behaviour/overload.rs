//! Somebody is too slow.

use sangam_client::{Client, ClientOptions, Outgoing, Publisher, Received, SendError};
use sangam_model::{Class, MediaInfo};
use sangam_wire::Flags;

use crate::support::{PATIENCE, TestBroker, Way, calm, eventually, filter, media, topic, wait};

fn received(client: &Client) -> u64 {
    let counters = client.counters();
    counters.received + counters.dropped_video + counters.dropped_other + counters.dropped_pool
}

/// A client with little room that wants everything.
fn slow_client(broker: &TestBroker) -> Client {
    let options = ClientOptions {
        queue: 64,
        ..crate::support::options()
    };
    let mut slow = Client::connect(broker.target(), options).expect("a socket");
    slow.wait_up(PATIENCE).expect("a welcome");
    slow.subscribe(&filter("#")).expect("room for it");
    wait(&mut slow, |one| matches!(one, Received::Subscribed(_)));
    slow
}

/// Frames of two packets, of which every 25th is a key frame.
fn send_frames(video: &mut Publisher, frames: usize) {
    for number in 0..frames {
        let key = if number.is_multiple_of(25) {
            Flags::KEY
        } else {
            Flags::NONE
        };
        for bound in [Flags::FRAME_START, Flags::FRAME_END] {
            let flags = key.with(bound);
            let payload = &[0; 500];
            let packet = Outgoing {
                flags,
                layer: 0,
                payload,
            };
            video.send(packet).expect("room for it");
        }
    }
}

#[test]
fn a_client_that_does_not_read_loses_video_before_audio() {
    for way in [Way::Udp, Way::Tcp] {
        let broker = TestBroker::start(way, calm());
        let mut slow = slow_client(&broker);
        let mut publisher = broker.client();
        let mut publish = |name, class| {
            let published = publisher.publish(&topic(name), media(class), PATIENCE);
            published.unwrap()
        };
        let mut video = publish("v", Class::Video);
        let mut audio = publish("a", Class::Audio);
        send_frames(&mut video, 50);
        for _ in 0..8 {
            audio.send(Outgoing::new(&[0; 160])).unwrap();
        }
        // All has come when what is not dropped waits for the application.
        eventually(|| broker.seen().headers.len() == 108);
        eventually(|| slow.counters().dropped_video >= 108 - 8 - 48);
        let (mut heard, mut shown) = (0, Vec::new());
        while heard < 8 {
            let header = crate::support::event(&mut slow).header().unwrap();
            match header.class {
                Class::Audio => heard += 1,
                _ => shown.push(header.sequence),
            }
        }
        assert_eq!(slow.counters().dropped_other, 0, "{way:?}");
        assert_eq!(received(&slow), 108, "{way:?}");
        assert!(shown.iter().copied().eq(0..shown.len() as u16), "{shown:?}");
    }
}

#[test]
fn a_client_that_keeps_every_packet_runs_out_of_buffers_only() {
    let broker = TestBroker::start(Way::Udp, calm());
    let receive_buffers = sangam_client::Buffers { small: 8, large: 0 };
    let options = ClientOptions {
        receive_buffers,
        ..crate::support::options()
    };
    let mut hoarder = Client::connect(broker.target(), options).unwrap();
    hoarder.subscribe(&filter("a")).unwrap();
    wait(&mut hoarder, |one| matches!(one, Received::Subscribed(_)));
    let mut stream = hoarder
        .publish(&topic("a"), MediaInfo::data(), PATIENCE)
        .unwrap();
    for _ in 0..20 {
        stream.send(Outgoing::new(b"keep me")).unwrap();
    }
    eventually(|| hoarder.counters().dropped_pool == 12);
    let hoard: Vec<_> = (0..8)
        .map(|_| crate::support::event(&mut hoarder))
        .collect();
    drop(hoard);
    stream.send(Outgoing::new(b"room again")).unwrap();
    crate::support::event(&mut hoarder);
}

#[test]
fn a_broker_that_does_not_take_events_costs_events_only() {
    let broker = TestBroker::start(Way::Door, calm());
    let (waker, _sleeper) = sangam_io::wake::pair().unwrap();
    let (door, stuck) = sangam_io::door::door(32, waker).unwrap();
    drop(broker);
    let mut client =
        Client::connect(sangam_client::Target::Door(door), crate::support::options()).unwrap();
    let brief = std::time::Duration::from_millis(1);
    // Nobody answers, and nothing hangs.
    let error = client
        .publish(&topic("a"), MediaInfo::data(), brief)
        .unwrap_err();
    assert!(
        matches!(error, sangam_client::ClientError::Unanswered(_)),
        "{error:?}"
    );
    for number in 0..64 {
        match client.subscribe(&filter(&format!("f/{number}"))) {
            Ok(()) => {}
            Err(error) => {
                assert!(
                    matches!(error, sangam_client::ClientError::Busy),
                    "{error:?}"
                );
                drop(stuck);
                return;
            }
        }
    }
    panic!("a queue without a bound");
}

#[test]
fn what_cannot_be_an_event_is_not_sent() {
    let broker = TestBroker::start(Way::Door, calm());
    let mut client = broker.client();
    let mut stream = client
        .publish(&topic("a"), MediaInfo::data(), PATIENCE)
        .unwrap();
    assert_eq!(
        stream.send(Outgoing::new(&[0; 16_371])),
        Err(SendError::Oversized)
    );
    let foreign = stream.pool().copy(&[0x53; 20]).unwrap().freeze();
    assert_eq!(stream.send_event(foreign), Err(SendError::Foreign));
    assert_eq!(client.counters().dropped_malformed, 2);
    // The number of the event that was too long is used up.
    assert_eq!(stream.send(Outgoing::new(b"x")), Ok(1));
}
