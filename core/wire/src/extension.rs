//! What may stand between an event's header and its payload.
//!
//! A block is one byte with its whole length in units of four bytes, then extensions: type,
//! length, value. A type 0 is a single byte of padding. Unknown types are skipped.

use core::ops::Range;

use sangam_model::{BrokerId, limits};

use crate::{HEADER_LEN, WireError, event};

/// Brokers one trace has room for; one more than a hop limit allows.
pub const TRACE_HOPS_MAX: usize = limits::HOP_LIMIT as usize + 1;

const PADDING: u8 = 0;
const FRAGMENT: u8 = Fragment::TYPE;
const TRACE: u8 = Trace::TYPE;
const AUDIO_LEVEL: u8 = AudioLevel::TYPE;

const WORD: usize = 4;
const FRAGMENT_LEN: usize = 4;
const AUDIO_LEVEL_LEN: usize = 1;
const TRACE_FIXED: usize = 13;
const HOP_LEN: usize = 8;
const TRACE_LEN: usize = TRACE_FIXED + TRACE_HOPS_MAX * HOP_LEN;

/// The extensions of an event; empty if it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extensions<'a>(&'a [u8]);

/// Which part of a split event's payload this piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Bytes of the payload before this piece.
    pub offset: u16,
    /// Bytes of the whole payload.
    pub total: u16,
}

/// How loud the sound of one event is (RFC 6464), so that nobody needs to decode it for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AudioLevel {
    /// Whether the encoder takes it for speech.
    pub voice: bool,
    /// Decibels below the loudest, `0..=127`; 127 is silence.
    pub below: u8,
}

/// The way of one sampled event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace<'a> {
    /// Clock domain of the origin.
    pub clock_domain: u32,
    /// When the origin took the event, in microseconds of its clock.
    pub origin_us: u64,
    hops: &'a [u8],
}

/// One broker on the way of a traced event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Who.
    pub broker: BrokerId,
    /// How long after the origin it relayed the event, in microseconds, as far as it can tell;
    /// `u32::MAX` if that is unknown or longer.
    pub delay_us: u32,
}

impl<'a> Extensions<'a> {
    /// No extension.
    pub const NONE: Extensions<'static> = Extensions(&[]);

    /// The block at the head of `bytes`, with every length in it checked.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, WireError> {
        let block = Self(block(bytes)?);
        for extension in block.walk() {
            let (kind, value) = extension?;
            let len_min = match kind {
                FRAGMENT => FRAGMENT_LEN,
                TRACE => TRACE_FIXED,
                AUDIO_LEVEL => AUDIO_LEVEL_LEN,
                _ => 0,
            };
            if value.len() < len_min {
                return Err(WireError::Truncated);
            }
        }
        Ok(block)
    }

    /// The block as it stands on the wire.
    #[must_use]
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Types and values in order, without padding.
    pub fn iter(self) -> impl Iterator<Item = (u8, &'a [u8])> + use<'a> {
        let block = self.0;
        self.walk()
            .map_while(Result::ok)
            .map(|(kind, value)| (kind, &block[value]))
    }

    /// The first fragment extension.
    #[must_use]
    pub fn fragment(self) -> Option<Fragment> {
        let [o0, o1, t0, t1] = *self.0[self.find(FRAGMENT)?].first_chunk()?;
        Some(Fragment {
            offset: u16::from_be_bytes([o0, o1]),
            total: u16::from_be_bytes([t0, t1]),
        })
    }

    /// The first trace.
    #[must_use]
    pub fn trace(self) -> Option<Trace<'a>> {
        let (domain, rest) = self.0[self.find(TRACE)?].split_first_chunk()?;
        let (origin, rest) = rest.split_first_chunk()?;
        let (&count, hops) = rest.split_first()?;
        let filled = hops.len().min(usize::from(count) * HOP_LEN);
        Some(Trace {
            clock_domain: u32::from_be_bytes(*domain),
            origin_us: u64::from_be_bytes(*origin),
            hops: &hops[..filled],
        })
    }

    /// The first audio level.
    #[must_use]
    pub fn audio_level(self) -> Option<AudioLevel> {
        let level = *self.0[self.find(AUDIO_LEVEL)?].first()?;
        Some(AudioLevel {
            voice: level & AudioLevel::VOICE != 0,
            below: level & !AudioLevel::VOICE,
        })
    }

    fn find(self, wanted: u8) -> Option<Range<usize>> {
        let mut known = self.walk().map_while(Result::ok);
        known
            .find(|&(kind, _)| kind == wanted)
            .map(|(_, value)| value)
    }

    /// Types and places of their values in the block.
    fn walk(self) -> impl Iterator<Item = Result<(u8, Range<usize>), WireError>> + use<'a> {
        let block = self.0;
        let mut at = 1;
        core::iter::from_fn(move || {
            while block.get(at) == Some(&PADDING) {
                at += 1;
            }
            let &kind = block.get(at)?;
            let start = at + 2;
            let value = block
                .get(at + 1)
                .map(|&len| start..start + usize::from(len));
            match value.filter(|value| value.end <= block.len()) {
                Some(value) => {
                    at = value.end;
                    Some(Ok((kind, value)))
                }
                None => {
                    at = block.len();
                    Some(Err(WireError::Truncated))
                }
            }
        })
    }
}

/// The block at the head of `bytes`, its inside unchecked.
pub(crate) fn block(bytes: &[u8]) -> Result<&[u8], WireError> {
    match *bytes.first().ok_or(WireError::Truncated)? {
        0 => Err(WireError::Value),
        words => bytes
            .get(..usize::from(words) * WORD)
            .ok_or(WireError::Truncated),
    }
}

impl Fragment {
    /// Number of the extension.
    pub const TYPE: u8 = 1;
}

impl AudioLevel {
    /// Number of the extension.
    pub const TYPE: u8 = 4;

    const VOICE: u8 = 0x80;
}

impl<'a> Trace<'a> {
    /// Number of the extension.
    pub const TYPE: u8 = 2;

    /// The brokers so far, in order.
    pub fn hops(&self) -> impl Iterator<Item = Hop> + use<'a> {
        self.hops.chunks_exact(HOP_LEN).map(|hop| {
            let word = |at: usize| {
                hop[at..]
                    .first_chunk()
                    .map_or(0, |b| u32::from_be_bytes(*b))
            };
            Hop {
                broker: BrokerId(word(0)),
                delay_us: word(4),
            }
        })
    }
}

/// Extensions to be written, without allocation.
#[derive(Clone, Debug)]
pub struct ExtensionBlock {
    bytes: [u8; ExtensionBlock::LEN_MAX],
    len: usize,
}

impl ExtensionBlock {
    /// Bytes of the largest block that can be written.
    pub const LEN_MAX: usize = 192;

    /// An empty block.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            bytes: [0; Self::LEN_MAX],
            len: 0,
        }
    }

    /// Appends one extension; false, and nothing done, if there is no room for it.
    pub fn push(&mut self, kind: u8, value: &[u8]) -> bool {
        let start = self.len.max(1);
        let end = start + 2 + value.len();
        let Ok(len) = u8::try_from(value.len()) else {
            return false;
        };
        if kind == PADDING || end > Self::LEN_MAX {
            return false;
        }
        self.bytes[start] = kind;
        self.bytes[start + 1] = len;
        self.bytes[start + 2..end].copy_from_slice(value);
        self.len = end;
        self.bytes[0] = (end.div_ceil(WORD)) as u8;
        true
    }

    /// Appends a fragment extension.
    pub fn fragment(&mut self, fragment: Fragment) -> bool {
        let [o0, o1] = fragment.offset.to_be_bytes();
        let [t0, t1] = fragment.total.to_be_bytes();
        self.push(FRAGMENT, &[o0, o1, t0, t1])
    }

    /// Appends a trace with room for [`TRACE_HOPS_MAX`] brokers.
    pub fn trace(&mut self, clock_domain: u32, origin_us: u64) -> bool {
        let mut value = [0; TRACE_LEN];
        value[..4].copy_from_slice(&clock_domain.to_be_bytes());
        value[4..12].copy_from_slice(&origin_us.to_be_bytes());
        self.push(TRACE, &value)
    }

    /// Appends an audio level; one beyond 127 is written as 127.
    pub fn audio_level(&mut self, level: AudioLevel) -> bool {
        let voice = if level.voice { AudioLevel::VOICE } else { 0 };
        self.push(AUDIO_LEVEL, &[voice | level.below.min(127)])
    }

    /// What was appended, for [`crate::Event`].
    #[must_use]
    pub fn extensions(&self) -> Extensions<'_> {
        Extensions(&self.bytes[..self.len.next_multiple_of(WORD)])
    }
}

impl Default for ExtensionBlock {
    fn default() -> Self {
        Self::new()
    }
}

/// Fills the next free hop of a traced event in place. `now_us` is given in the origin's clock.
///
/// False if the event carries no trace or its room is full.
pub fn trace_hop(event: &mut [u8], broker: BrokerId, now_us: u64) -> bool {
    let Ok(extensions) = event::extensions(event) else {
        return false;
    };
    let Some(value) = extensions.find(TRACE) else {
        return false;
    };
    fill_hop(&mut event[HEADER_LEN..][value], broker, now_us)
}

fn fill_hop(trace: &mut [u8], broker: BrokerId, now_us: u64) -> bool {
    let Some((fixed, room)) = trace.split_first_chunk_mut::<TRACE_FIXED>() else {
        return false;
    };
    let [_, _, _, _, o0, o1, o2, o3, o4, o5, o6, o7, count] = fixed;
    let origin_us = u64::from_be_bytes([*o0, *o1, *o2, *o3, *o4, *o5, *o6, *o7]);
    let Some(hop) = room.chunks_exact_mut(HOP_LEN).nth(usize::from(*count)) else {
        return false;
    };
    let delay_us = u32::try_from(now_us.saturating_sub(origin_us)).unwrap_or(u32::MAX);
    hop[..4].copy_from_slice(&broker.0.to_be_bytes());
    hop[4..].copy_from_slice(&delay_us.to_be_bytes());
    *count += 1;
    true
}
