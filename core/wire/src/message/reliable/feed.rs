//! Feeds: attach, records and taken.

use super::{Record, Reliable, fields, kind};
use crate::WireError;
use crate::codec::{Put, Reader};
use crate::message::codec;

/// Publishers of one part of an attachment.
pub const POSITIONS_MAX: usize = 48;
/// Bit of the flags of [`Reliable::Records`].
const ALL_SENT: u8 = 0x01;

impl Reliable {
    /// Bytes of [`Reliable::Records`] before the records.
    pub const RECORDS_OVERHEAD: usize = 1 + 8 + 8 + 1 + 1;

    pub(super) fn read_attach(read: &mut Reader<'_>) -> Result<Self, WireError> {
        let feed = read.u64()?;
        let topic = codec::topic(read)?;
        let replay = read.u32()?;
        let (part, parts) = (read.u16()?, read.u16()?);
        if part >= parts {
            return Err(WireError::Value);
        }
        let positions = fields::list(read, |read| {
            Ok((fields::publisher(read)?, fields::number(read)?))
        })?;
        if positions.len() > POSITIONS_MAX {
            return Err(WireError::Oversized);
        }
        Ok(Self::Attach {
            feed,
            topic,
            replay,
            part,
            parts,
            positions,
        })
    }

    pub(super) fn read_records(read: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self::Records {
            feed: read.u64()?,
            index: fields::number(read)?,
            all_sent: read.u8()? & ALL_SENT != 0,
            records: fields::list(read, Record::read)?,
        })
    }

    pub(super) fn put_attach(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        let Self::Attach {
            feed,
            topic,
            replay,
            part,
            parts,
            positions,
        } = self
        else {
            return Ok(());
        };
        if part >= parts {
            return Err(WireError::Value);
        }
        if positions.len() > POSITIONS_MAX {
            return Err(WireError::Oversized);
        }
        out.put_u8(kind::ATTACH);
        out.put_u64(*feed);
        out.put_text8(topic.as_str())?;
        out.put_u32(*replay);
        out.put_u16(*part);
        out.put_u16(*parts);
        fields::put_list(out, positions, |(publisher, sequence), out| {
            out.put_u64(publisher.0);
            fields::put_number(out, *sequence)
        })
    }

    pub(super) fn put_records(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        let Self::Records {
            feed,
            index,
            all_sent,
            records,
        } = self
        else {
            return Ok(());
        };
        out.put_u8(kind::RECORDS);
        out.put_u64(*feed);
        fields::put_number(out, *index)?;
        out.put_u8(if *all_sent { ALL_SENT } else { 0 });
        fields::put_list(out, records, Record::put)
    }
}
