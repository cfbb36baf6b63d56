//! What a [`StreamTable`](super::StreamTable) knows, takes and asks for.

use core::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use sangam_model::{Class, MediaInfo, StreamId, Time, Topic};
use sangam_wire::Message;

use crate::{Change, LinkId, LinkSet, Parent};

/// A publisher's place in this broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// The delivery shard.
    pub shard: u16,
    /// The peer's number in that shard.
    pub peer: u32,
}

/// What a client of this broker wants to publish.
#[derive(Clone, Debug)]
pub struct Publication {
    /// Who.
    pub owner: Owner,
    /// The address its events will come from, if they come as datagrams to the public port.
    pub source: Option<SocketAddr>,
    /// Where.
    pub topic: Topic,
    /// What.
    pub media: MediaInfo,
    /// It goes nowhere before a gate above it is known.
    pub gated: bool,
}

/// One known stream.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Its place in tables of per-stream state; see [`crate::Route::index`].
    pub index: u32,
    /// Its topic.
    pub topic: Topic,
    /// What it carries.
    pub media: Arc<MediaInfo>,
    /// Its class, beside the rest for the sake of the snapshot, which reads every stream.
    pub class: Class,
    /// Where it comes from.
    pub parent: Parent,
    /// Who publishes it, if it is a client of this broker.
    pub owner: Option<Owner>,
    /// Links that want it.
    pub wanted: LinkSet,
    /// Links that were told of it.
    pub told: LinkSet,
    /// Neighbours that announce it, one of them the parent; none while it waits for a return.
    pub parents: LinkSet,
    /// Bit i: shard i wants it.
    pub shards: u64,
    /// Whether a gate keeps it from going anywhere; only ever of a client of this broker.
    pub closed: bool,
    /// Whether it is closed as long as no gate above it is known.
    pub(super) gated: bool,
    pub(super) orphan_since: Option<Time>,
    pub(super) lost_since: Option<Time>,
    pub(super) doom: Option<Time>,
}

/// What happens to a [`StreamTable`].
#[derive(Clone, Copy, Debug)]
pub enum StreamInput<'a> {
    /// A link to a neighbour came up.
    LinkUp(LinkId),
    /// It went down.
    LinkDown(LinkId),
    /// A neighbour sent a message; others than announcements and retirements are ignored.
    Message(LinkId, &'a Message),
    /// Somebody, here or elsewhere, wants more or less than before.
    Interest(&'a Change),
    /// The deadline passed.
    Tick,
}

/// What a [`StreamTable`] asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamOutput {
    /// Tell a neighbour.
    Send {
        /// By this link.
        link: LinkId,
        /// What to tell.
        message: Message,
    },
    /// Tell the shards.
    Changed(StreamChange),
}

/// A stream that came or went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamChange {
    /// It is known from now on.
    Added {
        /// The stream.
        stream: StreamId,
        /// Its place in tables of per-stream state.
        index: u32,
        /// Its topic.
        topic: Topic,
        /// What it carries.
        media: Arc<MediaInfo>,
    },
    /// It is gone.
    Removed {
        /// The stream.
        stream: StreamId,
        /// The place that is free again.
        index: u32,
        /// Its topic.
        topic: Topic,
    },
}

/// Why a client may not publish or end a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamError {
    /// The broker knows as many streams as it may.
    Full,
    /// The client publishes as many as it may.
    Limit,
    /// The stream is unknown or another's.
    NotOwner,
}

impl Stream {
    pub(super) fn new(topic: Topic, media: MediaInfo, parent: Parent) -> Self {
        Self {
            index: 0,
            topic,
            class: media.class,
            media: Arc::new(media),
            parent,
            owner: None,
            wanted: LinkSet::EMPTY,
            told: LinkSet::EMPTY,
            shards: 0,
            closed: false,
            gated: false,
            parents: LinkSet::EMPTY,
            orphan_since: None,
            lost_since: None,
            doom: None,
        }
    }
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the broker knows 65536 streams already; publish at another broker",
            Self::Limit => "one client publishes at most 64 streams",
            Self::NotOwner => "the stream does not exist or was published by another client",
        })
    }
}

impl core::error::Error for StreamError {}
