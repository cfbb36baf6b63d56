//! A whole event: header, extensions, payload.

use sangam_model::limits::EVENT_LEN_MAX;

use crate::extension::{self, Extensions};
use crate::{Flags, HEADER_LEN, Header, WireError};

const FLAGS_AT: usize = 1;

/// An event as it stands in a datagram or unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The fourteen bytes. [`Event::write`] sets [`Flags::EXTENDED`] as `extensions` demands.
    pub header: Header,
    /// Fragment, trace and what a later release adds.
    pub extensions: Extensions<'a>,
    /// An RTP packet, an RTCP compound, data or [`crate::feedback::Feedback`].
    pub payload: &'a [u8],
}

impl<'a> Event<'a> {
    /// Reads and checks one whole datagram or unit.
    ///
    /// # Errors
    /// As [`Header::decode`]; [`WireError::Oversized`] above [`EVENT_LEN_MAX`];
    /// [`WireError::Truncated`] if an extension ends too early; [`WireError::Value`] if a
    /// fragment lacks its extension or lies outside its whole.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, WireError> {
        if bytes.len() > EVENT_LEN_MAX {
            return Err(WireError::Oversized);
        }
        let header = Header::decode(bytes)?;
        let rest = &bytes[HEADER_LEN..];
        let extensions = if header.flags.contains(Flags::EXTENDED) {
            Extensions::decode(rest)?
        } else {
            Extensions::NONE
        };
        let payload = &rest[extensions.bytes().len()..];
        let event = Self {
            header,
            extensions,
            payload,
        };
        if header.flags.contains(Flags::FRAGMENT) {
            event.check_fragment()?;
        }
        Ok(event)
    }

    /// The payload alone, without a look into the extensions.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::Value`].
    #[inline]
    pub fn payload_of(bytes: &[u8]) -> Result<&[u8], WireError> {
        let rest = bytes.get(HEADER_LEN..).ok_or(WireError::Truncated)?;
        if !Flags::from_bits(bytes[FLAGS_AT]).contains(Flags::EXTENDED) {
            return Ok(rest);
        }
        let block = extension::block(rest)?;
        Ok(&rest[block.len()..])
    }

    /// Bytes the whole event takes.
    #[must_use]
    pub const fn encoded_len(&self) -> usize {
        HEADER_LEN + self.extensions.bytes().len() + self.payload.len()
    }

    /// Writes the event to the head of `out` and tells how many bytes it took.
    ///
    /// # Errors
    /// [`WireError::Oversized`] if it exceeds `out` or [`EVENT_LEN_MAX`].
    pub fn write(&self, out: &mut [u8]) -> Result<usize, WireError> {
        let len = self.encoded_len();
        if len > EVENT_LEN_MAX || len > out.len() {
            return Err(WireError::Oversized);
        }
        let block = self.extensions.bytes();
        let flags = self.header.flags.without(Flags::EXTENDED);
        let extended = if block.is_empty() {
            Flags::NONE
        } else {
            Flags::EXTENDED
        };
        let header = Header {
            flags: flags.with(extended),
            ..self.header
        };
        out[..HEADER_LEN].copy_from_slice(&header.encode());
        out[HEADER_LEN..HEADER_LEN + block.len()].copy_from_slice(block);
        out[HEADER_LEN + block.len()..len].copy_from_slice(self.payload);
        Ok(len)
    }

    /// Lowers the hop limit of an event in place by one broker. False, and nothing done, if the
    /// event may cross no more.
    #[inline]
    pub fn lower_hop_limit(event: &mut [u8]) -> bool {
        let lowered = event
            .get(Header::HOP_LIMIT_AT)
            .and_then(|limit| limit.checked_sub(1));
        if let Some(limit) = lowered {
            event[Header::HOP_LIMIT_AT] = limit;
        }
        lowered.is_some()
    }

    fn check_fragment(&self) -> Result<(), WireError> {
        let fragment = self.extensions.fragment().ok_or(WireError::Value)?;
        let end = usize::from(fragment.offset) + self.payload.len();
        let total = usize::from(fragment.total);
        let total_max = EVENT_LEN_MAX - HEADER_LEN;
        let inside = !self.payload.is_empty() && end <= total && total <= total_max;
        if inside {
            Ok(())
        } else {
            Err(WireError::Value)
        }
    }
}

/// The checked extensions of an encoded event.
pub(crate) fn extensions(event: &[u8]) -> Result<Extensions<'_>, WireError> {
    let rest = event.get(HEADER_LEN..).ok_or(WireError::Truncated)?;
    if Flags::from_bits(event[FLAGS_AT]).contains(Flags::EXTENDED) {
        Extensions::decode(rest)
    } else {
        Ok(Extensions::NONE)
    }
}
