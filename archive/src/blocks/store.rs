//! Blocks on disks, found by placement and made from what is left.

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sangam_placement::{DiskId, Layout, Placement, Stripe, xor};

use super::cache::Cache;
use super::disk::BlockDisk;
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
    pub(super) disk: Box<dyn BlockDisk>,
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
        let pieces = Mutex::default();
        self.disks.insert(id, Held { disk, pieces });
    }

    /// Adds a disk; [`Store::place`] says when it is to be used.
    ///
    /// # Errors
    /// It cannot be listed.
    pub fn attach(&mut self, id: DiskId, disk: Box<dyn BlockDisk>) -> Result<(), BlockError> {
        let pieces = disk.list().map_err(|error| BlockError::Disk(id, error))?;
        let pieces = Mutex::new(pieces.into_iter().collect());
        self.disks.insert(id, Held { disk, pieces });
        Ok(())
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

    /// A block: from the disk where it belongs, from any other, or made from its stripe.
    ///
    /// # Errors
    /// [`BlockError::Lost`].
    pub fn get(&self, object: &Object, block: u64) -> Result<Vec<u8>, BlockError> {
        let (number, piece) = object.layout.piece(block);
        let data = self.fetch(object, number, piece).map(|(data, _)| data);
        data.ok_or_else(|| BlockError::Lost(stripe(object, number)))
    }

    /// The same, read once for all who play it.
    ///
    /// # Errors
    /// [`BlockError::Lost`].
    pub fn share(&self, object: &Object, block: u64) -> Result<Arc<Vec<u8>>, BlockError> {
        let read = || self.get(object, block);
        self.cache.get((object.id, block), read)
    }

    /// What is shared.
    #[must_use]
    pub const fn cache(&self) -> &Arc<Cache> {
        &self.cache
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
        number: u64,
        piece: usize,
    ) -> Option<(Vec<u8>, bool)> {
        if let Some(data) = self.find(object, number, piece) {
            return Some((data, true));
        }
        // Of copies that was any of them.
        let Layout::Parity(_) = object.layout else {
            return None;
        };
        let mut sum = vec![0; object.piece_len(number, object.layout.width() - 1)];
        for other in (0..object.layout.width()).filter(|other| *other != piece) {
            if object.piece_len(number, other) > 0 {
                xor(&mut sum, &self.find(object, number, other)?);
            }
        }
        sum.truncate(object.piece_len(number, piece));
        Some((sum, false))
    }

    /// A whole piece from where it belongs, or else from wherever it lies.
    fn find(&self, object: &Object, number: u64, piece: usize) -> Option<Vec<u8>> {
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
        disks.find_map(|disk| self.read(disk, id))
    }

    pub(super) fn read(&self, disk: DiskId, id: PieceId) -> Option<Vec<u8>> {
        let held = self.disks.get(&disk)?;
        let bytes = match held.disk.get(id) {
            Ok(bytes) => bytes,
            // Most disks have not got it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(%disk, ?id, %error, "a piece cannot be read");
                return None;
            }
        };
        let data = decode(id, &bytes).map(|(_, data)| data.to_vec());
        if data.is_none() {
            tracing::warn!(%disk, ?id, "a piece is damaged");
        }
        data
    }

    pub(super) fn write(
        &self,
        disk: DiskId,
        object: &Object,
        (id, data): (PieceId, &[u8]),
    ) -> Result<(), BlockError> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let held = self.disks.get(&disk);
        let held = held.ok_or_else(|| BlockError::Disk(disk, missing()))?;
        let written = held.disk.put(id, &encode(object, id, data));
        written.map_err(|error| BlockError::Disk(disk, error))?;
        held.pieces().insert(id);
        Ok(())
    }
}

impl Held {
    fn read(&self, id: PieceId) -> Option<(Object, Vec<u8>)> {
        let bytes = self.disk.get(id).ok()?;
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
            Self::Name => f.write_str("the name of a film has at most 255 bytes"),
            Self::Length => f.write_str("a block has 1 to 1,048,576 bytes"),
            Self::Source(error) => write!(f, "the film cannot be read: {error}"),
        }
    }
}

impl core::error::Error for BlockError {}
