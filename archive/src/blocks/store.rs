//! Blocks on disks, found by placement and made from what is left.

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use sangam_placement::{DiskId, Layout, Placement, Stripe, xor};

use super::cache::Cache;
use super::disk::BlockDisk;
use super::patience::{Patience, Patient};
use super::piece::{NAME_LEN_MAX, Object, PieceId, decode, encode};

/// All disks of an archive, as one.
pub struct Store {
    pub(super) disks: BTreeMap<DiskId, Held>,
    placement: Box<dyn Placement + Send + Sync>,
    cache: Arc<Cache>,
}

/// Blocks kept: 64 MiB of them, and those beyond that somebody plays.
const BLOCKS_KEPT: usize = 64;

/// A disk and what lies there.
pub(super) struct Held {
    pub(super) disk: Patient,
    /// What was found there and what was put since: others may have changed it. Reading does not
    /// go by it.
    pieces: Mutex<BTreeSet<PieceId>>,
}

/// Why there is no block.
#[derive(Debug)]
#[non_exhaustive]
pub enum BlockError {
    /// Of a disk that is to be written.
    Disk(DiskId, io::Error),
    /// There are fewer disks than pieces.
    TooFewDisks,
    /// Too many pieces of the stripe are gone or damaged.
    Lost(Stripe),
    /// Pieces of the stripe cannot be read now, as this disk says.
    Unread(Stripe, DiskId, io::Error),
    /// A film's blocks are longer than they may be, or have no length.
    Length,
    /// The name of a film is longer than it may be.
    Name,
    /// The film could not be read.
    Source(io::Error),
}

impl Store {
    /// Over disks and what `placement` says of them; disks that it does not know are read from.
    ///
    /// # Errors
    /// A disk cannot be listed.
    pub fn open(
        disks: impl IntoIterator<Item = (DiskId, Box<dyn BlockDisk>)>,
        placement: Box<dyn Placement + Send + Sync>,
    ) -> Result<Self, BlockError> {
        let mut store = Self::empty(placement, Arc::new(Cache::new(BLOCKS_KEPT)));
        for (id, disk) in disks {
            store.attach(id, disk)?;
        }
        Ok(store)
    }

    /// Over no disks, with a cache that others may share.
    #[must_use]
    pub fn empty(placement: Box<dyn Placement + Send + Sync>, cache: Arc<Cache>) -> Self {
        Self {
            disks: BTreeMap::new(),
            placement,
            cache,
        }
    }

    /// Adds a disk to read from and to put films on, without a look at what is there:
    /// [`Store::settle`], [`Store::objects`] and [`Store::lies`] know only what was put since.
    pub fn attach_unseen(&mut self, id: DiskId, disk: Box<dyn BlockDisk>) {
        self.hold(id, disk, BTreeSet::new());
    }

    /// Adds a disk; [`Store::place`] says when it is to be used.
    ///
    /// # Errors
    /// It cannot be listed.
    pub fn attach(&mut self, id: DiskId, disk: Box<dyn BlockDisk>) -> Result<(), BlockError> {
        let pieces = disk.list().map_err(|error| BlockError::Disk(id, error))?;
        self.hold(id, disk, pieces.into_iter().collect());
        Ok(())
    }

    fn hold(&mut self, id: DiskId, disk: Box<dyn BlockDisk>, pieces: BTreeSet<PieceId>) {
        let held = Held {
            disk: Patient::new(disk),
            pieces: Mutex::new(pieces),
        };
        self.disks.insert(id, held);
    }

    /// Reads of a disk that were waited for in vain so far; `None` if it is not there.
    #[must_use]
    pub fn late(&self, id: DiskId) -> Option<u64> {
        self.disks.get(&id).map(|held| held.disk.late())
    }

    /// Lets go of a disk: it died, or is empty.
    pub fn detach(&mut self, id: DiskId) {
        self.disks.remove(&id);
    }

    /// Where pieces belong from now on; [`Store::settle`] brings them there.
    pub fn place(&mut self, placement: Box<dyn Placement + Send + Sync>) {
        self.placement = placement;
    }

    /// Every film, as its pieces tell of it, and whether there are enough pieces of each stripe:
    /// not so if it was never put whole, or has lost too much.
    #[must_use]
    pub fn objects(&self) -> Vec<(Object, bool)> {
        self.strangers(&BTreeSet::new())
    }

    /// The same of all but those with these numbers.
    #[must_use]
    pub fn strangers(&self, known: &BTreeSet<u64>) -> Vec<(Object, bool)> {
        let mut found: BTreeMap<u64, Object> = BTreeMap::new();
        for held in self.disks.values() {
            let pieces = held.pieces().clone();
            for id in pieces {
                if !known.contains(&id.object)
                    && !found.contains_key(&id.object)
                    && let Some((object, _)) = held.read(id)
                {
                    found.insert(id.object, object);
                }
            }
        }
        let films = found.into_values();
        films
            .map(|object| {
                let whole = self.is_whole(&object);
                (object, whole)
            })
            .collect()
    }

    /// Whether there are enough pieces of each stripe, as disks were listed.
    #[must_use]
    pub fn is_whole(&self, object: &Object) -> bool {
        (0..object.stripes()).all(|number| {
            let is_missing = |piece: &usize| {
                let id = piece_id(object, number, *piece);
                self.elsewhere(id, &[]).next().is_none()
            };
            let all =
                (0..object.layout.width()).filter(|piece| object.piece_len(number, *piece) > 0);
            // A parity stands for one of its blocks; all copies are one piece.
            let spare = match object.layout {
                Layout::Copies(_) => 0,
                Layout::Parity(_) => 1,
            };
            all.filter(is_missing).count() <= spare
        })
    }

    /// Keeps a film.
    ///
    /// # Errors
    /// [`BlockError`].
    pub fn put(&self, object: &Object, mut source: impl io::Read) -> Result<(), BlockError> {
        if object.block_len == 0 || object.block_len as usize > super::BLOCK_LEN_MAX {
            return Err(BlockError::Length);
        }
        if object.name.len() > NAME_LEN_MAX {
            return Err(BlockError::Name);
        }
        // Of an earlier film with this number.
        self.cache.forget(object.id);
        let done = self.put_all(object, &mut source);
        // What was read while it was written.
        self.cache.forget(object.id);
        done
    }

    fn put_all(&self, object: &Object, source: &mut dyn io::Read) -> Result<(), BlockError> {
        for number in 0..object.stripes() {
            let first = number * object.layout.blocks();
            let mut blocks = Vec::new();
            for block in first..first + object.layout.blocks() {
                let mut bytes = vec![0; object.len_of(block)];
                source.read_exact(&mut bytes).map_err(BlockError::Source)?;
                blocks.push(bytes);
            }
            let pieces = pieces(object.layout, blocks);
            let places = self.places(object, number)?;
            for (piece, (place, data)) in places.iter().zip(&pieces).enumerate() {
                // A stripe at the end may have fewer blocks.
                if !data.is_empty() {
                    self.write(*place, object, (piece_id(object, number, piece), data))?;
                }
            }
        }
        Ok(())
    }

    /// A block: from the disk where it belongs, from any other, or made from its stripe. A disk
    /// that is slow is waited for when there is no other way.
    ///
    /// # Errors
    /// [`BlockError::Lost`], or [`BlockError::Unread`].
    pub fn get(&self, object: &Object, block: u64) -> Result<Vec<u8>, BlockError> {
        let wanted = object.layout.piece(block);
        let fetched = self.fetch(object, wanted, Patience::soon(Instant::now()));
        fetched.map(|(data, _)| data)
    }

    /// The same, read once for all who play it.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn share(&self, object: &Object, block: u64) -> Result<Arc<Vec<u8>>, BlockError> {
        let read = || self.get(object, block);
        self.cache.get((object.id, block), read)
    }

    /// The same, wanted by then, but a disk that is slow is not waited for.
    ///
    /// # Errors
    /// As [`Store::get`], with [`ErrorKind::TimedOut`] if one is.
    pub fn share_soon(
        &self,
        object: &Object,
        block: u64,
        by: Instant,
    ) -> Result<Arc<Vec<u8>>, BlockError> {
        let wanted = object.layout.piece(block);
        let read = || {
            let found = self.try_fetch(object, wanted, Patience::soon(by));
            found.map(|(data, _)| data)
        };
        self.cache.get((object.id, block), read)
    }

    /// What is shared.
    #[must_use]
    pub const fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// The disks on which a block belongs as such: of copies all, in their order.
    #[must_use]
    pub fn disks_of(&self, object: &Object, block: u64) -> Vec<DiskId> {
        let (number, piece) = object.layout.piece(block);
        let places = object
            .layout
            .pieces(&*self.placement, stripe(object, number));
        match object.layout {
            Layout::Copies(_) => places,
            Layout::Parity(_) => places.get(piece).copied().into_iter().collect(),
        }
    }

    pub(super) fn places(&self, object: &Object, number: u64) -> Result<Vec<DiskId>, BlockError> {
        let places = object
            .layout
            .pieces(&*self.placement, stripe(object, number));
        if places.len() < object.layout.width() {
            return Err(BlockError::TooFewDisks);
        }
        Ok(places)
    }

    /// The bytes of a piece, and whether they were there as such.
    pub(super) fn fetch(
        &self,
        object: &Object,
        wanted: (u64, usize),
        patience: Patience,
    ) -> Result<(Vec<u8>, bool), BlockError> {
        // Where there is nothing to turn to, it is waited for at once.
        if let Layout::Copies(0 | 1) = object.layout {
            return self.try_fetch(object, wanted, patience.long());
        }
        match self.try_fetch(object, wanted, patience.short()) {
            Err(BlockError::Unread(_, _, error)) if error.kind() == ErrorKind::TimedOut => {
                self.try_fetch(object, wanted, patience.long())
            }
            // What failed at once fails again.
            found => found,
        }
    }

    fn try_fetch(
        &self,
        object: &Object,
        wanted: (u64, usize),
        patience: Patience,
    ) -> Result<(Vec<u8>, bool), BlockError> {
        let mut why = None;
        let found = self.seek(object, wanted, patience, &mut why);
        let stripe = stripe(object, wanted.0);
        found.ok_or(match why {
            Some((disk, error)) => BlockError::Unread(stripe, disk, error),
            None => BlockError::Lost(stripe),
        })
    }

    /// The same with so much patience; `why` is the last disk that did not answer as it should, one
    /// that is slow before others.
    fn seek(
        &self,
        object: &Object,
        (number, piece): (u64, usize),
        patience: Patience,
        why: &mut Option<(DiskId, io::Error)>,
    ) -> Option<(Vec<u8>, bool)> {
        let mut find = |piece| self.find(object, (number, piece), patience, why);
        if let Some(data) = find(piece) {
            return Some((data, true));
        }
        // Of copies that was any of them.
        let Layout::Parity(_) = object.layout else {
            return None;
        };
        let mut sum = vec![0; object.piece_len(number, object.layout.width() - 1)];
        for other in (0..object.layout.width()).filter(|other| *other != piece) {
            if object.piece_len(number, other) > 0 {
                xor(&mut sum, &find(other)?);
            }
        }
        sum.truncate(object.piece_len(number, piece));
        Some((sum, false))
    }

    /// A whole piece from where it belongs, or else from wherever it lies.
    fn find(
        &self,
        object: &Object,
        (number, piece): (u64, usize),
        patience: Patience,
        why: &mut Option<(DiskId, io::Error)>,
    ) -> Option<Vec<u8>> {
        let id = piece_id(object, number, piece);
        let places = object
            .layout
            .pieces(&*self.placement, stripe(object, number));
        let first = places.get(piece).copied();
        let others = self
            .disks
            .keys()
            .copied()
            .filter(|disk| Some(*disk) != first);
        let mut disks = first.into_iter().chain(others);
        disks.find_map(|disk| {
            let read = self.read(disk, id, patience);
            read.unwrap_or_else(|error| {
                let is_slow = why
                    .as_ref()
                    .is_some_and(|(_, why)| why.kind() == ErrorKind::TimedOut);
                if !is_slow {
                    *why = Some((disk, error));
                }
                None
            })
        })
    }

    /// A piece; `None` if it is not there, or damaged.
    pub(super) fn read(
        &self,
        disk: DiskId,
        id: PieceId,
        patience: Patience,
    ) -> io::Result<Option<Vec<u8>>> {
        let Some(held) = self.disks.get(&disk) else {
            return Ok(None);
        };
        let bytes = match held.disk.get(id, patience) {
            Ok(bytes) => bytes,
            // Most disks have not got it.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == ErrorKind::TimedOut => return Err(error),
            // Its node is away, which is logged once and not for each piece.
            Err(error) if error.kind() == ErrorKind::NotConnected => return Err(error),
            Err(error) => {
                tracing::warn!(%disk, ?id, %error, "a piece cannot be read");
                return Err(error);
            }
        };
        let data = decode(id, &bytes).map(|(_, data)| data.to_vec());
        if data.is_none() {
            tracing::warn!(%disk, ?id, "a piece is damaged");
        }
        Ok(data)
    }

    pub(super) fn write(
        &self,
        disk: DiskId,
        object: &Object,
        (id, data): (PieceId, &[u8]),
    ) -> Result<(), BlockError> {
        let missing = || io::Error::from(ErrorKind::NotFound);
        let held = self.disks.get(&disk);
        let held = held.ok_or_else(|| BlockError::Disk(disk, missing()))?;
        let written = held.disk.disk().put(id, &encode(object, id, data));
        written.map_err(|error| BlockError::Disk(disk, error))?;
        held.pieces().insert(id);
        Ok(())
    }
}

impl Held {
    fn read(&self, id: PieceId) -> Option<(Object, Vec<u8>)> {
        let bytes = self.disk.get(id, Patience::IDLE).ok()?;
        decode(id, &bytes).map(|(object, data)| (object, data.to_vec()))
    }

    pub(super) fn pieces(&self) -> MutexGuard<'_, BTreeSet<PieceId>> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pieces of a stripe: copies, or the blocks and their parity.
fn pieces(layout: Layout, mut blocks: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    match layout {
        Layout::Copies(_) => {
            let block = blocks.pop().unwrap_or_default();
            vec![block; layout.width()]
        }
        Layout::Parity(_) => {
            let longest = blocks.iter().map(Vec::len).max().unwrap_or(0);
            let mut parity = vec![0; longest];
            blocks.iter().for_each(|block| xor(&mut parity, block));
            blocks.push(parity);
            blocks
        }
    }
}

pub(super) const fn stripe(object: &Object, number: u64) -> Stripe {
    Stripe {
        object: object.id,
        number,
    }
}

pub(super) const fn piece_id(object: &Object, stripe: u64, piece: usize) -> PieceId {
    PieceId {
        object: object.id,
        stripe,
        piece: match object.layout {
            // All copies are one piece, on several disks.
            Layout::Copies(_) => 0,
            // A layout has at most 256 pieces.
            Layout::Parity(_) => piece as u8,
        },
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let disks = self.disks.keys().collect::<Vec<_>>();
        f.debug_struct("Store")
            .field("disks", &disks)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk(disk, error) => write!(f, "disk {disk}: {error}"),
            Self::TooFewDisks => {
                f.write_str("there are fewer disks than a stripe has pieces; add disks")
            }
            Self::Lost(stripe) => write!(
                f,
                "stripe {} of {:016x} has lost more pieces than it can",
                stripe.number, stripe.object
            ),
            Self::Unread(stripe, disk, error) => write!(
                f,
                "stripe {} of {:016x} cannot be read: disk {disk}: {error}",
                stripe.number, stripe.object
            ),
            Self::Name => f.write_str("the name of a film has at most 255 bytes"),
            Self::Length => f.write_str("a block has 1 to 1,048,576 bytes"),
            Self::Source(error) => write!(f, "the film cannot be read: {error}"),
        }
    }
}

impl core::error::Error for BlockError {}
