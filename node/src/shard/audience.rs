//! Who in this shard receives which stream.
//!
//! The lists change one subscriber at a time; nothing is rebuilt when somebody joins or leaves.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use sangam_broker::{FilterIndex, Insert, Shedder};
use sangam_io::port::PeerKey;
use sangam_model::{Filter, MediaInfo, StreamId, Topic, limits};

/// A subscriber or publisher within a shard: its port and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Subscriber {
    pub(crate) port: u16,
    pub(crate) peer: PeerKey,
}

/// Bits of the packed form that number the peer; the rest is the port.
const PEER_BITS: u32 = 24;

impl From<u32> for Subscriber {
    fn from(packed: u32) -> Self {
        Self {
            port: (packed >> PEER_BITS) as u16,
            peer: packed & ((1 << PEER_BITS) - 1),
        }
    }
}

impl From<Subscriber> for u32 {
    /// A shard has at most 256 ports, and a port 2^24 peers: 64 times what a broker may have.
    fn from(who: Subscriber) -> Self {
        (Self::from(who.port) << PEER_BITS) | who.peer
    }
}

/// Hashes stream ids by one multiplication. Only ids that this broker or a neighbour has given are
/// ever inserted, so nobody outside can choose them to collide.
#[derive(Debug, Default)]
struct StreamHasher(u64);

impl Hasher for StreamHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u64(&mut self, n: u64) {
        // Knuth, The Art of Computer Programming, section 6.4: the golden ratio of 2^64. The high
        // half is the good one, and the table uses the low bits.
        let product = (self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}

/// One stream as a shard sees it.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) topic: Topic,
    pub(crate) media: Arc<MediaInfo>,
    /// The publisher, if it lives in this shard: it does not hear itself.
    pub(crate) owner: Option<Subscriber>,
    /// Decides what is sacrificed here under overload.
    pub(crate) shedder: Shedder,
    /// Receivers by port, in the order of their subscription.
    lists: Vec<Vec<PeerKey>>,
    /// Where in a list deliveries begin, as a fraction of 2^32.
    turn: u32,
}

impl Stream {
    /// The receivers that hang on `port`.
    pub(crate) fn peers(&self, port: usize) -> &[PeerKey] {
        self.lists.get(port).map_or(&[], Vec::as_slice)
    }

    /// Where in a list of `len` receivers a delivery begins.
    pub(crate) fn first(&self, len: usize) -> usize {
        ((u64::from(self.turn) * len as u64) >> 32) as usize
    }

    /// Lets others be first from now on. Called for each key frame: that is when a large audience
    /// waits longest, and nobody should be last every time. Between key frames everybody keeps the
    /// place, as a change of place is jitter.
    pub(crate) fn rotate(&mut self) {
        // Steps of the golden ratio spread turns evenly, however few there are.
        self.turn = self.turn.wrapping_add(0x9e37_79b9);
    }
}

/// A change of a list that a delivery under way must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Removal {
    pub(crate) stream: StreamId,
    pub(crate) port: usize,
    /// Where in the list the peer stood.
    pub(crate) index: usize,
}

/// What became of a new subscription.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Subscribed {
    Yes,
    /// The subscriber holds as many filters as it may; or the shard does, and nobody in it holds
    /// this one.
    Full,
}

/// The streams a shard knows, its subscribers' filters, and the lists that follow from both.
#[derive(Debug)]
pub(crate) struct Audience {
    streams: HashMap<StreamId, Stream, BuildHasherDefault<StreamHasher>>,
    by_topic: HashMap<Topic, Vec<StreamId>>,
    filters: HashMap<Subscriber, Vec<Filter>>,
    index: FilterIndex<Subscriber>,
    /// How many subscribers hold each filter.
    holders: HashMap<Filter, u32>,
    /// Different filters of this shard: any shard may hold all that the broker asks for.
    filters_max: usize,
    owned: HashMap<Subscriber, Vec<StreamId>>,
    ports: usize,
    removals: Vec<Removal>,
    matched: Vec<Subscriber>,
}

impl Audience {
    pub(crate) fn new(ports: usize) -> Self {
        Self {
            streams: HashMap::default(),
            by_topic: HashMap::new(),
            filters: HashMap::new(),
            index: FilterIndex::new(limits::CLIENTS_PER_BROKER * 4),
            holders: HashMap::new(),
            filters_max: limits::FILTERS_PER_BROKER,
            owned: HashMap::new(),
            ports,
            removals: Vec::new(),
            matched: Vec::new(),
        }
    }

    pub(crate) fn stream(&self, id: StreamId) -> Option<&Stream> {
        self.streams.get(&id)
    }

    pub(crate) fn knows(&self, id: StreamId) -> bool {
        self.streams.contains_key(&id)
    }

    pub(crate) fn stream_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        self.streams.get_mut(&id)
    }

    /// Removals since the last call, for deliveries under way.
    pub(crate) fn removals(&mut self) -> std::vec::Drain<'_, Removal> {
        self.removals.drain(..)
    }

    /// Adds a stream; its receivers are those of [`Audience::receivers`].
    pub(crate) fn add_stream(
        &mut self,
        id: StreamId,
        topic: Topic,
        media: Arc<MediaInfo>,
        owner: Option<Subscriber>,
    ) {
        let mut lists = vec![Vec::new(); self.ports];
        self.index.matches(&topic, &mut self.matched);
        for subscriber in &self.matched {
            if Some(*subscriber) != owner {
                lists[usize::from(subscriber.port)].push(subscriber.peer);
            }
        }
        self.by_topic.entry(topic.clone()).or_default().push(id);
        if let Some(owner) = owner {
            self.owned.entry(owner).or_default().push(id);
        }
        let shedder = Shedder::default();
        self.streams.insert(
            id,
            Stream {
                topic,
                media,
                owner,
                shedder,
                lists,
                turn: 0,
            },
        );
    }

    pub(crate) fn remove_stream(&mut self, id: StreamId) -> Option<Stream> {
        let stream = self.streams.remove(&id)?;
        if let Some(ids) = self.by_topic.get_mut(&stream.topic) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_topic.remove(&stream.topic);
            }
        }
        if let Some(owner) = stream.owner
            && let Some(ids) = self.owned.get_mut(&owner)
        {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.owned.remove(&owner);
            }
        }
        Some(stream)
    }

    /// Adds a filter; `added` receives the streams the subscriber gets now and did not before.
    pub(crate) fn subscribe(
        &mut self,
        who: Subscriber,
        filter: &Filter,
        added: &mut Vec<StreamId>,
    ) -> Subscribed {
        let before = self.filters_of(who).to_vec();
        if before.contains(filter) {
            return Subscribed::Yes;
        }
        let is_new = !self.holders.contains_key(filter);
        if before.len() >= limits::FILTERS_PER_CLIENT
            || is_new && self.holders.len() >= self.filters_max
            || self.index.insert(filter, who) == Insert::Full
        {
            return Subscribed::Full;
        }
        self.filters.entry(who).or_default().push(filter.clone());
        for id in self.selected(filter) {
            let Some(stream) = self.streams.get_mut(&id) else {
                continue;
            };
            let had = before.iter().any(|held| held.matches(&stream.topic));
            if !had && stream.owner != Some(who) {
                stream.lists[usize::from(who.port)].push(who.peer);
                added.push(id);
            }
        }
        *self.holders.entry(filter.clone()).or_default() += 1;
        Subscribed::Yes
    }

    /// Removes a filter. `None` if the subscriber did not hold it; otherwise whether nobody in
    /// this shard holds it any more. `lost` receives the streams the subscriber gets no more.
    pub(crate) fn unsubscribe(
        &mut self,
        who: Subscriber,
        filter: &Filter,
        lost: &mut Vec<StreamId>,
    ) -> Option<bool> {
        let own = self.filters.get_mut(&who)?;
        let at = own.iter().position(|held| held == filter)?;
        own.swap_remove(at);
        let rest = own.clone();
        self.index.remove(filter, who);
        for id in self.selected(filter) {
            let Some(stream) = self.streams.get_mut(&id) else {
                continue;
            };
            if rest.iter().any(|held| held.matches(&stream.topic)) {
                continue;
            }
            let port = usize::from(who.port);
            let list = &mut stream.lists[port];
            if let Some(index) = list.iter().position(|peer| *peer == who.peer) {
                list.remove(index);
                self.removals.push(Removal {
                    stream: id,
                    port,
                    index,
                });
                lost.push(id);
            }
        }
        Some(self.release(filter))
    }

    /// Forgets a subscriber; returns the filters that nobody in this shard holds any more.
    pub(crate) fn leave(&mut self, who: Subscriber) -> Vec<Filter> {
        let own = self.filters.get(&who).cloned().unwrap_or_default();
        let mut lost = Vec::new();
        let unused = own
            .into_iter()
            .filter(|filter| self.unsubscribe(who, filter, &mut lost) == Some(true))
            .collect();
        self.filters.remove(&who);
        unused
    }

    /// The filters this subscriber holds.
    pub(crate) fn filters_of(&self, who: Subscriber) -> &[Filter] {
        self.filters.get(&who).map_or(&[], Vec::as_slice)
    }

    /// The streams this subscriber publishes.
    pub(crate) fn owned_by(&self, who: Subscriber) -> &[StreamId] {
        self.owned.get(&who).map_or(&[], Vec::as_slice)
    }

    /// Whether a stream is sent to this subscriber.
    pub(crate) fn receives(&self, who: Subscriber, id: StreamId) -> bool {
        let (Some(stream), Some(filters)) = (self.streams.get(&id), self.filters.get(&who)) else {
            return false;
        };
        stream.owner != Some(who) && filters.iter().any(|filter| filter.matches(&stream.topic))
    }

    /// Every receiver of a stream.
    pub(crate) fn receivers(&self, id: StreamId) -> Vec<Subscriber> {
        let Some(stream) = self.streams.get(&id) else {
            return Vec::new();
        };
        let lists = (0..self.ports).zip(&stream.lists);
        lists
            .flat_map(|(port, peers)| {
                peers.iter().map(move |peer| Subscriber {
                    port: port as u16,
                    peer: *peer,
                })
            })
            .collect()
    }

    fn selected(&self, filter: &Filter) -> Vec<StreamId> {
        if !filter.is_wild() {
            // A plain filter reads the same as the one topic it selects.
            let topic = Topic::new(filter.as_str()).ok();
            let ids = topic.and_then(|topic| self.by_topic.get(&topic));
            return ids.cloned().unwrap_or_default();
        }
        let topics = self
            .by_topic
            .iter()
            .filter(|(topic, _)| filter.matches(topic));
        topics.flat_map(|(_, ids)| ids.iter().copied()).collect()
    }

    fn release(&mut self, filter: &Filter) -> bool {
        let Some(holders) = self.holders.get_mut(filter) else {
            return false;
        };
        *holders -= 1;
        if *holders == 0 {
            self.holders.remove(filter);
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sangam_model::{BrokerId, Incarnation};

    fn filter(text: &str) -> Filter {
        Filter::new(text).unwrap()
    }

    fn id(local: u32) -> StreamId {
        StreamId::new(BrokerId(1), Incarnation(0), local)
    }

    fn who(peer: PeerKey) -> Subscriber {
        Subscriber { port: 0, peer }
    }

    fn audience_with(topic: &str, owner: Option<Subscriber>) -> Audience {
        let mut audience = Audience::new(1);
        audience.add_stream(
            id(1),
            Topic::new(topic).unwrap(),
            MediaInfo::data().into(),
            owner,
        );
        audience
    }

    #[test]
    fn overlapping_filters_give_a_stream_once_until_the_last_is_gone() {
        let mut audience = audience_with("a/b", None);
        let mut changed = Vec::new();
        audience.subscribe(who(1), &filter("a/b"), &mut changed);
        audience.subscribe(who(1), &filter("a/#"), &mut changed);
        assert_eq!(changed, [id(1)]);
        assert_eq!(audience.stream(id(1)).unwrap().peers(0), [1]);

        changed.clear();
        audience.unsubscribe(who(1), &filter("a/b"), &mut changed);
        assert!(changed.is_empty());
        audience.unsubscribe(who(1), &filter("a/#"), &mut changed);
        assert_eq!(changed, [id(1)]);
        assert!(audience.stream(id(1)).unwrap().peers(0).is_empty());
    }

    #[test]
    fn a_publisher_does_not_hear_itself() {
        let mut audience = audience_with("a/b", Some(who(1)));
        let mut changed = Vec::new();
        audience.subscribe(who(1), &filter("a/b"), &mut changed);
        audience.subscribe(who(2), &filter("a/b"), &mut changed);
        assert_eq!(audience.stream(id(1)).unwrap().peers(0), [2]);

        audience.add_stream(
            id(2),
            Topic::new("a/b").unwrap(),
            MediaInfo::data().into(),
            Some(who(2)),
        );
        assert_eq!(audience.stream(id(2)).unwrap().peers(0), [1]);
    }

    #[test]
    fn the_broker_hears_of_the_last_holder_that_leaves() {
        let mut audience = audience_with("a/b", None);
        let mut changed = Vec::new();
        audience.subscribe(who(1), &filter("a/b"), &mut changed);
        audience.subscribe(who(2), &filter("a/b"), &mut changed);
        assert!(audience.leave(who(1)).is_empty());
        assert_eq!(audience.leave(who(2)), [filter("a/b")]);
    }

    #[test]
    fn removals_tell_where_the_peer_stood() {
        let mut audience = audience_with("a/b", None);
        let mut changed = Vec::new();
        for peer in 0..3 {
            audience.subscribe(who(peer), &filter("a/+"), &mut changed);
        }
        audience.leave(who(1));
        let removals: Vec<_> = audience.removals().collect();
        assert_eq!(
            removals,
            [Removal {
                stream: id(1),
                port: 0,
                index: 1
            }]
        );
        assert_eq!(audience.stream(id(1)).unwrap().peers(0), [0, 2]);
    }

    #[test]
    fn filters_of_one_client_are_bounded() {
        let mut audience = Audience::new(1);
        let mut changed = Vec::new();
        for n in 0..limits::FILTERS_PER_CLIENT {
            let accepted = audience.subscribe(who(1), &filter(&format!("a/{n}")), &mut changed);
            assert_eq!(accepted, Subscribed::Yes);
        }
        let refused = audience.subscribe(who(1), &filter("b"), &mut changed);
        assert_eq!(refused, Subscribed::Full);
    }

    #[test]
    fn a_full_shard_still_gives_what_others_hold_already() {
        let mut audience = audience_with("a", None);
        audience.filters_max = 2;
        let mut subscribe = |peer, text| {
            let mut added = Vec::new();
            let outcome = audience.subscribe(who(peer), &filter(text), &mut added);
            (outcome, added.len())
        };
        assert_eq!(subscribe(1, "a"), (Subscribed::Yes, 1));
        assert_eq!(subscribe(1, "b"), (Subscribed::Yes, 0));
        assert_eq!(subscribe(2, "c"), (Subscribed::Full, 0));
        assert_eq!(subscribe(2, "a"), (Subscribed::Yes, 1));
    }

    #[test]
    fn a_filter_for_which_the_index_has_no_room_is_refused() {
        let mut audience = audience_with("a", None);
        audience.index = FilterIndex::new(1);
        let mut added = Vec::new();
        audience.subscribe(who(1), &filter("b"), &mut added);
        let refused = audience.subscribe(who(2), &filter("a"), &mut added);
        assert_eq!((refused, added.len()), (Subscribed::Full, 0));
        assert!(audience.filters_of(who(2)).is_empty());
    }
}
