//! Decoding never panics, and what is written reads the same.

#![allow(clippy::unwrap_used)] // The helpers of tests are tests, too.

use std::net::{IpAddr, SocketAddr};

use proptest::prelude::*;
use sangam_model::{BrokerId, Class, Filter, Incarnation, MediaInfo, Scope, StreamId, Topic};
use sangam_wire::feedback::{Nack, Report};
use sangam_wire::{
    BROKERS_MAX, CONTROL_ROOM, Capabilities, DATAGRAM_MIN, DIGEST_MAX, Echo, Event, ExtensionBlock,
    Feedback, Flags, Fragment, Frame, Group, HELLO_LEN, Header, Heard, Hello, Join, LinkState,
    LinkView, Message, NEIGHBOURS_MAX, Refusal, Refuse, Register, Role, Route, Sources, Traffic,
    VERSION, Version, WAYS_MAX, Welcome, check, messages,
};

#[path = "properties/red.rs"]
mod red;
#[path = "properties/reliable.rs"]
mod reliable;

fn refusal() -> impl Strategy<Value = Refusal> {
    (0u8..=10).prop_map(|bits| Refusal::from_bits(bits).unwrap())
}

fn traffic() -> impl Strategy<Value = Option<Traffic>> {
    prop::option::of(
        (any::<u64>(), any::<u64>()).prop_map(|(packets, bytes)| Traffic { packets, bytes }),
    )
}

fn heard() -> impl Strategy<Value = Heard> {
    any::<(u32, u32, u32, u32)>().prop_map(|(echo_us, held_us, packets, bytes)| Heard {
        echo_us,
        held_us,
        packets,
        bytes,
    })
}

fn stream() -> impl Strategy<Value = StreamId> {
    any::<u64>().prop_map(StreamId::from_bits)
}

fn level() -> &'static str {
    "[a-z0-9$ö_.-]{1,12}"
}

fn topic() -> impl Strategy<Value = Topic> {
    prop::collection::vec(level(), 1..=8).prop_map(|l| Topic::new(&l.join("/")).unwrap())
}

fn filter() -> impl Strategy<Value = Filter> {
    let level = prop_oneof![4 => level(), 1 => Just("+".to_owned())];
    (prop::collection::vec(level, 1..=8), any::<bool>()).prop_map(|(mut levels, rest)| {
        if rest {
            levels.push("#".to_owned());
        }
        Filter::new(&levels.join("/")).unwrap()
    })
}

fn media() -> impl Strategy<Value = MediaInfo> {
    let class = prop_oneof![Just(Class::Audio), Just(Class::Video), Just(Class::Data)];
    let texts = ("[A-Za-z0-9-]{0,32}", "[ -~]{0,512}");
    (class, 0u8..=127, any::<u8>(), any::<u32>(), texts).prop_map(
        |(class, payload_type, channels, clock_rate, (encoding, fmtp))| MediaInfo {
            class,
            payload_type,
            channels,
            clock_rate,
            encoding,
            fmtp,
        },
    )
}

fn version() -> impl Strategy<Value = Version> {
    (any::<u32>(), any::<u8>(), any::<u32>()).prop_map(|(origin, incarnation, sequence)| Version {
        origin: BrokerId(origin),
        incarnation: Incarnation(incarnation),
        sequence,
    })
}

fn link_state() -> impl Strategy<Value = Message> {
    let link = (any::<u32>(), any::<u16>()).prop_map(|(to, weight)| LinkView {
        to: BrokerId(to),
        weight,
    });
    let links = prop::collection::vec(link, 0..=NEIGHBOURS_MAX);
    let texts = ("[ -~]{0,32}", "[ -~]{0,64}");
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let ways = prop::collection::vec("[ -~]{0,100}", 0..=WAYS_MAX);
    (version(), flags, any::<u8>(), texts, (links, ways)).prop_map(
        |(version, (draining, keeps, organises), load, (region, address), (links, ways))| {
            Message::LinkState(LinkState {
                version,
                draining,
                keeps,
                organises,
                load,
                region,
                address,
                links,
                ways,
            })
        },
    )
}

fn scope() -> impl Strategy<Value = Scope> {
    prop_oneof![4 => topic().prop_map(|topic| Scope::of_topic(&topic)), 1 => Just(Scope::WIDE)]
}

fn join() -> impl Strategy<Value = Message> {
    let filters = prop::collection::vec(filter(), 0..=8);
    let ids = (any::<u32>(), any::<Option<u32>>());
    let parts = (0u16..50, 1u16..50);
    (ids, any::<u8>(), scope(), parts, filters).prop_map(
        |((origin, avoid), classes, scope, (part, more), filters)| {
            Message::Join(Join {
                origin: BrokerId(origin),
                avoid: avoid.map(BrokerId),
                classes,
                scope,
                part,
                parts: part + more,
                filters,
            })
        },
    )
}

fn route() -> impl Strategy<Value = Route> {
    (any::<u32>(), any::<u32>(), any::<u8>()).prop_map(|(to, from, hop_limit)| Route {
        to: BrokerId(to),
        from: BrokerId(from),
        hop_limit,
    })
}

fn routed() -> impl Strategy<Value = Message> {
    let scope = topic().prop_map(|topic| Scope::of_topic(&topic));
    let part = (any::<bool>(), any::<bool>(), any::<bool>());
    let brokers = prop::collection::vec(any::<u32>().prop_map(BrokerId), 0..=BROKERS_MAX);
    (route(), scope, part, brokers).prop_map(|(route, scope, (source, sink, quiet), brokers)| {
        if brokers.is_empty() {
            return Message::Register(Register {
                route,
                scope,
                source,
                sink,
                quiet,
            });
        }
        Message::Sources(Sources {
            route,
            scope,
            part: 0,
            parts: 1,
            brokers,
        })
    })
}

/// Also some that may not be sent.
fn group() -> impl Strategy<Value = Option<Group>> {
    let v4 = (224u8.., any::<[u8; 3]>(), any::<[u8; 4]>()).prop_map(|(first, rest, source)| {
        let [a, b, c] = rest;
        (IpAddr::from([first, a, b, c]), IpAddr::from(source))
    });
    let v6 = (any::<[u8; 15]>(), any::<[u8; 16]>()).prop_map(|(rest, source)| {
        let mut group = [0xff; 16];
        group[1..].copy_from_slice(&rest);
        (IpAddr::from(group), IpAddr::from(source))
    });
    let one = (prop_oneof![v4, v6], any::<u16>()).prop_map(|((group, source), port)| Group {
        address: SocketAddr::new(group, port),
        source,
    });
    prop::option::of(one)
}

fn message() -> impl Strategy<Value = Message> {
    let request = any::<u32>;
    prop_oneof![
        (request(), filter()).prop_map(|(request, filter)| Message::Subscribe { request, filter }),
        (request(), filter())
            .prop_map(|(request, filter)| Message::Unsubscribe { request, filter }),
        (request(), topic(), media()).prop_map(|(request, topic, media)| Message::Publish {
            request,
            topic,
            media
        }),
        (request(), stream()).prop_map(|(request, stream)| Message::Published { request, stream }),
        stream().prop_map(|stream| Message::Unpublish { stream }),
        request().prop_map(|request| Message::Accepted { request }),
        (request(), refusal()).prop_map(|(request, reason)| Message::Refused { request, reason }),
        (stream(), topic(), media()).prop_map(|(stream, topic, media)| Message::Announce {
            stream,
            topic,
            media
        }),
        stream().prop_map(|stream| Message::Retire { stream }),
        (stream(), group()).prop_map(|(stream, group)| Message::Group { stream, group }),
        (stream(), any::<bool>()).prop_map(|(stream, hears)| Message::Hearing { stream, hears }),
        link_state(),
        (
            any::<bool>(),
            prop::collection::vec(version(), 0..=DIGEST_MAX)
        )
            .prop_map(|(last, entries)| Message::Digest { last, entries }),
        join(),
        routed(),
        reliable::reliable().prop_map(Message::Reliable),
        (route(), reliable::reliable())
            .prop_map(|(route, reliable)| Message::Carried(route, reliable)),
        // Also some that may not be sent.
        (request(), "[!-~ ü]{0,9}|[!-~]{990,1002}")
            .prop_map(|(request, token)| Message::Authenticate { request, token }),
    ]
}

fn hello() -> impl Strategy<Value = Hello> {
    let role = prop_oneof![
        Just(Role::Client),
        (any::<u32>(), any::<u8>()).prop_map(|(b, i)| Role::Broker(BrokerId(b), Incarnation(i))),
    ];
    let versions = (0..=VERSION, VERSION..);
    let numbers = (any::<u64>(), any::<u32>(), any::<u32>(), DATAGRAM_MIN..);
    (role, versions, numbers, any::<Option<[u8; 16]>>()).prop_map(
        |(role, (version_min, version_max), numbers, cookie)| {
            let (nonce, capabilities, clock_domain, datagram_max) = numbers;
            Hello {
                role,
                version_min,
                version_max,
                capabilities: Capabilities(capabilities),
                nonce,
                datagram_max,
                clock_domain,
                cookie,
            }
        },
    )
}

fn welcome() -> impl Strategy<Value = Welcome> {
    let ids = (any::<u64>(), any::<u32>(), any::<u32>(), any::<u8>());
    let ports = (any::<u16>(), any::<u16>(), DATAGRAM_MIN.., 1u16..);
    (ids, ports, any::<u32>(), any::<u32>()).prop_map(
        |((nonce, session, broker, incarnation), ports, capabilities, clock_domain)| {
            let (control_port, media_port, datagram_max, keepalive_ms) = ports;
            Welcome {
                nonce,
                version: VERSION,
                capabilities: Capabilities(capabilities),
                session,
                control_port,
                media_port,
                datagram_max,
                keepalive_ms,
                clock_domain,
                broker: BrokerId(broker),
                incarnation: Incarnation(incarnation),
            }
        },
    )
}

fn frame() -> impl Strategy<Value = Frame<'static>> {
    let session = any::<u32>;
    prop_oneof![
        hello().prop_map(Frame::Hello),
        (any::<u64>(), any::<[u8; 16]>())
            .prop_map(|(nonce, cookie)| Frame::Retry { nonce, cookie }),
        welcome().prop_map(Frame::Welcome),
        (any::<u64>(), refusal(), any::<u32>(), any::<u8>()).prop_map(
            |(nonce, reason, retry_after_ms, speaks)| Frame::Refuse(Refuse {
                nonce,
                reason,
                retry_after_ms,
                speaks,
            })
        ),
        (session(), any::<u64>(), traffic()).prop_map(|(session, sent_us, traffic)| Frame::Ping {
            session,
            sent_us,
            traffic,
        }),
        (session(), any::<u64>(), any::<u64>(), traffic()).prop_map(
            |(session, echo_us, now_us, traffic)| Frame::Pong {
                session,
                echo_us,
                now_us,
                traffic,
            }
        ),
        (
            session(),
            any::<u64>(),
            any::<(bool, bool)>(),
            prop::option::of(heard())
        )
            .prop_map(|(session, now_us, (asks, quiet), heard)| Frame::Echo(Echo {
                session,
                now_us,
                asks,
                quiet,
                heard,
            })),
        (session(), any::<u16>()).prop_map(|(session, ack)| Frame::Ack { session, ack }),
        (session(), refusal()).prop_map(|(session, reason)| Frame::Bye { session, reason }),
        stream().prop_map(|stream| Frame::Beacon { stream }),
    ]
}

fn feedback() -> impl Strategy<Value = Feedback> {
    let report = (any::<u8>(), any::<u32>(), any::<u32>(), any::<u32>());
    prop_oneof![
        Just(Feedback::KeyFrame),
        (any::<u16>(), any::<u16>()).prop_map(|(first, also)| Feedback::Nack(Nack { first, also })),
        report.prop_map(|(fraction_lost, highest, jitter_us, capacity_kbps)| {
            Feedback::Report(Report {
                fraction_lost,
                highest,
                jitter_us,
                capacity_kbps,
            })
        }),
    ]
}

fn header() -> impl Strategy<Value = Header> {
    let class = prop::sample::select(Class::ALL.as_slice());
    let flags = any::<u8>().prop_map(|bits| {
        Flags::from_bits(bits)
            .without(Flags::FRAGMENT)
            .without(Flags::EXTENDED)
    });
    let numbers = (any::<u16>(), any::<u8>(), any::<u8>());
    (class, flags, stream(), numbers).prop_map(
        |(class, flags, stream, (sequence, hop_limit, layer))| Header {
            class,
            flags,
            stream,
            sequence,
            hop_limit,
            layer,
        },
    )
}

/// Extensions of known and unknown types, and whether a fragment is among them.
fn block() -> impl Strategy<Value = (ExtensionBlock, bool)> {
    let unknown = prop::option::of((5u8.., prop::collection::vec(any::<u8>(), 0..30)));
    let trace = any::<Option<(u32, u64)>>();
    (unknown, trace, any::<bool>()).prop_map(|(unknown, trace, fragment)| {
        let mut block = ExtensionBlock::new();
        let total = 16_370;
        assert!(!fragment || block.fragment(Fragment { offset: 100, total }));
        assert!(trace.is_none_or(|(domain, origin)| block.trace(domain, origin)));
        assert!(unknown.is_none_or(|(kind, value)| block.push(kind, &value)));
        (block, fragment)
    })
}

fn event() -> impl Strategy<Value = (Vec<u8>, Header, ExtensionBlock, Vec<u8>)> {
    let payload = prop::collection::vec(any::<u8>(), 1..1_500);
    (header(), block(), payload).prop_map(|(mut header, (block, fragment), payload)| {
        if !block.extensions().is_empty() {
            header.flags = header.flags.with(Flags::EXTENDED);
        }
        if fragment {
            header.flags = header.flags.with(Flags::FRAGMENT);
        }
        let event = Event {
            header,
            extensions: block.extensions(),
            payload: &payload,
        };
        let mut bytes = vec![0; event.encoded_len()];
        event.write(&mut bytes).unwrap();
        (bytes, header, block, payload)
    })
}

/// Some valid unit of any kind.
fn valid() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        event().prop_map(|(bytes, ..)| bytes),
        frame().prop_map(|frame| {
            let mut out = Vec::new();
            frame.encode(&mut out);
            out
        }),
        message().prop_filter_map("too long", |message| {
            let mut out = Vec::new();
            message.encode(&mut out).ok().map(|()| out)
        }),
        feedback().prop_map(|feedback| {
            let mut out = Vec::new();
            feedback.encode(&mut out);
            out
        }),
    ]
}

proptest! {
    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
        check::all(&bytes);
    }

    #[test]
    fn no_bytes_with_a_plausible_start_do_either(
        start in prop::sample::select(vec![
            [0x50, 0x04], [0x51, 0x0c], [0x5f, 1], [0x5f, 3], [0x5f, 7],
            [0x80, 200], [0x81, 202], [0x81, 206], [0xb0, 96], [0, 20], [0xef, 0x0f],
        ]),
        rest in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        check::all(&[start.as_slice(), &rest].concat());
    }

    #[test]
    fn mutated_units_do_not_either(
        mut bytes in valid(),
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        whole in any::<bool>(),
    ) {
        for (place, value) in places {
            let at = place.index(bytes.len());
            bytes[at] = value;
        }
        let end = if whole { bytes.len() } else { cut.index(bytes.len()) };
        check::all(&bytes[..end]);
    }

    #[test]
    fn events_read_as_they_were_written((bytes, header, block, payload) in event()) {
        let event = Event::decode(&bytes).unwrap();
        prop_assert_eq!(event.header, header);
        prop_assert_eq!(event.extensions, block.extensions());
        prop_assert_eq!(event.payload, payload);
        check::all(&bytes);
    }

    #[test]
    fn frames_read_as_they_were_written(frame in frame()) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        let read = Frame::decode(&bytes);
        prop_assert_eq!(read.as_ref(), Ok(&frame));
        if !matches!(frame, Frame::Hello(_)) {
            prop_assert!(bytes.len() <= HELLO_LEN, "an answer larger than the question");
        }
    }

    #[test]
    fn messages_read_as_they_were_written(
        session in any::<u32>(),
        list in prop::collection::vec(message(), 0..4),
    ) {
        let mut packed = Vec::new();
        let mut sent = Vec::new();
        for message in list {
            let before = packed.len();
            if message.push(&mut packed).is_err() {
                prop_assert_eq!(packed.len(), before);
            } else if packed.len() > CONTROL_ROOM {
                packed.truncate(before);
            } else {
                sent.push(message);
            }
        }
        let mut bytes = Vec::new();
        Frame::Control { session, sequence: 1, ack: 2, messages: &packed }.encode(&mut bytes);
        let frame = Frame::decode(&bytes).unwrap();
        let got: Vec<_> = frame.messages().collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(&got, &sent);
        prop_assert_eq!(messages(&packed).count(), sent.len());
    }

    #[test]
    fn feedback_reads_as_it_was_written(feedback in feedback()) {
        let mut bytes = Vec::new();
        feedback.encode(&mut bytes);
        prop_assert!(bytes.len() <= 14);
        prop_assert_eq!(Feedback::decode(&bytes), Ok(feedback));
    }
}
