//! A central scheduler leads streams around links that shake; without it they go on.

use std::time::{Duration, Instant};

use sangam_model::{BrokerId, Incarnation, Measured, StreamId, Time};
use sangam_node::{Broker, BrokerConfig, LinkRules};
use sangam_route::Method;
use sangam_route::schedule::{Line, Scheduler};
use sangam_wire::{Plan, PlanMethod, PlanTree};

use super::drain::{Listener, Show, time_passes};
use crate::support::cable::Cable;
use crate::support::*;

/// Whose links are there, and what they cost: from 1 to 3 it is shorter by 2.
const RING: [(u32, u32, u16); 4] = [(1, 2, 100), (2, 3, 100), (3, 4, 120), (4, 1, 120)];
/// For which of the times that it has the shaky link stands still.
const STALL: Duration = Duration::from_millis(30);
/// What must be measured of it.
const SHAKY: Duration = Duration::from_millis(4);
/// When the way before is left for good, and some slack.
const OVERLAP: Duration = Duration::from_millis(1_500);

/// A broker of the ring, with its weights fixed.
fn weighed(of_ring: BrokerConfig) -> BrokerConfig {
    let id = of_ring.id.0;
    let weights = RING.iter().filter_map(|(a, b, weight)| match id {
        _ if id == *a => Some((BrokerId(*b), *weight)),
        _ if id == *b => Some((BrokerId(*a), *weight)),
        _ => None,
    });
    BrokerConfig {
        rules: LinkRules {
            weights: weights.collect(),
            ..LinkRules::default()
        },
        ..of_ring
    }
}

/// What both ends of a link measure, the worse of it.
fn measured(brokers: &[Broker], a: u32, b: u32) -> Option<Measured> {
    let end = |of: u32, to: u32| {
        let links = brokers[of as usize - 1].links();
        let is_it = |peer: Option<(BrokerId, Incarnation)>| {
            peer.is_some_and(|(peer, _)| peer == BrokerId(to))
        };
        let link = links.into_iter().find(|link| link.up && is_it(link.peer));
        link.and_then(|link| link.measured)
    };
    let (one, other) = (end(a, b)?, end(b, a)?);
    Some(Measured {
        rtt: one.rtt.max(other.rtt),
        jitter: one.jitter.max(other.jitter),
        loss_ppm: one.loss_ppm.max(other.loss_ppm),
    })
}

/// A scheduler whose seconds are shorter.
struct Planner {
    scheduler: Scheduler,
    now: Time,
    number: u32,
    due: Instant,
}

impl Planner {
    /// Plans for the ring if it is time to; whether it was.
    fn plan(&mut self, brokers: &[Broker]) -> bool {
        if Instant::now() < self.due {
            return false;
        }
        self.due = Instant::now() + Duration::from_millis(50);
        self.now += Duration::from_secs(1);
        self.number += 1;
        let line = |(a, b, weight): (u32, u32, u16)| Line {
            ends: (BrokerId(a), BrokerId(b)),
            weight,
            measured: measured(brokers, a, b),
        };
        let trees = self.scheduler.plan(self.now, &RING.map(line));
        let trees = trees.into_iter().map(|tree| PlanTree {
            origin: tree.origin,
            parents: tree.parents,
        });
        let plan = Plan {
            method: PlanMethod::VcRoute,
            number: self.number,
            trees: trees.collect(),
        };
        let stream = StreamId::new(BrokerId(9), Incarnation(0), 1);
        for broker in brokers {
            broker.plan(stream, plan.clone());
        }
        true
    }
}

/// What brokers 2 and 4 relay for a while. On a busy machine a link may be in doubt for a moment
/// and have its detour, so it is never just none.
fn carried(brokers: &[Broker], show: &mut Show, listeners: &mut [Listener]) -> [u64; 2] {
    let relayed = |id: usize| counted(&brokers[id - 1], "sangam_relayed_packets_total");
    let before = [2, 4].map(relayed);
    show.go_on(listeners, time_passes(Duration::from_millis(300)));
    [relayed(2) - before[0], relayed(4) - before[1]]
}

#[test]
fn a_stream_is_led_around_a_shaky_link_and_goes_on_when_nobody_plans_any_more() {
    let first = start(weighed(config(1)));
    let second = start(weighed(linked(2, &[&first])));
    let cable = Cable::to(udp_of(&second));
    let third = BrokerConfig {
        links: vec![cable.near],
        ..config(3)
    };
    let third = start(weighed(third));
    // The first way it knows is the shorter one: it would keep the other for a minute.
    eventually("there is a way by 2", || third.brief(0).brokers == 3);
    let fourth = start(weighed(linked(4, &[&first, &third])));
    let brokers = [first, second, third, fourth];
    brokers.iter().for_each(|broker| links_up(broker, 2));
    let mut publisher = udp(&brokers[0]);
    let mut listeners = [Listener::new(udp(&brokers[2]))];
    let mut show = Show::new(&mut publisher);
    show.open(&mut listeners);
    let wanted = (BrokerId(1), BrokerId(4));
    let is_planned = || brokers[2].brief(0).planned.contains(&wanted);

    let [short, long] = carried(&brokers, &mut show, &mut listeners);
    assert!(short > 10 * long, "{short}, {long}");
    cable.stall(STALL);
    show.go_on(&mut listeners, |_| {
        measured(&brokers, 2, 3).is_some_and(|link| link.jitter > SHAKY)
    });

    let mut planner = Planner {
        scheduler: Scheduler::new(Method::VcRoute, 1),
        now: Time::ZERO,
        number: 0,
        due: Instant::now(),
    };
    show.go_on(&mut listeners, |_| planner.plan(&brokers) && is_planned());
    show.go_on(&mut listeners, time_passes(OVERLAP));
    let [short, long] = carried(&brokers, &mut show, &mut listeners);
    assert!(long > 10 * short, "{short}, {long}");

    // From now on nobody plans.
    cable.stall(Duration::ZERO);
    let mut look = Instant::now();
    show.go_on(&mut listeners, |_| {
        let now = Instant::now();
        let looks = now >= look;
        look = if looks { now + STALL } else { look };
        looks && !is_planned()
    });
    show.go_on(&mut listeners, time_passes(OVERLAP));
    let [short, long] = carried(&brokers, &mut show, &mut listeners);
    assert!(short > 10 * long, "as link state has it: {short}, {long}");
    show.is_complete(&mut listeners);
}
