//! What receivers tell publishers: merged and limited on the way, and answered where possible.

use std::time::{Duration, Instant};

use sangam_broker::{DropReason, KEY_FRAME_INTERVAL};
use sangam_client::{Client, Outgoing, Received};
use sangam_model::StreamId;
use sangam_node::BrokerConfig;
use sangam_wire::feedback::{Feedback, Nack, Report};

use crate::support::cable::Cable;
use crate::support::*;

/// What the publisher is told within some time.
fn told(publisher: &mut Client, within: Duration) -> Vec<(StreamId, Feedback)> {
    let until = Instant::now() + within;
    let mut all = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match publisher.recv(left) {
            Some(Received::Feedback {
                stream, feedback, ..
            }) => all.push((stream, feedback)),
            Some(_) => {}
            None if left.is_zero() => return all,
            None => {}
        }
    }
}

#[test]
fn key_frame_requests_of_many_receivers_reach_the_publisher_as_one() {
    let brokers = chain(3);
    for mut publisher in [udp(&brokers[0]), tcp(&brokers[0]), door(&brokers[0])] {
        let mut receivers = [
            udp(&brokers[2]),
            tcp(&brokers[2]),
            udp(&brokers[1]),
            door(&brokers[0]),
        ];
        receivers
            .iter_mut()
            .for_each(|receiver| subscribe(receiver, "hall/#"));
        let mut receivers: Vec<_> = receivers.iter_mut().collect();
        let flow = Flow::open(&mut publisher, "hall/video", &mut receivers);
        let stream = flow.publisher.stream().expect("a stream");
        for receiver in &receivers {
            for _ in 0..10 {
                receiver
                    .feedback(stream, 0, &Feedback::KeyFrame)
                    .expect("room for it");
            }
        }
        // One at once, and one for all who asked again meanwhile.
        let heard = told(
            &mut publisher,
            KEY_FRAME_INTERVAL * 2 - Duration::from_millis(50),
        );
        assert!((1..=2).contains(&heard.len()), "{heard:?}");
        assert!(heard.iter().all(|one| *one == (stream, Feedback::KeyFrame)));
    }
    let merged: u64 = brokers
        .iter()
        .map(|broker| dropped(broker, DropReason::FeedbackMerged))
        .sum();
    assert!(merged >= 3 * 30, "{merged}");
}

#[test]
fn a_lost_event_is_sent_again_by_the_nearest_broker_that_has_it() {
    let brokers = chain(2);
    let (mut publisher, mut receiver) = (udp(&brokers[0]), udp(&brokers[1]));
    subscribe(&mut receiver, "hall/#");
    let mut flow = Flow::open(&mut publisher, "hall/stage", &mut [&mut receiver]);
    let stream = flow.publisher.stream().expect("a stream");
    flow.pump(30, &mut [&mut receiver]);
    let sequence = flow
        .publisher
        .send(Outgoing::new(&numbered(1_000, 100)))
        .expect("sent");
    assert_eq!(receive_until(&mut receiver, 1_000), [1_000]);

    let lost = Nack {
        first: sequence.wrapping_sub(2),
        also: 0b11,
    };
    receiver
        .feedback(stream, 0, &Feedback::Nack(lost))
        .expect("room for it");
    assert_eq!(receive_until(&mut receiver, 1_000), [29, 30, 1_000]);
    comes_to(3, || counted(&brokers[1], "sangam_repaired_total"));
    assert_eq!(counted(&brokers[0], "sangam_repaired_total"), 0);
    // The publisher heard nothing of it.
    assert_eq!(told(&mut publisher, Duration::from_millis(100)), []);
}

#[test]
fn what_is_sent_again_counts_as_sent() {
    let broker = start(config(1));
    for mut receiver in [udp(&broker), tcp(&broker), door(&broker)] {
        let mut publisher = udp(&broker);
        subscribe(&mut receiver, "hall/#");
        let mut flow = Flow::open(&mut publisher, "hall/stage", &mut [&mut receiver]);
        flow.pump(20, &mut [&mut receiver]);
        let stream = flow.publisher.stream().expect("a stream");
        let outgoing = numbered(1_000, 100);
        let last = flow.publisher.send(Outgoing::new(&outgoing));
        assert_eq!(receive_until(&mut receiver, 1_000), [1_000]);
        let delivered = || counted(&broker, "sangam_delivered_packets_total");
        let before = settled(delivered);

        let lost = Nack {
            first: last.expect("sent").wrapping_sub(16),
            also: 0xffff,
        };
        receiver
            .feedback(stream, 0, &Feedback::Nack(lost))
            .expect("room for it");
        let again = receive_until(&mut receiver, 1_000);
        assert_eq!(again.len(), 17);
        eventually("all of them are counted", || delivered() == before + 17);
    }
    comes_to(3 * 17, || counted(&broker, "sangam_repaired_total"));
}

#[test]
fn an_event_lost_on_a_link_is_sent_again_by_the_broker_before_it() {
    let first = start(config(1));
    let cable = Cable::to(udp_of(&first));
    let second = start(BrokerConfig {
        links: vec![cable.near],
        ..config(2)
    });
    let (mut publisher, mut receiver) = (udp(&first), udp(&second));
    subscribe(&mut receiver, "hall/#");
    let mut flow = Flow::open(&mut publisher, "hall/stage", &mut [&mut receiver]);
    let stream = flow.publisher.stream().expect("a stream");
    flow.pump(10, &mut [&mut receiver]);

    cable.lose(1);
    let lost = flow
        .publisher
        .send(Outgoing::new(&numbered(1_000, 100)))
        .expect("sent");
    flow.publisher
        .send(Outgoing::new(&numbered(1_001, 100)))
        .expect("sent");
    assert_eq!(receive_until(&mut receiver, 1_001), [1_001]);
    let nack = Feedback::Nack(Nack {
        first: lost,
        also: 0,
    });
    receiver.feedback(stream, 0, &nack).expect("room for it");
    assert_eq!(receive_until(&mut receiver, 1_000), [1_000]);
    comes_to(1, || counted(&first, "sangam_repaired_total"));
    assert_eq!(counted(&second, "sangam_repaired_total"), 0);
    assert_eq!(told(&mut publisher, Duration::from_millis(100)), []);
}

#[test]
fn a_nack_that_no_cache_answers_reaches_the_publisher_once() {
    let brokers = chain(2);
    let mut publisher = udp(&brokers[0]);
    let mut receivers = [udp(&brokers[1]), udp(&brokers[1])];
    receivers
        .iter_mut()
        .for_each(|receiver| subscribe(receiver, "hall/#"));
    let mut receivers: Vec<_> = receivers.iter_mut().collect();
    let flow = Flow::open(&mut publisher, "hall/stage", &mut receivers);
    let stream = flow.publisher.stream().expect("a stream");
    let never_sent = Feedback::Nack(Nack {
        first: 40_000,
        also: 0b101,
    });
    for receiver in &receivers {
        receiver
            .feedback(stream, 0, &never_sent)
            .expect("room for it");
    }
    let heard = told(&mut publisher, Duration::from_millis(200));
    assert_eq!(heard, [(stream, never_sent)]);
}

#[test]
fn receiver_reports_arrive_as_the_worst_of_all_once_a_second() {
    let broker = start(config(1));
    let mut publisher = udp(&broker);
    let mut receivers = [udp(&broker), tcp(&broker)];
    receivers
        .iter_mut()
        .for_each(|receiver| subscribe(receiver, "hall/#"));
    let mut receivers: Vec<_> = receivers.iter_mut().collect();
    let flow = Flow::open(&mut publisher, "hall/stage", &mut receivers);
    let stream = flow.publisher.stream().expect("a stream");
    let good = Report {
        fraction_lost: 0,
        highest: 9,
        jitter_us: 900,
        capacity_kbps: 4_000,
    };
    let bad = Report {
        fraction_lost: 60,
        highest: 7,
        jitter_us: 100,
        capacity_kbps: 700,
    };
    receivers[0]
        .feedback(stream, 0, &Feedback::Report(good))
        .expect("room for it");
    receivers[1]
        .feedback(stream, 0, &Feedback::Report(bad))
        .expect("room for it");
    let worst = Report {
        jitter_us: 900,
        ..bad
    };
    let heard = told(&mut publisher, Duration::from_millis(2_800));
    assert!(!heard.is_empty() && heard.len() <= 2, "{heard:?}");
    if heard.len() == 1 {
        assert_eq!(heard, [(stream, Feedback::Report(worst))]);
    }
}

#[test]
fn feedback_about_a_stream_one_does_not_receive_goes_nowhere() {
    let broker = start(config(1));
    let (mut publisher, mut receiver) = (udp(&broker), udp(&broker));
    subscribe(&mut receiver, "hall/#");
    let mut flow = Flow::open(&mut publisher, "hall/stage", &mut [&mut receiver]);
    flow.pump(5, &mut [&mut receiver]);
    let stream = flow.publisher.stream().expect("a stream");

    let mut stranger = udp(&broker);
    subscribe(&mut stranger, "other/#");
    stranger
        .feedback(stream, 0, &Feedback::KeyFrame)
        .expect("room for it");
    // Nor may it fetch others' events from a cache.
    let nack = Feedback::Nack(Nack {
        first: 0,
        also: 0xffff,
    });
    stranger.feedback(stream, 0, &nack).expect("room for it");
    eventually("both are counted", || {
        dropped(&broker, DropReason::UnknownStream) == 2
    });
    silent(&mut stranger);
    assert_eq!(told(&mut publisher, Duration::from_millis(100)), []);
}
