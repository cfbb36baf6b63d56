//! What a central scheduler plans: by which neighbour to get what enters the network elsewhere.
//!
//! A plan is advice. It names the neighbour by which a way begins, and [`Hops`](super::ways::Hops)
//! heeds it only where that leads nearer to the goal, as for ways that are kept. So brokers that
//! hold different plans, old ones, or an enemy's, make no loop, and what can be reached without a
//! plan can be reached with any.

use core::time::Duration;
use std::collections::BTreeMap;

use sangam_model::limits::BROKERS_PLANNED;
use sangam_model::{BrokerId, StreamId, Time};
use sangam_route::Graph;
use sangam_wire::{Plan, PlanTree};

/// A plan is followed for so long after its scheduler was last heard, who speaks every second.
pub const PLAN_FRESH: Duration = Duration::from_secs(5);
/// A tree that was not told for so long is forgotten: three refreshes and some slack.
const TREE_EXPIRY: Duration = Duration::from_secs(100);

/// The plan of the scheduler that is followed.
#[derive(Debug)]
pub(super) struct Plans {
    own: BrokerId,
    /// The stream by which it speaks, and the number of its last message.
    source: Option<(StreamId, u32)>,
    heard: Time,
    /// It was heard lately.
    lives: bool,
    /// By origin; at most [`BROKERS_PLANNED`].
    trees: BTreeMap<BrokerId, Told>,
}

#[derive(Debug)]
struct Told {
    /// By which neighbour each broker gets it.
    parents: BTreeMap<BrokerId, BrokerId>,
    at: Time,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It says something new.
    News,
    /// What was told before still stands.
    Same,
    /// It is older than what is known.
    Stale,
    /// Another scheduler is followed.
    Other,
}

impl Plans {
    pub(super) const fn new(own: BrokerId) -> Self {
        Self {
            own,
            source: None,
            heard: Time::ZERO,
            lives: false,
            trees: BTreeMap::new(),
        }
    }

    /// Takes a message that a scheduler published by this stream. Of several schedulers the one
    /// that is followed stays so as long as it lives.
    pub(super) fn take(&mut self, now: Time, from: StreamId, plan: &Plan) -> Taken {
        self.lapse(now);
        match self.source {
            Some((source, last)) if source == from => {
                // RFC 1982.
                let ahead = plan.number.wrapping_sub(last);
                if ahead == 0 || ahead >= 1 << 31 {
                    return Taken::Stale;
                }
            }
            Some(_) if self.lives => return Taken::Other,
            _ => self.trees.clear(),
        }
        let mut news = !self.lives;
        (self.source, self.heard, self.lives) = (Some((from, plan.number)), now, true);
        for tree in &plan.trees {
            news |= self.note(now, tree);
        }
        let before = self.trees.len();
        self.trees.retain(|_, told| now - told.at < TREE_EXPIRY);
        news |= self.trees.len() != before;
        if news { Taken::News } else { Taken::Same }
    }

    /// Whether it differs from what was known, and there is room for it.
    fn note(&mut self, now: Time, tree: &PlanTree) -> bool {
        if tree.parents.is_empty() {
            return self.trees.remove(&tree.origin).is_some();
        }
        let parents: BTreeMap<_, _> = tree.parents.iter().copied().collect();
        let known = self.trees.get(&tree.origin);
        if known.is_none() && self.trees.len() >= BROKERS_PLANNED {
            return false;
        }
        let same = known.is_some_and(|known| known.parents == parents);
        self.trees.insert(tree.origin, Told { parents, at: now });
        !same
    }

    /// Follows nobody who was not heard for long.
    pub(super) fn lapse(&mut self, now: Time) {
        if now >= self.deadline() {
            self.lives = false;
        }
    }

    /// Whether its scheduler was heard lately.
    pub(super) const fn are_followed(&self) -> bool {
        self.lives
    }

    /// When the plan is followed no more, unless its scheduler is heard.
    pub(super) fn deadline(&self) -> Time {
        if self.lives {
            self.heard + PLAN_FRESH
        } else {
            Time::NEVER
        }
    }

    /// The neighbour by which the plan gets what enters at `origin`, if the graph has every link of
    /// the planned way from there.
    pub(super) fn parent(&self, origin: BrokerId, graph: &Graph) -> Option<BrokerId> {
        let told = self.trees.get(&origin).filter(|_| self.lives)?;
        let mut at = self.own;
        for _ in 0..=told.parents.len() {
            if at == origin {
                return told.parents.get(&self.own).copied();
            }
            let parent = *told.parents.get(&at)?;
            graph.neighbours(at).find(|(id, _)| *id == parent)?;
            at = parent;
        }
        // In circles.
        None
    }
}

#[cfg(test)]
mod tests {
    use sangam_model::Incarnation;
    use sangam_route::Edge;
    use sangam_wire::PlanMethod;

    use super::*;

    const FIRST: StreamId = StreamId::new(BrokerId(1), Incarnation(0), 1);
    const SECOND: StreamId = StreamId::new(BrokerId(1), Incarnation(0), 2);

    fn plan(number: u32, trees: &[(u32, &[(u32, u32)])]) -> Plan {
        let trees = trees.iter().map(|(origin, parents)| PlanTree {
            origin: BrokerId(*origin),
            parents: parents
                .iter()
                .map(|(broker, parent)| (BrokerId(*broker), BrokerId(*parent)))
                .collect(),
        });
        Plan {
            method: PlanMethod::VcRoute,
            number,
            trees: trees.collect(),
        }
    }

    /// A chain of 1, 2, 3 and 4.
    fn chain() -> Graph {
        let edges = |id: u32| {
            let near = [id.wrapping_sub(1), id + 1].into_iter();
            let near = near.filter(|to| (1..=4).contains(to));
            let edge = |to| Edge {
                to: BrokerId(to),
                weight: 1,
            };
            near.map(edge).collect::<Vec<_>>()
        };
        Graph::new((1..=4).map(|id| (BrokerId(id), edges(id))))
    }

    fn at(seconds: u64) -> Time {
        Time::from_millis(1_000 * seconds)
    }

    #[test]
    fn a_plan_holds_while_its_scheduler_is_heard_and_another_waits_for_its_end() {
        let (mut plans, graph) = (Plans::new(BrokerId(2)), chain());
        let tree: (u32, &[(u32, u32)]) = (1, &[(2, 1)]);
        assert_eq!(plans.take(at(0), FIRST, &plan(7, &[tree])), Taken::News);
        assert_eq!(plans.take(at(1), FIRST, &plan(8, &[tree])), Taken::Same);
        assert_eq!(plans.take(at(1), FIRST, &plan(8, &[])), Taken::Stale);
        assert_eq!(plans.take(at(2), FIRST, &plan(7, &[])), Taken::Stale);
        assert_eq!(plans.take(at(2), SECOND, &plan(1, &[])), Taken::Other);
        assert_eq!(plans.parent(BrokerId(1), &graph), Some(BrokerId(1)));
        assert_eq!(plans.deadline(), at(6));
        plans.lapse(at(6));
        assert_eq!(plans.parent(BrokerId(1), &graph), None);
        assert_eq!(plans.deadline(), Time::NEVER);
        // It comes back with what it told before; or another begins with nothing.
        assert_eq!(plans.take(at(9), FIRST, &plan(9, &[])), Taken::News);
        assert_eq!(plans.parent(BrokerId(1), &graph), Some(BrokerId(1)));
        assert_eq!(plans.take(at(20), SECOND, &plan(1, &[])), Taken::News);
        assert_eq!(plans.parent(BrokerId(1), &graph), None);
    }

    #[test]
    fn a_way_is_followed_only_if_every_link_of_it_is_there() {
        let mut plans = Plans::new(BrokerId(3));
        let trees: [(u32, &[(u32, u32)]); 4] = [
            (1, &[(2, 1), (3, 2)]),
            // There is no link between 2 and 4.
            (4, &[(2, 4), (3, 2)]),
            // 2 and 3 wait for each other.
            (5, &[(2, 3), (3, 2)]),
            // Nobody knows how 2 gets it.
            (6, &[(3, 2)]),
        ];
        plans.take(at(0), FIRST, &plan(1, &trees));
        let parents = (1..=7).map(|origin| plans.parent(BrokerId(origin), &chain()));
        let two = Some(BrokerId(2));
        assert_eq!(
            parents.collect::<Vec<_>>(),
            [two, None, None, None, None, None, None]
        );
    }

    #[test]
    fn trees_have_a_bound_end_when_taken_back_and_are_forgotten_when_not_told() {
        let mut plans = Plans::new(BrokerId(2));
        for origin in 0..2 * BROKERS_PLANNED as u32 {
            let taken = plans.take(at(0), FIRST, &plan(origin + 1, &[(origin, &[(99, 2)])]));
            let room = (origin as usize) < BROKERS_PLANNED;
            assert_eq!(taken == Taken::News, room, "{origin}");
        }
        assert_eq!(plans.trees.len(), BROKERS_PLANNED);
        let number = 2 * BROKERS_PLANNED as u32 + 1;
        let gone = plan(number, &[(3, &[])]);
        assert_eq!(plans.take(at(1), FIRST, &gone), Taken::News);
        assert_eq!(plans.trees.len(), BROKERS_PLANNED - 1);
        let told = plan(number + 1, &[(4, &[(99, 2)])]);
        for (seconds, number) in (2..).zip(number + 1..number + 110) {
            let again = told.trees.iter().filter(|_| seconds == 60);
            let message = Plan {
                method: told.method,
                number,
                trees: again.cloned().collect(),
            };
            plans.take(at(seconds), FIRST, &message);
        }
        let left: Vec<_> = plans.trees.keys().collect();
        assert_eq!(left, [&BrokerId(4)]);
    }
}
