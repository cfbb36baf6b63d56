//! Brokers and links as a graph, and the tree that a broker's events should take.

use std::collections::{BTreeMap, BTreeSet};

use sangam_model::BrokerId;
use sangam_route::{Edge, UNREACHABLE};

use super::network::Network;

/// Links over which events flow, as the brokers' own graph has them, with their weight in the
/// broker network map where it is reported, otherwise 1; and the ways that are as planned.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    links: sangam_route::Graph,
    /// By root and broker, the neighbour by which it gets what enters there.
    planned: BTreeMap<(BrokerId, BrokerId), BrokerId>,
}

/// Ways from one broker to all others: the shortest, where none is planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    root: BrokerId,
    /// Before whom each broker comes, and at what cost from the root.
    parents: BTreeMap<BrokerId, (BrokerId, u32)>,
    /// Brokers that go by a plan.
    planned: BTreeSet<BrokerId>,
}

impl Graph {
    /// The graph of what brokers report. Stale brokers are left out; of a neighbour that does not
    /// report at all, its links are believed.
    #[must_use]
    pub fn of(network: &Network) -> Self {
        let fresh = || network.brokers.iter().filter(|view| !view.stale);
        let reporting: BTreeSet<_> = fresh().map(|view| view.report.broker).collect();
        let mut told = BTreeMap::<BrokerId, Vec<Edge>>::new();
        let mut planned = BTreeMap::new();
        for view in fresh() {
            let from = view.report.broker;
            let ways = view.report.planned.iter();
            planned.extend(ways.map(|way| ((way.origin, from), way.parent)));
            told.entry(from).or_default();
            for link in view.report.links.iter().filter(|link| link.up) {
                let Some(to) = link.peer else { continue };
                let weight = link.weight.unwrap_or(1).try_into().unwrap_or(u16::MAX);
                told.entry(from).or_default().push(Edge { to, weight });
                if !reporting.contains(&to) {
                    told.entry(to).or_default().push(Edge { to: from, weight });
                }
            }
        }
        Self {
            links: sangam_route::Graph::new(told),
            planned,
        }
    }

    /// The neighbours of a broker, with the cost towards each.
    pub fn neighbours(&self, of: BrokerId) -> impl Iterator<Item = (BrokerId, u32)> {
        self.links.neighbours(of)
    }

    /// The tree from `root`: every broker hangs on the neighbour over which `root` is nearest, of
    /// several the one with the lowest id, as brokers choose it themselves; or on the one that is
    /// planned, if that is nearer to `root` than itself.
    #[must_use]
    pub fn tree(&self, root: BrokerId) -> Tree {
        self.grow(root, |broker| self.planned.get(&(root, broker)).copied())
    }

    /// The same without plans.
    #[must_use]
    pub fn shortest(&self, root: BrokerId) -> Tree {
        self.grow(root, |_| None)
    }

    fn grow(&self, root: BrokerId, plan: impl Fn(BrokerId) -> Option<BrokerId>) -> Tree {
        let ways = self.links.ways(root, None);
        let cost = |id: BrokerId| self.links.cost(&ways, id);
        let others = self.links.brokers().iter().filter(|id| **id != root);
        let reached = others.map(|id| (cost(*id), *id));
        let mut reached: Vec<_> = reached.filter(|(cost, _)| *cost != UNREACHABLE).collect();
        // Parents are nearer, so they come first.
        reached.sort_unstable();
        let mut tree = Tree {
            root,
            parents: BTreeMap::new(),
            planned: BTreeSet::new(),
        };
        for (shortest, broker) in reached {
            let nearer = self.links.neighbours(broker);
            let nearer: Vec<_> = nearer.filter(|(peer, _)| cost(*peer) < shortest).collect();
            let wanted = plan(broker);
            let planned = nearer.iter().find(|(peer, _)| Some(*peer) == wanted);
            let over = nearer
                .iter()
                .filter(|(peer, step)| cost(*peer).saturating_add(*step) == shortest);
            tree.planned.extend(planned.map(|_| broker));
            if let Some((parent, step)) = planned.or_else(|| over.min()) {
                let before = tree.cost(*parent).unwrap_or(0);
                let cost = before.saturating_add(*step);
                tree.parents.insert(broker, (*parent, cost));
            }
        }
        tree
    }
}

impl Tree {
    /// Where it starts.
    #[must_use]
    pub fn root(&self) -> BrokerId {
        self.root
    }

    /// Brokers that come directly behind another.
    pub fn children(&self, of: BrokerId) -> impl Iterator<Item = BrokerId> {
        let behind = self
            .parents
            .iter()
            .filter(move |(_, (parent, _))| *parent == of);
        behind.map(|(broker, _)| *broker)
    }

    /// Who comes before a broker; `None` for the root and what cannot be reached.
    #[must_use]
    pub fn parent(&self, of: BrokerId) -> Option<BrokerId> {
        self.parents.get(&of).map(|(parent, _)| *parent)
    }

    /// Whether a broker goes by a plan.
    #[must_use]
    pub fn is_planned(&self, broker: BrokerId) -> bool {
        self.planned.contains(&broker)
    }

    /// Cost from the root.
    #[must_use]
    pub fn cost(&self, to: BrokerId) -> Option<u32> {
        let zero = (to == self.root).then_some(0);
        self.parents.get(&to).map(|(_, cost)| *cost).or(zero)
    }

    /// The way from the root, both ends included; empty if there is none.
    #[must_use]
    pub fn way(&self, to: BrokerId) -> Vec<BrokerId> {
        let mut way = Vec::new();
        let mut at = Some(to).filter(|to| self.cost(*to).is_some());
        while let Some(broker) = at {
            way.push(broker);
            at = self.parent(broker);
        }
        way.reverse();
        way
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::{BrokerReport, BrokerView, LinkReport, PlannedWay};

    fn network(links: &[(u32, u32, Option<u32>)]) -> Network {
        let mut views = BTreeMap::<u32, BrokerView>::new();
        for &(a, b, weight) in links {
            for (from, to) in [(a, b), (b, a)] {
                let view = views.entry(from).or_default();
                view.report.broker = BrokerId(from);
                view.report.links.push(LinkReport {
                    peer: Some(BrokerId(to)),
                    up: true,
                    weight,
                    ..LinkReport::default()
                });
            }
        }
        Network::new("test", 0, views.into_values().collect())
    }

    fn way(tree: &Tree, to: u32) -> Vec<u32> {
        tree.way(BrokerId(to))
            .iter()
            .map(|broker| broker.0)
            .collect()
    }

    #[test]
    fn a_ring_is_walked_the_short_way_and_ties_go_over_the_lower_id() {
        let ring = [(1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 1)];
        let tree = Graph::of(&network(&ring.map(|(a, b)| (a, b, None)))).tree(BrokerId(1));
        assert_eq!(way(&tree, 3), [1, 2, 3]);
        assert_eq!(way(&tree, 5), [1, 6, 5]);
        assert_eq!(way(&tree, 4), [1, 2, 3, 4]);
        assert_eq!(tree.cost(BrokerId(4)), Some(3));
    }

    #[test]
    fn weights_outweigh_hops() {
        let links = [(1, 3, Some(10)), (1, 2, Some(2)), (2, 3, Some(3))];
        let tree = Graph::of(&network(&links)).tree(BrokerId(1));
        assert_eq!(way(&tree, 3), [1, 2, 3]);
        assert_eq!(way(&tree, 1), [1]);
        assert_eq!(way(&tree, 9), [0_u32; 0]);
    }

    #[test]
    fn a_planned_way_is_taken_where_it_leads_nearer() {
        let links = [(1, 2), (2, 3), (3, 4), (4, 1)].map(|(a, b)| (a, b, Some(10)));
        let mut network = network(&links);
        let mut plan = |broker: usize, parent: u32| {
            network.brokers[broker - 1].report.planned = vec![PlannedWay {
                origin: BrokerId(1),
                parent: BrokerId(parent),
            }];
        };
        plan(3, 4);
        // No nearer, and no neighbour.
        plan(4, 3);
        plan(2, 7);
        let tree = Graph::of(&network).tree(BrokerId(1));
        assert_eq!(way(&tree, 3), [1, 4, 3]);
        assert_eq!((way(&tree, 4), way(&tree, 2)), (vec![1, 4], vec![1, 2]));
        let planned = [2, 3, 4].map(|id| tree.is_planned(BrokerId(id)));
        assert_eq!(planned, [false, true, false]);
    }

    #[test]
    fn a_link_in_which_one_end_does_not_believe_is_none() {
        let mut network = network(&[(1, 2, None), (2, 3, None)]);
        network.brokers[2].report.links.clear();
        let tree = Graph::of(&network).tree(BrokerId(1));
        assert_eq!(tree.cost(BrokerId(2)), Some(1));
        assert_eq!(tree.cost(BrokerId(3)), None);
    }

    #[test]
    fn a_neighbour_that_does_not_report_is_reached_all_the_same() {
        let report = BrokerReport {
            broker: BrokerId(1),
            links: vec![LinkReport {
                peer: Some(BrokerId(7)),
                up: true,
                ..LinkReport::default()
            }],
            ..BrokerReport::default()
        };
        let view = BrokerView {
            report,
            ..BrokerView::default()
        };
        let tree = Graph::of(&Network::new("test", 0, vec![view])).tree(BrokerId(1));
        assert_eq!(way(&tree, 7), [1, 7]);
    }
}
