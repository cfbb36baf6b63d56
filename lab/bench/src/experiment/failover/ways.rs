//! Brokers and the links between them, and which of these a stream crosses.

use std::time::Duration;

/// A latency this far below a way's delays still is that way's: clocks have grains.
const GRAIN: Duration = Duration::from_millis(1);

/// Brokers, all of them with participants, and the links between them.
pub(super) struct Topology {
    /// As reports name it.
    pub(super) name: &'static str,
    /// How many.
    pub(super) brokers: usize,
    /// Both ends, the earlier one first, and the delay of one way in milliseconds.
    pub(super) links: &'static [(usize, usize, u64)],
}

/// The way streams take can be told by their latency: the two ways between two brokers of the
/// ring differ by 10 ms and more.
pub(super) const RING: Topology = Topology {
    name: "ring of four",
    brokers: 4,
    links: &[(0, 1, 10), (1, 2, 15), (2, 3, 10), (0, 3, 5)],
};
/// All neighbours are 30 ms of round trip apart.
pub(super) const MESH: Topology = Topology {
    name: "full mesh of four",
    brokers: 4,
    links: &[
        (0, 1, 15),
        (1, 2, 15),
        (2, 3, 15),
        (0, 3, 15),
        (0, 2, 15),
        (1, 3, 15),
    ],
};
/// The smallest in which a broker can be spared: the way between the others leads through it.
pub(super) const TRIANGLE: Topology = Topology {
    name: "triangle",
    brokers: 3,
    links: &[(0, 1, 5), (1, 2, 5), (0, 2, 30)],
};

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The link between two brokers.
    Link(usize, usize),
    /// A broker.
    Broker(usize),
}

impl Topology {
    /// Brokers that a broker dials: neighbours that start before it.
    pub(super) fn dials(&self, broker: usize) -> Vec<usize> {
        let earlier = self.links.iter().filter(|(_, later, _)| *later == broker);
        earlier.map(|(earlier, _, _)| *earlier).collect()
    }

    /// Whether a stream that takes `latency` from one broker to another may cross a part. Of
    /// ways that are equally long it may have taken any.
    pub(super) fn crosses(&self, ends: (usize, usize), latency: Duration, part: Part) -> bool {
        let mut ways = Vec::new();
        self.ways(&mut vec![ends.0], ends.1, 0, &mut ways);
        let taken = ways.iter().map(|(delay, _)| *delay);
        // What is longer than the delays is the machine's doing.
        let fits = |delay: &u64| Duration::from_millis(*delay) <= latency + GRAIN;
        let taken = taken.clone().filter(fits).max().or(taken.min());
        let mut alike = ways.iter().filter(|(delay, _)| Some(*delay) == taken);
        alike.any(|(_, way)| part.is_on(way))
    }

    /// Whether a stream between two other brokers may cross a part at all. In a mesh none leads
    /// through a third broker while all links are up.
    pub(super) fn is_crossed(&self, part: Part) -> bool {
        let ends = (0..self.brokers).flat_map(|from| (0..self.brokers).map(move |to| (from, to)));
        let mut others =
            ends.filter(|(from, to)| from != to && ![*from, *to].map(Part::Broker).contains(&part));
        // The shortest of its ways.
        others.any(|ends| self.crosses(ends, Duration::ZERO, part))
    }

    fn ways(
        &self,
        way: &mut Vec<usize>,
        to: usize,
        delay: u64,
        found: &mut Vec<(u64, Vec<usize>)>,
    ) {
        let Some(at) = way.last().copied() else {
            return;
        };
        if at == to {
            found.push((delay, way.clone()));
            return;
        }
        for (a, b, more) in self.links {
            for (from, next) in [(*a, *b), (*b, *a)] {
                if from == at && !way.contains(&next) {
                    way.push(next);
                    self.ways(way, to, delay + more, found);
                    way.pop();
                }
            }
        }
    }
}

impl Part {
    fn is_on(self, way: &[usize]) -> bool {
        match self {
            Self::Broker(broker) => way.contains(&broker),
            Self::Link(a, b) => way.windows(2).any(|step| step == [a, b] || step == [b, a]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_told_by_its_latency() {
        let ms = Duration::from_millis;
        let part = Part::Link(0, 3);
        // 0-3-2 takes 15 ms, 0-1-2 25 ms.
        assert!(RING.crosses((0, 2), ms(16), part));
        assert!(!RING.crosses((0, 2), ms(26), part));
        assert!(RING.crosses((0, 2), ms(26), Part::Broker(1)));
        assert!(!RING.crosses((0, 1), ms(12), part));
    }

    #[test]
    fn only_brokers_of_a_mesh_are_on_nobody_s_way() {
        for topology in [RING, MESH, TRIANGLE] {
            let links = topology.links.iter();
            let mut crossed = links.map(|(a, b, _)| topology.is_crossed(Part::Link(*a, *b)));
            let brokers = (0..topology.brokers).map(|b| topology.is_crossed(Part::Broker(b)));
            match topology.name {
                // The long way between two of its brokers is the spare one.
                "triangle" => assert_eq!(crossed.filter(|crossed| *crossed).count(), 2),
                _ => assert!(crossed.all(|crossed| crossed), "{}", topology.name),
            }
            let on_ways = brokers.filter(|crossed| *crossed).count();
            assert_eq!(on_ways > 0, topology.name != MESH.name, "{}", topology.name);
        }
    }

    #[test]
    fn direct_ways_of_a_mesh_cross_their_link_alone() {
        let latency = Duration::from_millis(17);
        assert!(MESH.crosses((0, 1), latency, Part::Link(0, 1)));
        assert!(!MESH.crosses((0, 2), latency, Part::Link(0, 1)));
        assert!(!MESH.crosses((0, 2), latency, Part::Broker(1)));
    }
}
