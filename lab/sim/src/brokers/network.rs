//! Brokers and wires in virtual time.

use core::cmp::Ordering;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use sangam_broker::{LinkId, Route, RoutingInput, Snapshot, StreamInput};
use sangam_link::Timing;
use sangam_model::limits::HOP_LIMIT;
use sangam_model::{Filter, Measured, MediaInfo, Random, StreamId, Time, Topic};
use sangam_wire::{Message, Plan};

use super::broker::{Broker, Event, id_of};
use super::traffic::Traffic;
use super::wire::{Cost, Path, Wire, frames};

mod links;

/// A network in virtual time. Everything that is left to chance comes from its seed, so the same
/// calls give the same history, event by event.
#[derive(Debug)]
pub struct Network {
    /// The moment.
    pub now: Time,
    /// All brokers, by place; their ids count from 1.
    pub brokers: Vec<Broker>,
    /// What became of events.
    pub traffic: Traffic,
    /// Whether lanes look for duplicates; off to see what else bounds a loop.
    pub use_windows: bool,
    /// What the present event of a stream costs a link as monitoring, headers included; streams
    /// that are not here are media.
    pub event_bytes: BTreeMap<StreamId, u64>,
    random: Random,
    wires: Vec<Wire>,
    /// Wires by broker and number of the link there.
    ports: Vec<BTreeMap<LinkId, usize>>,
    timers: BTreeSet<(Time, usize)>,
    queue: BinaryHeap<Planned>,
    planned: u64,
    history: u64,
}

#[derive(Debug)]
struct Planned {
    at: Time,
    /// Things of one moment happen in the order they were planned in.
    number: u64,
    what: What,
}

/// What will happen.
#[derive(Debug)]
enum What {
    /// Control arrives at an end, if the session is still this one.
    Frame(At, Vec<Message>),
    /// So does an event.
    Event(At, Event),
    /// An end was silent long enough; void if its number of silences is another by then.
    Suspect(At),
    Down(At),
    /// It is heard again.
    Recovered(At),
    /// A wire comes up, unless it did already.
    Connect(At),
}

/// An end of a wire, and the session or silence for which the plan holds.
#[derive(Clone, Copy, Debug)]
struct At {
    wire: usize,
    end: usize,
    epoch: u32,
}

impl Network {
    /// So many brokers without links.
    #[must_use]
    pub fn new(brokers: usize, seed: u64) -> Self {
        Self {
            now: Time::from_millis(1),
            brokers: (0..brokers).map(|index| Broker::new(index, 0)).collect(),
            traffic: Traffic::default(),
            use_windows: true,
            event_bytes: BTreeMap::new(),
            random: Random::new(seed),
            wires: Vec::new(),
            ports: vec![BTreeMap::new(); brokers],
            timers: BTreeSet::new(),
            queue: BinaryHeap::new(),
            planned: 0,
            history: 0,
        }
    }

    /// A client of the broker wants this.
    pub fn subscribe(&mut self, broker: usize, filter: &Filter) {
        self.brokers[broker].subscribe(self.now, filter);
        self.pump(broker);
    }

    /// It does not any more.
    pub fn unsubscribe(&mut self, broker: usize, filter: &Filter) {
        self.brokers[broker].unsubscribe(self.now, filter);
        self.pump(broker);
    }

    /// A client of the broker publishes data; `None` if the broker is full.
    pub fn publish(&mut self, broker: usize, topic: &Topic) -> Option<StreamId> {
        self.publish_media(broker, topic, MediaInfo::data())
    }

    /// The same for audio, video or anything else.
    pub fn publish_media(
        &mut self,
        broker: usize,
        topic: &Topic,
        media: MediaInfo,
    ) -> Option<StreamId> {
        let stream = self.brokers[broker].publish(topic, media);
        self.pump(broker);
        stream
    }

    /// It ends its stream.
    pub fn unpublish(&mut self, broker: usize, stream: StreamId) {
        self.brokers[broker].unpublish(stream);
        self.pump(broker);
    }

    /// One event from a client of the broker.
    pub fn emit(&mut self, broker: usize, stream: StreamId, sequence: u16) {
        let event = Event {
            stream,
            sequence,
            hop_limit: HOP_LIMIT,
        };
        self.event(broker, None, event);
    }

    /// A broker hears what a central scheduler publishes by the stream `from`.
    pub fn lead(&mut self, broker: usize, from: StreamId, plan: &Plan) {
        self.brokers[broker].routing.plan(self.now, from, plan);
        self.pump(broker);
    }

    /// The broker handles everything so much later, as one without processor time does.
    pub fn slow(&mut self, broker: usize, by: Duration) {
        self.brokers[broker].slowness = by;
    }

    /// Lets time pass.
    pub fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let next = self.queue.peek().map(|planned| planned.at);
            let timer = self.timers.first().copied();
            match (timer, next) {
                (Some((at, broker)), next) if at <= end && next.is_none_or(|next| at <= next) => {
                    self.now = self.now.max(at);
                    self.timers.pop_first();
                    self.brokers[broker].timer = None;
                    self.brokers[broker].tick(self.now);
                    self.pump(broker);
                }
                (_, Some(at)) if at <= end => {
                    self.now = self.now.max(at);
                    if let Some(planned) = self.queue.pop() {
                        self.note(planned.number);
                        self.happen(planned.what);
                    }
                }
                _ => break,
            }
        }
        self.now = end;
    }

    /// Breaks every snapshot: the stream leaves on all links of all brokers that know it.
    pub fn send_everywhere(&mut self, stream: StreamId) {
        for (it, ports) in self.brokers.iter_mut().zip(&self.ports) {
            let Some(route) = it.snapshot.route(stream).cloned() else {
                continue;
            };
            let hops = ports.keys().copied().collect();
            it.snapshot = Snapshot::new(7, [(stream, Route { hops, ..route })]);
        }
    }

    /// What control has cost so far: both directions of every wire.
    pub fn costs(&self) -> impl Iterator<Item = Cost> + '_ {
        let directions = self.wires.iter().flat_map(|wire| &wire.directions);
        directions.map(|direction| direction.cost)
    }

    /// A number that differs as soon as two histories do.
    #[must_use]
    pub const fn history(&self) -> u64 {
        self.history
    }

    const fn note(&mut self, number: u64) {
        let mixed = self.history ^ number ^ self.now.as_micros().rotate_left(32);
        self.history = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Frame(at, messages) => {
                let Some((broker, link)) = self.receiver(at) else {
                    return;
                };
                for message in &messages {
                    self.brokers[broker].message(self.now, link, message);
                }
                self.pump(broker);
            }
            What::Event(at, event) => {
                if let Some((broker, link)) = self.receiver(at) {
                    self.event(broker, Some(link), event);
                }
            }
            What::Suspect(at) => self.suspect(at),
            What::Down(at) => self.silent_end_down(at),
            What::Recovered(at) => self.recovered(at),
            What::Connect(at) => self.connect_planned(at),
        }
    }

    fn receiver(&self, at: At) -> Option<(usize, LinkId)> {
        let wire = &self.wires[at.wire];
        let end = wire.ends[at.end];
        (end.up && wire.session == at.epoch).then_some((end.broker, end.link))
    }

    fn input(&mut self, broker: usize, routing: RoutingInput<'_>) {
        self.brokers[broker].routing.handle(self.now, routing);
        self.pump(broker);
    }

    fn input_both(&mut self, broker: usize, routing: RoutingInput<'_>, streams: StreamInput<'_>) {
        self.brokers[broker].streams.handle(self.now, streams);
        self.input(broker, routing);
    }

    /// Carries out what follows from inputs.
    fn pump(&mut self, broker: usize) {
        let mut out = Vec::new();
        let it = &mut self.brokers[broker];
        let changed = it.pump(self.now, &mut out);
        let deadline = it.deadline().map(|at| at.max(self.now) + it.slowness);
        if it.timer != deadline {
            if let Some(at) = core::mem::replace(&mut it.timer, deadline) {
                self.timers.remove(&(at, broker));
            }
            self.timers.extend(deadline.map(|at| (at, broker)));
        }
        for (link, messages) in frames(out) {
            self.send(broker, link, messages);
        }
        if changed {
            for (event, link) in self.brokers[broker].take_early(self.now) {
                self.event(broker, Some(link), event);
            }
        }
    }

    fn event(&mut self, broker: usize, by: Option<LinkId>, event: Event) {
        let passed = self.brokers[broker].pass(self.now, by, event, self.use_windows);
        self.traffic
            .passed(self.now, broker, event, (passed.delivered, passed.spent));
        let event = Event {
            hop_limit: event.hop_limit.saturating_sub(1),
            ..event
        };
        for link in passed.to {
            self.send_event(broker, link, event);
        }
    }

    fn plan(&mut self, at: Time, what: What) {
        self.planned += 1;
        self.queue.push(Planned {
            at,
            number: self.planned,
            what,
        });
    }
}

impl Planned {
    const fn key(&self) -> (Time, u64) {
        (self.at, self.number)
    }
}

impl Ord for Planned {
    /// The earliest is the greatest, as a heap gives the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Planned {}

/// The times after which silence counts.
const LIVENESS: Timing = Timing::BROKER;
