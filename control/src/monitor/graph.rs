//! Brokers and links as a graph, and the tree that a broker's events should take.

use std::collections::{BTreeMap, BTreeSet};

use sangam_model::BrokerId;

use super::network::Network;

/// Links over which events flow, with their cost: the weight in the broker network map where it
/// is reported, otherwise 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    edges: BTreeMap<BrokerId, BTreeMap<BrokerId, u64>>,
}

/// Shortest ways from one broker to all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    root: BrokerId,
    /// Before whom each broker comes, and at what cost from the root.
    parents: BTreeMap<BrokerId, (BrokerId, u64)>,
}

impl Graph {
    /// The graph of what brokers report. Stale brokers and links that only one end believes in are
    /// left out if the other end reports.
    #[must_use]
    pub fn of(network: &Network) -> Self {
        let fresh = || network.brokers.iter().filter(|view| !view.stale);
        let reporting: BTreeSet<_> = fresh().map(|view| view.report.broker).collect();
        let mut edges = BTreeMap::<_, BTreeMap<_, _>>::new();
        for view in fresh() {
            let own = edges.entry(view.report.broker).or_default();
            for link in view.report.links.iter().filter(|link| link.up) {
                if let Some(peer) = link.peer {
                    own.insert(peer, link.weight.map_or(1, u64::from));
                }
            }
        }
        let ends = edges.clone();
        for (from, to) in &mut edges {
            let agreed = |peer: &BrokerId| {
                !reporting.contains(peer) || ends.get(peer).is_some_and(|of| of.contains_key(from))
            };
            to.retain(|peer, _| agreed(peer));
        }
        Self { edges }
    }

    /// The neighbours of a broker, with the cost towards each.
    pub fn neighbours(&self, of: BrokerId) -> impl Iterator<Item = (BrokerId, u64)> {
        let edges = self.edges.get(&of).into_iter().flatten();
        edges.map(|(peer, cost)| (*peer, *cost))
    }

    /// Shortest ways from `root`; of equal ones the one over the lower id (Dijkstra, with the
    /// candidates in the order of cost, then ids).
    #[must_use]
    pub fn tree(&self, root: BrokerId) -> Tree {
        let mut parents = BTreeMap::new();
        let mut candidates = BTreeSet::from([(0_u64, root, root)]);
        while let Some((cost, parent, broker)) = candidates.pop_first() {
            if broker != root && parents.contains_key(&broker) || broker == root && cost > 0 {
                continue;
            }
            if broker != root {
                parents.insert(broker, (parent, cost));
            }
            let onward = self
                .neighbours(broker)
                .filter(|(peer, _)| !parents.contains_key(peer));
            candidates.extend(onward.map(|(peer, more)| (cost.saturating_add(more), broker, peer)));
        }
        Tree { root, parents }
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

    /// Cost from the root.
    #[must_use]
    pub fn cost(&self, to: BrokerId) -> Option<u64> {
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
    use crate::monitor::{BrokerReport, BrokerView, LinkReport};

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
