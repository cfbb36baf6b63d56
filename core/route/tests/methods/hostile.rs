//! Whatever routers are told, they go on choosing among their paths.

use core::time::Duration;

use proptest::prelude::*;
use sangam_model::Time;
use sangam_route::method::{Arrival, Feedback, Past, Probe, Report, Settings};
use sangam_route::predictor::Predictor;
use sangam_route::{Method, Paths, Router};

fn delay_us() -> impl Strategy<Value = i64> {
    prop_oneof![
        0..500_000_i64,
        -100_000..0_i64,
        any::<i64>(),
        Just(60_000_000)
    ]
}

fn report() -> impl Strategy<Value = Report> {
    let arrival =
        (delay_us(), delay_us(), delay_us()).prop_map(|(transit_us, jitter_us, lag_us)| Arrival {
            transit_us,
            jitter_us,
            lag_us,
        });
    (arrival, proptest::option::of(delay_us()), any::<bool>()).prop_map(
        |(arrival, end_to_end_us, lost)| match end_to_end_us {
            _ if lost => Report::Lost,
            Some(end_to_end_us) => Report::Released {
                arrival,
                end_to_end_us,
            },
            None => Report::Arrived(arrival),
        },
    )
}

#[derive(Clone, Debug)]
enum Step {
    Send,
    /// Time may stand still, jump, and go back.
    Wait(i64),
    Hear(u16, Report),
    Probe(u16, Option<i64>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Send),
        1 => prop_oneof![0..100_000_i64, any::<i64>()].prop_map(Step::Wait),
        3 => (0..20_u16, report()).prop_map(|(path, report)| Step::Hear(path, report)),
        3 => (0..25_u16, proptest::option::of(delay_us()))
            .prop_map(|(link, delay_us)| Step::Probe(link, delay_us)),
    ]
}

fn past() -> impl Strategy<Value = Past> {
    (any::<f64>(), any::<f64>(), any::<u32>()).prop_map(|(mean_ms, deviation_ms, samples)| Past {
        mean_ms,
        deviation_ms,
        samples,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn every_choice_is_a_path_whatever_is_heard(
        steps in prop::collection::vec(step(), 1..400),
        history in prop::collection::vec(past(), 0..20),
        network in any::<bool>(),
    ) {
        for method in Method::ALL.into_iter().chain(Method::LIVE) {
            let settings = Settings {
                history: history.clone(),
                refresh: Duration::from_millis(50),
                predictor: if network { Predictor::online(2) } else { Predictor::linear() },
                window: 30,
                ..Settings::default()
            };
            let mut router = Router::new(method, Paths::overlay(4), &settings);
            let (mut now, mut sent) = (Time::ZERO, 0);
            for step in &steps {
                match step {
                    Step::Send => {
                        now += Duration::from_millis(10);
                        sent += 1;
                        let choice = router.choose(now, |path| (path != 3).then_some(7));
                        prop_assert!(choice.path < 17);
                        prop_assert!(choice.duplicate.is_none_or(|path| path < 17));
                        prop_assert!(choice.duplicate != Some(choice.path));
                    }
                    Step::Wait(us) => {
                        now = Time::from_micros(now.as_micros().saturating_add_signed(*us));
                    }
                    Step::Hear(path, report) => {
                        let report = *report;
                        router.feedback(now, &Feedback { path: *path, sent: now, report });
                    }
                    Step::Probe(link, delay_us) => {
                        let (link, delay_us) = (*link, *delay_us);
                        router.probe(now, &Probe { link, sent: now, delay_us });
                    }
                }
            }
            prop_assert_eq!(router.costs().packets, sent);
        }
    }
}

#[test]
fn what_makes_no_sense_is_counted() {
    let mut router = Router::new(Method::Ours, Paths::overlay(4), &Settings::default());
    let report = Report::Lost;
    let sent = Time::ZERO;
    router.feedback(
        sent,
        &Feedback {
            path: 17,
            sent,
            report,
        },
    );
    let delay_us = Some(i64::MIN);
    router.probe(
        sent,
        &Probe {
            link: 0,
            sent,
            delay_us,
        },
    );
    router.probe(
        sent,
        &Probe {
            link: 21,
            sent,
            delay_us: None,
        },
    );
    assert_eq!(router.costs().ignored, 3);
}
