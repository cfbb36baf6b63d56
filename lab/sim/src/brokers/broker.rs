//! One broker: its real tables, and the steps of control and lane that join them.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use sangam_broker::{
    Change, DuplicateWindow, FilterIndex, LinkId, Owner, Parent, Publication, Route, Routing,
    RoutingInput, RoutingOutput, Snapshot, StreamChange, StreamInput, StreamOutput, StreamTable,
    Verdict,
};
use sangam_model::limits::FILTERS_PER_BROKER;
use sangam_model::{BrokerId, Filter, Incarnation, MediaInfo, StreamId, Time, Topic};
use sangam_wire::Message;

/// How long an event waits for the announcement of its stream, and how many do.
const EARLY_FOR: Duration = Duration::from_millis(200);
const EARLY: usize = 512;
const SEED: u64 = 7;

/// One broker.
#[derive(Debug)]
pub struct Broker {
    /// Its id: its place in the network, from 1.
    pub id: BrokerId,
    /// Control's view of the network.
    pub routing: Routing,
    /// Control's view of the streams.
    pub streams: StreamTable,
    /// What the lane reads.
    pub snapshot: Snapshot,
    /// Streams that shards were told to be gone.
    pub removed: Vec<StreamId>,
    /// Whether its process runs.
    pub alive: bool,
    pub(crate) life: u8,
    /// How much later than others it handles what it gets.
    pub(crate) slowness: Duration,
    /// When its timer is set in the network's list.
    pub(crate) timer: Option<Time>,
    filters: BTreeSet<Filter>,
    shards: FilterIndex<u16>,
    /// By the place of the stream, as in the lane: another stream there finds a new one.
    windows: BTreeMap<u32, (StreamId, DuplicateWindow)>,
    early: Vec<(Event, LinkId, Time)>,
    published: u32,
}

/// An event on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its stream.
    pub stream: StreamId,
    /// Its number.
    pub sequence: u16,
    /// Brokers it may yet cross.
    pub hop_limit: u8,
}

/// What a lane did with an event.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    pub(crate) to: Vec<LinkId>,
    pub(crate) delivered: bool,
    /// It had further to go than its hop limit.
    pub(crate) spent: bool,
}

impl Broker {
    pub(crate) fn new(index: usize, life: u8) -> Self {
        let (id, incarnation) = (id_of(index), Incarnation(life));
        Self {
            id,
            routing: Routing::new(id, incarnation),
            streams: StreamTable::new(id, incarnation),
            snapshot: Snapshot::default(),
            removed: Vec::new(),
            alive: true,
            life,
            slowness: Duration::ZERO,
            timer: None,
            filters: BTreeSet::new(),
            shards: FilterIndex::new(FILTERS_PER_BROKER),
            windows: BTreeMap::new(),
            early: Vec::new(),
            published: 0,
        }
    }

    /// Whether a client of this broker wants the topic.
    #[must_use]
    pub fn wants(&self, topic: &Topic) -> bool {
        let mut found = Vec::new();
        self.shards.matches(topic, &mut found);
        !found.is_empty()
    }

    /// What its clients want.
    pub fn filters(&self) -> impl Iterator<Item = &Filter> {
        self.filters.iter()
    }

    pub(crate) fn subscribe(&mut self, now: Time, filter: &Filter) {
        if self.filters.contains(filter) || self.routing.add(now, filter).is_err() {
            return;
        }
        self.filters.insert(filter.clone());
        self.shards.insert(filter, 0);
        self.touch(now, filter);
    }

    pub(crate) fn unsubscribe(&mut self, now: Time, filter: &Filter) {
        if !self.filters.remove(filter) || self.routing.remove(now, filter).is_err() {
            return;
        }
        self.shards.remove(filter, 0);
        self.touch(now, filter);
    }

    fn touch(&mut self, now: Time, filter: &Filter) {
        let change = Change::Filter(filter.clone());
        self.streams.handle(now, StreamInput::Interest(&change));
    }

    /// Each stream has a client of its own.
    pub(crate) fn publish(&mut self, topic: &Topic, media: MediaInfo) -> Option<StreamId> {
        self.published += 1;
        let publication = Publication {
            owner: self.owner(self.published),
            source: None,
            topic: topic.clone(),
            media,
            gated: false,
        };
        self.streams.publish(publication).ok()
    }

    pub(crate) fn unpublish(&mut self, stream: StreamId) {
        if let Some(owner) = self.streams.get(stream).and_then(|known| known.owner) {
            self.streams.remove_owner(owner);
        }
    }

    const fn owner(&self, peer: u32) -> Owner {
        Owner { shard: 0, peer }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        let deadlines = [self.routing.deadline(), self.streams.deadline()];
        deadlines.into_iter().flatten().filter(|_| self.alive).min()
    }

    pub(crate) fn tick(&mut self, now: Time) {
        self.routing.handle(now, RoutingInput::Tick);
        self.streams.handle(now, StreamInput::Tick);
    }

    pub(crate) fn message(&mut self, now: Time, link: LinkId, message: &Message) {
        let input = RoutingInput::Message(link, message);
        self.routing.handle(now, input);
        self.streams
            .handle(now, StreamInput::Message(link, message));
    }

    /// What control does after every batch of inputs; whether the snapshot is new.
    pub(crate) fn pump(&mut self, now: Time, out: &mut Vec<(LinkId, Message)>) -> bool {
        let mut quiet = false;
        while !core::mem::replace(&mut quiet, true) {
            while let Some(output) = self.routing.poll() {
                quiet = false;
                match output {
                    RoutingOutput::Send { link, message } => out.push((link, message)),
                    RoutingOutput::Changed(change) => {
                        self.streams.handle(now, StreamInput::Interest(&change));
                    }
                    // Ids here follow from places.
                    RoutingOutput::Displaced => {}
                }
            }
            self.streams.route(&self.routing, &self.shards);
            while let Some(output) = self.streams.poll() {
                quiet = false;
                match output {
                    StreamOutput::Send { link, message } => out.push((link, message)),
                    StreamOutput::Changed(change) => self.changed(now, change),
                }
            }
        }
        let dirty = self.streams.take_dirty();
        if dirty {
            self.snapshot = self.streams.snapshot(SEED);
        }
        dirty
    }

    fn changed(&mut self, now: Time, change: StreamChange) {
        match change {
            StreamChange::Added { stream, topic, .. } if stream.broker() == self.id => {
                self.routing.add_source(now, &topic);
            }
            StreamChange::Removed { stream, topic, .. } => {
                if stream.broker() == self.id {
                    self.routing.remove_source(now, &topic);
                }
                self.removed.push(stream);
            }
            StreamChange::Added { .. } => {}
        }
    }

    /// What the lane does with an event; `windows` is off to see what they are good for.
    pub(crate) fn pass(
        &mut self,
        now: Time,
        by: Option<LinkId>,
        event: Event,
        windows: bool,
    ) -> Passed {
        let mut passed = Passed::default();
        let route = self.snapshot.route(event.stream);
        let expected = |route: &&Route| by.is_none_or(|link| is_expected(route, link));
        let known = route.filter(|route| !windows || expected(route));
        let Some(route) = known else {
            if let Some(link) = by.filter(|_| self.early.len() < EARLY) {
                self.early.push((event, link, now));
            }
            return passed;
        };
        // One of ours that comes back by a loop.
        let came_home = matches!(route.parent, Parent::Local { .. }) && by.is_some();
        let fresh = (event.stream, DuplicateWindow::new());
        let (of, window) = self.windows.entry(route.index).or_insert(fresh.clone());
        if *of != event.stream {
            (*of, *window) = fresh;
        }
        if windows && (came_home || window.insert(now, event.sequence) != Verdict::New) {
            return passed;
        }
        let onward = route.hops.iter().copied().filter(|hop| Some(*hop) != by);
        passed.to = onward.collect();
        passed.delivered = route.shards != 0;
        if event.hop_limit <= 1 {
            passed.spent = !passed.to.is_empty();
            passed.to.clear();
        }
        passed
    }

    /// Events whose announcement has come by now; those that waited too long are gone.
    pub(crate) fn take_early(&mut self, now: Time) -> Vec<(Event, LinkId)> {
        let snapshot = &self.snapshot;
        self.early.retain(|(_, _, since)| now - *since <= EARLY_FOR);
        let expected = |(event, link, _): &mut (Event, LinkId, Time)| {
            let route = snapshot.route(event.stream);
            route.is_some_and(|route| is_expected(route, *link))
        };
        let early = self.early.extract_if(.., expected);
        early.map(|(event, link, _)| (event, link)).collect()
    }
}

/// Whether a neighbour may bring the stream: it announced it, or the stream is our own, and the
/// event is known to have come home.
fn is_expected(route: &Route, link: LinkId) -> bool {
    matches!(route.parent, Parent::Local { .. }) || route.announcers.contains(link)
}

/// The id of the broker at this place.
#[must_use]
pub const fn id_of(index: usize) -> BrokerId {
    BrokerId(index as u32 + 1)
}

/// The place of the broker with this id.
#[must_use]
pub const fn index_of(id: BrokerId) -> usize {
    id.0 as usize - 1
}
