//! Where a block lives: pure functions from a block's number to disks.
//!
//! ```
//! use sangam_placement::{Disk, DiskId, Disks, Layout, NodeId, Stripe, Straw2};
//!
//! let disk = |id| Disk { id: DiskId(id), node: NodeId(id / 2), weight: 1_000 };
//! let placement = Straw2::new(Disks::new((0..8).map(disk))?);
//! let stripe = Stripe { object: 7, number: 0 };
//! // Three blocks and their parity, on four disks of four nodes.
//! let pieces = Layout::Parity(3).pieces(&placement, stripe);
//! assert_eq!(pieces.len(), 4);
//! # Ok::<(), sangam_placement::DisksError>(())
//! ```
//!
//! # Three ways
//! [`Straw2`] is the default: it knows nothing but the present disks, so whoever knows them agrees.
//! [`Scaddar`] (Yima's) and [`Slicing`] remember every change; whoever replays the same changes
//! agrees. All draw by integers alone, so that no platform's rounding moves a block.
//!
//! # Apart
//! A draw is told which disks are taken: it prefers a node without any of them, then a disk that
//! is none of them. So copies and the pieces of a parity group part as far as the disks allow.

mod disks;
mod layout;
mod logarithm;
mod plan;
mod scaddar;
mod slicing;
mod straw;

pub use disks::{DISKS_MAX, Disk, DiskId, Disks, DisksError, NodeId, WEIGHT_MAX};
pub use layout::{Layout, Stripe, xor};
pub use plan::{Move, moves};
pub use scaddar::{Scaddar, UNITS_MAX};
pub use slicing::Slicing;
pub use straw::Straw2;

use sangam_model::Random;

/// Draws that may meet taken nodes before the choice is made among the others alone.
const TRIES: u64 = 32;

/// A way to choose disks.
pub trait Placement {
    /// The present disks.
    fn disks(&self) -> &Disks;

    /// Takes up other disks or weights.
    ///
    /// # Errors
    /// [`DisksError::Weights`] if this way cannot tell so many weights apart; nothing changed.
    fn change(&mut self, disks: Disks) -> Result<(), DisksError>;

    /// The disk for a well mixed key, apart from those taken: on a node that has none of them,
    /// or else none of them itself. `None` if no disk is left.
    fn draw(&self, key: u64, taken: &[DiskId]) -> Option<DiskId>;

    /// Whether the next change may spread blocks unevenly, so that all should be placed anew by
    /// a fresh placement.
    fn wants_reshuffle(&self) -> bool {
        false
    }
}

/// A key of many, all its bits mixed.
fn mix(key: u64, salt: u64) -> u64 {
    Random::new(key ^ Random::new(salt).bits()).bits()
}

/// Makes a way that draws one disk heed those taken: it draws again with other keys, and at last
/// leaves the choice to straws.
fn draw_apart(
    disks: &Disks,
    (key, taken): (u64, &[DiskId]),
    one: impl Fn(u64) -> Option<DiskId>,
) -> Option<DiskId> {
    if taken.is_empty() {
        return one(key);
    }
    let is_free = |id: &DiskId| {
        let node = disks.node(*id);
        taken.iter().all(|taken| disks.node(*taken) != node)
    };
    let mut draws = (0..TRIES).filter_map(|attempt| {
        let key = if attempt == 0 { key } else { mix(key, attempt) };
        one(key)
    });
    let free = if disks.iter().any(|disk| is_free(&disk.id)) {
        draws.find(is_free)
    } else {
        None
    };
    free.or_else(|| straw::draw(disks, key, taken))
}
