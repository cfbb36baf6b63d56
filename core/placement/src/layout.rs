//! Copies and parity: which disks hold the pieces of a stripe.

use crate::{DiskId, Placement, mix};

/// How blocks outlive a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// So many equal copies of each block.
    Copies(u8),
    /// So many blocks and one that is their exclusive or: any one of them may be lost.
    Parity(u8),
}

/// Blocks that belong together: one, or those with a common parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stripe {
    /// The film or recording; a well mixed number.
    pub object: u64,
    /// Which stripe of it.
    pub number: u64,
}

impl Layout {
    /// Blocks of a stripe.
    #[must_use]
    pub const fn blocks(self) -> u64 {
        match self {
            Self::Copies(_) | Self::Parity(0) => 1,
            Self::Parity(blocks) => blocks as u64,
        }
    }

    /// Pieces of a stripe: its blocks and what stands in for them.
    #[must_use]
    pub const fn width(self) -> usize {
        match self {
            Self::Copies(0) => 1,
            Self::Copies(copies) => copies as usize,
            Self::Parity(_) => self.blocks() as usize + 1,
        }
    }

    /// Of a block: its stripe's number, and its piece in there.
    #[must_use]
    pub const fn piece(self, block: u64) -> (u64, usize) {
        (block / self.blocks(), (block % self.blocks()) as usize)
    }

    /// The disk of each piece, the parity last; shorter than [`Layout::width`] if there are not
    /// enough disks.
    ///
    /// Copies are the first of one order, so that a change moves as few as can be, whatever their
    /// places in it. Pieces of a parity group differ, so each has an order of its own: one that
    /// moves leaves the others where they are.
    #[must_use]
    pub fn pieces(self, placement: &dyn Placement, stripe: Stripe) -> Vec<DiskId> {
        let key = mix(stripe.object, stripe.number);
        let mut chosen = Vec::with_capacity(self.width());
        for piece in 0..self.width() {
            let key = match self {
                Self::Copies(_) => key,
                Self::Parity(_) => mix(key, piece as u64),
            };
            let Some(disk) = placement.draw(key, &chosen) else {
                break;
            };
            chosen.push(disk);
        }
        chosen
    }
}

/// Adds a block to a parity; of a shorter one the rest counts as zeros. A lost piece is the sum of
/// all the others.
pub fn xor(parity: &mut [u8], block: &[u8]) {
    let pairs = parity.iter_mut().zip(block);
    pairs.for_each(|(sum, byte)| *sum ^= byte);
}
