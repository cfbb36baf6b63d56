//! Graphs of brokers, from a seed.

use core::time::Duration;
use std::collections::BTreeMap;

use sangam_model::Random;

use super::network::Network;
use super::wire::Path;

/// Brokers of one region.
const REGION: usize = 30;
/// Within a region each broker is linked to those so many places further.
const STEPS: [usize; 2] = [1, 4];
/// Two heads of each region are linked to those of the regions so many further.
const STRIDES: [usize; 5] = [1, 2, 4, 8, 16];
const HEADS: usize = 2;

/// Brokers, their links and where they stand.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// Links, lower broker first, and how long crossing one takes.
    pub links: BTreeMap<(usize, usize), Duration>,
    /// The region of each broker.
    pub regions: Vec<usize>,
}

/// Shapes by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "program", derive(clap::ValueEnum))]
pub enum Shape {
    /// One after the other; at most 15 brokers, as events go no further.
    Chain,
    /// A chain whose ends meet; at most 28.
    Ring,
    /// All on one.
    Star,
    /// Each with each; at most 64.
    Mesh,
    /// A random tree.
    Tree,
    /// A random tree with further links.
    Cyclic,
    /// Points on a square, linked to their nearest.
    Geometric,
    /// Regions of 30 brokers, two heads of each linked to other regions' heads.
    Regions,
}

impl Topology {
    /// A graph of this shape with so many brokers, at least 2; fewer if the shape carries no more.
    #[must_use]
    pub fn new(shape: Shape, brokers: usize, random: &mut Random) -> Self {
        let brokers = brokers.max(2);
        match shape {
            Shape::Chain => Self::plain(brokers.min(15), random, |at| vec![at - 1]),
            Shape::Ring => {
                let mut ring = Self::plain(brokers.min(28), random, |at| vec![at - 1]);
                ring.link(0, ring.regions.len() - 1, delay(random));
                ring
            }
            Shape::Star => Self::plain(brokers.min(65), random, |_| vec![0]),
            Shape::Mesh => Self::plain(brokers.min(64), random, |at| (0..at).collect()),
            Shape::Tree => Self::tree(brokers, random),
            Shape::Cyclic => Self::cyclic(brokers, random),
            Shape::Geometric => Self::geometric(brokers, random),
            Shape::Regions => Self::regional(brokers, random),
        }
    }

    /// The network of it, all links up, nothing settled.
    #[must_use]
    pub fn build(&self, seed: u64) -> Network {
        let mut network = Network::new(self.regions.len(), seed);
        for ((a, b), delay) in &self.links {
            network.link(*a, *b, Path::of_delay(*delay));
        }
        network
    }

    /// Brokers by region.
    #[must_use]
    pub fn members(&self) -> Vec<Vec<usize>> {
        let regions = self.regions.iter().max().map_or(0, |last| last + 1);
        let mut members = vec![Vec::new(); regions];
        for (broker, region) in self.regions.iter().enumerate() {
            members[*region].push(broker);
        }
        members
    }

    /// Links between regions below `border` and the others.
    #[must_use]
    pub fn across(&self, border: usize) -> Vec<(usize, usize)> {
        let side = |broker: usize| self.regions[broker] < border;
        let links = self.links.keys().copied();
        links.filter(|(a, b)| side(*a) != side(*b)).collect()
    }

    /// Each broker linked to earlier ones.
    fn plain(brokers: usize, random: &mut Random, to: impl Fn(usize) -> Vec<usize>) -> Self {
        let mut graph = Self::empty(brokers);
        for at in 1..brokers {
            to(at)
                .into_iter()
                .for_each(|far| graph.link(far, at, delay(random)));
        }
        graph
    }

    fn tree(brokers: usize, random: &mut Random) -> Self {
        let mut graph = Self::empty(brokers);
        for at in 1..brokers {
            let (far, delay) = (random.below(at), delay(random));
            graph.link(far, at, delay);
        }
        graph
    }

    fn cyclic(brokers: usize, random: &mut Random) -> Self {
        let mut graph = Self::tree(brokers, random);
        for _ in 0..1 + random.below(brokers) {
            let (a, b) = (random.below(brokers), random.below(brokers));
            graph.link(a, b, delay(random));
        }
        graph
    }

    /// Points on a square of 20 ms, each linked to its four nearest and to one anywhere; a region
    /// is a fifth of the square by a fifth.
    fn geometric(brokers: usize, random: &mut Random) -> Self {
        let side = 20_000;
        let points: Vec<(usize, usize)> = (0..brokers)
            .map(|_| (random.below(side), random.below(side)))
            .collect();
        let far = |a: (usize, usize), b: (usize, usize)| {
            let (x, y) = (a.0.abs_diff(b.0), a.1.abs_diff(b.1));
            Duration::from_micros(100 + ((x * x + y * y) as u64).isqrt())
        };
        let mut graph = Self::empty(brokers);
        for (at, point) in points.iter().enumerate() {
            graph.regions[at] = (point.0 * 5 / side) * 5 + point.1 * 5 / side;
            let mut near: Vec<usize> = (0..brokers).filter(|other| *other != at).collect();
            near.sort_by_key(|other| (far(*point, points[*other]), *other));
            near.truncate(4);
            near.push(random.below(brokers));
            for other in near {
                graph.link(at, other, far(*point, points[other]));
            }
        }
        graph
    }

    fn regional(brokers: usize, random: &mut Random) -> Self {
        let mut graph = Self::empty(brokers);
        graph.regions = (0..brokers).map(|broker| broker / REGION).collect();
        let members = graph.members();
        for region in &members {
            for (at, step) in (0..region.len()).flat_map(|at| STEPS.map(|step| (at, step))) {
                let far = region[(at + step) % region.len()];
                graph.link(region[at], far, near_delay(random));
            }
        }
        for (at, region) in members.iter().enumerate() {
            for stride in STRIDES {
                let other = &members[(at + stride) % members.len()];
                for head in 0..HEADS {
                    let place = |of: &[usize]| of[head * of.len() / HEADS];
                    graph.link(place(region), place(other), far_delay(random));
                }
            }
        }
        graph
    }

    fn empty(brokers: usize) -> Self {
        Self {
            links: BTreeMap::new(),
            regions: vec![0; brokers],
        }
    }

    fn link(&mut self, a: usize, b: usize, delay: Duration) {
        if a != b {
            self.links.entry((a.min(b), a.max(b))).or_insert(delay);
        }
    }
}

fn delay(random: &mut Random) -> Duration {
    Duration::from_micros(100) + random.time(Duration::from_millis(60))
}

/// Between brokers of one region: up to 2 ms.
fn near_delay(random: &mut Random) -> Duration {
    Duration::from_micros(200) + random.time(Duration::from_micros(1_800))
}

/// Between regions: 3 to 15 ms, so round trips of up to 30 ms.
fn far_delay(random: &mut Random) -> Duration {
    Duration::from_millis(3) + random.time(Duration::from_millis(12))
}
