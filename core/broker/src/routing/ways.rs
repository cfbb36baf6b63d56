//! By which neighbour the way to each broker begins: by that of the shortest way, without swings,
//! or by the one that a scheduler plans.
//!
//! Weights are measured, so of two ways that cost about the same now one is shorter and now the
//! other. Each change costs a second of two copies of every stream that moves, so a way stays
//! while that is safe and not much dearer. It is safe while the neighbour is nearer to the goal
//! than this broker is (RFC 5286 section 3.6 calls that a downstream path): brokers with one map
//! that all keep to it get ever nearer, whichever ways they have kept. A planned way is taken under
//! the same condition, so nor can plans make a loop, whoever holds which; it is neither left nor
//! come back to with patience.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use sangam_model::{BrokerId, Time};
use sangam_route::{Graph, UNREACHABLE, WEIGHT_MAX, Ways};

/// What a way may cost besides the shortest before it is left soon: a quarter of that and 5 ms.
const SOON: (u32, u32) = (4, 50);
/// Before it is left at once: as much again, and 20 ms.
const AT_ONCE: (u32, u32) = (1, 200);
/// How long a much shorter way must have been there,
const SOON_AFTER: Duration = Duration::from_secs(5);
/// and one that is shorter at all.
const AT_LAST_AFTER: Duration = Duration::from_secs(60);
/// Ways that are due so soon are left together: each time the map is searched.
const TOGETHER: Duration = Duration::from_secs(1);

/// The neighbour by which the way to each broker begins.
#[derive(Debug)]
pub(super) struct Hops {
    own: BrokerId,
    /// By rising id.
    hops: Vec<(BrokerId, BrokerId)>,
    /// Since when there have been shorter ways than those that were kept.
    kept: BTreeMap<BrokerId, Time>,
    /// Brokers to which the way is as planned.
    planned: BTreeSet<BrokerId>,
    /// When the first of those kept is left.
    due: Time,
}

/// How the ways have changed.
#[derive(Debug, Default)]
pub(super) struct Moved {
    /// Brokers to which the way begins elsewhere, or which came or went.
    pub(super) hops: Vec<BrokerId>,
    /// Those that came or went.
    pub(super) reach: Vec<BrokerId>,
}

/// The ways that go on from a neighbour.
struct Onward {
    /// What crossing over costs.
    weight: u32,
    ways: Ways,
}

impl Hops {
    pub(super) fn new(own: BrokerId) -> Self {
        Self {
            own,
            hops: vec![(own, own)],
            kept: BTreeMap::new(),
            planned: BTreeSet::new(),
            due: Time::NEVER,
        }
    }

    /// The neighbour for one broker.
    pub(super) fn to(&self, to: BrokerId) -> Option<BrokerId> {
        let at = self.hops.binary_search_by_key(&to, |(to, _)| *to).ok()?;
        Some(self.hops[at].1)
    }

    /// Brokers there is a way to, this one included, by rising id.
    pub(super) fn reachable(&self) -> impl Iterator<Item = BrokerId> {
        self.hops.iter().map(|(to, _)| *to)
    }

    /// Brokers to which the way is as planned, and the neighbour by which it begins.
    pub(super) fn planned(&self) -> impl Iterator<Item = (BrokerId, BrokerId)> {
        self.planned
            .iter()
            .filter_map(|to| Some((*to, self.to(*to)?)))
    }

    /// When to [`Self::follow`] though nothing has changed.
    pub(super) const fn due(&self) -> Time {
        self.due
    }

    /// Takes the ways of a new graph; `is_well` tells whether the link to a neighbour is, `plan`
    /// by which neighbour a scheduler wants the way to a broker to begin.
    pub(super) fn follow(
        &mut self,
        now: Time,
        graph: &Graph,
        is_well: impl Fn(BrokerId) -> bool,
        plan: impl Fn(BrokerId) -> Option<BrokerId>,
    ) -> Moved {
        let shortest = graph.ways(self.own, None);
        let own = self.own;
        let mut onward: BTreeMap<BrokerId, Option<Onward>> = BTreeMap::new();
        // What a way by a neighbour costs besides the shortest, if it is well and leads nearer.
        let mut excess = |by: BrokerId, to: BrokerId, cost: u32| {
            let onward = onward.entry(by);
            let onward = onward.or_insert_with(|| Onward::from(graph, own, by));
            let onward = onward.as_ref().filter(|_| is_well(by));
            onward.and_then(|by| by.excess(graph, to, cost))
        };
        let (mut kept, mut planned) = (BTreeMap::new(), BTreeSet::new());
        self.due = Time::NEVER;
        let mut hops = Vec::with_capacity(graph.brokers().len());
        for (to, first) in graph.firsts(&shortest) {
            let cost = graph.cost(&shortest, to);
            let heeds = |excess| may_be_planned(cost, excess);
            if let Some(by) = plan(to).filter(|by| excess(*by, to, cost).is_some_and(heeds)) {
                planned.insert(to);
                hops.push((to, by));
                continue;
            }
            // A way that was planned has no claim to be kept.
            let before = self.to(to).filter(|_| !self.planned.contains(&to));
            let stays = before.filter(|before| *before != first).filter(|before| {
                excess(*before, to, cost).is_some_and(|excess| {
                    let since = self.kept.get(&to).copied().unwrap_or(now);
                    let left = since + patience(excess, cost);
                    if excess == 0 {
                        return true;
                    }
                    let stays = left > now + TOGETHER;
                    if stays {
                        kept.insert(to, since);
                        self.due = self.due.min(left);
                    }
                    stays
                })
            });
            hops.push((to, stays.unwrap_or(first)));
        }
        (self.kept, self.planned) = (kept, planned);
        let before = core::mem::replace(&mut self.hops, hops);
        moved(&before, &self.hops)
    }
}

impl Onward {
    /// `None` without a link to the neighbour.
    fn from(graph: &Graph, own: BrokerId, neighbour: BrokerId) -> Option<Self> {
        let (_, weight) = graph.neighbours(own).find(|(id, _)| *id == neighbour)?;
        let ways = graph.ways(neighbour, None);
        Some(Self { weight, ways })
    }

    /// What the way by this neighbour costs besides the shortest, if it leads nearer.
    fn excess(&self, graph: &Graph, to: BrokerId, shortest: u32) -> Option<u32> {
        let rest = graph.cost(&self.ways, to);
        let nearer = rest < shortest && shortest != UNREACHABLE;
        nearer.then(|| (self.weight + rest).saturating_sub(shortest))
    }
}

/// Whether a plan may ask for a way that costs so much besides the shortest. A link of the largest
/// weight is for when there is no other way: its operator said so, or it is about to go.
fn may_be_planned(shortest: u32, excess: u32) -> bool {
    excess == 0 || shortest.saturating_add(excess) < u32::from(WEIGHT_MAX)
}

/// How long a way that costs so much besides the shortest may stay.
const fn patience(excess: u32, shortest: u32) -> Duration {
    if excess > shortest / AT_ONCE.0 + AT_ONCE.1 {
        Duration::ZERO
    } else if excess > shortest / SOON.0 + SOON.1 {
        SOON_AFTER
    } else {
        AT_LAST_AFTER
    }
}

/// How ways differ; both lists by rising id.
fn moved(before: &[(BrokerId, BrokerId)], after: &[(BrokerId, BrokerId)]) -> Moved {
    let mut moved = Moved::default();
    let (mut old, mut new) = (before.iter().peekable(), after.iter().peekable());
    loop {
        let (to, reach) = match (old.peek(), new.peek()) {
            (Some(a), Some(b)) if a == b => {
                old.next();
                new.next();
                continue;
            }
            (Some(a), Some(b)) if a.0 == b.0 => (a.0, false),
            (Some(a), b) if b.is_none_or(|b| a.0 < b.0) => (a.0, true),
            (_, Some(b)) => (b.0, true),
            (_, None) => return moved,
        };
        old.next_if(|hop| hop.0 == to);
        new.next_if(|hop| hop.0 == to);
        moved.hops.push(to);
        moved.reach.extend(reach.then_some(to));
    }
}
