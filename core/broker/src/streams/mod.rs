//! Streams: who publishes what, where it comes from and who was told.
//!
//! An announcement goes down the same links as the events, before them; where it stops, the
//! events stop. So a snapshot sends a stream only to neighbours that know it.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use sangam_model::limits::{STREAMS_PER_BROKER, STREAMS_PER_CLIENT};
use sangam_model::{BrokerId, Class, Incarnation, MediaInfo, StreamId, Time, Topic};
use sangam_wire::Message;

use crate::outbox::{Outbox, Pace};
use crate::{Change, FilterIndex, Gates, LinkId, LinkSet, Parent, Routing, Snapshot, TopicGate};

mod indices;
mod remote;
mod route;
mod types;

use indices::Indices;
pub use types::{Owner, Publication, Stream, StreamChange, StreamError, StreamInput, StreamOutput};

/// A stream whose link died waits so long for the neighbour's return.
pub const ORPHAN_GRACE: Duration = Duration::from_secs(5);
/// A stream is kept so long while nothing is known of the broker where it enters the network, or
/// there is no way to it.
pub const LOST_GRACE: Duration = Duration::from_secs(35);
/// Half a control channel's queue at once; then, at ten announcements in a frame, a third of what
/// 32 frames in a round trip of 100 ms carry.
const PACE: Pace = Pace {
    burst: 512,
    every: Duration::from_millis(1),
};

/// The streams one broker knows.
///
/// Call [`Self::handle`] with what happens, [`Self::route`] once things are quiet, and
/// [`Self::poll`] until `None`; if [`Self::take_dirty`] then, the snapshot must be built anew.
#[derive(Debug)]
pub struct StreamTable {
    id: BrokerId,
    incarnation: Incarnation,
    now: Time,
    streams: BTreeMap<StreamId, Stream>,
    topics: BTreeMap<Topic, BTreeSet<StreamId>>,
    owners: BTreeMap<Owner, BTreeSet<StreamId>>,
    links: BTreeMap<LinkId, Outbox<StreamId>>,
    /// Links that still believe in a stream which is gone.
    ghosts: BTreeMap<StreamId, LinkSet>,
    /// Streams that need a new way.
    unrouted: BTreeSet<StreamId>,
    /// Streams that go unless something happens before.
    doomed: BTreeSet<(Time, StreamId)>,
    changes: VecDeque<StreamChange>,
    gates: Gates,
    local_next: u32,
    indices: Indices,
    refused: u64,
    dirty: bool,
}

impl StreamTable {
    /// The table of a broker without streams.
    #[must_use]
    pub fn new(id: BrokerId, incarnation: Incarnation) -> Self {
        Self {
            id,
            incarnation,
            now: Time::ZERO,
            streams: BTreeMap::new(),
            topics: BTreeMap::new(),
            owners: BTreeMap::new(),
            links: BTreeMap::new(),
            ghosts: BTreeMap::new(),
            unrouted: BTreeSet::new(),
            doomed: BTreeSet::new(),
            changes: VecDeque::new(),
            gates: Gates::default(),
            local_next: 1,
            indices: Indices::default(),
            refused: 0,
            dirty: false,
        }
    }

    /// Gives a client's new stream its id.
    ///
    /// # Errors
    /// [`StreamError::Full`], [`StreamError::Limit`]
    pub fn publish(&mut self, publication: Publication) -> Result<StreamId, StreamError> {
        let Publication {
            owner,
            source,
            topic,
            media,
            gated,
        } = publication;
        if self.streams.len() >= STREAMS_PER_BROKER {
            return Err(StreamError::Full);
        }
        if self.owned(owner) >= STREAMS_PER_CLIENT {
            return Err(StreamError::Limit);
        }
        let id = self.allocate();
        let parent = Parent::Local {
            source,
            shard: owner.shard,
        };
        self.owners.entry(owner).or_default().insert(id);
        let stream = Stream {
            owner: Some(owner),
            gated,
            closed: is_closed(&self.gates, (&topic, media.class), gated),
            ..Stream::new(topic, media, parent)
        };
        self.add(id, stream);
        Ok(id)
    }

    /// Takes a gate: what clients of this broker publish below the prefix goes on, or goes nowhere.
    /// What neighbours send has passed their gates.
    pub fn gate(&mut self, now: Time, prefix: &Topic, gate: TopicGate) {
        if !self.gates.set(now, prefix, gate) {
            return;
        }
        let below = self.topics.range(prefix.clone()..);
        let below = below.take_while(|(topic, _)| topic.as_str().starts_with(prefix.as_str()));
        for (topic, ids) in below {
            for id in ids {
                let stream = self.streams.get_mut(id);
                if let Some(stream) = stream.filter(|stream| stream.owner.is_some()) {
                    let about = (topic, stream.media.class);
                    let closed = is_closed(&self.gates, about, stream.gated);
                    self.dirty |= stream.closed != closed;
                    stream.closed = closed;
                }
            }
        }
    }

    /// The gates this broker was told of.
    #[must_use]
    pub const fn gates(&self) -> &Gates {
        &self.gates
    }

    /// Ends a client's stream.
    ///
    /// # Errors
    /// [`StreamError::NotOwner`]
    pub fn unpublish(&mut self, owner: Owner, stream: StreamId) -> Result<(), StreamError> {
        match self.streams.get(&stream) {
            Some(known) if known.owner == Some(owner) => {
                self.remove(stream);
                Ok(())
            }
            _ => Err(StreamError::NotOwner),
        }
    }

    /// Ends all streams of a client that is gone.
    pub fn remove_owner(&mut self, owner: Owner) {
        for stream in self.owners.remove(&owner).unwrap_or_default() {
            self.remove(stream);
        }
    }

    /// Takes what happened.
    pub fn handle(&mut self, now: Time, input: StreamInput<'_>) {
        self.now = self.now.max(now);
        match input {
            StreamInput::LinkUp(link) => self.link_up(link),
            StreamInput::LinkDown(link) => self.link_down(link),
            StreamInput::Message(link, message) => self.message(link, message),
            StreamInput::Interest(change) => self.touch(change),
            StreamInput::Tick => {}
        }
        self.end_doomed();
        for outbox in self.links.values_mut() {
            outbox.refill(self.now);
        }
    }

    /// What is to be done; until `None`.
    pub fn poll(&mut self) -> Option<StreamOutput> {
        if let Some(change) = self.changes.pop_front() {
            return Some(StreamOutput::Changed(change));
        }
        while let Some(link) = self.ready() {
            if let Some(message) = self.next_message(link) {
                return Some(StreamOutput::Send { link, message });
            }
        }
        None
    }

    /// When to call [`Self::handle`] with a tick.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let doom = self.doomed.first().map(|(at, _)| *at);
        let waiting = self.links.values().filter(|outbox| !outbox.is_empty());
        waiting.map(Outbox::ready).chain(doom).min()
    }

    /// Whether the snapshot changed since the last call.
    pub fn take_dirty(&mut self) -> bool {
        core::mem::take(&mut self.dirty)
    }

    /// A stream, if it is known.
    #[must_use]
    pub fn get(&self, stream: StreamId) -> Option<&Stream> {
        self.streams.get(&stream)
    }

    /// All streams.
    pub fn iter(&self) -> impl Iterator<Item = (StreamId, &Stream)> {
        self.streams.iter().map(|(id, stream)| (*id, stream))
    }

    /// Number of streams.
    #[must_use]
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Whether no stream is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Announcements of neighbours that were not taken: the table was full, or they announced a
    /// stream of this broker.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    fn owned(&self, owner: Owner) -> usize {
        self.owners.get(&owner).map_or(0, BTreeSet::len)
    }

    /// The next free id. A number comes again only after all 2^24 others; one is always free, as
    /// there are fewer streams.
    fn allocate(&mut self) -> StreamId {
        loop {
            let id = StreamId::new(self.id, self.incarnation, self.local_next);
            self.local_next = (self.local_next + 1) & StreamId::LOCAL_MAX;
            if !self.streams.contains_key(&id) {
                return id;
            }
        }
    }

    fn add(&mut self, id: StreamId, mut stream: Stream) {
        stream.index = self.indices.take(self.now, id);
        stream.told = self.ghosts.remove(&id).unwrap_or_default();
        self.topics
            .entry(stream.topic.clone())
            .or_default()
            .insert(id);
        self.changes.push_back(StreamChange::Added {
            stream: id,
            index: stream.index,
            topic: stream.topic.clone(),
            media: stream.media.clone(),
        });
        self.streams.insert(id, stream);
        self.unrouted.insert(id);
        self.dirty = true;
    }

    fn remove(&mut self, id: StreamId) {
        let Some(stream) = self.streams.remove(&id) else {
            return;
        };
        if stream.owner.is_some() {
            self.indices.free(stream.index);
        } else {
            self.indices.leave(self.now, id, stream.index);
        }
        self.unrouted.remove(&id);
        if let Some(at) = stream.doom {
            self.doomed.remove(&(at, id));
        }
        forget(&mut self.topics, &stream.topic, id);
        if let Some(owner) = stream.owner {
            forget(&mut self.owners, &owner, id);
        }
        for link in stream.told.iter() {
            self.tell(link, id);
        }
        if !stream.told.is_empty() {
            self.ghosts.insert(id, stream.told);
        }
        self.changes.push_back(StreamChange::Removed {
            stream: id,
            index: stream.index,
            topic: stream.topic,
        });
        self.dirty = true;
    }
}

/// Whether gates keep what a client publishes from going anywhere.
fn is_closed(gates: &Gates, (topic, class): (&Topic, Class), gated: bool) -> bool {
    !gates.is_open(topic, class) || (gated && !gates.know(topic))
}

fn forget<K: Ord>(map: &mut BTreeMap<K, BTreeSet<StreamId>>, key: &K, id: StreamId) {
    if let Some(ids) = map.get_mut(key) {
        ids.remove(&id);
        if ids.is_empty() {
            map.remove(key);
        }
    }
}
