//! A piece of a stripe as it stands on a disk: a page that says what it is, then its bytes.

use sangam_placement::Layout;
use serde::{Deserialize, Serialize};

/// Bytes of a block.
pub const BLOCK_LEN_MAX: usize = 1 << 20;
/// Bytes of the first page, and what a piece's length is rounded up to: reads that pass the page
/// cache by are of whole pages.
pub(super) const PAGE: usize = 4_096;
/// Bytes of an object's name.
pub(super) const NAME_LEN_MAX: usize = 255;
const MAGIC: [u8; 12] = *b"SANGAM BLK\x00\x01";
/// Bytes of the head, its checksum at the end included.
const HEAD_LEN: usize = 320;

/// Names a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PieceId {
    /// The film.
    pub object: u64,
    /// Which stripe of it.
    pub stripe: u64,
    /// Which piece of the stripe.
    pub piece: u8,
}

/// A film: every piece says what it belongs to, so that a catalogue can be made from any of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// A well mixed number.
    pub id: u64,
    /// For people; at most 255 bytes.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Length of its blocks, all but the last, at most [`BLOCK_LEN_MAX`].
    pub block_len: u32,
    /// How it outlives a disk.
    pub layout: Layout,
}

impl Object {
    /// Blocks of it.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        let len = if self.block_len == 0 {
            1
        } else {
            self.block_len
        };
        self.bytes.div_ceil(len as u64)
    }

    /// Stripes of it.
    #[must_use]
    pub const fn stripes(&self) -> u64 {
        self.blocks().div_ceil(self.layout.blocks())
    }

    /// Bytes of a block; 0 behind the last.
    #[must_use]
    pub fn len_of(&self, block: u64) -> usize {
        let len = u64::from(self.block_len);
        let left = self.bytes.saturating_sub(block.saturating_mul(len));
        left.min(len) as usize
    }

    /// Bytes of a piece: a copy is as long as its block, a parity as the longest.
    #[must_use]
    pub(crate) fn piece_len(&self, stripe: u64, piece: usize) -> usize {
        let blocks = self.layout.blocks();
        // A piece of another's making may say any number.
        let first = stripe.saturating_mul(blocks);
        let block = match self.layout {
            Layout::Parity(_) if (piece as u64) < blocks => first.saturating_add(piece as u64),
            Layout::Parity(_) | Layout::Copies(_) => first,
        };
        self.len_of(block)
    }
}

/// A layout in bytes.
pub(crate) const fn code(layout: Layout) -> (u8, u8) {
    match layout {
        Layout::Copies(copies) => (1, copies),
        Layout::Parity(blocks) => (2, blocks),
    }
}

/// The layout of two bytes.
pub(crate) const fn layout(code: (u8, u8)) -> Option<Layout> {
    match code {
        (1, copies) => Some(Layout::Copies(copies)),
        (2, blocks) => Some(Layout::Parity(blocks)),
        _ => None,
    }
}

/// The bytes of a piece's file.
pub(super) fn encode(object: &Object, id: PieceId, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(PAGE + data.len().next_multiple_of(PAGE));
    let (kind, width) = code(object.layout);
    // `Store::put` refuses longer ones.
    let name = object.name.as_bytes();
    out.extend(MAGIC);
    out.extend([kind, width, id.piece, name.len() as u8]);
    out.extend(object.id.to_be_bytes());
    out.extend(id.stripe.to_be_bytes());
    out.extend(object.bytes.to_be_bytes());
    out.extend(object.block_len.to_be_bytes());
    out.extend((data.len() as u32).to_be_bytes());
    out.extend(crc32c::crc32c(data).to_be_bytes());
    out.extend(name);
    out.resize(HEAD_LEN - 4, 0);
    let sum = crc32c::crc32c(&out);
    out.extend(sum.to_be_bytes());
    out.resize(PAGE, 0);
    out.extend(data);
    out.resize(PAGE + data.len().next_multiple_of(PAGE), 0);
    out
}

/// What a piece's file says; `None` if it is damaged or another's.
pub(super) fn decode(id: PieceId, bytes: &[u8]) -> Option<(Object, &[u8])> {
    let (head, sum) = bytes.get(..HEAD_LEN)?.split_last_chunk::<4>()?;
    if crc32c::crc32c(head) != u32::from_be_bytes(*sum) {
        return None;
    }
    let long = |at: usize| {
        head.get(at..)?
            .first_chunk()
            .copied()
            .map(u64::from_be_bytes)
    };
    let short = |at: usize| {
        head.get(at..)?
            .first_chunk()
            .copied()
            .map(u32::from_be_bytes)
    };
    let layout = layout((head[12], head[13]))?;
    let found = PieceId {
        object: long(16)?,
        stripe: long(24)?,
        piece: head[14],
    };
    let object = Object {
        id: found.object,
        name: core::str::from_utf8(head.get(52..52 + usize::from(head[15]))?)
            .ok()?
            .to_owned(),
        bytes: long(32)?,
        block_len: short(40)?,
        layout,
    };
    let data = bytes.get(PAGE..)?.get(..short(44)? as usize)?;
    let fits = head.starts_with(&MAGIC)
        && found == id
        && crc32c::crc32c(data) == short(48)?
        && data.len() == object.piece_len(id.stripe, usize::from(id.piece));
    fits.then_some((object, data))
}
