//! A broker's part in reliable topics: who says what about which.

mod peers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use sangam_model::{BrokerId, PublisherId, Time, Topic};
use sangam_wire::{Record, Refusal, Reliable};

use crate::counters::Counters;
use crate::limits::{Limits, SWEEP};
use crate::peer::{ClientId, Peer};
use crate::replica::{Context, Outbox, Pushed, Replica};
use crate::upstream::Partial;
use crate::ways::{Way, Ways};
use crate::writes::Change;
use peers::Author;

/// The homes of a topic among brokers by rising id, the one that takes pushes first: the same
/// wherever the same brokers are known.
pub type Homes = fn(&Topic, &[BrokerId]) -> Vec<BrokerId>;

/// Topics whose homes are remembered until the brokers change.
const HOMES_MAX: usize = 4_096;

/// What a keeper is made of.
#[derive(Clone, Copy, Debug)]
pub struct KeeperConfig {
    /// The broker.
    pub id: BrokerId,
    /// Drawn at random for each life: no feed of an earlier one is mistaken for one of this.
    pub seed: u64,
    /// How homes are found.
    pub homes: Homes,
    /// How much is kept.
    pub limits: Limits,
    /// Records are written: [`Output::Write`] is answered by [`Input::Written`].
    pub durable: bool,
}

/// What happens to a keeper.
#[derive(Clone, Debug)]
pub enum Input {
    /// The brokers that can be reached, by rising id. Before the first time nothing is taken from
    /// anybody.
    Ways(Vec<Way>),
    /// Somebody says something. Of clients only what they may.
    Message(Peer, Reliable),
    /// A client left.
    Gone(ClientId),
    /// A record that was written in an earlier life under this index; before all else, by topic
    /// and index.
    Restored(Topic, u64, Record),
    /// How far a publisher was whose records are gone; after the records of its topic.
    RestoredLast(Topic, PublisherId, u64),
    /// The first so many writes that were asked for are safe.
    Written(u64),
    /// Time has passed.
    Tick,
}

/// What a keeper wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Tell somebody something.
    Send(Peer, Reliable),
    /// Write this.
    Write(Change),
}

/// All reliable topics of a broker: those it is a home of, and those its clients want.
#[derive(Debug)]
pub struct Keeper {
    config: KeeperConfig,
    now: Time,
    ways: Ways,
    /// Those that keep topics, by rising id.
    brokers: Vec<BrokerId>,
    homes: BTreeMap<Topic, Vec<BrokerId>>,
    numbers: BTreeMap<Topic, u32>,
    next_number: u32,
    topics: BTreeMap<u32, Replica>,
    /// Which topic is fed to whom under which number.
    feeds: BTreeMap<(Peer, u64), u32>,
    partials: BTreeMap<(Peer, u64), Partial>,
    authors: BTreeMap<PublisherId, Author>,
    by_client: BTreeMap<ClientId, BTreeSet<PublisherId>>,
    /// Topics with something to do,
    dirty: BTreeSet<u32>,
    /// and when others have.
    due: BTreeSet<(Time, u32)>,
    sweep: Time,
    out: Outbox,
    writes: VecDeque<Change>,
    /// Writes that were asked for,
    asked: u64,
    /// and the topics and indices that are safe after so many of them.
    pending: VecDeque<(u64, u32, u64)>,
    bytes: usize,
    records: usize,
    counters: Counters,
}

impl Keeper {
    /// A keeper that knows nobody yet.
    #[must_use]
    pub fn new(config: KeeperConfig) -> Self {
        Self {
            now: Time::ZERO,
            ways: Ways::default(),
            brokers: Vec::new(),
            homes: BTreeMap::new(),
            numbers: BTreeMap::new(),
            next_number: (config.seed >> 32) as u32,
            topics: BTreeMap::new(),
            feeds: BTreeMap::new(),
            partials: BTreeMap::new(),
            authors: BTreeMap::new(),
            by_client: BTreeMap::new(),
            dirty: BTreeSet::new(),
            due: BTreeSet::new(),
            sweep: Time::NEVER,
            out: Outbox::new(),
            writes: VecDeque::new(),
            asked: 0,
            pending: VecDeque::new(),
            bytes: 0,
            records: 0,
            counters: Counters::default(),
            config,
        }
    }

    /// Takes what happened; poll afterwards.
    pub fn handle(&mut self, now: Time, input: Input) {
        self.now = self.now.max(now);
        match input {
            Input::Ways(ways) => self.ways(&ways),
            Input::Message(peer, message) => self.message(peer, message),
            Input::Gone(client) => self.gone(client),
            Input::Restored(topic, index, record) => {
                if let Some(number) = self.number(&topic, index) {
                    self.with(number, |topic, cx| topic.restore(index, record, cx));
                }
            }
            Input::RestoredLast(topic, publisher, last) => {
                if let Some(number) = self.number(&topic, 0) {
                    self.with(number, |topic, cx| topic.restore_last(publisher, last, cx));
                }
            }
            Input::Written(count) => self.written(count),
            Input::Tick => {}
        }
        self.tick();
    }

    /// What is to be done; until `None`.
    pub fn poll(&mut self) -> Option<Output> {
        loop {
            if let Some(change) = self.writes.pop_front() {
                return Some(Output::Write(change));
            }
            if let Some((peer, message)) = self.out.pop_front() {
                return Some(Output::Send(peer, message));
            }
            let number = self.dirty.pop_first()?;
            self.work(number);
        }
    }

    /// When to call [`Self::handle`] with a tick.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let due = self.due.first().map_or(Time::NEVER, |(at, _)| *at);
        let at = due.min(self.sweep);
        (at != Time::NEVER).then_some(at)
    }

    /// What was counted.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            topics: self.topics.len() as u64,
            records: self.records as u64,
            bytes: self.bytes as u64,
            feeds: self.feeds.len() as u64,
            ..self.counters
        }
    }

    fn tick(&mut self) {
        while let Some((at, number)) = self.due.first().copied()
            && at <= self.now
        {
            self.due.pop_first();
            self.dirty.insert(number);
        }
        if self.now >= self.sweep {
            self.sweep = self.now + SWEEP;
            self.dirty.extend(self.topics.keys());
            let topics = &self.topics;
            self.feeds.retain(|(peer, feed), number| {
                let topic = topics.get(number);
                topic.is_some_and(|topic| topic.feeds_under(*peer, *feed))
            });
        }
    }

    fn ways(&mut self, ways: &[Way]) {
        let keepers = ways.iter().filter(|way| way.keeps).map(|way| way.to);
        let keepers: Vec<_> = keepers.collect();
        let news = core::mem::replace(&mut self.brokers, keepers) != self.brokers;
        if news {
            self.homes.clear();
        }
        if !self.ways.replace(ways) && !news {
            return;
        }
        let ways = core::mem::take(&mut self.ways);
        for number in self.topics.keys().copied().collect::<Vec<_>>() {
            if news {
                self.settle(number);
            }
            self.with(number, |topic, cx| topic.disturbed(&ways, cx));
        }
        self.remind(&ways);
        self.ways = ways;
    }

    fn settle(&mut self, number: u32) {
        let Some(topic) = self.topics.get(&number).map(|topic| topic.topic.clone()) else {
            return;
        };
        let homes = self.homes(&topic);
        self.with(number, |topic, cx| topic.settle(homes, cx));
    }

    fn homes(&mut self, topic: &Topic) -> Vec<BrokerId> {
        if let Some(homes) = self.homes.get(topic) {
            return homes.clone();
        }
        if self.homes.len() >= HOMES_MAX {
            self.homes.clear();
        }
        let homes = (self.config.homes)(topic, &self.brokers);
        self.homes.insert(topic.clone(), homes.clone());
        homes
    }

    /// Lets a topic do something; what follows from it is found by the next poll.
    fn with(&mut self, number: u32, act: impl FnOnce(&mut Replica, &mut Context<'_>)) {
        let Some(topic) = self.topics.get_mut(&number) else {
            return;
        };
        let (bytes, records) = (topic.log.bytes(), topic.log.len());
        let mut cx = Context {
            now: self.now,
            limits: &self.config.limits,
            full: self.bytes >= self.config.limits.broker_bytes,
            out: &mut self.out,
            counters: &mut self.counters,
        };
        act(topic, &mut cx);
        self.bytes = self.bytes - bytes + topic.log.bytes();
        self.records = self.records - records + topic.log.len();
        self.dirty.insert(number);
    }

    fn work(&mut self, number: u32) {
        self.with(number, Replica::work);
        self.dirty.remove(&number);
        let Some(topic) = self.topics.get_mut(&number) else {
            return;
        };
        if self.config.durable {
            for change in topic.changes() {
                self.asked += 1;
                match change {
                    Change::Append { .. } => {
                        let end = topic.log.end();
                        self.pending.push_back((self.asked, number, end));
                    }
                    // What was written before is not there any more.
                    Change::Forget(_) => self.pending.retain(|(_, of, _)| *of != number),
                    Change::Trim { .. } => {}
                }
                self.writes.push_back(change);
            }
        }
        let (before, due) = topic.note_deadline(self.now);
        self.due.remove(&(before, number));
        if topic.is_idle() {
            return self.forget(number);
        }
        if due != Time::NEVER {
            self.due.insert((due, number));
        }
        self.sweep = self.sweep.min(self.now + SWEEP);
    }

    fn forget(&mut self, number: u32) {
        let Some(topic) = self.topics.remove(&number) else {
            return;
        };
        self.bytes -= topic.log.bytes();
        self.records -= topic.log.len();
        self.numbers.remove(&topic.topic);
        if self.config.durable {
            self.asked += 1;
            self.writes.push_back(Change::Forget(topic.topic));
        }
    }

    /// The topic's number; it is made if there is room, its log beginning at `first`.
    fn number(&mut self, topic: &Topic, first: u64) -> Option<u32> {
        if let Some(number) = self.numbers.get(topic) {
            return Some(*number);
        }
        if self.topics.len() >= self.config.limits.topics {
            self.counters.refused += 1;
            return None;
        }
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        let mut replica = Replica::new(topic.clone(), self.config.id, (number, first), self.now);
        replica.durable = self.config.durable.then_some(first);
        self.numbers.insert(topic.clone(), number);
        self.topics.insert(number, replica);
        self.settle(number);
        Some(number)
    }

    fn message(&mut self, peer: Peer, message: Reliable) {
        match (peer, message) {
            (
                Peer::Broker(from),
                Reliable::Records {
                    feed,
                    index,
                    all_sent,
                    records,
                },
            ) => self.fed(from, feed, (index, all_sent), records),
            (Peer::Broker(_), held @ Reliable::Held { .. }) => self.pass_held(held),
            (Peer::Broker(from), Reliable::Offer { topic }) => {
                if self.homes(&topic).contains(&self.config.id)
                    && let Some(number) = self.number(&topic, 0)
                {
                    self.with(number, |topic, cx| topic.offered(from, cx));
                }
            }
            (_, push @ Reliable::Push { .. }) => self.push(peer, push),
            (_, attach @ Reliable::Attach { .. }) => self.gather(peer, attach),
            (_, Reliable::Taken { feed, next }) => self.taken(peer, feed, next),
            (_, Reliable::End { id, reason }) => self.ended(peer, id, reason),
            (Peer::Client(_), _) => self.counters.unexpected += 1,
        }
    }

    fn push(&mut self, peer: Peer, push: Reliable) {
        let Reliable::Push {
            ref topic,
            publisher,
            base,
            first,
            ref pieces,
        } = push
        else {
            return;
        };
        if let Peer::Client(client) = peer
            && !self.is_author(client, publisher)
        {
            self.counters.refused += 1;
            return self.end(peer, publisher.0, Refusal::Limit);
        }
        let homes = self.homes(topic);
        let here = homes.contains(&self.config.id);
        match (peer, homes.first()) {
            (Peer::Client(_), Some(home)) if *home != self.config.id => {
                self.pass_on(*home, push);
            }
            _ if here => {
                let Some(number) = self.number(topic, 0) else {
                    return self.end(peer, publisher.0, Refusal::Full);
                };
                let pushed = Pushed {
                    publisher,
                    base,
                    first,
                    pieces,
                };
                self.with(number, |topic, cx| topic.push(peer, &pushed, cx));
            }
            // The maps differ: it comes again.
            _ => self.counters.unexpected += 1,
        }
    }

    fn written(&mut self, count: u64) {
        while let Some((asked, number, end)) = self.pending.front().copied()
            && asked <= count
        {
            self.pending.pop_front();
            self.with(number, |topic, _| topic.durable = Some(end));
        }
    }

    fn end(&mut self, peer: Peer, id: u64, reason: Refusal) {
        self.out.push_back((peer, Reliable::End { id, reason }));
    }
}
