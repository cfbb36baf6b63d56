//! A door carries messages and events both ways, wakes who waits, and tells when one side left.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::thread;
use std::time::{Duration, Instant};

use sangam_io::door::{DoorError, DoorState, Item, door};
use sangam_io::pool::Pool;
use sangam_io::wake;
use sangam_model::Filter;
use sangam_wire::{Message, Refusal};

const LOST: Duration = Duration::from_secs(20);

fn subscribe(request: u32) -> Message {
    let filter = Filter::new("acme/#").unwrap();
    Message::Subscribe { request, filter }
}

#[test]
fn items_make_the_round_trip_in_order() {
    let (waker, _sleeper) = wake::pair().unwrap();
    let (mut client, mut broker) = door(8, waker).unwrap();
    let pool = Pool::new(1, 0);
    client.sender.send(Item::Message(subscribe(1))).unwrap();
    let event = pool.copy(b"event").unwrap().freeze();
    client.sender.send(Item::Event(event)).unwrap();

    assert!(matches!(broker.recv(), Some(Item::Message(message)) if message == subscribe(1)));
    let Some(Item::Event(event)) = broker.recv() else {
        panic!("the event comes second")
    };
    assert!(broker.recv().is_none() && broker.is_empty());

    broker.send(Item::State(DoorState::Up)).unwrap();
    broker.send(Item::Event(event)).unwrap();
    assert!(matches!(
        client.receiver.recv(),
        Some(Item::State(DoorState::Up))
    ));
    assert!(matches!(client.receiver.recv(), Some(Item::Event(event)) if *event == *b"event"));
    assert!(client.receiver.recv().is_none());
    assert_eq!(pool.free().0, 1);
}

#[test]
fn a_full_door_gives_the_item_back() {
    let (waker, _sleeper) = wake::pair().unwrap();
    let (mut client, mut broker) = door(2, waker).unwrap();
    assert_eq!(client.sender.room(), 2);
    client.sender.send(Item::Message(subscribe(1))).unwrap();
    client.sender.send(Item::Message(subscribe(2))).unwrap();
    let result = client.sender.send(Item::Message(subscribe(3)));
    assert!(
        matches!(result, Err(DoorError::Full(Item::Message(message))) if message == subscribe(3))
    );
    assert!(broker.recv().is_some());
    client.sender.send(Item::Message(subscribe(3))).unwrap();
}

#[test]
fn a_client_that_left_is_noticed_after_its_last_words() {
    let (waker, mut sleeper) = wake::pair().unwrap();
    let (mut client, mut broker) = door(2, waker).unwrap();
    client.sender.send(Item::Message(subscribe(1))).unwrap();
    sleeper.arm();
    drop(client);
    assert!(sleeper.disarm(), "the broker's thread is woken");
    assert!(!broker.is_closed());
    assert!(broker.recv().is_some());
    assert!(broker.is_closed());
    let state = Item::State(DoorState::Down(Refusal::Goodbye));
    assert!(matches!(broker.send(state), Err(DoorError::Closed(_))));
}

#[test]
fn a_broker_that_left_wakes_its_client() {
    let (waker, _sleeper) = wake::pair().unwrap();
    let (mut client, mut broker) = door(2, waker).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            broker
                .send(Item::State(DoorState::Down(Refusal::Leaving)))
                .unwrap();
        });
        let mut last = None;
        while !client.receiver.is_closed() {
            let before = Instant::now();
            client.receiver.wait(Some(LOST)).unwrap();
            assert!(before.elapsed() < LOST, "nobody woke the client");
            last = client.receiver.recv().or(last);
        }
        let state = DoorState::Down(Refusal::Leaving);
        assert!(matches!(last, Some(Item::State(known)) if known == state));
    });
    assert!(client.sender.is_closed());
}

#[test]
fn both_sides_of_a_busy_door_keep_each_other_awake() {
    const ITEMS: u32 = 20_000;
    let (waker, mut sleeper) = wake::pair().unwrap();
    let (client, mut broker) = door(4, waker).unwrap();
    let (mut sender, mut receiver) = (client.sender, client.receiver);
    thread::scope(|scope| {
        scope.spawn(move || {
            while !broker.is_closed() {
                while let Some(mut item) = broker.recv() {
                    while let Err(DoorError::Full(back)) = broker.send(item) {
                        item = back;
                        thread::yield_now();
                    }
                }
                sleeper.arm();
                if broker.is_empty() && !broker.is_closed() {
                    sleeper.wait(Some(LOST)).unwrap();
                }
                sleeper.disarm();
            }
        });
        scope.spawn(move || {
            for request in 0..ITEMS {
                while sender
                    .send(Item::Message(Message::Accepted { request }))
                    .is_err()
                {
                    thread::yield_now();
                }
            }
        });
        let mut expected = 0;
        while expected < ITEMS {
            receiver.wait(Some(LOST)).unwrap();
            while let Some(item) = receiver.recv() {
                let echo = Message::Accepted { request: expected };
                assert!(matches!(item, Item::Message(message) if message == echo));
                expected += 1;
            }
        }
    });
}
