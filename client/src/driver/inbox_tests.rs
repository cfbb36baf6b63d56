use sangam_io::door::{ClientDoor, door};
use sangam_io::wake;
use sangam_model::{BrokerId, Incarnation};
use sangam_wire::{Flags, HEADER_LEN, Refusal};

use super::*;
use crate::state::{Link, State};

const CAPACITY: usize = 64;

/// An inbox, and the application's side of its door.
fn inbox() -> (Inbox, sangam_io::door::DoorReceiver) {
    let (waker, _) = wake::pair().unwrap();
    let (ClientDoor { sender, receiver }, door) = door(CAPACITY, waker).unwrap();
    let shared = Shared::new(
        State::new(Link::Down, None),
        sender,
        Pool::new(1, 0),
        (0, 0),
    );
    let pool = Pool::new(2 * CAPACITY, 0);
    (
        Inbox::new(door, pool, (CAPACITY, Arc::new(shared))),
        receiver,
    )
}

fn stream(local: u32) -> StreamId {
    StreamId::new(BrokerId(1), Incarnation(1), local)
}

fn retire(local: u32) -> Message {
    Message::Retire {
        stream: stream(local),
    }
}

fn event(inbox: &mut Inbox, class: Class, flags: Flags) {
    let header = Header {
        class,
        flags,
        stream: stream(1),
        sequence: 0,
        hop_limit: 1,
        layer: 0,
    };
    let mut bytes = [0; HEADER_LEN + 20];
    bytes[..HEADER_LEN].copy_from_slice(&header.encode());
    inbox.event(Time::ZERO, &header, &bytes);
}

#[test]
fn messages_wait_in_order_when_the_door_is_full() {
    let (mut inbox, mut application) = inbox();
    for local in 0..200 {
        assert!(inbox.message(retire(local)));
    }
    for local in 0..200 {
        match application.recv() {
            Some(Item::Message(message)) => assert_eq!(message, retire(local)),
            other => panic!("{local}: {other:?}"),
        }
        inbox.hand_over();
    }
}

#[test]
fn far_too_many_messages_are_told_and_void_when_the_link_goes_down() {
    let (mut inbox, mut application) = inbox();
    let taken = (0..)
        .take_while(|local| inbox.message(retire(*local)))
        .count();
    assert_eq!(taken, CAPACITY + BACKLOG_MAX);
    inbox.state(DoorState::Down(Refusal::Silent));
    for _ in 0..CAPACITY {
        assert!(matches!(application.recv(), Some(Item::Message(_))));
    }
    inbox.hand_over();
    assert!(matches!(
        application.recv(),
        Some(Item::State(DoorState::Down(Refusal::Silent)))
    ));
    assert!(application.recv().is_none());
}

#[test]
fn a_link_that_comes_and_goes_unseen_leaves_little_behind() {
    let (mut inbox, _application) = inbox();
    for _ in 0..1_000 {
        inbox.state(DoorState::Up);
        inbox.state(DoorState::Down(Refusal::Silent));
    }
    assert!(inbox.backlog.len() <= 2);
}

#[test]
fn video_stops_first_and_resumes_with_a_key_frame() {
    let (mut inbox, mut application) = inbox();
    let frame = Flags::FRAME_START.with(Flags::FRAME_END);
    let key = frame.with(Flags::KEY);
    event(&mut inbox, Class::Video, key);
    for _ in 0..100 {
        event(&mut inbox, Class::Video, frame);
    }
    let video = CAPACITY - CAPACITY / VIDEO_LEAVES;
    assert_eq!(
        inbox.shared.counters.read().dropped_video,
        101 - video as u64
    );
    for _ in 0..100 {
        event(&mut inbox, Class::Audio, Flags::NONE);
    }
    let audio = CAPACITY - video - CAPACITY / EVENTS_LEAVE;
    assert_eq!(
        inbox.shared.counters.read().dropped_other,
        100 - audio as u64
    );
    while application.recv().is_some() {
        inbox.shared.taken.add(1);
    }
    event(&mut inbox, Class::Video, frame);
    assert!(application.recv().is_none());
    event(&mut inbox, Class::Video, key);
    assert!(matches!(application.recv(), Some(Item::Event(_))));
}
