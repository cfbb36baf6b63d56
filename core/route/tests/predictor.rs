//! The network against a second implementation, and the three predictors on one collected set.

use sangam_model::Random;
use sangam_route::predictor::{
    Learner, Network, Predictor, Sample, Score, State, fit_linear, split,
};

/// Written by `golden/predictor.py`: inputs, output, and output after training.
const GOLDEN: &str = include_str!("golden/predictor.txt");

fn golden() -> Vec<[f32; 4]> {
    let lines = GOLDEN.lines().filter(|line| !line.starts_with('#'));
    let numbers = lines.map(|line| {
        let mut numbers = line
            .split(' ')
            .map(|number| number.parse().expect("a number"));
        [(); 4].map(|()| numbers.next().expect("four in each line"))
    });
    numbers.collect()
}

#[test]
fn outputs_and_training_agree_with_a_second_implementation() {
    let mut network = Network::new(0);
    for (count, parameter) in network.parameters().enumerate() {
        let spread = (count * 7_919 + 13) % 1_009;
        *parameter = (spread as f32 - 504.0) / 504.0 * 0.25;
    }
    let cases = golden();
    for [a, b, before, _] in &cases {
        let output = network.run([*a, *b]);
        assert!((output - before).abs() < 1e-5, "{a} {b}: {output} {before}");
    }
    for step in 0..100 {
        let [a, b, ..] = cases[step % cases.len()];
        network.train([a, b], 0.5 * a - b.abs(), 0.005, f32::MAX);
    }
    for [a, b, _, after] in &cases {
        let output = network.run([*a, *b]);
        assert!((output - after).abs() < 1e-4, "{a} {b}: {output} {after}");
    }
}

/// Packets of sessions whose receivers wait for stragglers, but not for long: not a plane.
fn collected(count: usize) -> Vec<Sample> {
    let mut random = Random::new(9);
    let sample = |_| {
        let transit_ms = 80.0 + 900.0 * random.unit() as f32;
        let jitter_ms = (40.0 * random.normal() as f32).abs();
        let wait = if jitter_ms > 30.0 {
            60.0
        } else {
            2.0 * jitter_ms
        };
        let noise = 10.0 * random.normal() as f32;
        Sample {
            state: State {
                transit_ms,
                jitter_ms,
                lag_ms: 30.0,
            },
            end_to_end_ms: transit_ms + wait + noise,
        }
    };
    (0..count).map(sample).collect()
}

#[test]
fn a_network_trained_on_a_collected_set_predicts_better_than_a_plane_or_a_rule() {
    let mut samples = collected(40_000);
    let (train, test) = split(&mut samples, 2);
    let network = Predictor::Trained(Box::new(Learner::fit(train, 6, 3)));
    let linear = Predictor::Linear(fit_linear(train));
    let [network, linear, rule] =
        [network, linear, Predictor::Rule].map(|predictor| Score::of(&predictor, test));
    let all = format!("{network:?}\n{linear:?}\n{rule:?}");
    assert!(network.rmse_ms() < 12.5 && network.r2() > 0.99, "{all}");
    assert!(
        network.rmse_ms() < linear.rmse_ms() && linear.rmse_ms() < rule.rmse_ms(),
        "{all}"
    );
}

#[test]
fn a_network_that_learns_while_it_is_used_follows_what_it_sees() {
    let mut online = Predictor::online(1);
    let state = collected(1)[0].state;
    assert_eq!(
        online.predict(&state),
        state.transit_ms + state.lag_ms,
        "the rule, at first"
    );
    let (mut score, samples) = (Score::default(), collected(60_000));
    for (count, sample) in samples.iter().enumerate() {
        if count > 30_000 {
            score.add(online.predict(&sample.state), sample.end_to_end_ms);
        }
        online.learn(&sample.state, sample.end_to_end_ms);
    }
    assert!(score.rmse_ms() < 16.0 && score.r2() > 0.99, "{score:?}");
}

#[test]
fn absurd_packets_do_not_spoil_it() {
    let mut online = Predictor::online(1);
    let absurd = State {
        transit_ms: -60_000.0,
        jitter_ms: 60_000.0,
        lag_ms: 0.0,
    };
    for (count, sample) in collected(20_000).iter().enumerate() {
        online.learn(&sample.state, sample.end_to_end_ms);
        if count % 1_000 == 0 {
            online.learn(&absurd, 60_000.0);
        }
    }
    let test = collected(1_000);
    assert!(Score::of(&online, &test).r2() > 0.9);
    assert!(online.predict(&absurd).is_finite());
}
