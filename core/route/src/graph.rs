//! Brokers, links and the shortest ways between them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use sangam_model::BrokerId;

/// The cost of a way that does not exist.
pub const UNREACHABLE: u32 = u32::MAX;

/// One end's view of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The broker at the other end.
    pub to: BrokerId,
    /// What crossing it costs, at least 1.
    pub weight: u16,
}

/// The network at one moment. A link counts only if both ends tell of it, at the larger of the
/// two weights.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// By rising id.
    ids: Vec<BrokerId>,
    /// Where the links of each broker begin in `links`, and where the last ones end.
    starts: Vec<usize>,
    /// Neighbours by place in `ids`, with the cost to cross over.
    links: Vec<(u32, u32)>,
}

/// The shortest ways from one broker to all others: what they cost and where they begin.
#[derive(Clone, Debug, Default)]
pub struct Ways {
    costs: Vec<u32>,
    /// The first broker of each way, by place; the lowest id where several are equally short.
    first: Vec<u32>,
}

impl Graph {
    /// The graph of these brokers, each named once, and the links each of them tells of.
    pub fn new<E>(brokers: impl IntoIterator<Item = (BrokerId, E)>) -> Self
    where
        E: IntoIterator<Item = Edge>,
    {
        let (mut told, mut edges) = (Vec::new(), Vec::new());
        for (id, links) in brokers {
            let start = edges.len();
            edges.extend(links);
            told.push((id, start..edges.len()));
        }
        told.sort_unstable_by_key(|(id, _)| *id);
        let mut graph = Self {
            ids: told.iter().map(|(id, _)| *id).collect(),
            starts: vec![0],
            links: Vec::with_capacity(edges.len()),
        };
        for (id, span) in &told {
            for edge in &edges[span.clone()] {
                let Some(at) = graph.place(edge.to) else {
                    continue;
                };
                let mut theirs = edges[told[at].1.clone()].iter();
                if let Some(back) = theirs.find(|back| back.to == *id) {
                    let weight = edge.weight.max(back.weight).max(1);
                    graph.links.push((at as u32, u32::from(weight)));
                }
            }
            graph.starts.push(graph.links.len());
        }
        graph
    }

    /// The brokers, by rising id.
    #[must_use]
    pub fn brokers(&self) -> &[BrokerId] {
        &self.ids
    }

    /// Neighbours of a broker by links that both ends tell of, and what they cost.
    pub fn neighbours(&self, id: BrokerId) -> impl Iterator<Item = (BrokerId, u32)> + '_ {
        let links = self.place(id).map_or(&[][..], |at| self.links_of(at));
        links
            .iter()
            .map(|(to, cost)| (self.ids[*to as usize], *cost))
    }

    /// The shortest ways from `from`, none of which crosses `avoid`.
    #[must_use]
    pub fn ways(&self, from: BrokerId, avoid: Option<BrokerId>) -> Ways {
        let closed = avoid.and_then(|id| self.place(id));
        let start = self.place(from).filter(|at| Some(*at) != closed);
        self.search(start, |_, to| Some(to) != closed)
    }

    /// The shortest ways from `from`, none of which crosses its link to `to`.
    #[must_use]
    pub fn ways_without(&self, from: BrokerId, to: BrokerId) -> Ways {
        let (start, end) = (self.place(from), self.place(to));
        self.search(start, |at, to| (Some(at), Some(to)) != (start, end))
    }

    fn search(&self, start: Option<usize>, open: impl Fn(usize, usize) -> bool) -> Ways {
        let mut ways = Ways {
            costs: vec![UNREACHABLE; self.ids.len()],
            first: vec![u32::MAX; self.ids.len()],
        };
        let mut heap = BinaryHeap::new();
        if let Some(start) = start {
            ways.costs[start] = 0;
            ways.first[start] = start as u32;
            heap.push(Reverse((0, start as u32)));
        }
        while let Some(Reverse((cost, at))) = heap.pop() {
            let at = at as usize;
            if cost > ways.costs[at] {
                continue;
            }
            for (to, weight) in self.links_of(at) {
                let place = *to as usize;
                if !open(at, place) {
                    continue;
                }
                let first = if Some(at) == start {
                    *to
                } else {
                    ways.first[at]
                };
                // Weights have 16 bits and ways fewer than 2^16 links.
                let sum = cost + weight;
                if sum < ways.costs[place] {
                    (ways.costs[place], ways.first[place]) = (sum, first);
                    heap.push(Reverse((sum, *to)));
                } else if sum == ways.costs[place] {
                    // Weights are not zero, so the beginnings of shorter ways are final by now.
                    ways.first[place] = ways.first[place].min(first);
                }
            }
        }
        ways
    }

    /// What the ways cost, in the order of [`Graph::brokers`]; [`UNREACHABLE`] where there is none.
    #[must_use]
    pub fn costs<'a>(&self, ways: &'a Ways) -> &'a [u32] {
        &ways.costs
    }

    /// Neighbours of the broker at a place in [`Graph::brokers`], by their places, and what they
    /// cost.
    pub fn neighbours_at(&self, place: usize) -> impl Iterator<Item = (usize, u32)> + '_ {
        let links = self.links_of(place).iter();
        links.map(|(to, cost)| (*to as usize, *cost))
    }

    /// What a way costs; [`UNREACHABLE`] if there is none.
    #[must_use]
    pub fn cost(&self, ways: &Ways, to: BrokerId) -> u32 {
        self.place(to).map_or(UNREACHABLE, |at| ways.costs[at])
    }

    /// The first broker of a way: a neighbour, or the broker itself if it is there already.
    #[must_use]
    pub fn first(&self, ways: &Ways, to: BrokerId) -> Option<BrokerId> {
        let first = *ways.first.get(self.place(to)?)?;
        self.ids.get(first as usize).copied()
    }

    /// All brokers that can be reached, by rising id, and the first broker of the way to each.
    pub fn firsts<'a>(&'a self, ways: &'a Ways) -> impl Iterator<Item = (BrokerId, BrokerId)> + 'a {
        let pairs = self.ids.iter().zip(&ways.first);
        pairs.filter_map(|(to, first)| Some((*to, *self.ids.get(*first as usize)?)))
    }

    fn links_of(&self, at: usize) -> &[(u32, u32)] {
        &self.links[self.starts[at]..self.starts[at + 1]]
    }

    fn place(&self, id: BrokerId) -> Option<usize> {
        self.ids.binary_search(&id).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn graph(links: &[(u32, u32, u16)]) -> Graph {
        let mut edges: BTreeMap<BrokerId, Vec<Edge>> = BTreeMap::new();
        for &(a, b, weight) in links {
            let (a, b) = (BrokerId(a), BrokerId(b));
            edges.entry(a).or_default().push(Edge { to: b, weight });
            edges.entry(b).or_default().push(Edge { to: a, weight });
        }
        Graph::new(edges)
    }

    fn cost(graph: &Graph, from: u32, to: u32, avoid: Option<u32>) -> u32 {
        let ways = graph.ways(BrokerId(from), avoid.map(BrokerId));
        graph.cost(&ways, BrokerId(to))
    }

    #[test]
    fn the_cheaper_of_two_ways_counts() {
        let graph = graph(&[(1, 2, 10), (2, 3, 10), (1, 3, 25)]);
        assert_eq!(cost(&graph, 1, 3, None), 20);
        assert_eq!(cost(&graph, 1, 3, Some(2)), 25);
        assert_eq!(cost(&graph, 1, 2, Some(2)), UNREACHABLE);
        assert_eq!(cost(&graph, 1, 9, None), UNREACHABLE);
    }

    #[test]
    fn of_equally_short_ways_the_one_by_the_lowest_neighbour_begins() {
        // From 9 to 5: by 3 and 1, or by 2 and 8, all links alike; and a longer one by 1.
        let graph = graph(&[
            (9, 3, 7),
            (3, 1, 7),
            (1, 5, 7),
            (9, 2, 7),
            (2, 8, 7),
            (8, 5, 7),
        ]);
        let first = |ways: &Ways, to| graph.first(ways, BrokerId(to));
        let ways = graph.ways(BrokerId(9), None);
        assert_eq!(first(&ways, 5), Some(BrokerId(2)));
        assert_eq!(first(&ways, 3), Some(BrokerId(3)));
        assert_eq!(first(&ways, 9), Some(BrokerId(9)));
        let around = graph.ways(BrokerId(9), Some(BrokerId(8)));
        assert_eq!(first(&around, 5), Some(BrokerId(3)));
        assert_eq!(first(&around, 8), None);
        assert_eq!(graph.firsts(&ways).count(), 6);
    }

    #[test]
    fn a_way_without_a_link_goes_around() {
        let graph = graph(&[(1, 2, 3), (2, 3, 3), (1, 3, 3)]);
        let ways = graph.ways_without(BrokerId(1), BrokerId(3));
        assert_eq!(graph.cost(&ways, BrokerId(3)), 6);
        assert_eq!(graph.first(&ways, BrokerId(3)), Some(BrokerId(2)));
    }

    #[test]
    fn a_link_that_one_end_does_not_know_is_none() {
        let (a, b) = (BrokerId(1), BrokerId(2));
        let edges = [Edge { to: b, weight: 1 }];
        let graph = Graph::new([(a, &edges[..]), (b, &[])].map(|(id, links)| (id, links.to_vec())));
        assert_eq!(cost(&graph, 1, 2, None), UNREACHABLE);
    }

    #[test]
    fn a_link_costs_what_its_worse_end_says_and_never_nothing() {
        let (a, b) = (BrokerId(1), BrokerId(2));
        let there = [Edge { to: b, weight: 0 }];
        for (weight, want) in [(0, 1), (7, 7)] {
            let back = [Edge { to: a, weight }];
            let graph = Graph::new([(a, there), (b, back)]);
            assert_eq!(cost(&graph, 1, 2, None), want);
            assert_eq!(cost(&graph, 2, 1, None), want);
        }
    }
}
