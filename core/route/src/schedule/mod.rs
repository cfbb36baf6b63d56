//! A central scheduler: it hears what all links measure, and plans by which neighbour each broker
//! gets what enters the network at another (Xiao et al., section IV, for a whole network).
//!
//! For each origin there is one tree, as brokers need it. They are planned from the origin
//! outwards: a broker's arms are those of its neighbours that are nearer to the origin by the
//! weights of the map, each with the way that the tree has from there. So an arm stands for the
//! very way that choosing it means, and whatever is chosen, no plan can contain a loop.
//!
//! [`Teller`] says which trees brokers must be told.

use std::collections::{BTreeMap, BTreeSet};

use sangam_model::limits::BROKERS_PLANNED;
use sangam_model::{BrokerId, Measured, Time, hash};

use crate::{Edge, Graph, Method, UNREACHABLE, WEIGHT_MAX};
use pair::{Arm, Figure, Pair};

mod pair;
mod teller;

pub use teller::{REFRESH, Teller, Told};

/// Ways that a broker chooses from: of more neighbours those with the shortest by the map. The map
/// follows what links measure within seconds, so that the ninth shortest is not the fastest.
const ARMS_MAX: usize = 8;

/// A link as both ends report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Between whom.
    pub ends: (BrokerId, BrokerId),
    /// What crossing it costs on the map.
    pub weight: u16,
    /// By its worse end; none if nothing is planned over it.
    pub measured: Option<Measured>,
}

/// The way of what enters the network at one broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// That broker.
    pub origin: BrokerId,
    /// Brokers, by rising id, and the neighbour by which each gets it.
    pub parents: Vec<(BrokerId, BrokerId)>,
}

/// Plans for a whole network. Call [`Self::plan`] once a second.
#[derive(Clone, Debug)]
pub struct Scheduler {
    method: Method,
    seed: u64,
    /// By origin and receiver; those with a choice.
    pairs: BTreeMap<(BrokerId, BrokerId), Pair>,
}

/// The network as it is planned for.
struct Network {
    graph: Graph,
    /// Of each broker the neighbours by links that may be planned over: their places in the graph,
    /// weights and figures.
    links: Vec<Vec<(usize, u32, Figure)>>,
}

impl Scheduler {
    /// One that has heard nothing yet, and chooses by this method; chance is drawn from `seed`.
    #[must_use]
    pub const fn new(method: Method, seed: u64) -> Self {
        Self {
            method,
            seed,
            pairs: BTreeMap::new(),
        }
    }

    /// A tree for each broker from what links measure now; none if there are more brokers than
    /// [`BROKERS_PLANNED`]. A broker that no measured way leads to is in no tree.
    pub fn plan(&mut self, now: Time, lines: &[Line]) -> Vec<Tree> {
        let brokers: BTreeSet<BrokerId> = lines
            .iter()
            .flat_map(|line| [line.ends.0, line.ends.1])
            .collect();
        if brokers.len() > BROKERS_PLANNED {
            self.pairs.clear();
            return Vec::new();
        }
        let network = Network::of(&brokers, lines);
        let trees = brokers.iter().map(|origin| Tree {
            origin: *origin,
            parents: self.parents(now, *origin, &network),
        });
        let trees = trees.collect();
        self.pairs.retain(|_, pair| pair.planned == now);
        trees
    }

    /// From the nearest broker to the furthest: the ways from an arm are planned by then.
    fn parents(
        &mut self,
        now: Time,
        origin: BrokerId,
        network: &Network,
    ) -> Vec<(BrokerId, BrokerId)> {
        let graph = &network.graph;
        let ways = graph.ways(origin, None);
        let (costs, ids) = (graph.costs(&ways), graph.brokers());
        let mut receivers: Vec<(u32, usize)> = costs.iter().copied().zip(0..).collect();
        receivers.retain(|(cost, place)| ids[*place] != origin && *cost != UNREACHABLE);
        receivers.sort_unstable();
        let mut reached = vec![None; ids.len()];
        if let Ok(place) = ids.binary_search(&origin) {
            reached[place] = Some(Figure::default());
        }
        let mut parents = Vec::with_capacity(receivers.len());
        let mut arms = Vec::new();
        for (cost, place) in receivers {
            arms.clear();
            arms.extend(network.links[place].iter().filter_map(|link| {
                let (peer, weight, crossing) = *link;
                let onward = reached[peer].filter(|_| costs[peer] < cost)?;
                let by_it = costs[peer].saturating_add(weight);
                // A link of the largest weight is for when there is no other way.
                let is_open = by_it == cost || by_it < u32::from(WEIGHT_MAX);
                is_open.then(|| Arm {
                    cost: by_it,
                    peer: ids[peer],
                    figure: crossing.and(onward),
                })
            }));
            prune(&mut arms);
            let chosen = self.choose(now, (origin, ids[place]), &arms);
            if let Some(arm) = arms.get(chosen) {
                parents.push((ids[place], arm.peer));
                reached[place] = Some(arm.figure);
            }
        }
        parents.sort_unstable();
        parents
    }

    /// Which of the arms a pair takes. Without a choice it is the first, if any.
    fn choose(&mut self, now: Time, pair: (BrokerId, BrokerId), arms: &[Arm]) -> usize {
        if arms.len() < 2 {
            return 0;
        }
        let ends = (u64::from(pair.0.0) << 32) | u64::from(pair.1.0);
        let seed = hash::fold(self.seed ^ ends, hash::KEY);
        let method = self.method;
        let new = || Pair::new((method, seed), now, arms);
        let pair = self.pairs.entry(pair).or_insert_with(new);
        pair.choose(now, arms)
    }
}

/// Leaves the arms that may be worth a choice, in the order of their brokers, so that a weight that
/// changes moves none.
fn prune(arms: &mut Vec<Arm>) {
    if arms.len() > ARMS_MAX {
        arms.select_nth_unstable_by_key(ARMS_MAX, |arm| (arm.cost, arm.peer));
        arms.truncate(ARMS_MAX);
    }
    arms.sort_unstable_by_key(|arm| arm.peer);
}

impl Network {
    fn of(brokers: &BTreeSet<BrokerId>, lines: &[Line]) -> Self {
        let (mut edges, mut figures) = (BTreeMap::new(), BTreeMap::new());
        for line in lines.iter().filter(|line| line.ends.0 != line.ends.1) {
            let (a, b) = line.ends;
            for (from, to) in [(a, b), (b, a)] {
                // Of two between the same brokers the first counts, as on the map.
                edges.entry((from, to)).or_insert(line.weight);
                if let Some(measured) = &line.measured {
                    let figure = Figure::of(measured);
                    figures.entry((from, to)).or_insert(figure);
                }
            }
        }
        let of = |id: BrokerId| {
            let of_broker = edges.range((id, BrokerId(0))..=(id, BrokerId(u32::MAX)));
            let edges = of_broker.map(|((_, to), weight)| Edge {
                to: *to,
                weight: *weight,
            });
            edges.collect::<Vec<_>>()
        };
        let graph = Graph::new(brokers.iter().map(|id| (*id, of(*id))));
        let ids = graph.brokers();
        let links_of = |place: usize| {
            let measured = graph.neighbours_at(place).filter_map(|(peer, weight)| {
                let figure = figures.get(&(ids[place], ids[peer]))?;
                Some((peer, weight, *figure))
            });
            measured.collect()
        };
        let links = (0..ids.len()).map(links_of).collect();
        Self { graph, links }
    }
}
