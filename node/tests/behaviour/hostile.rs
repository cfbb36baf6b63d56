//! Bytes nobody should send, and events of others: each is a counter and harms nobody.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use sangam_broker::DropReason;
use sangam_client::Received;
use sangam_io::door::Item;
use sangam_io::pool::Pool;
use sangam_model::{BrokerId, Class, Incarnation, MediaInfo, StreamId, limits};
use sangam_node::{Broker, BrokerConfig};
use sangam_wire::{
    Event, ExtensionBlock, Flags, Fragment, Frame, HELLO_LEN, Header, Hello, Message, Refusal,
    Refuse,
};

use crate::support::raw::*;
use crate::support::*;

const NOBODYS: StreamId = StreamId::new(BrokerId(99), Incarnation(9), 9);

/// Datagrams of a stranger, and how each is counted.
fn nonsense() -> Vec<(&'static str, Vec<u8>, DropReason)> {
    let event = event(Class::Audio, NOBODYS, 1, &[0; 100]);
    let with = |at: usize, byte: u8| {
        let mut changed = event.clone();
        changed[at] = byte;
        changed
    };
    let [mut huge, mut long_frame] = [vec![0; 20_000], vec![0; 2_000]];
    huge[..14].copy_from_slice(&event[..14]);
    long_frame[..2].copy_from_slice(&[0x5f, 7]);
    let broken_block = [&with(1, Flags::EXTENDED.bits())[..14], &[200, 1]].concat();
    let forged = bytes_of(&Frame::Hello(hello(1, Some([7; 16]))));
    let ping = bytes_of(&Frame::Ping {
        session: 1,
        sent_us: 1,
        traffic: None,
    });
    vec![
        (
            "an event cut short",
            event[..13].to_vec(),
            DropReason::Malformed,
        ),
        (
            "a hello cut short",
            forged[..HELLO_LEN - 1].to_vec(),
            DropReason::Malformed,
        ),
        (
            "extensions beyond the end",
            broken_block,
            DropReason::Malformed,
        ),
        (
            "an event larger than any buffer",
            huge,
            DropReason::Oversized,
        ),
        ("a frame larger than any", long_frame, DropReason::Oversized),
        ("a later version", with(0, 0x60), DropReason::Version),
        ("plain RTP", with(0, 0x80), DropReason::Version),
        (
            "a class that is not defined",
            with(0, 0x57),
            DropReason::UnknownClass,
        ),
        (
            "a frame that is not defined",
            vec![0x5f, 200, 0, 0],
            DropReason::UnknownFrame,
        ),
        (
            "a stream that nobody announced",
            event.clone(),
            DropReason::UnknownStream,
        ),
        ("a ping of a stranger", ping, DropReason::UnknownPeer),
        (
            "feedback of a stranger",
            key_frame_request(),
            DropReason::UnknownPeer,
        ),
        ("a forged cookie", forged, DropReason::CookieInvalid),
    ]
}

fn key_frame_request() -> Vec<u8> {
    event(Class::Feedback, NOBODYS, 0, &[1])
}

#[track_caller]
fn counts(broker: &Broker, reason: DropReason, more: u64, act: impl FnOnce()) {
    let before = dropped(broker, reason);
    act();
    eventually(&format!("{more} more of {reason:?} than {before}"), || {
        dropped(broker, reason) >= before + more
    });
    let all = drops(broker);
    assert_eq!(dropped(broker, reason), before + more, "{all:?}");
}

#[test]
fn nonsense_at_the_public_port_is_counted_by_its_kind() {
    let broker = start(config(1));
    let mut witness = Witness::of(&broker);
    let socket = socket_beside(udp_of(&broker));
    let mut total = 0;
    for (what, bytes, reason) in nonsense() {
        let before = dropped(&broker, reason);
        for _ in 0..3 {
            socket.send_to(&bytes, udp_of(&broker)).expect("sent");
        }
        eventually(what, || dropped(&broker, reason) == before + 3);
        witness.is_unharmed();
        total += 3;
    }
    let all: u64 = drops(&broker).iter().map(|(_, count)| count).sum();
    assert_eq!(all, total, "{:?}", drops(&broker));
}

#[test]
fn random_bytes_at_every_port_harm_nobody() {
    let broker = start(config(1));
    let mut witness = Witness::of(&broker);
    let mut client = Raw::udp(udp_of(&broker));
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..40 {
        for _ in 0..50 {
            let len = random() as usize % 200;
            let mut bytes: Vec<u8> = (0..len).map(|_| random() as u8).collect();
            if let Some(first) = bytes.first_mut().filter(|_| round % 2 == 0) {
                // Looks like one of ours for longer.
                *first = 0x50 | (*first & 0x0f);
            }
            client.send(&bytes);
            client.send_media(&bytes);
        }
        witness.is_unharmed();
    }
    for reason in [DropReason::Malformed, DropReason::Version] {
        eventually("they are counted", || dropped(&broker, reason) > 100);
    }
}

#[test]
fn a_hello_of_a_foreign_version_is_refused_with_the_reason() {
    let broker = start(config(1));
    let foreign = Hello {
        version_min: 9,
        version_max: 11,
        ..hello(42, None)
    };
    let foreign = bytes_of(&Frame::Hello(foreign));
    let is_refusal = |answer: &[u8]| {
        let refuse = Refuse {
            nonce: 42,
            reason: Refusal::Version,
            retry_after_ms: 0,
            speaks: sangam_wire::VERSION,
        };
        assert_eq!(Frame::decode(answer), Ok(Frame::Refuse(refuse)));
    };

    let socket = socket_beside(udp_of(&broker));
    counts(&broker, DropReason::Version, 1, || {
        socket.send_to(&foreign, udp_of(&broker)).expect("sent");
        is_refusal(&datagram(&socket));
    });
    counts(&broker, DropReason::Version, 1, || {
        let mut stream = TcpStream::connect(tcp_of(&broker)).expect("a listener");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
            .write_all(&[&[0, foreign.len() as u8], &foreign[..]].concat())
            .expect("sent");
        let mut answer = Vec::new();
        stream
            .read_to_end(&mut answer)
            .expect("an answer, then the end");
        is_refusal(&answer[2..]);
    });
    Witness::of(&broker).is_unharmed();
}

#[test]
fn events_of_another_clients_stream_are_dropped() {
    let broker = start(config(1));
    let mut witness = Witness::of(&broker);
    let forged = event(Class::Data, witness.stream(), 30_000, &numbered(7, 100));
    let stranger = socket_beside(udp_of(&broker));
    let (mut by_udp, mut by_tcp) = (Raw::udp(udp_of(&broker)), Raw::tcp(tcp_of(&broker)));
    by_udp.publish("own/udp", MediaInfo::data());
    by_tcp.publish("own/tcp", MediaInfo::data());

    counts(&broker, DropReason::NotOwner, 4, || {
        stranger.send_to(&forged, udp_of(&broker)).expect("sent");
        by_udp.send_media(&forged);
        by_udp.send(&forged);
        by_tcp.send(&forged);
    });
    // A forged event with a far number would have moved the duplicate window, too.
    witness.is_unharmed();
    assert_eq!(drops(&broker), [(DropReason::NotOwner.name(), 4)]);
}

#[test]
fn a_client_cannot_end_the_stream_of_another() {
    let broker = start(config(1));
    let mut witness = Witness::of(&broker);
    let mut thief = Raw::tcp(tcp_of(&broker));
    counts(&broker, DropReason::NotOwner, 1, || {
        thief.tell(&[Message::Unpublish {
            stream: witness.stream(),
        }]);
    });
    witness.is_unharmed();
}

#[test]
fn what_only_brokers_say_is_not_taken_from_clients() {
    let broker = start(config(1));
    let mut witness = Witness::of(&broker);
    for mut client in [Raw::udp(udp_of(&broker)), Raw::tcp(tcp_of(&broker))] {
        counts(&broker, DropReason::ControlUnexpected, 2, || {
            client.tell(&[
                Message::Retire {
                    stream: witness.stream(),
                },
                Message::Announce {
                    stream: NOBODYS,
                    topic: topic("forged"),
                    media: MediaInfo::data(),
                },
            ]);
        });
    }
    assert_eq!(broker.streams().len(), 1);
    witness.is_unharmed();
}

#[test]
fn an_event_that_comes_again_is_delivered_once() {
    let broker = start(config(1));
    let mut subscriber = udp(&broker);
    subscribe(&mut subscriber, "echo");
    let mut publisher = Raw::udp(udp_of(&broker));
    let stream = publisher.publish("echo", MediaInfo::data());
    for number in [1, 2, 1, 3, 3, 2, 4] {
        let bytes = event(Class::Data, stream, number, &numbered(number.into(), 50));
        publisher.send_media(&bytes);
    }
    assert_eq!(receive_until(&mut subscriber, 4), [1, 2, 3, 4]);
    comes_to(vec![(DropReason::Duplicate.name(), 3)], || drops(&broker));
}

#[test]
fn an_event_at_its_last_hop_serves_the_clients_there_and_goes_no_further() {
    let brokers = chain(2);
    let (mut near, mut far) = (udp(&brokers[0]), udp(&brokers[1]));
    subscribe(&mut near, "tired");
    subscribe(&mut far, "tired");
    let mut publisher = Raw::udp(udp_of(&brokers[0]));
    let stream = publisher.publish("tired", MediaInfo::data());
    let numbered = |number: u16, hops: u8| {
        let mut bytes = event(Class::Data, stream, number, &numbered(number.into(), 10));
        bytes[Header::HOP_LIMIT_AT] = hops;
        bytes
    };
    let mut probes = 0;
    eventually("the way is open", || {
        probes += 1;
        publisher.send_media(&numbered(probes, 3));
        matches!(
            far.recv(Duration::from_millis(20)),
            Some(Received::Event(_))
        )
    });
    counts(&brokers[0], DropReason::HopLimit, 2, || {
        publisher.send_media(&numbered(1_000, 0));
        publisher.send_media(&numbered(1_001, 1));
        publisher.send_media(&numbered(1_002, 2));
    });
    assert!(receive_until(&mut near, 1_002).ends_with(&[1_000, 1_001, 1_002]));
    let crossed = receive_until(&mut far, 1_002);
    assert!(
        crossed
            .iter()
            .all(|number| ![1_000, 1_001].contains(number)),
        "{crossed:?}"
    );
}

#[test]
fn a_byte_stream_that_is_none_of_ours_is_closed() {
    let broker = start(config(1));
    let mut witness = Witness::of(&broker);
    let unit_too_long = [0xff, 0xff, 0, 0].as_slice();
    let empty_unit = [0, 0].as_slice();
    let http = b"GET / HTTP/1.1\r\nHost: sangam\r\n\r\n".as_slice();
    for bytes in [unit_too_long, empty_unit, http] {
        counts(&broker, DropReason::Malformed, 1, || {
            let mut stream = TcpStream::connect(tcp_of(&broker)).expect("a listener");
            stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            stream.write_all(bytes).expect("sent");
            // It ends with or without a reset.
            let ended = stream.read(&mut [0; 10]);
            assert!(matches!(ended, Ok(0)) || ended.is_err_and(|error| !timed_out(&error)));
        });
    }
    witness.is_unharmed();
}

fn timed_out(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
    )
}

#[test]
fn what_the_kernel_has_no_room_for_is_counted_at_every_port() {
    let broker = start(BrokerConfig {
        socket_buffer: 4_096,
        ..config(1)
    });
    let public = udp_of(&broker);
    let mut control = public;
    control.set_port(Raw::udp(public).welcome.control_port);
    let stranger = socket_beside(public);
    for port in [public, control] {
        let before = dropped(&broker, DropReason::SocketOverflow);
        // The kernel tells of what it lost with the next datagram that it has room for.
        eventually("datagrams are lost and counted", || {
            for _ in 0..200 {
                stranger.send_to(&[0x80; 1_000], port).expect("sent");
            }
            dropped(&broker, DropReason::SocketOverflow) > before
        });
    }
}

#[test]
fn strangers_and_clients_with_nonsense_at_a_shards_port_are_counted_apart() {
    let broker = start(config(1));
    let mut witness = Witness::of(&broker);
    let mut client = Raw::udp(udp_of(&broker));
    let mut control = udp_of(&broker);
    control.set_port(client.welcome.control_port);
    let stranger = socket_beside(control);

    counts(&broker, DropReason::UnknownPeer, 1, || {
        stranger
            .send_to(&key_frame_request(), control)
            .expect("sent");
    });
    counts(&broker, DropReason::Malformed, 2, || {
        client.send(&key_frame_request()[..10]);
        client.send(&[0x5f, 7, 0]);
    });
    counts(&broker, DropReason::UnknownFrame, 1, || {
        client.send(&[0x5f, 200])
    });
    counts(&broker, DropReason::Version, 1, || client.send(&[0x80; 20]));
    witness.is_unharmed();
}

#[test]
fn pieces_that_fit_no_event_are_refused_and_missed_ones_are_counted() {
    let broker = start(config(1));
    let mut witness = Witness::of(&broker);
    let mut subscriber = udp(&broker);
    subscribe(&mut subscriber, "pieces");
    let mut publisher = Raw::udp(udp_of(&broker));
    let stream = publisher.publish("pieces", MediaInfo::data());
    counts(&broker, DropReason::FragmentInvalid, 1, || {
        publisher.send_media(&piece(stream, 1, (0, 900)));
        publisher.send_media(&piece(stream, 1, (300, 1_200)));
    });
    let before = dropped(&broker, DropReason::ReassemblyTimeout);
    eventually("what never becomes whole is given up", || {
        publisher.send_media(&piece(stream, 2, (0, 900)));
        dropped(&broker, DropReason::ReassemblyTimeout) == before + 2
    });
    counts(&broker, DropReason::ReassemblyFull, 8, || {
        // One is begun already; a reassembler holds 32.
        for sequence in 3..3 + 39 {
            publisher.send_media(&piece(stream, sequence, (0, 900)));
        }
    });
    witness.is_unharmed();
}

/// 300 bytes of an event.
fn piece(stream: StreamId, sequence: u16, (offset, total): (u16, u16)) -> Vec<u8> {
    let mut block = ExtensionBlock::new();
    assert!(block.fragment(Fragment { offset, total }));
    let event = Event {
        header: Header {
            class: Class::Data,
            flags: Flags::FRAGMENT,
            stream,
            sequence,
            hop_limit: limits::HOP_LIMIT,
            layer: 0,
        },
        extensions: block.extensions(),
        payload: &[0; 300],
    };
    let mut bytes = vec![0; event.encoded_len()];
    event.write(&mut bytes).expect("room for the piece");
    bytes
}

#[test]
fn a_client_in_the_process_that_sends_what_cannot_be_read_is_counted_as_others_are() {
    let broker = start(config(1));
    let mut door = broker.door().expect("a door");
    let pool = Pool::new(4, 0);
    let packet = pool.copy(&[0; 3]).expect("a buffer").freeze();
    door.sender.send(Item::Event(packet)).expect("room");
    eventually("it is counted", || !drops(&broker).is_empty());
    assert_eq!(drops(&broker), [("malformed", 1)]);
}
