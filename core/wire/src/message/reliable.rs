//! What clients and brokers say to each other about reliable topics.
//!
//! The same between a client and its broker as between two brokers; there it is routed
//! ([`super::Message::Carried`]). `docs/spec/reliable.md` tells what follows from each.

mod feed;
mod fields;
mod publish;
mod record;

use sangam_model::{PublisherId, Topic};

use super::{MESSAGE_LEN_MAX, Refusal, codec};
use crate::WireError;
use crate::codec::{Put, Reader};
pub use feed::POSITIONS_MAX;
pub use record::{Piece, RECORD_LEN_MAX, Record, RecordFlags};

/// Bytes of a [`Reliable`], so that it fits a message with its route.
pub const RELIABLE_LEN_MAX: usize = MESSAGE_LEN_MAX - 10;

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

impl Reliable {
    pub(super) fn read(read: &mut Reader<'_>) -> Result<Self, WireError> {
        if read.rest().len() > RELIABLE_LEN_MAX {
            return Err(WireError::Oversized);
        }
        Ok(match read.u8()? {
            kind::PUSH => Self::read_push(read)?,
            kind::HELD => Self::read_held(read)?,
            kind::ATTACH => Self::read_attach(read)?,
            kind::RECORDS => Self::read_records(read)?,
            kind::TAKEN => Self::Taken {
                feed: read.u64()?,
                next: fields::number(read)?,
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

    fn put_fields(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        match self {
            Self::Push { .. } => self.put_push(out),
            Self::Held { .. } => self.put_held(out),
            Self::Attach { .. } => self.put_attach(out),
            Self::Records { .. } => self.put_records(out),
            Self::Taken { feed, next } => {
                out.put_u8(kind::TAKEN);
                out.put_u64(*feed);
                fields::put_number(out, *next)
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
}
