//! Floors are kept by the broker: what is published without one goes nowhere, whoever sends it.

use std::time::Duration;

use sangam_broker::{DropReason, TopicGate};
use sangam_client::{Client, Outgoing, Received};
use sangam_model::{Class, StreamId};
use sangam_node::Broker;
use sangam_wire::Event;
use sangam_wire::feedback::Feedback;

use crate::support::raw::*;
use crate::support::*;

const FLOOR: &str = "acme/weekly/main/audio";

/// The word of a session server: who holds the floor.
fn give(broker: &Broker, (epoch, revision): (u64, u64), holders: &[&str]) {
    let open = holders.iter().map(|holder| (*holder).to_owned()).collect();
    let gate = TopicGate {
        epoch,
        revision,
        open: Some(open),
        class: None,
    };
    broker.gate(topic(FLOOR), gate);
}

/// A client without manners on the topic of a member.
fn speaker(mut raw: Raw, member: &str) -> (Raw, StreamId) {
    let stream = raw.publish(&format!("{FLOOR}/{member}"), audio());
    (raw, stream)
}

fn say((raw, stream): &mut (Raw, StreamId), class: Class, sequence: u16) {
    raw.send_media(&event(class, *stream, sequence, &sequence.to_be_bytes()));
}

/// Says the next things until one of them does what is waited for.
fn say_until(speaker: &mut (Raw, StreamId), sequence: &mut u16, mut done: impl FnMut() -> bool) {
    eventually("what is said has its effect", || {
        *sequence += 1;
        say(speaker, Class::Audio, *sequence);
        done()
    });
}

fn hears(listener: &mut Client, from: StreamId) -> bool {
    let mut heard = false;
    while let Some(one) = listener.recv(Duration::from_millis(20)) {
        if let Received::Event(packet) = one {
            let event = Event::decode(&packet).expect("an event");
            assert_eq!(event.header.stream, from, "somebody without the floor");
            heard = true;
        }
    }
    heard
}

#[test]
fn who_does_not_hold_the_floor_is_heard_by_nobody_over_any_transport() {
    let broker = start(config(1));
    let mut listener = udp(&broker);
    subscribe(&mut listener, "acme/weekly/#");
    give(&broker, (1, 1), &["m1"]);
    let mut good = speaker(Raw::udp(udp_of(&broker)), "m1");
    let hostile = [Raw::udp(udp_of(&broker)), Raw::tcp(tcp_of(&broker))];
    let mut closed = 0;
    for (raw, member) in hostile.into_iter().zip(["m2", "m3"]) {
        let mut hostile = speaker(raw, member);
        for (class, sequence) in [(Class::Audio, 1), (Class::Rtcp, 1), (Class::Audio, 2)] {
            say(&mut hostile, class, sequence);
        }
        closed += 3;
        eventually("the counter", || {
            dropped(&broker, DropReason::GateClosed) == closed
        });
    }
    let from = good.1;
    say_until(&mut good, &mut 0, || hears(&mut listener, from));
}

#[test]
fn who_may_speak_shows_no_pictures_with_that_floor() {
    let broker = start(config(1));
    let mut listener = udp(&broker);
    subscribe(&mut listener, "acme/weekly/#");
    let gate = TopicGate {
        epoch: 1,
        revision: 1,
        open: Some(["m1".to_owned()].into()),
        class: Some(Class::Audio),
    };
    broker.gate(topic(FLOOR), gate);
    let mut raw = Raw::udp(udp_of(&broker));
    let picture = raw.publish(&format!("{FLOOR}/m1/video"), video());
    raw.send_media(&event(Class::Video, picture, 1, b"picture"));
    eventually("the counter", || {
        dropped(&broker, DropReason::GateClosed) == 1
    });
    let mut good = speaker(raw, "m1");
    let from = good.1;
    say_until(&mut good, &mut 0, || hears(&mut listener, from));
}

#[test]
fn a_floor_that_is_given_opens_and_one_that_is_taken_closes() {
    let brokers = chain(2);
    let mut listener = udp(&brokers[1]);
    subscribe(&mut listener, "acme/weekly/#");
    give(&brokers[0], (1, 1), &[]);
    let mut anna = speaker(Raw::udp(udp_of(&brokers[0])), "m1");
    let (from, mut sequence) = (anna.1, 0);
    announced(&mut listener, "acme/weekly/main/audio/m1");
    let closed = || dropped(&brokers[0], DropReason::GateClosed);
    say_until(&mut anna, &mut sequence, || closed() > 0);
    assert!(!hears(&mut listener, from));

    give(&brokers[0], (1, 2), &["m1"]);
    say_until(&mut anna, &mut sequence, || hears(&mut listener, from));

    // Another server holds the session now, and what the earlier one still says is void.
    give(&brokers[0], (2, 1), &[]);
    give(&brokers[0], (1, 9), &["m1"]);
    for _ in 0..3 {
        let before = closed();
        say_until(&mut anna, &mut sequence, || closed() > before);
    }
    hears(&mut listener, from);
    let before = closed();
    say_until(&mut anna, &mut sequence, || closed() > before);
    assert!(!hears(&mut listener, from));
}

#[test]
fn a_camera_that_gets_the_floor_in_the_middle_is_asked_for_a_key_frame() {
    let broker = start(config(1));
    for (member, revision) in [("m1", 1), ("m2", 3)] {
        let mut anna = match member {
            "m1" => udp(&broker),
            _ => door(&broker),
        };
        let mut listener = udp(&broker);
        subscribe(&mut listener, "acme/weekly/#");
        give(&broker, (1, revision), &[]);
        let name = format!("{FLOOR}/{member}");
        let mut camera = publish_media(&mut anna, &name, video());
        let mut show = |anna: &mut Client| {
            // The middle of a picture.
            camera.send(Outgoing::new(b"picture")).expect("sent");
            match anna.recv(Duration::from_millis(20)) {
                Some(Received::Feedback { feedback, .. }) => Some(feedback),
                _ => None,
            }
        };
        let closed = || dropped(&broker, DropReason::GateClosed);
        let before = closed();
        eventually("the counter", || {
            assert_eq!(show(&mut anna), None, "nobody sees it");
            closed() > before
        });
        give(&broker, (1, revision + 1), &[member]);
        let asked = || show(&mut anna) == Some(Feedback::KeyFrame);
        eventually("a request for a key frame", asked);
    }
}
