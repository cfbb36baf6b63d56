//! What clients and brokers say to each other about reliable topics.
//!
//! The same between a client and its broker as between two brokers; there it is routed
//! ([`super::Message::Carried`]). `docs/spec/reliable.md` tells what follows from each.

use core::ops::BitOr;
use std::sync::Arc;

use sangam_model::{PublisherId, Topic};

use super::{MESSAGE_LEN_MAX, Refusal, codec};
use crate::WireError;
use crate::codec::{Put, Reader};

/// Bytes of a [`Reliable`], so that it fits a message with its route.
pub const RELIABLE_LEN_MAX: usize = MESSAGE_LEN_MAX - 10;
/// Bytes of the payload of one record; longer events take several.
pub const RECORD_LEN_MAX: usize = 800;
/// Publishers of one part of an attachment.
pub const POSITIONS_MAX: usize = 48;

/// First byte.
mod kind {
    pub(super) const PUSH: u8 = 24;
    pub(super) const HELD: u8 = 25;
    pub(super) const ATTACH: u8 = 26;
    pub(super) const RECORDS: u8 = 27;
    pub(super) const TAKEN: u8 = 28;
    pub(super) const END: u8 = 29;
    pub(super) const OFFER: u8 = 30;
}

/// Bits of the flags of [`Reliable::Held`] and [`Reliable::Records`].
const AGAIN: u8 = 0x01;
const ALL_SENT: u8 = 0x01;

/// What is said about reliable topics; at most [`RELIABLE_LEN_MAX`] bytes encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reliable {
    /// Towards a home of the topic: keep these.
    Push {
        /// Where.
        topic: Topic,
        /// Who published them.
        publisher: PublisherId,
        /// All records of the publisher before this one are held; at most `first`.
        base: u64,
        /// Sequence of the first record; at least 1.
        first: u64,
        /// Records in a row.
        pieces: Vec<Piece>,
    },
    /// Towards a publisher: how far its records are kept.
    Held {
        /// Whose records.
        publisher: PublisherId,
        /// All up to this one are held by the homes.
        through: u64,
        /// All before this one have come; above `through`.
        next: u64,
        /// What was sent from `next` on has to be sent again.
        again: bool,
    },
    /// Send me the topic, beginning behind what I have.
    Attach {
        /// Chosen by the one who attaches, anew each time.
        feed: u64,
        /// What is wanted.
        topic: Topic,
        /// Of publishers without a position, so many of the latest records of the topic.
        replay: u32,
        /// Number of this part, below `parts`.
        part: u16,
        /// Parts of this attachment, at least 1; they follow each other.
        parts: u16,
        /// Publishers and the last sequence that is there of each; at most [`POSITIONS_MAX`].
        positions: Vec<(PublisherId, u64)>,
    },
    /// Part of a feed.
    Records {
        /// The attachment it answers.
        feed: u64,
        /// Number of the first record in its feed, from 0.
        index: u64,
        /// For now nothing follows.
        all_sent: bool,
        /// Records, in the order of the feed.
        records: Vec<Record>,
    },
    /// All records of a feed before this one have arrived.
    Taken {
        /// The feed.
        feed: u64,
        /// Number of the next record.
        next: u64,
    },
    /// No more of a feed, said by either side; or of a publisher, whose records are not taken.
    End {
        /// The feed or publisher.
        id: u64,
        /// Why.
        reason: Refusal,
    },
    /// Between brokers: I have records of this topic and am no home of it; attach and take them.
    Offer {
        /// The topic.
        topic: Topic,
    },
}

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

    fn read(read: &mut Reader<'_>) -> Result<Self, WireError> {
        let flags = RecordFlags::from_bits(read.u8()?);
        if flags.contains(RecordFlags::MARK) {
            return Err(WireError::Value);
        }
        let payload = payload(read)?;
        Ok(Self { flags, payload })
    }

    fn put(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
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

    fn read(read: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            publisher: publisher(read)?,
            sequence: number(read)?,
            flags: RecordFlags::from_bits(read.u8()?),
            payload: payload(read)?,
        })
    }

    fn put(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        out.put_u64(self.publisher.0);
        put_number(out, self.sequence)?;
        out.put_u8(self.flags.bits());
        put_payload(out, &self.payload)
    }
}

impl Reliable {
    /// Bytes of a push before its pieces.
    #[must_use]
    pub fn push_overhead(topic: &Topic) -> usize {
        1 + 1 + topic.as_str().len() + 8 + 8 + 8 + 1
    }

    /// Bytes of [`Reliable::Records`] before the records.
    pub const RECORDS_OVERHEAD: usize = 1 + 8 + 8 + 1 + 1;

    pub(super) fn read(read: &mut Reader<'_>) -> Result<Self, WireError> {
        if read.rest().len() > RELIABLE_LEN_MAX {
            return Err(WireError::Oversized);
        }
        Ok(match read.u8()? {
            kind::PUSH => Self::read_push(read)?,
            kind::HELD => Self::read_held(read)?,
            kind::ATTACH => Self::read_attach(read)?,
            kind::RECORDS => Self::Records {
                feed: read.u64()?,
                index: number(read)?,
                all_sent: read.u8()? & ALL_SENT != 0,
                records: list(read, Record::read)?,
            },
            kind::TAKEN => Self::Taken {
                feed: read.u64()?,
                next: number(read)?,
            },
            kind::END => Self::End {
                id: read.u64()?,
                reason: Refusal::from_bits(read.u8()?).unwrap_or(Refusal::Invalid),
            },
            kind::OFFER => Self::Offer {
                topic: codec::topic(read)?,
            },
            _ => return Err(WireError::Kind),
        })
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        let start = out.len();
        self.put_fields(out)?;
        if out.len() - start > RELIABLE_LEN_MAX {
            return Err(WireError::Oversized);
        }
        Ok(())
    }

    fn read_push(read: &mut Reader<'_>) -> Result<Self, WireError> {
        let topic = codec::topic(read)?;
        let publisher = publisher(read)?;
        let (base, first) = (number(read)?, number(read)?);
        if first == 0 || base > first {
            return Err(WireError::Value);
        }
        Ok(Self::Push {
            topic,
            publisher,
            base,
            first,
            pieces: list(read, Piece::read)?,
        })
    }

    fn read_held(read: &mut Reader<'_>) -> Result<Self, WireError> {
        let publisher = publisher(read)?;
        let (through, next) = (number(read)?, number(read)?);
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

    fn read_attach(read: &mut Reader<'_>) -> Result<Self, WireError> {
        let feed = read.u64()?;
        let topic = codec::topic(read)?;
        let replay = read.u32()?;
        let (part, parts) = (read.u16()?, read.u16()?);
        if part >= parts {
            return Err(WireError::Value);
        }
        let positions = list(read, |read| Ok((publisher(read)?, number(read)?)))?;
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

    fn put_fields(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        match self {
            Self::Push {
                topic,
                publisher,
                base,
                first,
                pieces,
            } => {
                if *first == 0 || base > first {
                    return Err(WireError::Value);
                }
                out.put_u8(kind::PUSH);
                out.put_text8(topic.as_str())?;
                out.put_u64(publisher.0);
                put_number(out, *base)?;
                put_number(out, *first)?;
                put_list(out, pieces, Piece::put)
            }
            Self::Held {
                publisher,
                through,
                next,
                again,
            } => {
                if next <= through {
                    return Err(WireError::Value);
                }
                out.put_u8(kind::HELD);
                out.put_u64(publisher.0);
                put_number(out, *through)?;
                put_number(out, *next)?;
                out.put_u8(if *again { AGAIN } else { 0 });
                Ok(())
            }
            Self::Attach { .. } => self.put_attach(out),
            Self::Records {
                feed,
                index,
                all_sent,
                records,
            } => {
                out.put_u8(kind::RECORDS);
                out.put_u64(*feed);
                put_number(out, *index)?;
                out.put_u8(if *all_sent { ALL_SENT } else { 0 });
                put_list(out, records, Record::put)
            }
            Self::Taken { feed, next } => {
                out.put_u8(kind::TAKEN);
                out.put_u64(*feed);
                put_number(out, *next)
            }
            Self::End { id, reason } => {
                out.put_u8(kind::END);
                out.put_u64(*id);
                out.put_u8(*reason as u8);
                Ok(())
            }
            Self::Offer { topic } => {
                out.put_u8(kind::OFFER);
                out.put_text8(topic.as_str())
            }
        }
    }

    fn put_attach(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
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
        put_list(out, positions, |(publisher, sequence), out| {
            out.put_u64(publisher.0);
            put_number(out, *sequence)
        })
    }
}

fn publisher(read: &mut Reader<'_>) -> Result<PublisherId, WireError> {
    read.u64().map(PublisherId)
}

/// Sequences and indices stay so far below 2^64 that adding to them cannot overflow.
fn number(read: &mut Reader<'_>) -> Result<u64, WireError> {
    let number = read.u64()?;
    if number >> 62 != 0 {
        return Err(WireError::Value);
    }
    Ok(number)
}

fn put_number(out: &mut Vec<u8>, number: u64) -> Result<(), WireError> {
    if number >> 62 != 0 {
        return Err(WireError::Value);
    }
    out.put_u64(number);
    Ok(())
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

/// Things behind their number (u8); the length of the message bounds them.
fn list<T>(
    read: &mut Reader<'_>,
    item: impl Fn(&mut Reader<'_>) -> Result<T, WireError>,
) -> Result<Vec<T>, WireError> {
    let count = usize::from(read.u8()?);
    (0..count).map(|_| item(read)).collect()
}

fn put_list<T>(
    out: &mut Vec<u8>,
    items: &[T],
    put: impl Fn(&T, &mut Vec<u8>) -> Result<(), WireError>,
) -> Result<(), WireError> {
    out.put_u8(u8::try_from(items.len()).map_err(|_| WireError::Oversized)?);
    items.iter().try_for_each(|item| put(item, out))
}
