//! Nobody sleeps through work, and nobody pays for waking somebody who is awake.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use rtrb::RingBuffer;
use sangam_io::poll::{Events, Interest, Poller};
use sangam_io::wake;

/// Far longer than any wake-up takes: reaching it means that one was lost.
const LOST: Duration = Duration::from_secs(20);

#[test]
fn a_sleeper_that_was_woken_early_does_not_sleep() {
    let (waker, mut sleeper) = wake::pair().unwrap();
    sleeper.arm();
    waker.wake();
    sleeper.wait(Some(LOST)).unwrap();
    assert!(sleeper.disarm());
}

#[test]
fn waking_the_awake_leaves_no_trace() {
    let (waker, mut sleeper) = wake::pair().unwrap();
    waker.wake();
    waker.clone().wake();
    sleeper.waker().wake();
    sleeper.arm();
    sleeper.wait(Some(Duration::ZERO)).unwrap();
    assert!(!sleeper.disarm());
}

#[test]
fn one_ring_is_enough_for_many_wakers() {
    let (waker, mut sleeper) = wake::pair().unwrap();
    let poller = Poller::new().unwrap();
    let mut events = Events::with_capacity(4);
    poller.add(sleeper.fd(), 7, Interest::Read).unwrap();
    sleeper.arm();
    for _ in 0..3 {
        waker.wake();
    }
    assert_eq!(poller.wait(&mut events, Some(LOST)).unwrap(), 1);
    assert!(sleeper.disarm());
    assert_eq!(poller.wait(&mut events, Some(Duration::ZERO)).unwrap(), 0);
}

/// Two producers fill rings as fast as they can; the consumer sleeps whenever both are empty.
/// A lost wake-up would leave it waiting until `LOST`.
#[test]
fn no_wake_up_is_lost_between_threads() {
    const ITEMS: u32 = 100_000;
    let (waker, mut sleeper) = wake::pair().unwrap();
    let poller = Poller::new().unwrap();
    let mut events = Events::with_capacity(4);
    poller.add(sleeper.fd(), 0, Interest::Read).unwrap();
    let mut rings = Vec::new();
    thread::scope(|scope| {
        for _ in 0..2 {
            let (mut out, into) = RingBuffer::new(4);
            rings.push(into);
            let waker = waker.clone();
            scope.spawn(move || {
                for item in 0..ITEMS {
                    while out.push(item).is_err() {
                        thread::yield_now();
                    }
                    waker.wake();
                }
            });
        }
        let mut expected = [0_u32; 2];
        while expected != [ITEMS; 2] {
            let mut idle = true;
            for (ring, expected) in rings.iter_mut().zip(&mut expected) {
                while let Ok(item) = ring.pop() {
                    assert_eq!(item, *expected);
                    *expected += 1;
                    idle = false;
                }
            }
            if !idle || expected == [ITEMS; 2] {
                continue;
            }
            sleeper.arm();
            if rings.iter().all(|ring| ring.is_empty()) {
                let before = Instant::now();
                poller.wait(&mut events, Some(LOST)).unwrap();
                assert!(before.elapsed() < LOST, "a wake-up was lost");
            }
            sleeper.disarm();
        }
    });
}

/// Every item waits for its answer, so both sides sleep once for each: the hardest timing.
#[test]
fn two_threads_wake_each_other_in_turn() {
    const ROUNDS: u32 = 20_000;
    let (to_pong, mut pong) = wake::pair().unwrap();
    let (to_ping, mut ping) = wake::pair().unwrap();
    let (mut asks, mut asked) = RingBuffer::new(1);
    let (mut answers, mut answered) = RingBuffer::new(1);
    let next = |ring: &mut rtrb::Consumer<u32>, sleeper: &mut wake::Sleeper| loop {
        if let Ok(item) = ring.pop() {
            return item;
        }
        sleeper.arm();
        if ring.is_empty() {
            let before = Instant::now();
            sleeper.wait(Some(LOST)).unwrap();
            assert!(before.elapsed() < LOST, "a wake-up was lost");
        }
        sleeper.disarm();
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                let item = next(&mut asked, &mut pong);
                answers.push(item).unwrap();
                to_ping.wake();
            }
        });
        for round in 0..ROUNDS {
            asks.push(round).unwrap();
            to_pong.wake();
            assert_eq!(next(&mut answered, &mut ping), round);
        }
    });
}

#[test]
fn a_wait_ends_at_its_timeout_and_not_before() {
    let poller = Poller::new().unwrap();
    let mut events = Events::with_capacity(1);
    for micros in [0, 300, 2_500] {
        let timeout = Duration::from_micros(micros);
        let before = Instant::now();
        assert_eq!(poller.wait(&mut events, Some(timeout)).unwrap(), 0);
        assert!(before.elapsed() >= timeout);
        assert_eq!(events.iter().count(), 0);
    }
}

#[test]
fn interest_can_change_and_end() {
    let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    let poller = Poller::new().unwrap();
    let mut events = Events::with_capacity(4);
    poller.add(near.as_fd(), 1, Interest::Read).unwrap();
    assert!(poller.add(near.as_fd(), 1, Interest::Read).is_err());
    assert_eq!(poller.wait(&mut events, Some(Duration::ZERO)).unwrap(), 0);

    poller.modify(near.as_fd(), 2, Interest::ReadWrite).unwrap();
    assert_eq!(poller.wait(&mut events, Some(LOST)).unwrap(), 1);
    let event = events.iter().next().unwrap();
    assert_eq!(
        (event.token, event.readable, event.writable),
        (2, false, true)
    );

    drop(far);
    poller.wait(&mut events, Some(LOST)).unwrap();
    let event = events.iter().next().unwrap();
    assert!(event.readable && event.closed);

    poller.remove(near.as_fd()).unwrap();
    assert_eq!(poller.wait(&mut events, Some(Duration::ZERO)).unwrap(), 0);
}
