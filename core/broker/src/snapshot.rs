//! The routing snapshot: header in, hops out.

use std::net::SocketAddr;

use sangam_model::{Class, StreamId, hash};
use sangam_wire::Header;

use crate::{LinkId, LinkSet};

/// Where every known stream goes, at one moment. Immutable: a change builds a new one.
///
/// An open-addressed table at most half full; a lookup is one multiplication and, in the mean,
/// 1.5 slots. Peers choose which ids are looked up but not which are in the table.
#[derive(Debug)]
pub struct Snapshot {
    slots: Box<[Slot]>,
    routes: Box<[Route]>,
    key: u64,
}

/// Where one stream comes from and goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The stream's place in tables of per-stream state: small, kept as long as the stream is
    /// known, then given to another, so such a table must note whose state it holds.
    pub index: u32,
    /// Audio, video or data.
    pub class: Class,
    /// Where its events come from and its feedback goes.
    pub parent: Parent,
    /// Neighbours that announce it: events are expected from these alone.
    pub announcers: LinkSet,
    /// Links that want it and were told of it; never the parent.
    pub hops: Box<[LinkId]>,
    /// Bit i: shard i has subscribers.
    pub shards: u64,
    /// Whether what a client of this broker publishes goes nowhere, as it does not hold the floor.
    pub closed: bool,
}

/// Where a stream comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent {
    /// A client of this broker.
    Local {
        /// The address its events must come from, if it publishes by datagrams.
        source: Option<SocketAddr>,
        /// The delivery shard that owns it.
        shard: u16,
    },
    /// A neighbour.
    Link(LinkId),
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    stream: StreamId,
    route: u32,
}

const EMPTY: Slot = Slot {
    stream: StreamId::from_bits(0),
    route: u32::MAX,
};

impl Snapshot {
    /// A snapshot of these streams. `seed` keys the hash.
    #[must_use]
    pub fn new(seed: u64, streams: impl IntoIterator<Item = (StreamId, Route)>) -> Self {
        let (ids, routes): (Vec<_>, Vec<_>) = streams.into_iter().unzip();
        let slots = (ids.len() * 2).next_power_of_two().max(2);
        let mut snapshot = Self {
            slots: vec![EMPTY; slots].into_boxed_slice(),
            routes: routes.into_boxed_slice(),
            key: hash::fold(seed, hash::KEY),
        };
        for (stream, route) in ids.into_iter().zip(0..) {
            let at = snapshot.find(stream);
            snapshot.slots[at] = Slot { stream, route };
        }
        snapshot
    }

    /// The way of a stream, if it is known.
    #[inline]
    #[must_use]
    pub fn route(&self, stream: StreamId) -> Option<&Route> {
        self.routes
            .get(self.slots[self.find(stream)].route as usize)
    }

    /// All ways, in no order.
    #[must_use]
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// The slot of a stream, or the empty one where it would be; there is always an empty one.
    #[inline]
    fn find(&self, stream: StreamId) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = hash::fold(stream.bits(), self.key) as usize & mask;
        loop {
            let slot = &self.slots[at];
            if slot.stream == stream || slot.route == EMPTY.route {
                return at;
            }
            at = (at + 1) & mask;
        }
    }
}

impl Default for Snapshot {
    fn default() -> Self {
        Self::new(0, [])
    }
}

impl Route {
    /// The links an event of this class goes to: feedback towards the origin, all else away from
    /// it. An event is never sent back on the link it came by: the caller leaves that one out.
    #[inline]
    #[must_use]
    pub fn hops(&self, class: Class) -> &[LinkId] {
        match (class, &self.parent) {
            (Class::Feedback, Parent::Link(link)) => core::slice::from_ref(link),
            (Class::Feedback, Parent::Local { .. }) => &[],
            _ => &self.hops,
        }
    }
}

/// The neighbours an event goes to; none if its stream is unknown.
#[inline]
#[must_use]
pub fn hops<'a>(snapshot: &'a Snapshot, header: &Header) -> &'a [LinkId] {
    snapshot
        .route(header.stream)
        .map_or(&[], |route| route.hops(header.class))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sangam_model::{BrokerId, Incarnation, limits::STREAMS_PER_BROKER};
    use sangam_wire::Flags;

    fn id(local: u32) -> StreamId {
        StreamId::new(BrokerId(local % 7), Incarnation(1), local)
    }

    fn route(index: u32) -> Route {
        Route {
            index,
            class: Class::Video,
            parent: Parent::Link(LinkId(9)),
            announcers: LinkSet::EMPTY,
            hops: [LinkId(1), LinkId(2)].into(),
            shards: 1,
            closed: false,
        }
    }

    #[test]
    fn a_full_table_finds_every_stream_and_no_other() {
        let streams = STREAMS_PER_BROKER as u32;
        let snapshot = Snapshot::new(3, (0..streams).map(|i| (id(i), route(i))));
        for i in 0..streams {
            assert_eq!(snapshot.route(id(i)).map(|r| r.index), Some(i));
            assert_eq!(snapshot.route(id(i + streams)), None);
        }
    }

    #[test]
    fn the_id_of_all_zero_bits_is_a_stream_like_any_other() {
        let zero = StreamId::from_bits(0);
        assert_eq!(Snapshot::default().route(zero), None);
        let snapshot = Snapshot::new(1, [(zero, route(4))]);
        assert_eq!(snapshot.route(zero).map(|r| r.index), Some(4));
    }

    #[test]
    fn feedback_goes_to_the_parent_and_media_away_from_it() {
        let snapshot = Snapshot::new(1, [(id(1), route(0))]);
        let mut header = Header {
            class: Class::Video,
            flags: Flags::NONE,
            stream: id(1),
            sequence: 0,
            hop_limit: 15,
            layer: 0,
        };
        assert_eq!(hops(&snapshot, &header), [LinkId(1), LinkId(2)]);
        header.class = Class::Feedback;
        assert_eq!(hops(&snapshot, &header), [LinkId(9)]);
        header.stream = id(2);
        assert!(hops(&snapshot, &header).is_empty());
    }
}
