//! Random slicing: the numbers are an interval, cut into slices that belong to disks.

use std::collections::BTreeMap;

use crate::{DiskId, Disks, DisksError, Placement, draw_apart};

/// All numbers: 2^64.
const WHOLE: u128 = 1 << 64;

/// Random slicing (Miranda, Effert, Kang, Miller, Brinkmann & Cortes, HiPC 2011): exact shares,
/// minimal movement and a table that grows with each change.
#[derive(Clone, Debug, Default)]
pub struct Slicing {
    disks: Disks,
    slices: Vec<Slice>,
}

/// Numbers from `start` up to the next slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slice {
    start: u64,
    disk: DiskId,
}

impl Slicing {
    /// Over these disks, one slice each.
    #[must_use]
    pub fn new(disks: Disks) -> Self {
        let mut slicing = Self::default();
        slicing.slice(disks);
        slicing
    }

    /// Slices of the table.
    #[must_use]
    pub fn slices(&self) -> usize {
        self.slices.len()
    }

    /// Cuts off what disks have too much and hands it to those that have too little.
    fn slice(&mut self, disks: Disks) {
        let targets = shares(&disks);
        let mut excess: BTreeMap<DiskId, u128> = BTreeMap::new();
        let mut lacking = targets.clone();
        for (slice, len) in self.lengths() {
            *excess.entry(slice.disk).or_default() += len;
        }
        for (id, has) in &mut excess {
            let target = targets.get(id).copied().unwrap_or(0);
            lacking.insert(*id, target.saturating_sub(*has));
            *has = has.saturating_sub(target);
        }
        lacking.retain(|_, len| *len > 0);
        let mut takers = lacking.into_iter().peekable();
        let mut cut = Vec::with_capacity(self.slices.len() + 2 * disks.len());
        let old = if self.slices.is_empty() {
            vec![(None, 0, WHOLE)]
        } else {
            let all = self.lengths();
            all.map(|(slice, len)| (Some(slice.disk), u128::from(slice.start), len))
                .collect()
        };
        for (disk, mut start, mut len) in old {
            let mut gone = match disk {
                Some(disk) => excess.get(&disk).copied().unwrap_or(0).min(len),
                None => len,
            };
            if let Some(left) = disk.and_then(|disk| excess.get_mut(&disk)) {
                *left -= gone;
            }
            while gone > 0
                && let Some((taker, lacks)) = takers.peek_mut()
            {
                let part = gone.min(*lacks);
                push(&mut cut, start, *taker);
                (start, len, gone) = (start + part, len - part, gone - part);
                *lacks -= part;
                if *lacks == 0 {
                    takers.next();
                }
            }
            if let Some(disk) = disk.filter(|_| len > 0) {
                push(&mut cut, start, disk);
            }
        }
        self.slices = cut;
        self.disks = disks;
    }

    fn lengths(&self) -> impl Iterator<Item = (&Slice, u128)> {
        let ends = self.slices.iter().skip(1);
        let ends = ends.map(|slice| u128::from(slice.start));
        let ends = ends.chain(core::iter::once(WHOLE));
        let slices = self.slices.iter().zip(ends);
        slices.map(|(slice, end)| (slice, end - u128::from(slice.start)))
    }
}

impl Placement for Slicing {
    fn disks(&self) -> &Disks {
        &self.disks
    }

    fn change(&mut self, disks: Disks) -> Result<(), DisksError> {
        if disks.is_empty() {
            self.slices.clear();
        }
        self.slice(disks);
        Ok(())
    }

    fn draw(&self, key: u64, taken: &[DiskId]) -> Option<DiskId> {
        draw_apart(&self.disks, (key, taken), |key| {
            let place = self.slices.partition_point(|slice| slice.start <= key);
            self.slices
                .get(place.checked_sub(1)?)
                .map(|slice| slice.disk)
        })
    }
}

/// Adds a slice, to the one before if that is the same disk's.
fn push(slices: &mut Vec<Slice>, start: u128, disk: DiskId) {
    if slices.last().is_none_or(|last| last.disk != disk) {
        // Below WHOLE, as slices have a length.
        let start = start as u64;
        slices.push(Slice { start, disk });
    }
}

/// What each disk is to have: exact, together the whole.
fn shares(disks: &Disks) -> BTreeMap<DiskId, u128> {
    let total = u128::from(disks.weight());
    let mut sum = 0;
    let share = |disk: &crate::Disk| {
        let before = WHOLE * sum / total;
        sum += u128::from(disk.weight);
        (disk.id, WHOLE * sum / total - before)
    };
    disks.iter().map(share).collect()
}
