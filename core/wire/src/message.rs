//! Control messages: what is published, wanted and known. Carried by [`crate::Frame::Control`].

mod codec;
mod group;
mod network;
mod reliable;

use core::fmt;

use sangam_model::{Filter, MediaInfo, StreamId, Topic};

use crate::WireError;
use crate::codec::Reader;
pub use group::Group;
pub use network::{
    ADDRESS_LEN_MAX, BROKERS_MAX, DIGEST_MAX, FILTERS_MAX, JOIN_ROOM, Join, LinkState, LinkView,
    NEIGHBOURS_MAX, REGION_LEN_MAX, Register, Route, Sources, Version, WAY_LEN_MAX, WAYS_MAX,
};
pub use reliable::{
    POSITIONS_MAX, Piece, RECORD_LEN_MAX, RELIABLE_LEN_MAX, Record, RecordFlags, Reliable,
};

/// Bytes of one encoded message: with its length and the frame around it, it fits every path.
pub const MESSAGE_LEN_MAX: usize = 1_100;

/// One control message; at most [`MESSAGE_LEN_MAX`] bytes encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Client to broker: send me what this filter selects.
    Subscribe {
        /// Chosen by the client, echoed in the answer.
        request: u32,
        /// What is wanted.
        filter: Filter,
    },
    /// Client to broker: no more of this filter.
    Unsubscribe {
        /// Chosen by the client, echoed in the answer.
        request: u32,
        /// As it was subscribed.
        filter: Filter,
    },
    /// Client to broker: I want to publish.
    Publish {
        /// Chosen by the client, echoed in the answer.
        request: u32,
        /// Where.
        topic: Topic,
        /// What.
        media: MediaInfo,
    },
    /// Broker to client: publish under this id.
    Published {
        /// From the request.
        request: u32,
        /// The id to put into every header.
        stream: StreamId,
    },
    /// Client to broker: this stream ends.
    Unpublish {
        /// The stream.
        stream: StreamId,
    },
    /// Broker to client: done.
    Accepted {
        /// From the request.
        request: u32,
    },
    /// Broker to client: not done.
    Refused {
        /// From the request.
        request: u32,
        /// Why.
        reason: Refusal,
    },
    /// Down the tree: events of this stream will come.
    Announce {
        /// The stream.
        stream: StreamId,
        /// Its topic.
        topic: Topic,
        /// What it carries.
        media: MediaInfo,
    },
    /// Down the tree: no more events of this stream will come.
    Retire {
        /// The stream.
        stream: StreamId,
    },
    /// Client to broker: this is what I may do. Answered by `Accepted` or `Refused`; refused once
    /// more, under the same number, when the token's time is over.
    Authenticate {
        /// Chosen by the client, echoed in the answers.
        request: u32,
        /// Printable ASCII without spaces, 1 to `limits::TOKEN_LEN_MAX` bytes.
        token: String,
    },
    /// Between brokers, flooded: what a broker says of itself and its links.
    LinkState(LinkState),
    /// Between brokers: what the sender's map holds, so that each side sends what the other lacks.
    Digest {
        /// Nothing follows: what was not listed is not there.
        last: bool,
        /// Newest record of each broker; at most [`DIGEST_MAX`].
        entries: Vec<Version>,
    },
    /// Between brokers, towards a source: bring me this part of what enters the network there.
    Join(Join),
    /// Between brokers, routed: who publishes and who listens, told to a session's directory.
    Register(Register),
    /// Between brokers, routed: the directory's answer, where a session's sources are.
    Sources(Sources),
    /// Broker to client: events of this stream will also come to a group; whoever hears it says so
    /// and gets them there alone. `None`: by this group no longer.
    Group {
        /// The stream.
        stream: StreamId,
        /// What to join.
        group: Option<Group>,
    },
    /// Client to broker: whether datagrams to the group of this stream arrive.
    Hearing {
        /// The stream.
        stream: StreamId,
        /// They do; or have not for a while.
        hears: bool,
    },
    /// Of reliable topics, between a client and its broker.
    Reliable(Reliable),
    /// The same between brokers, routed.
    Carried(Route, Reliable),
}

impl Message {
    /// Broker to client, unasked: this broker is about to leave; who knows another one goes there
    /// now, while this one still serves.
    pub const LEAVING: Self = Self::Refused {
        request: 0,
        reason: Refusal::Leaving,
    };
}

/// The messages of a [`crate::Frame::Control`], each behind its 16-bit length.
///
/// A message that cannot be read yields its error and the next one follows; a length that points
/// beyond the frame yields [`WireError::Truncated`] and ends it.
pub fn messages(bytes: &[u8]) -> impl Iterator<Item = Result<Message, WireError>> + '_ {
    let mut read = Reader::new(bytes);
    core::iter::from_fn(move || {
        if read.rest().is_empty() {
            return None;
        }
        let unit = read.u16().and_then(|len| read.take(usize::from(len)));
        if unit.is_err() {
            read = Reader::new(&[]);
        }
        Some(unit.and_then(Message::decode))
    })
}

/// Why something was refused or a link closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Refusal {
    /// The peer ends the link in good order.
    Goodbye = 0,
    /// No common version.
    Version = 1,
    /// The cookie is old or wrong.
    Cookie = 2,
    /// The broker is full.
    Full = 3,
    /// A limit of this client is reached.
    Limit = 4,
    /// The request makes no sense.
    Invalid = 5,
    /// Not configured as a neighbour, or not allowed.
    Forbidden = 6,
    /// The peer was not heard in time.
    Silent = 7,
    /// The peer did not take its control messages or its data.
    Overflow = 8,
    /// The broker stops or drains.
    Leaving = 9,
    /// Two brokers with one identity.
    Identity = 10,
    /// The token is not one this broker believes.
    Unauthenticated = 11,
    /// The token's time is over.
    Expired = 12,
}

impl Refusal {
    /// The reason with this wire number.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0 => Self::Goodbye,
            1 => Self::Version,
            2 => Self::Cookie,
            3 => Self::Full,
            4 => Self::Limit,
            5 => Self::Invalid,
            6 => Self::Forbidden,
            7 => Self::Silent,
            8 => Self::Overflow,
            9 => Self::Leaving,
            10 => Self::Identity,
            11 => Self::Unauthenticated,
            12 => Self::Expired,
            _ => return None,
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Goodbye => "the peer said goodbye",
            Self::Version => "no protocol version in common; bring both ends to one release",
            Self::Cookie => "the address could not be confirmed in time; try again",
            Self::Full => "the broker is full; try another one",
            Self::Limit => "a limit of this client is reached; see `limits` in the configuration",
            Self::Invalid => "the request makes no sense to the broker",
            Self::Forbidden => {
                "not allowed: a client needs a token that grants it, a neighbour a place in \
                 links.accept"
            }
            Self::Silent => "nothing was heard for too long",
            Self::Overflow => "the peer did not take what was sent to it",
            Self::Leaving => "the broker is leaving; try another one",
            Self::Identity => "two brokers have the same identity; give each its own key file",
            Self::Unauthenticated => {
                "the token is wrong: see `sangam token show` and the broker's auth.keys"
            }
            Self::Expired => "the token has expired; get a newer one",
        })
    }
}
