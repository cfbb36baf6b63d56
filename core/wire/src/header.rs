//! The fourteen bytes in front of every event.

use core::fmt;

use sangam_model::{Class, StreamId};

use crate::WireError;

/// Bytes of an event's header (Wu et al., section 3.1, Figure 2 allows 14).
pub const HEADER_LEN: usize = 14;

/// The version nibble of the first byte.
///
/// 5 puts the first byte at 80..=95, which RFC 7983 leaves free beside STUN, DTLS, TURN and RTP,
/// so that one socket can tell them all apart.
pub const VERSION: u8 = 5;

/// The class nibble that marks a link frame instead of an event.
pub(crate) const FRAME_NIBBLE: u8 = 0x0f;

/// Flags of an event, one bit each.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(u8);

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// First packet of a frame.
    pub const FRAME_START: Self = Self(0x80);
    /// Last packet of a frame.
    pub const FRAME_END: Self = Self(0x40);
    /// Belongs to a frame that decodes by itself.
    pub const KEY: Self = Self(0x20);
    /// No other frame needs this one.
    pub const DISCARDABLE: Self = Self(0x10);
    /// One piece of an event that a link had to split; a fragment extension follows.
    pub const FRAGMENT: Self = Self(0x08);
    /// Extensions stand between header and payload.
    pub const EXTENDED: Self = Self(0x04);

    const DEFINED: u8 = 0xfc;

    /// The byte on the wire.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The flags of a byte; the two undefined bits are ignored, as a later version may use them.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & Self::DEFINED)
    }

    /// Whether all of `other` is set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets together.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This set without `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(Flags, char); 6] = [
            (Flags::FRAME_START, 'S'),
            (Flags::FRAME_END, 'E'),
            (Flags::KEY, 'K'),
            (Flags::DISCARDABLE, 'D'),
            (Flags::FRAGMENT, 'F'),
            (Flags::EXTENDED, 'X'),
        ];
        for (flag, name) in NAMES {
            write!(f, "{}", if self.contains(flag) { name } else { '-' })?;
        }
        Ok(())
    }
}

/// The header of an event.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// |version| class |S|E|K|D|F|X|0 0|  stream: broker (32 bits)     |
/// |                               | incarnation   |  local (24)   |
/// |                               |  sequence (16 bits)           |
/// |   hop limit   |     layer     |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the event is.
    pub class: Class,
    /// Frame bounds, key frame, fragment, extensions.
    pub flags: Flags,
    /// Whose event it is; for [`Class::Feedback`] the stream it is about.
    pub stream: StreamId,
    /// Number of the event in its stream, modulo 2^16.
    pub sequence: u16,
    /// Brokers it may still cross.
    pub hop_limit: u8,
    /// Simulcast or scalability layer, 0 the lowest.
    pub layer: u8,
}

impl Header {
    /// Offset of the hop limit, which every broker lowers in place.
    pub const HOP_LIMIT_AT: usize = 12;

    /// Reads the first 14 bytes.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::Version`], [`WireError::Class`].
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let bytes: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or(WireError::Truncated)?;
        if bytes[0] >> 4 != VERSION {
            return Err(WireError::Version);
        }
        let class = Class::from_bits(bytes[0] & 0x0f).ok_or(WireError::Class)?;
        let [
            _,
            flags,
            s0,
            s1,
            s2,
            s3,
            s4,
            s5,
            s6,
            s7,
            q0,
            q1,
            hop_limit,
            layer,
        ] = *bytes;
        Ok(Self {
            class,
            flags: Flags::from_bits(flags),
            stream: StreamId::from_bits(u64::from_be_bytes([s0, s1, s2, s3, s4, s5, s6, s7])),
            sequence: u16::from_be_bytes([q0, q1]),
            hop_limit,
            layer,
        })
    }

    /// The 14 bytes.
    #[inline]
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[0] = (VERSION << 4) | self.class as u8;
        out[1] = self.flags.bits();
        out[2..10].copy_from_slice(&self.stream.bits().to_be_bytes());
        out[10..12].copy_from_slice(&self.sequence.to_be_bytes());
        out[12] = self.hop_limit;
        out[13] = self.layer;
        out
    }
}

/// Whether a datagram is an event rather than a link frame; `None` if it is neither.
#[inline]
#[must_use]
pub fn is_event(first_byte: u8) -> Option<bool> {
    (first_byte >> 4 == VERSION).then_some(first_byte & 0x0f != FRAME_NIBBLE)
}
