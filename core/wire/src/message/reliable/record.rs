//! Records: what is published, in pieces that fit a message.

use core::ops::BitOr;
use std::sync::Arc;

use sangam_model::PublisherId;

use super::fields;
use crate::WireError;
use crate::codec::{Put, Reader};

/// Bytes of the payload of one record; longer events take several.
pub const RECORD_LEN_MAX: usize = 800;

/// One record of a publisher, without its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which part of an event it is.
    pub flags: RecordFlags,
    /// At most [`RECORD_LEN_MAX`] bytes.
    pub payload: Arc<[u8]>,
}

/// One record of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Who published it.
    pub publisher: PublisherId,
    /// Its number among those of its publisher, from 1. Of a mark 0 is possible.
    pub sequence: u64,
    /// Which part of an event it is.
    pub flags: RecordFlags,
    /// At most [`RECORD_LEN_MAX`] bytes.
    pub payload: Arc<[u8]>,
}

/// Which part of an event a record is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordFlags(u8);

impl RecordFlags {
    /// The event begins here.
    pub const FIRST: Self = Self(0x01);
    /// The event ends here.
    pub const LAST: Self = Self(0x02);
    /// No record: nothing of the publisher up to this sequence will come by this feed.
    pub const MARK: Self = Self(0x04);
    /// The whole event.
    pub const WHOLE: Self = Self(Self::FIRST.0 | Self::LAST.0);

    /// Whether all of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The flags of these bits; others are ignored.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & (Self::WHOLE.0 | Self::MARK.0))
    }

    /// As they stand on the wire.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }
}

impl BitOr for RecordFlags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Piece {
    /// Bytes it takes in a [`Reliable::Push`].
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        3 + self.payload.len()
    }

    pub(super) fn read(read: &mut Reader<'_>) -> Result<Self, WireError> {
        let flags = RecordFlags::from_bits(read.u8()?);
        if flags.contains(RecordFlags::MARK) {
            return Err(WireError::Value);
        }
        let payload = payload(read)?;
        Ok(Self { flags, payload })
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        if self.flags.contains(RecordFlags::MARK) {
            return Err(WireError::Value);
        }
        out.put_u8(self.flags.bits());
        put_payload(out, &self.payload)
    }
}

impl Record {
    /// Bytes it takes in [`Reliable::Records`].
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        19 + self.payload.len()
    }

    /// Whether it is no record but tells where its publisher's begin.
    #[must_use]
    pub const fn is_mark(&self) -> bool {
        self.flags.contains(RecordFlags::MARK)
    }

    pub(super) fn read(read: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            publisher: fields::publisher(read)?,
            sequence: fields::number(read)?,
            flags: RecordFlags::from_bits(read.u8()?),
            payload: payload(read)?,
        })
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        out.put_u64(self.publisher.0);
        fields::put_number(out, self.sequence)?;
        out.put_u8(self.flags.bits());
        put_payload(out, &self.payload)
    }
}

fn payload(read: &mut Reader<'_>) -> Result<Arc<[u8]>, WireError> {
    let len = usize::from(read.u16()?);
    if len > RECORD_LEN_MAX {
        return Err(WireError::Oversized);
    }
    read.take(len).map(Arc::from)
}

fn put_payload(out: &mut Vec<u8>, payload: &[u8]) -> Result<(), WireError> {
    if payload.len() > RECORD_LEN_MAX {
        return Err(WireError::Oversized);
    }
    let len = u16::try_from(payload.len()).map_err(|_| WireError::Oversized)?;
    out.put_u16(len);
    out.put(payload);
    Ok(())
}
