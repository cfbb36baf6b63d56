//! What can go wrong, and what to do about it.

use core::fmt;
use core::time::Duration;
use std::io;

use sangam_io::tls::TlsError;
use sangam_model::MediaInfoError;
use sangam_model::limits::{EVENT_LEN_MAX, FILTERS_PER_CLIENT, STREAMS_PER_CLIENT};
use sangam_wire::Refusal;

/// Why a client could not do what was asked.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// This machine has no socket, descriptor or thread for the client.
    Local(io::Error),
    /// A name has no address.
    Name {
        /// The name.
        host: String,
        /// What the system says.
        why: String,
    },
    /// Certificates, keys or authorities of this side cannot be used.
    Tls(TlsError),
    /// Any certificate would be taken, and the broker is not on this machine.
    Insecure(String),
    /// One side does not believe the other's certificate.
    Certificate {
        /// The address that was dialled.
        target: String,
        /// Why, and what to do.
        cause: String,
    },
    /// There is no address to dial.
    NoAddress,
    /// No broker answered in time.
    NoAnswer {
        /// The address that was dialled.
        target: String,
        /// How long was waited.
        waited: Duration,
        /// What the system said last, if it said anything.
        cause: Option<String>,
    },
    /// The broker refused the client.
    Refused {
        /// The address that was dialled.
        target: String,
        /// Why.
        reason: Refusal,
    },
    /// The broker speaks no version that this client does.
    Version {
        /// The address that was dialled.
        target: String,
        /// The highest version of the broker; 0: it did not say.
        theirs: u8,
        /// The version of this client.
        ours: u8,
    },
    /// The broker refused the token.
    Token(Refusal),
    /// The broker refused the publication.
    Publication {
        /// The topic.
        topic: String,
        /// Why.
        reason: Refusal,
    },
    /// The broker is there but did not answer the request in time.
    Unanswered(Duration),
    /// The media cannot be published as it is described.
    Media(MediaInfoError),
    /// The client has [`FILTERS_PER_CLIENT`] filters already.
    Filters,
    /// The client publishes [`STREAMS_PER_CLIENT`] streams already.
    Streams,
    /// Requests come faster than the link takes them.
    Busy,
    /// The broker in this process has stopped, or the client was closed.
    Closed,
}

/// Why an event was not sent. It is dropped and counted; the next one may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// The link is down or the stream not accepted yet; it comes back by itself.
    Down,
    /// The broker refused the stream after a reconnection.
    Refused(Refusal),
    /// The queue towards the broker is full.
    Full,
    /// Every buffer is in use.
    Exhausted,
    /// The event would be larger than an event may be.
    Oversized,
    /// The event names another stream or is no event.
    Foreign,
    /// The client was closed.
    Closed,
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(error) => write!(f, "the client could not start: {error}"),
            Self::Name { host, why } => write!(
                f,
                "{host}: {why}; check the name, or give an address such as 192.0.2.1:4600"
            ),
            Self::Tls(error) => error.fmt(f),
            Self::Insecure(target) => write!(
                f,
                "{target} is not on this machine: without a check of its certificate anybody \
                 could answer in its name; name the authority's file instead"
            ),
            Self::Certificate { target, cause } => {
                write!(f, "no trust between this client and {target}: {cause}")
            }
            Self::NoAddress => f.write_str("say where the broker is, such as wss://example.org"),
            Self::NoAnswer {
                target,
                waited,
                cause,
            } => {
                write!(f, "no broker answered at {target} within {waited:?}")?;
                if let Some(cause) = cause {
                    write!(f, " ({cause})")?;
                }
                f.write_str(
                    "; check the address, that `sangam serve` runs there, and that no firewall \
                     is between",
                )
            }
            Self::Refused { target, reason } => {
                write!(f, "the broker at {target} refused this client: {reason}")
            }
            Self::Version {
                target,
                theirs,
                ours,
            } => versions(f, target, (*theirs, *ours)),
            Self::Token(reason) => write!(f, "the broker refused this client: {reason}"),
            Self::Publication { topic, reason } => {
                write!(
                    f,
                    "the broker does not take the stream on `{topic}`: {reason}"
                )
            }
            Self::Unanswered(waited) => {
                write!(
                    f,
                    "the broker did not answer the request within {waited:?}; try again"
                )
            }
            Self::Media(error) => error.fmt(f),
            Self::Filters => write!(
                f,
                "a client holds at most {FILTERS_PER_CLIENT} filters; use wildcards or drop some"
            ),
            Self::Streams => write!(
                f,
                "a client publishes at most {STREAMS_PER_CLIENT} streams; use another client"
            ),
            Self::Busy => f.write_str("too many requests wait already; try again in a moment"),
            Self::Closed => f.write_str("the client or the broker behind it has stopped"),
        }
    }
}

impl core::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Local(error) => Some(error),
            _ => None,
        }
    }
}

/// What each side speaks, and which is to be upgraded.
fn versions(f: &mut fmt::Formatter<'_>, target: &str, (theirs, ours): (u8, u8)) -> fmt::Result {
    write!(f, "the broker at {target} speaks ")?;
    let older = match theirs {
        0 => {
            f.write_str("a version of the protocol that it does not name")?;
            "the older of both"
        }
        theirs => {
            write!(f, "version {theirs} of the protocol")?;
            if theirs > ours {
                "this program"
            } else {
                "the broker"
            }
        }
    };
    write!(f, ", this program version {ours}; upgrade {older}")
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Down => f.write_str("the link is down; it comes back by itself"),
            Self::Refused(reason) => write!(f, "the broker does not take the stream: {reason}"),
            Self::Full => f.write_str("events come faster than they can be sent"),
            Self::Exhausted => f.write_str("all buffers for sending are in use"),
            Self::Oversized => {
                write!(
                    f,
                    "an event has at most {EVENT_LEN_MAX} bytes with its header"
                )
            }
            Self::Foreign => f.write_str("the event does not belong to this publisher's stream"),
            Self::Closed => f.write_str("the client was closed"),
        }
    }
}

impl core::error::Error for SendError {}
