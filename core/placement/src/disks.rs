//! The disks there are.

use core::fmt;

/// Disks of one archive.
pub const DISKS_MAX: usize = 4_096;
/// Largest weight; the product with a logarithm stays within 64 bits.
pub const WEIGHT_MAX: u32 = 1 << 20;

/// A disk, under a number that is never given to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskId(pub u32);

/// A node that has disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// One disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Which.
    pub id: DiskId,
    /// What fails with it.
    pub node: NodeId,
    /// Its share against the others', `1..=WEIGHT_MAX`: GiB, for instance.
    pub weight: u32,
}

/// All disks, in the order of their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disks(Vec<Disk>);

/// Why disks cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DisksError {
    /// More than [`DISKS_MAX`].
    TooMany,
    /// Two have this id.
    Twice(DiskId),
    /// A weight of 0 or above [`WEIGHT_MAX`].
    Weight(DiskId),
    /// The weights together are more than this placement tells apart.
    Weights,
}

impl Disks {
    /// Checks and sorts disks.
    ///
    /// # Errors
    /// The first rule they break.
    pub fn new(disks: impl IntoIterator<Item = Disk>) -> Result<Self, DisksError> {
        let mut disks: Vec<_> = disks.into_iter().take(DISKS_MAX + 1).collect();
        if disks.len() > DISKS_MAX {
            return Err(DisksError::TooMany);
        }
        disks.sort_unstable_by_key(|disk| disk.id);
        if let Some(pair) = disks.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(DisksError::Twice(pair[0].id));
        }
        let wrong = disks
            .iter()
            .find(|disk| !(1..=WEIGHT_MAX).contains(&disk.weight));
        match wrong {
            Some(disk) => Err(DisksError::Weight(disk.id)),
            None => Ok(Self(disks)),
        }
    }

    /// The disks in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Disk> {
        self.0.iter()
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The disk of this id.
    #[must_use]
    pub fn get(&self, id: DiskId) -> Option<&Disk> {
        let place = self.0.binary_search_by_key(&id, |disk| disk.id).ok()?;
        self.0.get(place)
    }

    /// The node of a disk.
    #[must_use]
    pub fn node(&self, id: DiskId) -> Option<NodeId> {
        self.get(id).map(|disk| disk.node)
    }

    /// The weight of all disks together.
    #[must_use]
    pub fn weight(&self) -> u64 {
        self.0.iter().map(|disk| u64::from(disk.weight)).sum()
    }
}

impl fmt::Display for DiskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for DisksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany => write!(f, "an archive has at most {DISKS_MAX} disks"),
            Self::Twice(id) => write!(f, "two disks have the number {id}"),
            Self::Weight(id) => {
                write!(
                    f,
                    "the weight of disk {id} is not within 1 and {WEIGHT_MAX}"
                )
            }
            Self::Weights => f.write_str("the weights are too fine: divide all by a number"),
        }
    }
}

impl core::error::Error for DisksError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(id: u32, weight: u32) -> Disk {
        Disk {
            id: DiskId(id),
            node: NodeId(0),
            weight,
        }
    }

    #[test]
    fn disks_that_cannot_be_told_apart_are_refused() {
        let new = |disks: &[Disk]| Disks::new(disks.iter().copied());
        assert_eq!(
            new(&[disk(2, 1), disk(1, 1), disk(2, 3)]),
            Err(DisksError::Twice(DiskId(2)))
        );
        assert_eq!(new(&[disk(1, 0)]), Err(DisksError::Weight(DiskId(1))));
        assert_eq!(
            new(&[disk(1, WEIGHT_MAX + 1)]),
            Err(DisksError::Weight(DiskId(1)))
        );
        assert_eq!(
            Disks::new((0..5_000).map(|id| disk(id, 1))),
            Err(DisksError::TooMany)
        );
        assert_eq!(new(&[disk(2, 1), disk(1, 1)]).unwrap().weight(), 2);
    }
}
