//! Random graphs from a seed.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::model::Network;

/// SplitMix64, for choices that a seed repeats.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn delay(&mut self) -> Duration {
        Duration::from_micros(100 + self.below(60_000) as u64)
    }
}

pub(crate) type Edges = BTreeSet<(usize, usize)>;

/// A tree of 2 to 30 brokers.
pub(crate) fn tree(random: &mut Random) -> (usize, Edges) {
    let brokers = 2 + random.below(29);
    let edges = (1..brokers)
        .map(|broker| (random.below(broker), broker))
        .collect();
    (brokers, edges)
}

/// A tree with up to as many further links as it has brokers.
pub(crate) fn cyclic(random: &mut Random) -> (usize, Edges) {
    let (brokers, mut edges) = tree(random);
    for _ in 0..1 + random.below(brokers) {
        let (a, b) = (random.below(brokers), random.below(brokers));
        if a != b {
            edges.insert((a.min(b), a.max(b)));
        }
    }
    (brokers, edges)
}

pub(crate) fn build(brokers: usize, edges: &Edges, random: &mut Random) -> Network {
    let mut network = Network::new(brokers);
    for &(a, b) in edges {
        let delay = random.delay();
        network.link(a, b, delay);
    }
    network
}
