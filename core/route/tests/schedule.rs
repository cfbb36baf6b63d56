//! What a central scheduler plans for whole networks.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use sangam_model::limits::BROKERS_PLANNED;
use sangam_model::{BrokerId, Measured, Random, Time};
use sangam_route::schedule::{Line, Scheduler, Tree};
use sangam_route::{Edge, Graph, Method, WEIGHT_MAX};

const SECOND: Duration = Duration::from_secs(1);

fn measured(rtt_ms: f64, jitter_ms: f64) -> Option<Measured> {
    Some(Measured {
        rtt: Duration::from_secs_f64(rtt_ms / 1e3),
        jitter: Duration::from_secs_f64(jitter_ms / 1e3),
        loss_ppm: 0,
    })
}

fn line(ends: (u32, u32), weight: u16, measured: Option<Measured>) -> Line {
    Line {
        ends: (BrokerId(ends.0), BrokerId(ends.1)),
        weight,
        measured,
    }
}

/// Four brokers: from 1 to 3 the way by 2 is shorter by weights, the one by 4 a little longer.
///
///     1 --- 2
///     |     |
///     4 --- 3
fn ring(jitter_ms: f64) -> [Line; 4] {
    [
        line((1, 2), 100, measured(10.0, 0.5)),
        line((2, 3), 100, measured(10.0, jitter_ms)),
        line((3, 4), 120, measured(12.0, 0.5)),
        line((4, 1), 120, measured(12.0, 0.5)),
    ]
}

fn parent(trees: &[Tree], origin: u32, broker: u32) -> Option<u32> {
    let tree = trees.iter().find(|tree| tree.origin == BrokerId(origin))?;
    let parents = tree.parents.iter();
    let mut of_broker = parents.filter(|(id, _)| *id == BrokerId(broker));
    of_broker.next().map(|(_, parent)| parent.0)
}

/// The plans of so many seconds.
fn plans(scheduler: &mut Scheduler, from: u64, seconds: u64, lines: &[Line]) -> Vec<Vec<Tree>> {
    let at = |second: u64| Time::from_millis(1_000 * second);
    let times = (from..from + seconds).map(at);
    times.map(|now| scheduler.plan(now, lines)).collect()
}

#[test]
fn a_stream_leaves_the_way_that_is_short_and_shaky() {
    for seed in 0..20 {
        let mut scheduler = Scheduler::new(Method::VcRoute, seed);
        let calm = plans(&mut scheduler, 0, 60, &ring(0.5));
        assert!(calm.iter().all(|trees| parent(trees, 1, 3) == Some(2)));
        let shaky = plans(&mut scheduler, 60, 60, &ring(20.0));
        let left = shaky
            .iter()
            .position(|trees| parent(trees, 1, 3) == Some(4));
        // Its memory is ten seconds long, and the old way was good until now.
        assert!(left.is_some_and(|seconds| seconds <= 11), "{left:?}");
        let after = &shaky[left.unwrap()..];
        assert!(after.iter().all(|trees| parent(trees, 1, 3) == Some(4)));
    }
}

#[test]
fn a_link_for_when_there_is_no_other_way_is_planned_over_only_then() {
    let mut lines = ring(20.0);
    lines[2].weight = WEIGHT_MAX;
    let mut scheduler = Scheduler::new(Method::VcRoute, 1);
    let shaky = plans(&mut scheduler, 0, 60, &lines);
    assert!(shaky.iter().all(|trees| parent(trees, 1, 3) == Some(2)));
    let gone = [lines[0], lines[2], lines[3]];
    let gone = plans(&mut scheduler, 60, 1, &gone);
    assert_eq!(parent(&gone[0], 1, 3), Some(4));
}

#[test]
fn via_looks_at_transmit_latency_alone() {
    let mut scheduler = Scheduler::new(Method::Via, 1);
    let shaky = plans(&mut scheduler, 0, 120, &ring(20.0));
    assert!(shaky.iter().all(|trees| parent(trees, 1, 3) == Some(2)));
    let mut slow = ring(0.5);
    slow[1].measured = measured(80.0, 0.5);
    let slow = plans(&mut scheduler, 120, 60, &slow);
    assert_eq!(parent(&slow[59], 1, 3), Some(4));
}

#[test]
fn ways_that_are_about_as_good_do_not_swing() {
    for method in [Method::VcRoute, Method::Via] {
        let mut scheduler = Scheduler::new(method, 7);
        let mut random = Random::new(7);
        let mut changes = 0;
        let mut last = None;
        for second in 0..900 {
            let mut lines = ring(0.5);
            for line in &mut lines {
                let rtt_ms = 11.0 + 0.5 * random.normal().clamp(-2.0, 2.0);
                line.measured = measured(rtt_ms, 0.5 + 0.2 * random.unit());
            }
            let trees = scheduler.plan(Time::from_millis(1_000 * second), &lines);
            let now = parent(&trees, 1, 3);
            changes += u32::from(last.replace(now).is_some_and(|before| before != now));
        }
        assert!(changes <= 2, "{method:?}: {changes}");
    }
}

#[test]
fn nothing_is_planned_over_what_is_not_measured() {
    let mut lines = ring(0.5);
    lines[1].measured = None;
    let mut scheduler = Scheduler::new(Method::VcRoute, 1);
    let trees = scheduler.plan(Time::ZERO, &lines);
    assert_eq!(parent(&trees, 1, 3), Some(4));
    lines[2].measured = None;
    let trees = scheduler.plan(Time::ZERO + SECOND, &lines);
    assert_eq!(parent(&trees, 1, 3), None, "that is left to link state");
    assert_eq!(parent(&trees, 1, 2), Some(1));
}

#[test]
fn a_network_that_is_too_large_is_not_planned_for() {
    let chain = |brokers: u32| -> Vec<Line> {
        let links = (1..brokers).map(|id| line((id - 1, id), 10, measured(1.0, 0.0)));
        links.collect()
    };
    let most = BROKERS_PLANNED as u32;
    let mut scheduler = Scheduler::new(Method::VcRoute, 1);
    let trees = scheduler.plan(Time::ZERO, &chain(most));
    assert_eq!(trees.len(), BROKERS_PLANNED);
    assert!(
        trees
            .iter()
            .all(|tree| tree.parents.len() + 1 == BROKERS_PLANNED)
    );
    assert_eq!(scheduler.plan(Time::ZERO + SECOND, &chain(most + 1)), []);
}

fn lines() -> impl Strategy<Value = Vec<Line>> {
    let delay = || prop_oneof![0..200_000_u64, Just(0), any::<u64>()];
    let measured = (delay(), delay(), any::<u32>()).prop_map(|(rtt, jitter, loss_ppm)| Measured {
        rtt: Duration::from_micros(rtt),
        jitter: Duration::from_micros(jitter),
        loss_ppm,
    });
    let measured = prop_oneof![4 => measured.prop_map(Some), 1 => Just(None)];
    let weight = prop_oneof![4 => 1..300_u16, 1 => any::<u16>()];
    let one = ((0..9_u32, 0..9_u32), weight, measured);
    let one = one.prop_map(|(ends, weight, measured)| line(ends, weight, measured));
    prop::collection::vec(one, 0..24)
}

/// The graph as brokers have it: of two links between the same brokers the first counts.
fn graph(lines: &[Line]) -> Graph {
    let mut edges: BTreeMap<BrokerId, BTreeMap<BrokerId, u16>> = BTreeMap::new();
    for line in lines {
        let (a, b) = line.ends;
        for (from, to) in [(a, b), (b, a)] {
            let of_broker = edges.entry(from).or_default();
            if from != to {
                of_broker.entry(to).or_insert(line.weight);
            }
        }
    }
    Graph::new(edges.into_iter().map(|(id, edges)| {
        let edges = edges.into_iter();
        let edges = edges.map(|(to, weight)| Edge { to, weight });
        (id, edges.collect::<Vec<_>>())
    }))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_reported_each_step_of_a_plan_leads_nearer(
        networks in prop::collection::vec(lines(), 1..5),
        via in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let method = if via { Method::Via } else { Method::VcRoute };
        let mut scheduler = Scheduler::new(method, seed);
        let mut now = Time::ZERO;
        for lines in &networks {
            for _ in 0..3 {
                now += SECOND;
                let trees = scheduler.plan(now, lines);
                let graph = graph(lines);
                let origins: BTreeSet<_> = trees.iter().map(|tree| tree.origin).collect();
                prop_assert_eq!(origins.len(), trees.len());
                for tree in &trees {
                    let ways = graph.ways(tree.origin, None);
                    prop_assert!(tree.parents.is_sorted_by(|a, b| a.0 < b.0));
                    for (broker, parent) in &tree.parents {
                        prop_assert!(graph.neighbours(*broker).any(|(id, _)| id == *parent));
                        prop_assert!(graph.cost(&ways, *parent) < graph.cost(&ways, *broker));
                        let inner = tree.parents.iter().any(|(id, _)| id == parent);
                        prop_assert!(inner || *parent == tree.origin);
                    }
                }
            }
        }
    }
}
