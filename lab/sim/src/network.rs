//! A network of brokers in virtual time: each is the tables of this crate and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sangam_broker::{
    Change, DuplicateWindow, FilterIndex, LinkId, Owner, Publication, Route, Routing, RoutingInput,
    RoutingOutput, Snapshot, StreamChange, StreamInput, StreamOutput, StreamTable, Verdict,
};
use sangam_model::limits::{FILTERS_PER_BROKER, HOP_LIMIT};
use sangam_model::{BrokerId, Filter, Incarnation, MediaInfo, StreamId, Time, Topic};
use sangam_wire::Message;

const OWNER: Owner = Owner { shard: 0, peer: 0 };

pub(crate) struct Broker {
    id: BrokerId,
    pub(crate) routing: Routing,
    pub(crate) streams: StreamTable,
    pub(crate) snapshot: Snapshot,
    /// Streams that shards were told to be gone.
    pub(crate) removed: Vec<StreamId>,
    /// Events delivered to local subscribers.
    pub(crate) delivered: BTreeMap<(StreamId, u16), u32>,
    pub(crate) alive: bool,
    life: u8,
    filters: BTreeSet<Filter>,
    shards: FilterIndex<u16>,
    windows: BTreeMap<StreamId, DuplicateWindow>,
    /// The other end of each link.
    links: BTreeMap<LinkId, Far>,
}

#[derive(Clone, Copy)]
struct Far {
    broker: usize,
    link: LinkId,
    delay: Duration,
    /// Which time the link is up: what was on its way before is lost.
    epoch: u32,
}

#[derive(Clone)]
enum Packet {
    Control(Message),
    Event {
        stream: StreamId,
        sequence: u16,
        hop_limit: u8,
    },
}

struct Delivery {
    to: usize,
    by: LinkId,
    epoch: u32,
    packet: Packet,
}

#[derive(Default)]
pub(crate) struct Network {
    pub(crate) now: Time,
    pub(crate) brokers: Vec<Broker>,
    /// Events that crossed each direction of each link, before any window.
    pub(crate) crossings: BTreeMap<(usize, usize), u32>,
    pub(crate) use_windows: bool,
    queue: BTreeMap<(Time, u64), Delivery>,
    sent: u64,
    epoch: u32,
}

impl Broker {
    fn new(index: usize, life: u8) -> Self {
        let (id, incarnation) = (BrokerId(index as u32 + 1), Incarnation(life));
        Self {
            id,
            routing: Routing::new(id, incarnation),
            streams: StreamTable::new(id, incarnation),
            snapshot: Snapshot::default(),
            removed: Vec::new(),
            delivered: BTreeMap::new(),
            alive: true,
            life,
            filters: BTreeSet::new(),
            shards: FilterIndex::new(FILTERS_PER_BROKER),
            windows: BTreeMap::new(),
            links: BTreeMap::new(),
        }
    }

    pub(crate) fn wants(&self, topic: &Topic) -> bool {
        self.filters.iter().any(|filter| filter.matches(topic))
    }

    fn deadline(&self) -> Option<Time> {
        let deadlines = [self.routing.deadline(), self.streams.deadline()];
        deadlines.into_iter().flatten().filter(|_| self.alive).min()
    }

    /// What a broker's control thread does after every input.
    fn pump(&mut self, now: Time) -> Vec<(LinkId, Message)> {
        let mut out = Vec::new();
        let mut quiet = false;
        while !core::mem::replace(&mut quiet, true) {
            while let Some(output) = self.routing.poll() {
                quiet = false;
                match output {
                    RoutingOutput::Send { link, message } => out.push((link, message)),
                    RoutingOutput::Changed(change) => {
                        self.streams.handle(now, StreamInput::Interest(&change));
                    }
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
        if self.streams.take_dirty() {
            self.snapshot = self.streams.snapshot(7);
        }
        out
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
                self.windows.remove(&stream);
                self.removed.push(stream);
            }
            StreamChange::Added { .. } => {}
        }
    }
}

impl Network {
    pub(crate) fn new(brokers: usize) -> Self {
        let brokers = (0..brokers).map(|index| Broker::new(index, 0)).collect();
        Self {
            now: Time::from_millis(1),
            brokers,
            use_windows: true,
            ..Self::default()
        }
    }

    /// Links two brokers; the link has one number at both ends' own choice.
    pub(crate) fn link(&mut self, a: usize, b: usize, delay: Duration) {
        self.epoch += 1;
        let (at_a, at_b) = (self.free_link(a), self.free_link(b));
        let epoch = self.epoch;
        self.brokers[a].links.insert(
            at_a,
            Far {
                broker: b,
                link: at_b,
                delay,
                epoch,
            },
        );
        self.brokers[b].links.insert(
            at_b,
            Far {
                broker: a,
                link: at_a,
                delay,
                epoch,
            },
        );
        for (broker, link, far) in [(a, at_a, b), (b, at_b, a)] {
            self.input(
                broker,
                RoutingInput::LinkUp(link, BrokerId(far as u32 + 1)),
                StreamInput::LinkUp(link),
            );
        }
    }

    pub(crate) fn unlink(&mut self, a: usize, b: usize) {
        for (near, far) in [(a, b), (b, a)] {
            let Some(link) = self.link_to(near, far) else {
                continue;
            };
            self.brokers[near].links.remove(&link);
            self.input(
                near,
                RoutingInput::LinkDown(link),
                StreamInput::LinkDown(link),
            );
        }
    }

    /// Starts a broker anew: it forgets everything and has no links.
    pub(crate) fn restart(&mut self, broker: usize) {
        self.kill(broker);
        let life = self.brokers[broker].life.wrapping_add(1);
        self.brokers[broker] = Broker::new(broker, life);
    }

    pub(crate) fn kill(&mut self, broker: usize) {
        let fars: Vec<_> = self.brokers[broker]
            .links
            .values()
            .map(|far| far.broker)
            .collect();
        fars.into_iter().for_each(|far| self.unlink(broker, far));
        self.brokers[broker].alive = false;
    }

    pub(crate) fn subscribe(&mut self, broker: usize, filter: &str) {
        let filter = Filter::new(filter).unwrap();
        let (now, it) = (self.now, &mut self.brokers[broker]);
        if it.filters.insert(filter.clone()) {
            it.shards.insert(&filter, 0);
            it.routing.add(now, &filter).unwrap();
            it.streams
                .handle(now, StreamInput::Interest(&Change::Filter(filter)));
            self.pump(broker);
        }
    }

    pub(crate) fn unsubscribe(&mut self, broker: usize, filter: &str) {
        let filter = Filter::new(filter).unwrap();
        let (now, it) = (self.now, &mut self.brokers[broker]);
        if it.filters.remove(&filter) {
            it.shards.remove(&filter, 0);
            it.routing.remove(now, &filter).unwrap();
            it.streams
                .handle(now, StreamInput::Interest(&Change::Filter(filter)));
            self.pump(broker);
        }
    }

    pub(crate) fn publish(&mut self, broker: usize, topic: &str) -> StreamId {
        let publication = Publication {
            owner: OWNER,
            source: None,
            topic: Topic::new(topic).unwrap(),
            media: MediaInfo::data(),
        };
        let stream = self.brokers[broker].streams.publish(publication).unwrap();
        self.pump(broker);
        stream
    }

    pub(crate) fn unpublish(&mut self, broker: usize, stream: StreamId) {
        self.brokers[broker]
            .streams
            .unpublish(OWNER, stream)
            .unwrap();
        self.pump(broker);
    }

    /// One event from a client of the broker.
    pub(crate) fn emit(&mut self, broker: usize, stream: StreamId, sequence: u16) {
        self.event(broker, None, (stream, sequence, HOP_LIMIT));
    }

    /// Lets time pass.
    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let arrival = self.queue.first_key_value().map(|((at, _), _)| *at);
            let timers = self.brokers.iter().enumerate();
            let timer = timers
                .filter_map(|(i, broker)| Some((broker.deadline()?, i)))
                .min();
            let timer_first = timer.filter(|(at, _)| arrival.is_none_or(|a| *at <= a));
            match (timer_first, arrival) {
                (Some((at, broker)), _) if at <= end => {
                    self.now = self.now.max(at);
                    self.input(broker, RoutingInput::Tick, StreamInput::Tick);
                }
                (None, Some(at)) if at <= end => {
                    self.now = self.now.max(at);
                    self.deliver();
                }
                _ => break,
            }
        }
        self.now = end;
    }

    pub(crate) fn forget_traffic(&mut self) {
        self.crossings.clear();
        self.brokers
            .iter_mut()
            .for_each(|broker| broker.delivered.clear());
    }

    /// Breaks every snapshot: the stream leaves on all links.
    pub(crate) fn send_everywhere(&mut self, stream: StreamId) {
        for it in &mut self.brokers {
            let hops = it.links.keys().copied().collect();
            let route = it.snapshot.route(stream).unwrap().clone();
            it.snapshot = Snapshot::new(7, [(stream, Route { hops, ..route })]);
        }
    }

    pub(crate) fn neighbours(&self, broker: usize) -> impl Iterator<Item = (LinkId, usize)> {
        self.brokers[broker]
            .links
            .iter()
            .map(|(link, far)| (*link, far.broker))
    }

    /// Links between each broker and all others; `None` where there is no way.
    pub(crate) fn distances(&self, from: usize) -> Vec<Option<u8>> {
        let mut distances = vec![None; self.brokers.len()];
        distances[from] = Some(0);
        let mut edge = vec![from];
        while !edge.is_empty() {
            let mut next = Vec::new();
            for near in edge {
                for (_, far) in self.neighbours(near) {
                    if distances[far].is_none() {
                        distances[far] = distances[near].map(|hops: u8| hops + 1);
                        next.push(far);
                    }
                }
            }
            edge = next;
        }
        distances
    }

    fn free_link(&self, broker: usize) -> LinkId {
        let links = &self.brokers[broker].links;
        (0..)
            .map(LinkId)
            .find(|link| !links.contains_key(link))
            .unwrap()
    }

    fn link_to(&self, near: usize, far: usize) -> Option<LinkId> {
        self.neighbours(near)
            .find(|(_, broker)| *broker == far)
            .map(|(link, _)| link)
    }

    fn input(&mut self, broker: usize, routing: RoutingInput<'_>, stream: StreamInput<'_>) {
        let it = &mut self.brokers[broker];
        it.routing.handle(self.now, routing);
        it.streams.handle(self.now, stream);
        self.pump(broker);
    }

    fn pump(&mut self, broker: usize) {
        for (link, message) in self.brokers[broker].pump(self.now) {
            self.send(broker, link, Packet::Control(message));
        }
    }

    fn send(&mut self, from: usize, link: LinkId, packet: Packet) {
        let Some(far) = self.brokers[from].links.get(&link).copied() else {
            return;
        };
        if let Packet::Event { .. } = packet {
            *self.crossings.entry((from, far.broker)).or_default() += 1;
        }
        self.sent += 1;
        let delivery = Delivery {
            to: far.broker,
            by: far.link,
            epoch: far.epoch,
            packet,
        };
        self.queue
            .insert((self.now + far.delay, self.sent), delivery);
    }

    fn deliver(&mut self) {
        let Some((_, delivery)) = self.queue.pop_first() else {
            return;
        };
        let Delivery {
            to,
            by,
            epoch,
            packet,
        } = delivery;
        if self.brokers[to]
            .links
            .get(&by)
            .is_none_or(|far| far.epoch != epoch)
        {
            return;
        }
        match packet {
            Packet::Control(message) => self.input(
                to,
                RoutingInput::Message(by, &message),
                StreamInput::Message(by, &message),
            ),
            Packet::Event {
                stream,
                sequence,
                hop_limit,
            } => {
                self.event(to, Some(by), (stream, sequence, hop_limit));
            }
        }
    }

    /// What a broker's lane does with an event.
    fn event(&mut self, at: usize, by: Option<LinkId>, event: (StreamId, u16, u8)) {
        let (stream, sequence, hop_limit) = event;
        let it = &mut self.brokers[at];
        let Some(route) = it.snapshot.route(stream) else {
            return;
        };
        let window = it.windows.entry(stream).or_default();
        if window.insert(self.now, sequence) != Verdict::New && self.use_windows {
            return;
        }
        if route.shards != 0 {
            *it.delivered.entry((stream, sequence)).or_default() += 1;
        }
        let Some(hop_limit) = hop_limit.checked_sub(1) else {
            return;
        };
        let hops: Vec<_> = route
            .hops
            .iter()
            .copied()
            .filter(|hop| Some(*hop) != by)
            .collect();
        for hop in hops {
            self.send(
                at,
                hop,
                Packet::Event {
                    stream,
                    sequence,
                    hop_limit,
                },
            );
        }
    }
}
