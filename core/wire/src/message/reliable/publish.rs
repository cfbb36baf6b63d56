//! From publishers to the homes of a topic, and back: push and held.

use sangam_model::Topic;

use super::{Piece, Reliable, fields, kind};
use crate::WireError;
use crate::codec::{Put, Reader};
use crate::message::codec;

/// Bit of the flags of [`Reliable::Held`].
const AGAIN: u8 = 0x01;

impl Reliable {
    /// Bytes of a push before its pieces.
    #[must_use]
    pub fn push_overhead(topic: &Topic) -> usize {
        1 + 1 + topic.as_str().len() + 8 + 8 + 8 + 1
    }

    pub(super) fn read_push(read: &mut Reader<'_>) -> Result<Self, WireError> {
        let topic = codec::topic(read)?;
        let publisher = fields::publisher(read)?;
        let (base, first) = (fields::number(read)?, fields::number(read)?);
        if first == 0 || base > first {
            return Err(WireError::Value);
        }
        Ok(Self::Push {
            topic,
            publisher,
            base,
            first,
            pieces: fields::list(read, Piece::read)?,
        })
    }

    pub(super) fn read_held(read: &mut Reader<'_>) -> Result<Self, WireError> {
        let publisher = fields::publisher(read)?;
        let (through, next) = (fields::number(read)?, fields::number(read)?);
        if next <= through {
            return Err(WireError::Value);
        }
        Ok(Self::Held {
            publisher,
            through,
            next,
            again: read.u8()? & AGAIN != 0,
        })
    }

    pub(super) fn put_push(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        let Self::Push {
            topic,
            publisher,
            base,
            first,
            pieces,
        } = self
        else {
            return Ok(());
        };
        if *first == 0 || base > first {
            return Err(WireError::Value);
        }
        out.put_u8(kind::PUSH);
        out.put_text8(topic.as_str())?;
        out.put_u64(publisher.0);
        fields::put_number(out, *base)?;
        fields::put_number(out, *first)?;
        fields::put_list(out, pieces, Piece::put)
    }

    pub(super) fn put_held(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        let Self::Held {
            publisher,
            through,
            next,
            again,
        } = self
        else {
            return Ok(());
        };
        if next <= through {
            return Err(WireError::Value);
        }
        out.put_u8(kind::HELD);
        out.put_u64(publisher.0);
        fields::put_number(out, *through)?;
        fields::put_number(out, *next)?;
        out.put_u8(if *again { AGAIN } else { 0 });
        Ok(())
    }
}
