//! A central scheduler over a ring: its plans are followed, and its end costs nobody an event.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

use std::time::Duration;

use sangam_broker::PinnedBy;
use sangam_model::{BrokerId, Filter, Incarnation, Measured, StreamId, Topic};
use sangam_route::Method;
use sangam_route::schedule::{Line, Scheduler};
use sangam_sim::brokers::{Network, Path};
use sangam_wire::{Plan, PlanMethod, PlanTree};

/// Links, their weights and delays in ms: from 0 to 2 it is shorter by 1.
const RING: [(usize, usize, u16, u64); 4] = [
    (0, 1, 100, 5),
    (1, 2, 100, 5),
    (2, 3, 120, 6),
    (3, 0, 120, 6),
];
/// The link that shakes.
const SHAKY: (usize, usize) = (1, 2);
/// Events each second.
const RATE: u16 = 100;
/// Events that may be on their way: 100 ms of them.
const AWAY: u16 = 10;

/// A publisher at broker 0 and a subscriber at broker 2.
struct Ring {
    network: Network,
    stream: StreamId,
    scheduler: Scheduler,
    sequence: u16,
    number: u32,
}

fn ring(seed: u64) -> Ring {
    let mut network = Network::new(4, seed);
    for (a, b, weight, _) in RING {
        for (from, to) in [(a, b), (b, a)] {
            let (now, peer) = (network.now, network.brokers[to].id);
            let pin = (PinnedBy::Configuration, Some(weight));
            assert!(network.brokers[from].routing.pin(now, peer, pin));
        }
    }
    for (a, b, _, ms) in RING {
        network.link(a, b, Path::of_delay(Duration::from_millis(ms)));
        // The way by 1 is there first: the other would be kept for a minute.
        network.run(Duration::from_secs(1));
    }
    network.subscribe(2, &Filter::new("hall/#").unwrap());
    let stream = network.publish(0, &Topic::new("hall/stage").unwrap());
    network.run(Duration::from_secs(5));
    Ring {
        network,
        stream: stream.unwrap(),
        scheduler: Scheduler::new(Method::VcRoute, seed),
        sequence: 0,
        number: 0,
    }
}

impl Ring {
    /// Events are published for so long, and each second a plan, if anybody plans.
    fn run(&mut self, seconds: u64, plans: bool) {
        for _ in 0..seconds {
            if plans {
                self.plan();
            }
            for _ in 0..RATE {
                self.sequence += 1;
                self.network.emit(0, self.stream, self.sequence);
                self.network.run(Duration::from_secs(1) / u32::from(RATE));
            }
        }
    }

    fn plan(&mut self) {
        let open = self.network.links().filter(|(.., open)| *open);
        let open: Vec<_> = open.map(|(a, b, _)| (a, b)).collect();
        let there = RING.iter().filter(|(a, b, ..)| open.contains(&(*a, *b)));
        let lines: Vec<Line> = there.map(|link| self.line(*link)).collect();
        let trees = self.scheduler.plan(self.network.now, &lines);
        self.number += 1;
        let trees = trees.into_iter().map(|tree| PlanTree {
            origin: tree.origin,
            parents: tree.parents,
        });
        let plan = Plan {
            method: PlanMethod::VcRoute,
            number: self.number,
            trees: trees.collect(),
        };
        let from = StreamId::new(BrokerId(99), Incarnation(0), 1);
        for broker in 0..4 {
            self.network.lead(broker, from, &plan);
        }
    }

    fn line(&self, (a, b, weight, ms): (usize, usize, u16, u64)) -> Line {
        let shakes_ms = if (a, b) == SHAKY { 20 } else { 0 };
        Line {
            ends: (self.network.brokers[a].id, self.network.brokers[b].id),
            weight,
            measured: Some(Measured {
                rtt: Duration::from_millis(2 * ms),
                jitter: Duration::from_millis(shakes_ms),
                loss_ppm: 0,
            }),
        }
    }

    /// From which brokers an event of just now came to the subscriber's.
    fn comes_from(&self) -> Vec<usize> {
        let event = |from| (self.stream, self.sequence - AWAY, from, 2);
        let crossings = &self.network.traffic.crossings;
        let from = [1, 3].into_iter();
        from.filter(|from| crossings.contains_key(&event(*from)))
            .collect()
    }

    /// Everything but what is on its way has come, once.
    #[track_caller]
    fn is_complete(&self) {
        let came = &self.network.traffic.delivered;
        let times = |n: &u16| came.get(&(self.stream, *n, 2)) != Some(&1);
        let wrong: Vec<u16> = (1..=self.sequence - AWAY).filter(times).collect();
        assert!(wrong.is_empty(), "{wrong:?} of {}", self.sequence);
    }
}

#[test]
fn a_stream_takes_the_calm_way_while_it_is_planned_and_loses_nothing_when_the_scheduler_dies() {
    for seed in 1..6 {
        let mut ring = ring(seed);
        ring.run(2, false);
        assert_eq!(ring.comes_from(), [1], "as link state has it");
        ring.run(10, true);
        assert_eq!(ring.comes_from(), [3], "around the link that shakes");
        // Nobody plans any more; the plan holds for 5 s, and the old way for one more.
        ring.run(4, false);
        assert_eq!(ring.comes_from(), [3]);
        ring.run(4, false);
        assert_eq!(ring.comes_from(), [1]);
        ring.is_complete();
    }
}

#[test]
fn a_planned_way_that_dies_is_left_as_fast_as_any_other() {
    for seed in 1..6 {
        let mut ring = ring(seed);
        ring.run(10, true);
        assert_eq!(ring.comes_from(), [3]);
        ring.network.traffic.watch();
        ring.network.blackhole(2, 3);
        // The scheduler hears of it later than the brokers.
        ring.run(3, false);
        assert_eq!(ring.comes_from(), [1]);
        let gaps = ring.network.traffic.gaps(ring.network.now);
        let longest = gaps.map(|(.., gap)| gap).max().unwrap();
        assert!(longest < Duration::from_millis(400), "{longest:?}");
    }
}
