//! Many brokers under random failures.

use sangam_sim::brokers::{Plan, Shape};

/// Random things that happen before all must be well again.
const DISTURBANCES: usize = 40;

fn storm(shape: Shape, brokers: usize, sessions: usize, seed: u64) -> u64 {
    let plan = Plan {
        shape,
        brokers,
        sessions,
        seed,
    };
    match plan.storm(DISTURBANCES) {
        Ok(history) => history,
        Err(fault) => panic!("{fault}"),
    }
}

#[test]
fn two_hundred_brokers_survive_random_failures() {
    for seed in 0..3 {
        storm(Shape::Regions, 200, 200, seed);
    }
}

#[test]
fn brokers_of_every_shape_survive_random_failures() {
    use Shape::*;
    for shape in [Chain, Ring, Star, Mesh, Tree, Cyclic, Geometric] {
        for seed in 0..2 {
            storm(shape, 25, 40, seed);
        }
    }
}

/// In these a stream ended and returned within milliseconds, and what came by both ways was new
/// by each of them.
#[test]
fn a_stream_that_ends_and_returns_is_delivered_once() {
    for (shape, seed) in [(Shape::Ring, 49), (Shape::Geometric, 265)] {
        storm(shape, 14, 20, seed);
    }
}

#[test]
fn a_seed_replays_its_history_exactly() {
    let history = |seed| storm(Shape::Regions, 60, 60, seed);
    assert_eq!(history(3), history(3));
    assert_ne!(history(3), history(4));
}
