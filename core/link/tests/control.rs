//! The control channel: once, in order, bounded.

mod pair;

use std::time::Duration;

use pair::{BROKER_ROLE, Pair, Path, Seen, accepted, config, requests};
use sangam_link::{DialerConfig, Input, Output, Session, SessionConfig, Timing};
use sangam_model::{Filter, Time};
use sangam_wire::{Frame, Message, Refusal};

const SECOND: Duration = Duration::from_secs(1);

fn session(timing: Timing) -> Session {
    let config = SessionConfig {
        number: 1,
        timing,
        datagram_max: 1_472,
        reliable: false,
    };
    Session::new(config, Time::ZERO)
}

fn transmitted(session: &mut Session, now: Time) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Some(output) = session.poll(now) {
        if let Output::Transmit(bytes) = output {
            frames.push(bytes);
        }
    }
    frames
}

fn bad_path() -> Path {
    Path {
        lost: 300,
        doubled: 100,
        jitter: Duration::from_millis(30),
        ..Path::delay(20)
    }
}

#[test]
fn messages_come_once_and_in_order_over_a_bad_path() {
    for seed in 1..=20 {
        let mut pair = Pair::new(config(seed), bad_path());
        pair.broker.keepalive = Duration::from_secs(20);
        pair.run_until_up(30 * SECOND);
        for number in 0..300 {
            pair.send(accepted(number));
            pair.answer(accepted(1_000 + number));
            pair.run(Duration::from_millis(u64::from(number % 7) * 3));
        }
        pair.run(60 * SECOND);
        assert_eq!(
            requests(&pair.broker.messages),
            Vec::from_iter(0..300),
            "seed {seed}"
        );
        assert_eq!(
            requests(&pair.messages),
            Vec::from_iter(1_000..1_300),
            "seed {seed}"
        );
    }
}

#[test]
fn a_full_window_of_large_messages_crosses_a_lossy_broker_link() {
    let role = DialerConfig {
        role: BROKER_ROLE,
        ..config(3)
    };
    let mut pair = Pair::joined(
        role,
        Path {
            lost: 10,
            ..Path::delay(10)
        },
    );
    let filter = Filter::new(&"x".repeat(255)).unwrap();
    for request in 0..10_000 {
        pair.send(Message::Subscribe {
            request,
            filter: filter.clone(),
        });
    }
    pair.run(20 * SECOND);
    assert_eq!(pair.broker.messages.len(), 10_000);
    let counters = pair.dialer.session().unwrap().counters();
    assert_eq!(counters.sent, 2_500);
    assert!(counters.repeated < counters.sent, "{counters:?}");
}

#[test]
fn messages_sent_together_leave_together() {
    let mut session = session(Timing::accepting(SECOND));
    for number in 0..100 {
        session.handle(Time::ZERO, Input::Send(accepted(number)));
    }
    let frames = transmitted(&mut session, Time::ZERO);
    assert_eq!(frames.len(), 1);
    assert_eq!(Frame::decode(&frames[0]).unwrap().messages().count(), 100);
}

#[test]
fn frames_keep_to_the_datagram_of_the_link() {
    let config = SessionConfig {
        number: 1,
        timing: Timing::accepting(SECOND),
        datagram_max: 600,
        reliable: false,
    };
    let mut session = Session::new(config, Time::ZERO);
    for number in 0..200 {
        session.handle(Time::ZERO, Input::Send(accepted(number)));
    }
    let frames = transmitted(&mut session, Time::ZERO);
    assert!(frames.len() > 1);
    assert!(frames.iter().all(|frame| frame.len() <= 600));
}

#[test]
fn an_answer_carries_the_acknowledgement() {
    let mut pair = Pair::joined(config(4), Path::delay(1));
    pair.run(Duration::from_millis(1_500));
    let before = pair.sent;
    pair.send(accepted(1));
    pair.run(Duration::from_millis(1));
    pair.answer(accepted(2));
    pair.run(Duration::from_millis(100));
    // Request, answer with acknowledgement, acknowledgement.
    assert_eq!(pair.sent - before, 3);
}

#[test]
fn a_peer_that_takes_nothing_is_closed_when_the_queue_is_full() {
    let mut session = session(Timing::accepting(SECOND));
    for number in 0..=1_024 {
        assert_eq!(session.unacknowledged(), number as usize);
        session.handle(Time::ZERO, Input::Send(accepted(number)));
    }
    let mut down = None;
    while let Some(output) = session.poll(Time::ZERO) {
        down = Some(output);
    }
    assert_eq!(down, Some(Output::Down(Refusal::Overflow)));
    assert_eq!(session.deadline(), None);
}

#[test]
fn a_peer_that_is_heard_but_acknowledges_nothing_is_closed_after_ten_seconds() {
    let mut session = session(Timing::accepting(SECOND));
    session.handle(Time::ZERO, Input::Send(accepted(1)));
    let mut frames = 0;
    let mut now = Time::ZERO;
    let mut down = None;
    while down.is_none() && now < Time::from_millis(20_000) {
        now += Duration::from_millis(10);
        session.heard(now);
        while let Some(output) = session.poll(now) {
            match output {
                Output::Transmit(_) => frames += 1,
                Output::Down(reason) => down = Some((now, reason)),
                _ => {}
            }
        }
    }
    let (at, reason) = down.unwrap();
    assert_eq!(reason, Refusal::Overflow);
    assert!(
        at.since(Time::ZERO).abs_diff(10 * SECOND) <= Duration::from_millis(20),
        "{at}"
    );
    // At 0, 0.3, 0.9, 2.1, 4.1, 6.1 and 8.1 s; and the farewell.
    assert_eq!(frames, 8);
}

#[test]
fn acknowledgements_of_what_was_never_sent_are_ignored() {
    let mut session = session(Timing::accepting(SECOND));
    session.handle(Time::ZERO, Input::Send(accepted(1)));
    transmitted(&mut session, Time::ZERO);
    for ack in [2, 33, 0x7fff, 0x8000, 0xffff] {
        session.handle(Time::ZERO, Input::Frame(&Frame::Ack { session: 1, ack }));
    }
    assert_eq!(session.unacknowledged(), 1);
    assert_eq!(session.counters().invalid, 5);
    session.handle(Time::ZERO, Input::Frame(&Frame::Ack { session: 1, ack: 1 }));
    assert_eq!(session.unacknowledged(), 0);
}

#[test]
fn unreadable_messages_are_passed_over_and_counted() {
    let mut session = session(Timing::accepting(SECOND));
    let mut messages = vec![0, 1, 0xee];
    accepted(5).push(&mut messages).unwrap();
    messages.extend([0xff, 0xff]);
    let frame = Frame::Control {
        session: 1,
        sequence: 0,
        ack: 0,
        messages: &messages,
    };
    session.handle(Time::ZERO, Input::Frame(&frame));
    assert_eq!(session.poll(Time::ZERO), Some(Output::Message(accepted(5))));
    assert_eq!(session.counters().malformed, 2);
}

#[test]
fn sequences_wrap_without_harm() {
    let mut pair = Pair::joined(config(5), Path::default());
    for number in 0..70_000 {
        pair.send(accepted(number));
        pair.run(Duration::ZERO);
        // Lets the delayed acknowledgements keep the window open.
        if number % 16 == 0 {
            pair.run(Duration::from_millis(25));
        }
    }
    pair.run(SECOND);
    assert_eq!(requests(&pair.broker.messages), Vec::from_iter(0..70_000));
    assert!(pair.dialer.session().unwrap().counters().sent > 65_536);
}

#[test]
fn over_a_byte_stream_nothing_is_repeated() {
    let stream = DialerConfig {
        reliable: true,
        ..config(6)
    };
    let mut pair = Pair::new(stream, Path::delay(900));
    pair.run_until_up(3 * SECOND);
    for number in 0..500 {
        pair.send(accepted(number));
        pair.run(Duration::from_millis(1));
    }
    pair.run(60 * SECOND);
    assert_eq!(requests(&pair.broker.messages), Vec::from_iter(0..500));
    assert_eq!(pair.dialer.session().unwrap().counters().repeated, 0);
    assert!(
        !pair
            .seen
            .iter()
            .any(|(_, seen)| matches!(seen, Seen::Down(_)))
    );
}

#[test]
fn an_idle_session_is_small() {
    assert!(
        size_of::<Session>() <= 384,
        "{} bytes",
        size_of::<Session>()
    );
}
