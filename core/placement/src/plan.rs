//! What has to move when disks change.

use crate::{DiskId, Layout, Placement, Stripe};

/// One piece on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Of which stripe.
    pub stripe: Stripe,
    /// Which piece of it; of copies any one.
    pub piece: usize,
    /// Where it lies; `None` if nothing lies anywhere yet. The disk may be dead: the piece is
    /// then made from the others.
    pub from: Option<DiskId>,
    /// Where it belongs.
    pub to: DiskId,
}

/// The moves that lead from one placement to another, in the order of the stripes. It holds no
/// list: whoever was interrupted begins again with the stripe where that was.
pub fn moves<'a>(
    layout: Layout,
    (before, after): (&'a dyn Placement, &'a dyn Placement),
    stripes: impl Iterator<Item = Stripe> + 'a,
) -> impl Iterator<Item = Move> + 'a {
    stripes.flat_map(move |stripe| {
        let old = layout.pieces(before, stripe);
        let new = layout.pieces(after, stripe);
        let pairs = match layout {
            Layout::Copies(_) => copies(&old, &new),
            Layout::Parity(_) => pieces(&old, &new),
        };
        pairs.into_iter().map(move |(piece, from, to)| Move {
            stripe,
            piece,
            from,
            to,
        })
    })
}

/// Copies are alike: only what is on new disks moves, from disks that are none of them any more.
fn copies(old: &[DiskId], new: &[DiskId]) -> Vec<(usize, Option<DiskId>, DiskId)> {
    let mut left = old.iter().filter(|disk| !new.contains(disk));
    let come = new
        .iter()
        .enumerate()
        .filter(|(_, disk)| !old.contains(disk));
    come.map(|(piece, to)| (piece, left.next().or(old.first()).copied(), *to))
        .collect()
}

fn pieces(old: &[DiskId], new: &[DiskId]) -> Vec<(usize, Option<DiskId>, DiskId)> {
    let pairs = new.iter().enumerate();
    let pairs = pairs.map(|(piece, to)| (piece, old.get(piece).copied(), *to));
    pairs.filter(|(_, from, to)| *from != Some(*to)).collect()
}
