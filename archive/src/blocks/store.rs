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
    disks: BTreeMap<DiskId, Held>,
    placement: Box<dyn Placement + Send + Sync>,
    cache: Cache,
}

/// Blocks kept: 64 MiB of them, and those beyond that somebody plays.
const BLOCKS_KEPT: usize = 64;

/// A disk and what lies there.
struct Held {
    disk: Box<dyn BlockDisk>,
    pieces: Mutex<BTreeSet<PieceId>>,
}

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
        let mut store = Self {
            disks: BTreeMap::new(),
            placement,
            cache: Cache::new(BLOCKS_KEPT),
        };
        for (id, disk) in disks {
            store.attach(id, disk)?;
        }
        Ok(store)
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
        let mut found: BTreeMap<u64, Object> = BTreeMap::new();
        for held in self.disks.values() {
            let pieces = held.pieces().clone();
            for id in pieces {
                if !found.contains_key(&id.object)
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

    fn is_whole(&self, object: &Object) -> bool {
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
    pub const fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Brings a stripe to where it belongs and makes again what is missing or damaged. It may be
    /// interrupted and repeated.
    ///
    /// # Errors
    /// [`BlockError`]; what could be done before is done.
    pub fn settle(&self, object: &Object, number: u64) -> Result<Settled, BlockError> {
        let mut settled = Settled::default();
        let places = self.places(object, number)?;
        for (piece, place) in places.iter().enumerate() {
            let id = piece_id(object, number, piece);
            if object.piece_len(number, piece) == 0 || self.read(*place, id).is_some() {
                continue;
            }
            let found = self.fetch(object, number, piece);
            let (data, whole) = found.ok_or_else(|| BlockError::Lost(stripe(object, number)))?;
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
        // Only now, as all are where they belong.
        for piece in 0..places.len() {
            let id = piece_id(object, number, piece);
            let belongs = match object.layout {
                Layout::Copies(_) => &places[..],
                Layout::Parity(_) => &places[piece..=piece],
            };
            for (disk, held) in self.elsewhere(id, belongs) {
                held.disk
                    .remove(id)
                    .map_err(|error| BlockError::Disk(disk, error))?;
                held.pieces().remove(&id);
                settled.removed += 1;
            }
        }
        Ok(settled)
    }

    /// Disks that hold a piece besides those where it belongs.
    fn elsewhere<'a>(
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

    fn places(&self, object: &Object, number: u64) -> Result<Vec<DiskId>, BlockError> {
        let places = object
            .layout
            .pieces(&*self.placement, stripe(object, number));
        if places.len() < object.layout.width() {
            return Err(BlockError::TooFewDisks);
        }
        Ok(places)
    }

    /// The bytes of a piece, and whether they were there as such.
    fn fetch(&self, object: &Object, number: u64, piece: usize) -> Option<(Vec<u8>, bool)> {
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

    fn read(&self, disk: DiskId, id: PieceId) -> Option<Vec<u8>> {
        let held = self.disks.get(&disk)?;
        if !held.pieces().contains(&id) {
            return None;
        }
        let read = held.read(id).map(|(_, data)| data);
        if read.is_none() {
            tracing::warn!(%disk, ?id, "a piece is damaged or gone");
        }
        read
    }

    fn write(
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

    fn pieces(&self) -> MutexGuard<'_, BTreeSet<PieceId>> {
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

const fn stripe(object: &Object, number: u64) -> Stripe {
    Stripe {
        object: object.id,
        number,
    }
}

const fn piece_id(object: &Object, stripe: u64, piece: usize) -> PieceId {
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
