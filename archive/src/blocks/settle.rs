//! Brings pieces to where they belong.

use std::io::ErrorKind;

use sangam_placement::{DiskId, Layout};

use super::patience::Patience;
use super::piece::{Object, PieceId};
use super::store::{BlockError, Held, Store, piece_id};

/// What [`Store::settle`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Bytes written to disks where they belong: what a throttle counts.
    pub written: u64,
    /// Pieces copied from other disks.
    pub moved: u64,
    /// Pieces made from the others of their stripe.
    pub rebuilt: u64,
    /// Pieces let go of, as they belong elsewhere.
    pub removed: u64,
    /// Pieces that belong on disks that are not there.
    pub waiting: u64,
}

/// How closely [`Store::settle`] looks at what is where it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// It is there.
    Name,
    /// It is read, and its checksum is right.
    Content,
}

/// What [`Store::look`] saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Bytes that were read.
    pub bytes: u64,
    /// Pieces that are damaged, cannot be read, or are not where they belong.
    pub wrong: u64,
    /// Pieces on disks that are not there, or do not answer now.
    pub unseen: u64,
}

impl Settled {
    /// Adds what was done to another stripe.
    pub fn add(&mut self, more: &Self) {
        self.written += more.written;
        self.moved += more.moved;
        self.rebuilt += more.rebuilt;
        self.removed += more.removed;
        self.waiting += more.waiting;
    }
}

impl Store {
    /// Lets go of what was not written to its end: nobody may be writing.
    ///
    /// # Errors
    /// Of a disk.
    pub fn clear(&self) -> Result<(), BlockError> {
        for (id, held) in &self.disks {
            let cleared = held.disk.disk().clear();
            cleared.map_err(|error| BlockError::Disk(*id, error))?;
        }
        Ok(())
    }

    /// Brings a stripe to where it belongs and makes again what is missing or, as far as it is
    /// looked for, damaged. It may be interrupted and repeated.
    ///
    /// # Errors
    /// [`BlockError`]; what could be done before is done.
    pub fn settle(&self, object: &Object, number: u64, look: Look) -> Result<Settled, BlockError> {
        let mut settled = Settled::default();
        let places = self.places(object, number)?;
        for (piece, place) in places.iter().enumerate() {
            let id = piece_id(object, number, piece);
            if object.piece_len(number, piece) == 0 || self.is_there(*place, id, look)? {
                continue;
            }
            if !self.disks.contains_key(place) {
                settled.waiting += 1;
                continue;
            }
            let (data, whole) = self.fetch(object, (number, piece), Patience::IDLE)?;
            self.write(*place, object, (id, &data))?;
            settled.written += data.len() as u64;
            let moved = match object.layout {
                // Otherwise one more copy was made of those that stay.
                Layout::Copies(_) => self.elsewhere(id, &places).count() as u64 > settled.moved,
                Layout::Parity(_) => whole,
            };
            settled.moved += u64::from(moved);
            settled.rebuilt += u64::from(!moved);
        }
        if settled.waiting > 0 {
            return Ok(settled);
        }
        // Only now, as all are where they belong.
        for piece in 0..places.len() {
            let id = piece_id(object, number, piece);
            let belongs = match object.layout {
                Layout::Copies(_) => &places[..],
                Layout::Parity(_) => &places[piece..=piece],
            };
            for (disk, held) in self.elsewhere(id, belongs) {
                held.disk
                    .disk()
                    .remove(id)
                    .map_err(|error| BlockError::Disk(disk, error))?;
                held.pieces().remove(&id);
                settled.removed += 1;
            }
        }
        Ok(settled)
    }

    /// Reads every piece of a stripe where it belongs, if that is a disk which `is_read`.
    ///
    /// # Errors
    /// [`BlockError::TooFewDisks`].
    pub fn look(
        &self,
        object: &Object,
        number: u64,
        is_read: &dyn Fn(DiskId) -> bool,
    ) -> Result<Seen, BlockError> {
        let mut seen = Seen::default();
        let places = self.places(object, number)?;
        for (piece, place) in places.iter().enumerate() {
            if object.piece_len(number, piece) == 0 || !is_read(*place) {
                continue;
            }
            if !self.disks.contains_key(place) {
                seen.unseen += 1;
                continue;
            }
            let id = piece_id(object, number, piece);
            match self.read(*place, id, Patience::IDLE) {
                Ok(Some(data)) => seen.bytes += data.len() as u64,
                Ok(None) => seen.wrong += 1,
                Err(error) => match error.kind() {
                    ErrorKind::TimedOut | ErrorKind::NotConnected => seen.unseen += 1,
                    _ => seen.wrong += 1,
                },
            }
        }
        Ok(seen)
    }

    /// Pieces of an object that are not where they belong, as disks were listed.
    ///
    /// # Errors
    /// [`BlockError::TooFewDisks`].
    pub fn astray(&self, object: &Object) -> Result<u64, BlockError> {
        let mut astray = 0;
        for number in 0..object.stripes() {
            let places = self.places(object, number)?;
            let places = places.iter().enumerate();
            let wrong = places.filter(|(piece, place)| {
                let id = piece_id(object, number, *piece);
                object.piece_len(number, *piece) > 0 && !self.is_listed(**place, id)
            });
            astray += wrong.count() as u64;
        }
        Ok(astray)
    }

    /// How many pieces lie on a disk, as it was listed; `None` if it is not there.
    #[must_use]
    pub fn lies(&self, disk: DiskId) -> Option<usize> {
        self.disks.get(&disk).map(|held| held.pieces().len())
    }

    /// Lets go of all pieces of an object.
    ///
    /// # Errors
    /// Of a disk; of the others they are gone.
    pub fn remove(&self, object: u64) -> Result<(), BlockError> {
        let mut failed = None;
        for (disk, held) in &self.disks {
            let ids: Vec<_> = held.pieces().iter().copied().collect();
            for id in ids.into_iter().filter(|id| id.object == object) {
                match held.disk.disk().remove(id) {
                    Ok(()) => drop(held.pieces().remove(&id)),
                    Err(error) => failed = Some(BlockError::Disk(*disk, error)),
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn is_there(&self, disk: DiskId, id: PieceId, look: Look) -> Result<bool, BlockError> {
        match look {
            Look::Name => Ok(self.is_listed(disk, id)),
            Look::Content => match self.read(disk, id, Patience::IDLE) {
                Ok(found) => Ok(found.is_some()),
                // It may well be there.
                Err(error) if error.kind() == ErrorKind::TimedOut => {
                    Err(BlockError::Disk(disk, error))
                }
                // A bad sector is gone with the piece that is written over it.
                Err(_) => Ok(false),
            },
        }
    }

    fn is_listed(&self, disk: DiskId, id: PieceId) -> bool {
        let held = self.disks.get(&disk);
        held.is_some_and(|held| held.pieces().contains(&id))
    }

    /// Disks that hold a piece besides those where it belongs.
    pub(super) fn elsewhere<'a>(
        &'a self,
        id: PieceId,
        belongs: &'a [DiskId],
    ) -> impl Iterator<Item = (DiskId, &'a Held)> {
        let others = self
            .disks
            .iter()
            .filter(|(disk, _)| !belongs.contains(disk));
        let others = others.filter(move |(_, held)| held.pieces().contains(&id));
        others.map(|(disk, held)| (*disk, held))
    }
}
