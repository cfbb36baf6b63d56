//! Who can reach whom.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use sangam_reliable::Way;

use crate::world::{World, id};

impl World {
    pub(crate) fn reachable(&self, from: usize) -> BTreeSet<usize> {
        self.hops(from).into_keys().collect()
    }

    /// The brokers that can be reached, each with the first on the way to it.
    pub(crate) fn hops(&self, from: usize) -> BTreeMap<usize, usize> {
        let mut seen = BTreeMap::new();
        let mut next = VecDeque::from([(from, from)]);
        while let Some((at, first)) = next.pop_front() {
            if self.brokers[at].keeper.is_none() || seen.contains_key(&at) {
                continue;
            }
            seen.insert(at, first);
            for (a, b) in self.links.difference(&self.cut) {
                let other = match at {
                    at if at == *a => *b,
                    at if at == *b => *a,
                    _ => continue,
                };
                next.push_back((other, if at == from { other } else { first }));
            }
        }
        seen
    }

    pub(crate) fn ways(&self, from: usize) -> Vec<Way> {
        let way = |(to, first): (usize, usize)| Way {
            to: id(to),
            mark: self.brokers[to].life << 8 | first as u64,
            keeps: true,
        };
        self.hops(from).into_iter().map(way).collect()
    }
}
