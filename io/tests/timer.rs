//! The wheel against a model that is too simple to be wrong.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sangam_io::timer::{TICK, Wheel};
use sangam_model::Time;

const TICK_US: u64 = TICK.as_micros() as u64;

#[derive(Clone, Debug)]
enum Step {
    /// Set a key's timer so many microseconds from now.
    Set(u8, u64),
    Cancel(u8),
    /// Let so many microseconds pass, then serve.
    Pass(u64),
    /// Let time pass to the deadline, then serve.
    PassToDeadline,
}

fn step() -> impl Strategy<Value = Step> {
    // Up to three revolutions, mostly far less.
    let span = prop_oneof![4 => 0..50_000_u64, 2 => 0..5_000_000_u64, 1 => 0..16_000_000_u64];
    prop_oneof![
        5 => (0..12_u8, span.clone()).prop_map(|(key, after)| Step::Set(key, after)),
        1 => (0..12_u8).prop_map(Step::Cancel),
        2 => span.prop_map(Step::Pass),
        3 => Just(Step::PassToDeadline),
    ]
}

/// The first tick at which a timer may fire: never early, and never in a tick already served.
fn tick_of(at: u64, now: u64) -> u64 {
    at.div_ceil(TICK_US).max(now / TICK_US + 1)
}

fn serve(wheel: &mut Wheel<u8>, model: &mut BTreeMap<u8, u64>, now: u64) {
    let mut expired = Vec::new();
    wheel.expired(Time::from_micros(now), &mut expired);
    expired.sort_unstable();
    let due = |tick: u64| tick <= now / TICK_US;
    let fires = model.iter().filter(|&(_, &tick)| due(tick));
    let expected: Vec<u8> = fires.map(|(&key, _)| key).collect();
    model.retain(|_, tick| !due(*tick));
    assert_eq!(expired, expected);
}

proptest! {
    #[test]
    fn the_wheel_fires_what_the_model_fires(
        start in 0..100_000_000_u64,
        steps in proptest::collection::vec(step(), 1..200),
    ) {
        let mut now = start;
        let mut wheel = Wheel::new(Time::from_micros(now));
        let mut model = BTreeMap::new();
        for step in steps {
            match step {
                Step::Set(key, after) => {
                    wheel.set(key, Time::from_micros(now + after));
                    model.insert(key, tick_of(now + after, now));
                }
                Step::Cancel(key) => {
                    wheel.cancel(key);
                    model.remove(&key);
                }
                Step::Pass(span) => {
                    now += span;
                    serve(&mut wheel, &mut model, now);
                }
                Step::PassToDeadline => {
                    if let Some(deadline) = wheel.deadline() {
                        now = now.max(deadline.as_micros());
                        serve(&mut wheel, &mut model, now);
                    }
                }
            }
            prop_assert_eq!(wheel.len(), model.len());
            prop_assert_eq!(wheel.deadline().is_some(), !model.is_empty());
            if let (Some(deadline), Some(first)) = (wheel.deadline(), model.values().min()) {
                prop_assert!(deadline.as_micros() > now, "serving makes progress");
                prop_assert!(deadline.as_micros() <= first * TICK_US, "nothing fires late");
            }
        }
    }
}

#[test]
fn a_timer_fires_once_and_never_early() {
    let mut wheel = Wheel::new(Time::ZERO);
    let mut expired = Vec::new();
    wheel.set('a', Time::from_micros(25_001));
    wheel.expired(Time::from_micros(29_999), &mut expired);
    assert!(expired.is_empty());
    assert_eq!(wheel.deadline(), Some(Time::from_millis(30)));
    wheel.expired(Time::from_millis(30), &mut expired);
    wheel.expired(Time::from_millis(9_000), &mut expired);
    assert_eq!(expired, ['a']);
    assert!(wheel.is_empty());
}

#[test]
fn never_means_cancelled() {
    let mut wheel = Wheel::new(Time::ZERO);
    wheel.set(1, Time::from_millis(10));
    wheel.set(1, Time::NEVER);
    assert_eq!(wheel.deadline(), None);
}
