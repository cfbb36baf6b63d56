//! The same behaviour, whatever way the broker is reached.

use std::time::Duration;

use sangam_client::{Numbering, Outgoing, Received};
use sangam_io::clock;
use sangam_io::poll::{Events, Interest, Poller};
use sangam_model::limits::EVENT_LEN_MAX;
use sangam_model::{Class, MediaInfo};
use sangam_wire::{Event, Feedback, Flags, HEADER_LEN};

use crate::support::{PATIENCE, TestBroker, Way, calm, event, eventually, media, topic, wait};

#[test]
fn what_is_published_arrives_in_order_behind_its_announcement() {
    for way in Way::ALL {
        let broker = TestBroker::start(way, calm());
        let mut subscriber = broker.subscriber("meeting/#");
        let mut publisher = broker.client();
        let topic = topic("meeting/video/anna");
        let mut stream = publisher
            .publish(&topic, media(Class::Video), PATIENCE)
            .unwrap();
        for number in 0..50_u8 {
            let payload = vec![number; 900];
            let flags = Flags::FRAME_START.with(Flags::KEY);
            let sent = stream.send(Outgoing {
                flags,
                layer: 2,
                payload: &payload,
            });
            assert_eq!(sent, Ok(number.into()), "{way:?}");
        }

        let (announce, _) = wait(&mut subscriber, |one| {
            matches!(one, Received::Announce { .. })
        });
        let Received::Announce {
            stream: id,
            topic: announced,
            media,
        } = announce
        else {
            panic!("{announce:?}");
        };
        assert_eq!(
            (Some(id), announced, media.payload_type),
            (stream.stream(), topic, 96)
        );
        for number in 0..50_u8 {
            let packet = event(&mut subscriber);
            let event = Event::decode(&packet).unwrap();
            assert_eq!(
                (event.header.stream, event.header.sequence),
                (id, number.into())
            );
            assert_eq!((event.header.class, event.header.layer), (Class::Video, 2));
            assert!(event.header.flags.contains(Flags::KEY));
            assert_eq!(event.payload, [number; 900], "{way:?}");
        }
        drop(stream);
        let (retired, _) = wait(&mut subscriber, |one| matches!(one, Received::Retired(_)));
        assert!(matches!(retired, Received::Retired(gone) if gone == id));
    }
}

#[test]
fn every_sixteenth_event_tells_when_it_was_published() {
    for way in [Way::Udp, Way::Door] {
        let broker = TestBroker::start(way, calm());
        let mut subscriber = broker.subscriber("a");
        let mut publisher = broker.client();
        let mut stream = publisher
            .publish(&topic("a"), MediaInfo::data(), PATIENCE)
            .unwrap();
        let before = clock::now().as_micros();
        for _ in 0..40 {
            stream.send(Outgoing::new(b"tick")).unwrap();
        }
        let after = clock::now().as_micros();
        for number in 0..40 {
            let packet = event(&mut subscriber);
            let traced = Event::decode(&packet).unwrap().extensions.trace();
            assert_eq!(traced.is_some(), number % 16 == 0, "{number}");
            if let Some(trace) = traced {
                assert_eq!(trace.clock_domain, clock::clock_domain());
                assert!((before..=after).contains(&trace.origin_us));
            }
        }
    }
}

#[test]
fn events_larger_than_the_path_cross_it_in_pieces() {
    let narrow = crate::broker::Conduct {
        datagram_max: 1_232,
        ..calm()
    };
    for way in Way::ALL {
        let broker = TestBroker::start(way, narrow.clone());
        let mut subscriber = broker.subscriber("camera");
        let mut publisher = broker.client();
        let mut stream = publisher
            .publish(&topic("camera"), media(Class::Video), PATIENCE)
            .unwrap();
        for len in [1_460, 100, EVENT_LEN_MAX - HEADER_LEN, 1_460] {
            let payload: Vec<u8> = (0..len).map(|at| at as u8).collect();
            stream.send(Outgoing::new(&payload)).unwrap();
            let packet = event(&mut subscriber);
            assert_eq!(
                Event::decode(&packet).unwrap().payload,
                payload,
                "{way:?} {len}"
            );
        }
        assert_eq!(subscriber.counters().dropped_incomplete, 0);
    }
}

#[test]
fn packets_of_a_frame_leave_together() {
    let broker = TestBroker::start(Way::Udp, calm());
    let mut publisher = broker.client();
    let mut stream = publisher
        .publish(&topic("a"), media(Class::Video), PATIENCE)
        .unwrap();
    let payload = [5; 1_000];
    // The first event carries a trace and so another size.
    stream.send(Outgoing::new(&payload)).unwrap();
    for _ in 0..10 {
        stream.send_burst(&[Outgoing::new(&payload); 8]).unwrap();
    }
    eventually(|| broker.seen().headers.len() == 81);
    let seen = broker.seen();
    let numbers: Vec<u16> = seen.headers.iter().map(|header| header.sequence).collect();
    assert_eq!(numbers, (0..81).collect::<Vec<_>>());
    assert!(
        seen.messages * 2 < seen.datagrams,
        "{} messages",
        seen.messages
    );
}

#[test]
fn feedback_reaches_the_publisher() {
    for way in Way::ALL {
        let broker = TestBroker::start(way, calm());
        let mut subscriber = broker.subscriber("a");
        let mut publisher = broker.client();
        let stream = publisher
            .publish(&topic("a"), media(Class::Video), PATIENCE)
            .unwrap();
        let (announce, _) = wait(&mut subscriber, |one| {
            matches!(one, Received::Announce { .. })
        });
        let Received::Announce { stream: id, .. } = announce else {
            panic!("{announce:?}")
        };
        subscriber.feedback(id, 1, &Feedback::KeyFrame).unwrap();
        let (asked, _) = wait(&mut publisher, |one| {
            matches!(one, Received::Feedback { .. })
        });
        let Received::Feedback {
            stream: about,
            layer,
            feedback,
        } = asked
        else {
            panic!("{asked:?}");
        };
        assert_eq!(
            (Some(about), layer, feedback),
            (stream.stream(), 1, Feedback::KeyFrame)
        );
    }
}

#[test]
fn a_publisher_works_in_another_thread() {
    for way in [Way::Udp, Way::Tcp, Way::Door] {
        let broker = TestBroker::start(way, calm());
        let mut both = broker.subscriber("echo/#");
        let topic = topic("echo/a");
        let mut stream = both.publish(&topic, MediaInfo::data(), PATIENCE).unwrap();
        let sender = std::thread::spawn(move || {
            for number in 0..200_u8 {
                stream.send(Outgoing::new(&[number])).unwrap();
            }
            stream
        });
        for number in 0..200_u8 {
            let packet = event(&mut both);
            assert_eq!(Event::decode(&packet).unwrap().payload, [number], "{way:?}");
        }
        sender.join().unwrap();
    }
}

#[test]
fn numbers_follow_rtp_or_the_caller_and_rtcp_has_its_own() {
    let broker = TestBroker::start(Way::Udp, calm());
    let mut publisher = broker.client();
    let mut stream = publisher
        .publish(&topic("a"), media(Class::Audio), PATIENCE)
        .unwrap();
    stream.set_sequence(65_535);
    assert_eq!(stream.send(Outgoing::new(b"x")), Ok(65_535));
    assert_eq!(stream.send(Outgoing::new(b"x")), Ok(0));
    stream.set_numbering(Numbering::Rtp);
    let header = sangam_wire::rtp::Header {
        sequence: 4_711,
        ..Default::default()
    };
    assert_eq!(stream.send(Outgoing::new(&header.encode())), Ok(4_711));
    stream.send_rtcp(b"report").unwrap();
    stream.send_rtcp(b"report").unwrap();
    eventually(|| broker.seen().headers.len() == 5);
    let seen = broker.seen().headers;
    let numbers: Vec<_> = seen
        .iter()
        .map(|header| (header.class, header.sequence))
        .collect();
    let (audio, rtcp) = (Class::Audio, Class::Rtcp);
    assert_eq!(
        numbers,
        [
            (audio, 65_535),
            (audio, 0),
            (audio, 4_711),
            (rtcp, 0),
            (rtcp, 1)
        ]
    );
}

#[test]
fn a_poller_hears_of_what_comes() {
    for way in Way::ALL {
        let broker = TestBroker::start(way, calm());
        let mut subscriber = broker.subscriber("a");
        let mut publisher = broker.client();
        let mut stream = publisher
            .publish(&topic("a"), MediaInfo::data(), PATIENCE)
            .unwrap();
        let poller = Poller::new().unwrap();
        let mut ready = Events::with_capacity(1);
        poller.add(subscriber.fd(), 1, Interest::Read).unwrap();
        for _ in 0..3 {
            while subscriber.try_recv().is_some() {}
            stream.send(Outgoing::new(b"hear")).unwrap();
            let mut got = None;
            while got.is_none() {
                let count = poller.wait(&mut ready, Some(PATIENCE)).unwrap();
                assert_eq!(count, 1, "{way:?}");
                got = subscriber.try_recv();
            }
        }
    }
}

#[test]
fn round_trip_and_clock_are_measured() {
    for way in Way::ALL {
        let broker = TestBroker::start(way, calm());
        let client = broker.client();
        eventually(|| client.rtt().is_some() && client.clock_offset().is_some());
        let clock = client.clock_offset().unwrap();
        let offset = Duration::from_micros(clock.offset_us.unsigned_abs());
        assert!(
            offset <= clock.uncertainty,
            "{way:?}: one host, one clock: {clock:?}"
        );
    }
}

#[test]
fn closing_says_goodbye_after_what_was_sent() {
    for way in Way::ALL {
        let broker = TestBroker::start(way, calm());
        let mut client = broker.client();
        let mut stream = client
            .publish(&topic("a"), MediaInfo::data(), PATIENCE)
            .unwrap();
        for _ in 0..100 {
            stream.send(Outgoing::new(b"last words")).unwrap();
        }
        client.close();
        let refused = stream.send(Outgoing::new(b"too late"));
        assert!(
            matches!(refused, Err(sangam_client::SendError::Closed)),
            "{refused:?}"
        );
        eventually(|| broker.seen().goodbyes == 1);
        if !matches!(way, Way::Udp | Way::Udp6) {
            // Datagrams to two ports may overtake each other.
            assert_eq!(broker.seen().headers.len(), 100, "{way:?}");
        }
    }
}
