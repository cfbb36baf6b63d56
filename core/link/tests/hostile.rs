//! Whatever a peer sends: no panic, and no memory without bound.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use sangam_link::{
    Backoff, DialInput, DialOutput, Dialer, DialerConfig, Input, Output, Session, SessionConfig,
    Timing,
};
use sangam_model::{BrokerId, Incarnation, Time};
use sangam_wire::{
    Capabilities, Echo, Frame, Heard, Message, Refusal, Refuse, Role, VERSION, Welcome,
};

const SESSION: u32 = 5;

/// A frame in parts, so that it can be shrunk; see [`with_frame`].
#[derive(Clone, Debug)]
struct Parts {
    kind: u8,
    session: u32,
    number: u64,
    sequence: u16,
    ack: u16,
    messages: Vec<u8>,
}

fn parts() -> impl Strategy<Value = Parts> {
    let session = prop_oneof![9 => Just(SESSION), 1 => any::<u32>()];
    let near = prop_oneof![0..40_u16, any::<u16>()];
    let accepted = any::<u32>().prop_map(|request| {
        let mut bytes = Vec::new();
        Message::Accepted { request }
            .push(&mut bytes)
            .expect("a small message");
        bytes
    });
    let messages = prop_oneof![
        vec(accepted, 0..20).prop_map(|m| m.concat()),
        vec(any::<u8>(), 0..1_200)
    ];
    (0..9_u8, session, any::<u64>(), near.clone(), near, messages).prop_map(
        |(kind, session, number, sequence, ack, messages)| Parts {
            kind,
            session,
            number,
            sequence,
            ack,
            messages,
        },
    )
}

fn with_frame(parts: &Parts, nonce: u64, act: impl FnOnce(&Frame<'_>)) {
    let &Parts {
        kind,
        session,
        number,
        sequence,
        ack,
        ref messages,
    } = parts;
    act(&match kind {
        0 => Frame::Retry {
            nonce,
            cookie: [number as u8; 16],
        },
        1 => Frame::Welcome(welcome(nonce, parts)),
        2 => {
            let reason = Refusal::from_bits(ack as u8 % 11).unwrap_or(Refusal::Full);
            Frame::Refuse(Refuse {
                nonce,
                reason,
                retry_after_ms: number as u32,
                speaks: 0,
            })
        }
        3 => Frame::Ping {
            session,
            sent_us: number,
            traffic: None,
        },
        4 => Frame::Pong {
            session,
            echo_us: number % 2_000_000,
            now_us: number,
            traffic: None,
        },
        5 => Frame::Echo(Echo {
            session,
            now_us: number,
            asks: ack & 1 == 1,
            quiet: ack & 2 == 2,
            heard: (ack & 4 == 4).then_some(Heard {
                echo_us: number as u32 % 2_000_000,
                held_us: number as u32,
                packets: session,
                bytes: session,
            }),
        }),
        6 | 7 => Frame::Control {
            session,
            sequence,
            ack,
            messages,
        },
        8 => Frame::Ack { session, ack },
        _ => Frame::Bye {
            session,
            reason: Refusal::Leaving,
        },
    });
}

fn welcome(nonce: u64, parts: &Parts) -> Welcome {
    Welcome {
        nonce,
        version: VERSION,
        capabilities: Capabilities(parts.session),
        session: parts.session,
        control_port: parts.ack,
        media_port: parts.sequence,
        datagram_max: parts.ack,
        keepalive_ms: parts.sequence,
        clock_domain: 1,
        broker: BrokerId(parts.session),
        incarnation: Incarnation(0),
    }
}

proptest! {
    #[test]
    fn any_frames_at_any_time_leave_a_session_sound(
        frames in vec((parts(), 0..500_u64), 0..200),
        pings: bool,
        polls: bool,
    ) {
        let timing = Timing { dead_after: Duration::from_secs(60), ..Timing::BROKER };
        let timing = if pings { timing } else { Timing { ping: None, ..timing } };
        let config = SessionConfig { number: SESSION, timing, datagram_max: 0, reliable: false };
        let mut now = Time::ZERO;
        let mut session = Session::new(config, now);
        let mut waiting = 0;
        for (parts, pause_ms) in &frames {
            now += Duration::from_millis(*pause_ms);
            session.handle(now, Input::Send(Message::Accepted { request: 1 }));
            with_frame(parts, 0, |frame| session.handle(now, Input::Frame(frame)));
            // A window of frames, the answers and the end.
            let mut outputs = 0;
            while polls && let Some(output) = session.poll(now) {
                outputs += usize::from(!matches!(output, Output::Message(_)));
                prop_assert!(outputs <= 2 * 32 + 4);
            }
            if polls && let Some(deadline) = session.deadline() {
                prop_assert!(deadline > now, "a poll at {now} was for nothing");
            }
        }
        while let Some(output) = session.poll(now) {
            waiting += usize::from(matches!(output, Output::Message(_)));
        }
        // The inbox bound and one frame of the smallest messages.
        prop_assert!(waiting <= 257 + 1_222 / 7);
    }

    #[test]
    fn any_frames_at_any_time_leave_a_dialer_sound(
        frames in vec((parts(), 0..2_000_u64), 0..200),
        role in prop_oneof![Just(Role::Client), Just(Role::Broker(BrokerId(1), Incarnation(1)))],
        reliable: bool,
    ) {
        let mut dialer = Dialer::new(DialerConfig {
            role,
            capabilities: Capabilities::OURS,
            datagram_max: 1_472,
            clock_domain: 1,
            reliable,
            in_order: false,
            seed: 1,
            backoff: Backoff::default(),
        });
        let mut now = Time::ZERO;
        let mut nonce = 0;
        for (parts, pause_ms) in &frames {
            now += Duration::from_millis(*pause_ms);
            dialer.handle(now, DialInput::Start);
            dialer.handle(now, DialInput::Connected);
            with_frame(parts, nonce, |frame| dialer.handle(now, DialInput::Frame(frame)));
            let mut outputs = 0;
            while let Some(output) = dialer.poll(now) {
                if let DialOutput::Hello(bytes) = &output
                    && let Ok(Frame::Hello(hello)) = Frame::decode(bytes)
                {
                    nonce = hello.nonce;
                }
                outputs += usize::from(!matches!(output, DialOutput::Message(_)));
                prop_assert!(outputs <= 8, "{output:?}");
            }
            if let Some(deadline) = dialer.deadline() {
                prop_assert!(deadline > now, "a poll at {now} was for nothing");
            }
        }
    }

    #[test]
    fn any_bytes_that_decode_are_harmless(datagrams in vec(vec(any::<u8>(), 0..80), 0..50)) {
        let config = SessionConfig {
            number: 0,
            timing: Timing::BROKER,
            datagram_max: 1_232,
            reliable: false,
        };
        let mut session = Session::new(config, Time::ZERO);
        for mut bytes in datagrams {
            if let [first, kind, ..] = &mut bytes[..] {
                *first = VERSION << 4 | 0x0f;
                *kind %= 10;
            }
            if let Ok(frame) = Frame::decode(&bytes) {
                session.handle(Time::ZERO, Input::Frame(&frame));
                while session.poll(Time::ZERO).is_some() {}
            }
        }
    }
}
