//! straw2: every disk draws a straw, the shortest wins.

use core::cmp::Ordering;

use sangam_model::Random;

use crate::logarithm::minus_log2;
use crate::{Disk, DiskId, Disks, DisksError, Placement};

/// Weighted rendezvous (Thaler & Ravishankar, 1998; with logarithms for weights as Ceph's
/// straw2 has them): a straw is an exponential variable over the weight, so that a disk wins with
/// the probability of its share, and another's weight changes nothing between the rest.
///
/// The shortest straw of a node is exponential by the sum of its weights: the shortest straw of
/// all lies on a node that the node's whole weight chose. So one round of straws is node first,
/// disk then, and moves the minimum, which two rounds would not.
#[derive(Clone, Debug, Default)]
pub struct Straw2 {
    disks: Disks,
}

/// A straw's length is `log / weight`.
#[derive(Clone, Copy)]
struct Straw {
    log: u64,
    weight: u64,
    id: DiskId,
}

impl Straw2 {
    /// Over these disks.
    #[must_use]
    pub const fn new(disks: Disks) -> Self {
        Self { disks }
    }
}

impl Placement for Straw2 {
    fn disks(&self) -> &Disks {
        &self.disks
    }

    fn change(&mut self, disks: Disks) -> Result<(), DisksError> {
        self.disks = disks;
        Ok(())
    }

    fn draw(&self, key: u64, taken: &[DiskId]) -> Option<DiskId> {
        draw(&self.disks, key, taken)
    }
}

/// The shortest straw, apart from the disks taken.
pub(crate) fn draw(disks: &Disks, key: u64, taken: &[DiskId]) -> Option<DiskId> {
    if taken.is_empty() {
        return shortest(disks.iter(), key);
    }
    let nodes: Vec<_> = taken.iter().filter_map(|id| disks.node(*id)).collect();
    let apart = disks.iter().filter(|disk| !nodes.contains(&disk.node));
    shortest(apart, key).or_else(|| {
        let others = disks.iter().filter(|disk| !taken.contains(&disk.id));
        shortest(others, key)
    })
}

fn shortest<'a>(disks: impl Iterator<Item = &'a Disk>, key: u64) -> Option<DiskId> {
    let straws = disks.map(|disk| Straw::new(disk, key));
    straws.min_by(Straw::compare).map(|straw| straw.id)
}

impl Straw {
    fn new(disk: &Disk, key: u64) -> Self {
        let own = Random::new(u64::from(disk.id.0)).bits();
        Self {
            log: minus_log2(Random::new(key ^ own).bits()),
            weight: u64::from(disk.weight),
            id: disk.id,
        }
    }

    /// Crosswise, so that nothing is divided: 39 bits by 21 at most.
    fn compare(&self, other: &Self) -> Ordering {
        let lengths = (self.log * other.weight).cmp(&(other.log * self.weight));
        lengths.then(self.id.cmp(&other.id))
    }
}
