//! What a central scheduler plans: where it is heeded, and that it can do no harm.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sangam_broker::PLAN_FRESH;
use sangam_model::StreamId;
use sangam_wire::{Plan, PlanMethod, PlanTree};

use super::ways::{joined, listener};
use super::*;

fn scheduler(number: u32) -> StreamId {
    StreamId::new(BrokerId(77), Incarnation(0), number)
}

fn plan(number: u32, trees: &[(BrokerId, &[(BrokerId, BrokerId)])]) -> Plan {
    let trees = trees.iter().map(|(origin, parents)| PlanTree {
        origin: *origin,
        parents: parents.to_vec(),
    });
    Plan {
        method: PlanMethod::VcRoute,
        number,
        trees: trees.collect(),
    }
}

impl Broker {
    /// Hears a plan, and what follows from it within a moment.
    fn is_told(&mut self, plan: &Plan) -> Vec<(LinkId, Message)> {
        self.routing.plan(self.now, scheduler(1), plan);
        let mut said = self.said();
        said.extend(self.later(PAUSE));
        said
    }

    fn planned(&self) -> Vec<(BrokerId, BrokerId)> {
        self.routing.planned().collect()
    }
}

/// When the way before is left for good.
const OVERLAP: Duration = Duration::from_secs(2);
/// What C publishes shall come by B.
const BY_B: &[(BrokerId, BrokerId)] = &[(US, B), (B, C)];

#[test]
fn a_planned_way_is_taken_and_left_at_once_when_its_scheduler_is_silent() {
    let mut broker = listener();
    let said = broker.is_told(&plan(1, &[(C, BY_B)]));
    assert_eq!(joined(&said), [(TO_B, None)]);
    assert_eq!(broker.planned(), [(C, B)]);
    for number in 2..12 {
        broker.later(Duration::from_secs(1));
        assert_eq!(joined(&broker.is_told(&plan(number, &[]))), []);
    }
    assert_eq!(joined(&broker.later(PLAN_FRESH - 2 * PAUSE)), []);
    let said = broker.later(2 * PAUSE);
    assert_eq!(joined(&said), [(TO_A, None)], "as link state has it");
    assert_eq!(broker.planned(), []);
    // It is heard again, and what it told before still stands.
    broker.later(OVERLAP);
    let said = broker.is_told(&plan(12, &[]));
    assert_eq!(joined(&said), [(TO_B, None)]);
}

#[test]
fn a_planned_way_is_left_when_a_link_of_it_is_gone_and_for_as_long_as_it_is_in_doubt() {
    let mut broker = listener();
    broker.is_told(&plan(1, &[(C, BY_B)]));
    broker.later(OVERLAP);
    let said = broker.hears(TO_B, state(B, 2, &[(US, 3), (A, 3)]));
    let said = [said, broker.later(PAUSE)].concat();
    assert_eq!(joined(&said), [(TO_A, None)]);
    assert_eq!(broker.planned(), []);

    let mut broker = listener();
    broker.is_told(&plan(1, &[(C, BY_B)]));
    broker.later(OVERLAP);
    broker.does(RoutingInput::LinkSuspect(TO_B));
    let said = broker.hears(TO_A, state(A, 2, &[(US, 3), (B, 9), (C, 3)]));
    let said = [said, broker.later(PAUSE)].concat();
    assert!(joined(&said).contains(&(TO_A, None)), "{said:?}");
    assert_eq!(broker.planned(), []);
    // It is as planned again once the link is well.
    broker.later(OVERLAP);
    let said = broker.does(RoutingInput::LinkRecovered(TO_B));
    let said = [said, broker.later(PAUSE)].concat();
    assert!(joined(&said).contains(&(TO_B, None)), "{said:?}");
    assert_eq!(broker.planned(), [(C, B)]);
}

#[test]
fn a_way_that_leads_no_nearer_is_not_heeded() {
    let mut broker = broker();
    broker.is_told(&plan(1, &[(A, &[(US, B), (B, A)])]));
    assert_eq!(broker.planned(), []);
    assert_eq!(broker.routing.parent(A), Some(TO_A));
}

#[test]
fn a_link_for_when_there_is_no_other_way_is_no_planned_one() {
    for (weight, planned) in [(500, &[(C, B)][..]), (u16::MAX, &[])] {
        let mut broker = broker();
        let pin = (PinnedBy::Configuration, Some(weight));
        assert!(broker.routing.pin(broker.now, B, pin));
        broker.later(PAUSE);
        broker.is_told(&plan(1, &[(C, BY_B)]));
        assert_eq!(broker.planned(), planned, "{weight}");
    }
}

#[test]
fn what_is_planned_no_more_is_left_to_link_state() {
    let mut broker = listener();
    broker.is_told(&plan(1, &[(C, BY_B)]));
    broker.later(OVERLAP);
    let said = broker.is_told(&plan(2, &[(C, &[])]));
    assert_eq!(joined(&said), [(TO_A, None)]);
    let refused = broker.routing.refused().stale;
    let said = broker.is_told(&plan(1, &[(C, BY_B)]));
    assert_eq!(joined(&said), [], "that was before");
    assert_eq!(broker.routing.refused().stale, refused + 1);
}

/// Brokers that tell each other what they have to tell. A link has one number at both ends.
struct World {
    now: Time,
    brokers: Vec<Routing>,
    links: BTreeMap<LinkId, (usize, usize)>,
}

fn id(place: usize) -> BrokerId {
    BrokerId(place as u32 + 1)
}

impl World {
    fn new(count: usize, links: &[(usize, usize, u16)]) -> Self {
        let brokers = (0..count).map(|place| Routing::new(id(place), Incarnation(0)));
        let mut world = Self {
            now: Time::from_millis(1),
            brokers: brokers.collect(),
            links: BTreeMap::new(),
        };
        for (number, &(a, b, weight)) in (0..).zip(links) {
            let (a, b) = (a % count, b % count);
            let known = world
                .links
                .values()
                .any(|ends| [(a, b), (b, a)].contains(ends));
            if a == b || known {
                continue;
            }
            let link = LinkId(number);
            world.links.insert(link, (a, b));
            for (from, to) in [(a, b), (b, a)] {
                let broker = &mut world.brokers[from];
                let pin = (PinnedBy::Configuration, Some(weight));
                assert!(broker.pin(world.now, id(to), pin));
                broker.handle(world.now, RoutingInput::LinkUp(link, id(to)));
            }
        }
        world.settle();
        world
    }

    fn peer(&self, of: usize, link: LinkId) -> usize {
        let (a, b) = self.links[&link];
        if a == of { b } else { a }
    }

    /// Two seconds in which everybody hears everything.
    fn settle(&mut self) {
        for _ in 0..100 {
            self.now += PAUSE;
            let mut told = Vec::new();
            for (place, broker) in self.brokers.iter_mut().enumerate() {
                broker.handle(self.now, RoutingInput::Tick);
                while let Some(output) = broker.poll() {
                    if let RoutingOutput::Send { link, message } = output {
                        told.push((place, link, message));
                    }
                }
            }
            for (place, link, message) in told {
                if self.links.contains_key(&link) {
                    let to = self.peer(place, link);
                    let input = RoutingInput::Message(link, &message);
                    self.brokers[to].handle(self.now, input);
                }
            }
        }
    }

    fn cut(&mut self, link: LinkId) {
        if let Some((a, b)) = self.links.remove(&link) {
            for end in [a, b] {
                self.brokers[end].handle(self.now, RoutingInput::LinkDown(link));
            }
        }
    }

    /// Everybody reaches everybody whom the links reach, by ways without a circle.
    fn is_whole(&self) -> Result<(), TestCaseError> {
        let count = self.brokers.len();
        let epochs: BTreeSet<u64> = self.brokers.iter().map(Routing::epoch).collect();
        for goal in 0..count {
            let mut near = BTreeSet::from([goal]);
            for _ in 0..count {
                let ends = self.links.values();
                let more = ends.filter(|(a, b)| near.contains(a) || near.contains(b));
                let more: Vec<_> = more.flat_map(|(a, b)| [*a, *b]).collect();
                near.extend(more);
            }
            for start in 0..count {
                let mut at = start;
                for _ in 0..count {
                    let Some(link) = self.brokers[at].parent(id(goal)) else {
                        break;
                    };
                    at = self.peer(at, link);
                    if at == goal {
                        break;
                    }
                }
                let reaches = near.contains(&start);
                prop_assert_eq!(at == goal, reaches, "{} to {}", start, goal);
            }
            prop_assert!(
                near.len() < count || epochs.len() == 1,
                "one network, one map"
            );
        }
        Ok(())
    }
}

/// A plan from anybody, of anything: contradictory, old, about strangers.
fn any_plan() -> impl Strategy<Value = (u32, Plan)> {
    let pair = (0..9_u32, 0..9_u32).prop_map(|(a, b)| (BrokerId(a), BrokerId(b)));
    let parents = prop::collection::vec(pair, 0..10);
    let tree = (0..9_u32, parents).prop_map(|(origin, parents)| PlanTree {
        origin: BrokerId(origin),
        parents,
    });
    let trees = prop::collection::vec(tree, 0..9);
    (0..3_u32, 0..6_u32, trees).prop_map(|(source, number, trees)| {
        let method = PlanMethod::Via;
        let plan = Plan {
            method,
            number,
            trees,
        };
        (source, plan)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn plans_of_any_kind_make_no_loop_and_cut_nobody_off(
        count in 2..8_usize,
        links in prop::collection::vec((0..8_usize, 0..8_usize, 1..400_u16), 1..16),
        plans in prop::collection::vec((0..8_usize, any_plan(), 0..7_u64), 0..24),
        cut in prop::option::of(0..16_u16),
    ) {
        let mut world = World::new(count, &links);
        world.is_whole()?;
        for (to, (source, plan), seconds) in &plans {
            let to = to % count;
            world.now += Duration::from_secs(*seconds);
            world.brokers[to].plan(world.now, scheduler(*source), plan);
            // Others may hold another one, or none.
            let ahead = Plan { number: plan.number + 1, ..plan.clone() };
            world.brokers[(to + 1) % count].plan(world.now, scheduler(*source), &ahead);
        }
        world.settle();
        world.is_whole()?;
        if let Some(link) = cut {
            world.cut(LinkId(link));
            world.settle();
            world.is_whole()?;
        }
    }
}

#[test]
fn a_plan_moves_a_stream_in_a_ring_and_everybody_still_reaches_everybody() {
    // From 1 to 3 it is shorter by 2.
    let links = [(0, 1, 100), (1, 2, 100), (2, 3, 120), (3, 0, 120)];
    let mut world = World::new(4, &links);
    assert_eq!(world.brokers[2].parent(id(0)), Some(LinkId(1)));
    let tree: &[_] = &[(id(1), id(0)), (id(2), id(3)), (id(3), id(0))];
    for broker in &mut world.brokers {
        broker.plan(world.now, scheduler(1), &plan(1, &[(id(0), tree)]));
    }
    world.settle();
    assert_eq!(world.brokers[2].parent(id(0)), Some(LinkId(2)));
    world.is_whole().unwrap();
    // Nobody speaks any more.
    world.now += PLAN_FRESH;
    world.settle();
    assert_eq!(world.brokers[2].parent(id(0)), Some(LinkId(1)));
}
