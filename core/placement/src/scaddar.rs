//! SCADDAR: a block's random number is rewritten by every change of disks.

use sangam_model::Random;

use crate::{DiskId, Disks, DisksError, Placement, draw_apart};

/// Units of weight that all disks have together.
pub const UNITS_MAX: u64 = 65_536;
/// A unit that went.
const GONE: u32 = u32::MAX;
/// The alarm rings before blocks may be spread by more than 1 in so many unevenly.
const EVEN: u128 = 100;

/// SCADDAR (Goel, Shahabi, Yao & Zimmermann, ICDE 2002): no directory, minimal movement, and
/// random numbers that wear out. A disk of weight w counts as w disks.
#[derive(Clone, Debug)]
pub struct Scaddar {
    disks: Disks,
    bits: u32,
    /// Which disk a unit belongs to.
    units: Vec<DiskId>,
    steps: Vec<Step>,
    /// 2^bits over the product of all numbers of units so far; its inverse bounds the unevenness.
    room: u128,
}

/// One change: X of a block before and after it.
#[derive(Clone, Debug)]
enum Step {
    Grow {
        before: u128,
        after: u128,
    },
    /// The new number of each unit.
    Shrink {
        after: u128,
        renumbered: Vec<u32>,
    },
}

impl Scaddar {
    /// Over these disks, with random numbers of 128 bits.
    ///
    /// # Errors
    /// [`DisksError::Weights`] if they have more than [`UNITS_MAX`] together.
    pub fn new(disks: Disks) -> Result<Self, DisksError> {
        Self::with_bits(disks, 128)
    }

    /// With random numbers of `bits` bits, 1 to 128; the paper has 32 and 64.
    ///
    /// # Errors
    /// As [`Scaddar::new`].
    pub fn with_bits(disks: Disks, bits: u32) -> Result<Self, DisksError> {
        let bits = bits.clamp(1, 128);
        let units = units(&disks)?;
        let room = (u128::MAX >> (128 - bits)) / (units.len() as u128).max(1);
        Ok(Self {
            disks,
            bits,
            units,
            steps: Vec::new(),
            room,
        })
    }

    /// Changes that a block's number went through.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    fn shrink(&mut self, keeps: impl Fn(DiskId, u32) -> bool) {
        let mut renumbered = Vec::with_capacity(self.units.len());
        let mut left: Vec<DiskId> = Vec::new();
        for (place, id) in self.units.iter().enumerate() {
            let earlier = self.units[..place]
                .iter()
                .filter(|unit| *unit == id)
                .count();
            if keeps(*id, earlier as u32) {
                renumbered.push(left.len() as u32);
                left.push(*id);
            } else {
                renumbered.push(GONE);
            }
        }
        let after = left.len() as u128;
        self.units = left;
        self.take(Step::Shrink { after, renumbered });
    }

    fn take(&mut self, step: Step) {
        self.room /= (self.units.len() as u128).max(1);
        self.steps.push(step);
    }

    /// X after all changes.
    fn number(&self, key: u64) -> u128 {
        let mut random = Random::new(key);
        let (high, low) = (random.bits(), random.bits());
        let mut x = (u128::from(high) << 64 | u128::from(low)) >> (128 - self.bits);
        for step in &self.steps {
            x = step.follow(x);
        }
        x
    }
}

impl Step {
    /// Section 4.2 of the paper: q is fresh randomness, r the unit so far.
    fn follow(&self, x: u128) -> u128 {
        match self {
            Self::Grow { before, after } => {
                let (q, r) = (x / before, x % before);
                if q % after < *before {
                    q / after * after + r
                } else {
                    q
                }
            }
            Self::Shrink { after, renumbered } => {
                let before = renumbered.len() as u128;
                let (q, r) = (x / before, x % before);
                match renumbered[r as usize] {
                    GONE => q,
                    unit => q * after + u128::from(unit),
                }
            }
        }
    }
}

impl Placement for Scaddar {
    fn disks(&self) -> &Disks {
        &self.disks
    }

    /// What leaves goes before what comes: two changes, if there are both.
    fn change(&mut self, disks: Disks) -> Result<(), DisksError> {
        let wanted = units(&disks)?;
        if self.units.is_empty() {
            // Nothing could be placed so far.
            *self = Self::with_bits(disks, self.bits)?;
            return Ok(());
        }
        let weight = |id| disks.get(id).map_or(0, |disk: &crate::Disk| disk.weight);
        let goes = |disk: &crate::Disk| weight(disk.id) < disk.weight;
        if self.disks.iter().any(goes) {
            self.shrink(|id, earlier| earlier < weight(id));
        }
        if self.units.is_empty() {
            *self = Self::with_bits(disks, self.bits)?;
            return Ok(());
        }
        let before = self.units.len() as u128;
        for disk in disks.iter() {
            let has = self.disks.get(disk.id).map_or(0, |old| old.weight);
            let more = disk.weight.saturating_sub(has) as usize;
            self.units.extend(core::iter::repeat_n(disk.id, more));
        }
        debug_assert_eq!(self.units.len(), wanted.len());
        let after = self.units.len() as u128;
        if after > before {
            self.take(Step::Grow { before, after });
        }
        self.disks = disks;
        Ok(())
    }

    fn draw(&self, key: u64, taken: &[DiskId]) -> Option<DiskId> {
        draw_apart(&self.disks, (key, taken), |key| {
            let count = (self.units.len() as u128).max(1);
            self.units.get((self.number(key) % count) as usize).copied()
        })
    }

    /// Unevenness is at most 1 over the room that is left (section 4.3); the next change takes
    /// another factor of the number of units.
    fn wants_reshuffle(&self) -> bool {
        self.room / (self.units.len() as u128).max(1) < EVEN
    }
}

fn units(disks: &Disks) -> Result<Vec<DiskId>, DisksError> {
    if disks.weight() > UNITS_MAX {
        return Err(DisksError::Weights);
    }
    let units = disks
        .iter()
        .flat_map(|disk| core::iter::repeat_n(disk.id, disk.weight as usize));
    Ok(units.collect())
}
