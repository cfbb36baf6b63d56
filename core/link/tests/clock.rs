//! The estimate of the peer's clock.

mod pair;

use std::time::Duration;

use pair::{BROKER_ROLE, Pair, Path, config};
use sangam_link::DialerConfig;

fn error_and_uncertainty(pair: &Pair) -> (Duration, Duration) {
    let session = pair.dialer.session().expect("the link is up");
    let estimate = session.clock_offset(pair.now).expect("a ping was answered");
    let truth = pair.broker.ahead.as_micros() as i64;
    let error = Duration::from_micros(estimate.offset_us.abs_diff(truth));
    (error, estimate.uncertainty)
}

#[test]
fn a_steady_symmetric_path_shows_the_true_offset() {
    let mut pair = Pair::joined(config(1), Path::delay(10));
    pair.run(Duration::from_secs(5));
    let (error, uncertainty) = error_and_uncertainty(&pair);
    assert_eq!(error, Duration::ZERO);
    assert!(uncertainty < Duration::from_millis(11), "{uncertainty:?}");
}

#[test]
fn the_true_offset_lies_within_the_uncertainty_on_any_path() {
    for seed in 1..=50 {
        let path = Path {
            lost: 100,
            up: Duration::from_millis(seed),
            down: Duration::from_millis(51 - seed),
            jitter: Duration::from_millis(seed),
            ..Path::default()
        };
        let mut pair = Pair::new(
            DialerConfig {
                role: BROKER_ROLE,
                ..config(seed)
            },
            path,
        );
        pair.run_until_up(Duration::from_secs(30));
        pair.run(Duration::from_secs(1));
        for _ in 0..100 {
            pair.run(Duration::from_millis(97));
            let (error, uncertainty) = error_and_uncertainty(&pair);
            assert!(
                error <= uncertainty,
                "seed {seed}: {error:?} > {uncertainty:?}"
            );
        }
    }
}

#[test]
fn rare_short_round_trips_decide_on_a_path_with_jitter() {
    let path = Path {
        jitter: Duration::from_millis(40),
        ..Path::delay(2)
    };
    let mut pair = Pair::joined(
        DialerConfig {
            role: BROKER_ROLE,
            ..config(3)
        },
        path,
    );
    pair.run(Duration::from_secs(20));
    let (error, uncertainty) = error_and_uncertainty(&pair);
    assert!(
        error <= uncertainty && uncertainty < Duration::from_millis(9),
        "{uncertainty:?}"
    );
}
