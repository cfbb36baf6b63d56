//! RED: payloads with older ones in front: what is lost comes again with the next (RFC 2198).
//!
//! Headers come first, four bytes for each redundant block and one for the primary, then the
//! blocks in the same order, the primary last.

use crate::WireError;

/// Redundant blocks of one payload. Senders use one or two; libwebrtc takes as many as this.
pub const BLOCKS_MAX: usize = 32;
/// How much older than the primary a block may be, in units of the media clock: 14 bits.
pub const OFFSET_MAX: u16 = 0x3fff;
/// Bytes of a redundant block: 10 bits.
pub const BLOCK_LEN_MAX: usize = 0x3ff;

const HEADER_LEN: usize = 4;
const PRIMARY_HEADER_LEN: usize = 1;
/// Another header follows; only that of the primary has it not.
const FOLLOWED: u8 = 0x80;
const PAYLOAD_TYPE: u8 = 0x7f;

/// A redundant block: the payload of an earlier packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block<'a> {
    /// `0..=127`.
    pub payload_type: u8,
    /// How much older than the primary it is, in units of the media clock, up to [`OFFSET_MAX`].
    pub offset: u16,
    /// Up to [`BLOCK_LEN_MAX`] bytes.
    pub payload: &'a [u8],
}

/// A payload of RED, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload<'a> {
    /// Of the primary, `0..=127`.
    pub payload_type: u8,
    /// What the packet would carry without redundancy.
    pub primary: &'a [u8],
    headers: &'a [u8],
    bodies: &'a [u8],
}

impl<'a> Payload<'a> {
    /// Reads and checks a payload.
    ///
    /// # Errors
    /// [`WireError::Truncated`] if headers or blocks end too early; [`WireError::Oversized`] if
    /// there are more than [`BLOCKS_MAX`] redundant blocks.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (mut rest, mut blocks, mut len) = (bytes, 0, 0);
        let (payload_type, behind) = loop {
            let (first, behind) = rest.split_first().ok_or(WireError::Truncated)?;
            if first & FOLLOWED == 0 {
                break (*first, behind);
            }
            if blocks == BLOCKS_MAX {
                return Err(WireError::Oversized);
            }
            let (header, behind) = rest.split_first_chunk().ok_or(WireError::Truncated)?;
            len += fields(header).2;
            blocks += 1;
            rest = behind;
        };
        let (headers, _) = bytes.split_at(blocks * HEADER_LEN);
        let (bodies, primary) = behind.split_at_checked(len).ok_or(WireError::Truncated)?;
        Ok(Self {
            payload_type,
            primary,
            headers,
            bodies,
        })
    }

    /// The redundant blocks, nearest to the primary first: they stand the other way round.
    #[must_use]
    pub const fn blocks(&self) -> Blocks<'a> {
        Blocks {
            headers: self.headers,
            bodies: self.bodies,
        }
    }
}

/// Iterates over redundant blocks; see [`Payload::blocks`].
#[derive(Clone, Debug)]
pub struct Blocks<'a> {
    headers: &'a [u8],
    bodies: &'a [u8],
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Block<'a>;

    fn next(&mut self) -> Option<Block<'a>> {
        let (headers, header) = self.headers.split_last_chunk()?;
        let (payload_type, offset, len) = fields(header);
        let before = self.bodies.len().checked_sub(len)?;
        let (bodies, payload) = self.bodies.split_at(before);
        (self.headers, self.bodies) = (headers, bodies);
        Some(Block {
            payload_type,
            offset,
            payload,
        })
    }
}

/// Bytes of a primary with these blocks in front.
#[must_use]
pub fn encoded_len(blocks: &[Block<'_>], primary: &[u8]) -> usize {
    let of = |block: &Block<'_>| HEADER_LEN + block.payload.len();
    blocks.iter().map(of).sum::<usize>() + PRIMARY_HEADER_LEN + primary.len()
}

/// Writes redundant blocks, oldest first, and the primary with its payload type to the head of
/// `out`, and tells how many bytes they took.
///
/// # Errors
/// [`WireError::Value`] for a field outside its range, then `out` holds nothing of use;
/// [`WireError::Oversized`] for more than [`BLOCKS_MAX`] blocks, or if they exceed `out`.
pub fn write(
    blocks: &[Block<'_>],
    (payload_type, primary): (u8, &[u8]),
    out: &mut [u8],
) -> Result<usize, WireError> {
    if blocks.len() > BLOCKS_MAX {
        return Err(WireError::Oversized);
    }
    if payload_type > PAYLOAD_TYPE {
        return Err(WireError::Value);
    }
    let len = encoded_len(blocks, primary);
    let mut rest = out.get_mut(..len).ok_or(WireError::Oversized)?;
    for block in blocks {
        rest = put(rest, &block.header()?);
    }
    rest = put(rest, &[payload_type]);
    for block in blocks {
        rest = put(rest, block.payload);
    }
    put(rest, primary);
    Ok(len)
}

impl Block<'_> {
    fn header(&self) -> Result<[u8; HEADER_LEN], WireError> {
        let len = self.payload.len();
        let fits =
            self.payload_type <= PAYLOAD_TYPE && self.offset <= OFFSET_MAX && len <= BLOCK_LEN_MAX;
        if !fits {
            return Err(WireError::Value);
        }
        let first = u32::from(FOLLOWED | self.payload_type) << 24;
        Ok((first | u32::from(self.offset) << 10 | len as u32).to_be_bytes())
    }
}

/// Payload type, offset and length of a redundant block (RFC 2198 section 3).
const fn fields(header: &[u8; HEADER_LEN]) -> (u8, u16, usize) {
    let word = u32::from_be_bytes(*header);
    let payload_type = header[0] & PAYLOAD_TYPE;
    let offset = (word >> 10) as u16 & OFFSET_MAX;
    (payload_type, offset, word as usize & BLOCK_LEN_MAX)
}

/// Copies `bytes` to the head of `out`, which has room for them, and gives what is behind.
fn put<'a>(out: &'a mut [u8], bytes: &[u8]) -> &'a mut [u8] {
    let (head, rest) = out.split_at_mut(bytes.len());
    head.copy_from_slice(bytes);
    rest
}
