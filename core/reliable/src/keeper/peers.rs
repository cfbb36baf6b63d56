//! Who publishes, who is fed, and by whom: clients and brokers that come, go on and leave.

use std::collections::BTreeSet;

use sangam_model::{BrokerId, PublisherId, Topic};
use sangam_wire::{Record, Refusal, Reliable};

use super::Keeper;
use crate::feed::Feed;
use crate::limits::{AUTHORS_MAX, PARTIALS_MAX, PER_CLIENT};
use crate::peer::{ClientId, Peer};
use crate::replica::Replica;
use crate::ways::Ways;

/// A publisher of a client.
#[derive(Debug)]
pub(super) struct Author {
    client: ClientId,
    /// The push that went furthest, if it went to another broker: its topic, the broker, and
    /// the sequence behind its records.
    passed: Option<(Topic, BrokerId, u64)>,
    /// How far its records are held.
    through: u64,
}

impl Keeper {
    /// Notes by which client a publisher speaks now.
    pub(super) fn is_author(&mut self, client: ClientId, publisher: PublisherId) -> bool {
        let before = self.authors.get(&publisher).map(|author| author.client);
        if before == Some(client) {
            return true;
        }
        let own = self.by_client.get(&client).map_or(0, BTreeSet::len);
        if own >= PER_CLIENT || self.authors.len() >= AUTHORS_MAX {
            return false;
        }
        if let Some(own) = before.and_then(|before| self.by_client.get_mut(&before)) {
            own.remove(&publisher);
        }
        let author = Author {
            client,
            passed: None,
            through: 0,
        };
        self.authors.insert(publisher, author);
        self.by_client.entry(client).or_default().insert(publisher);
        true
    }

    pub(super) fn pass_to_author(&mut self, publisher: PublisherId, message: Reliable) {
        match self.authors.get(&publisher) {
            Some(author) => self.out.push_back((Peer::Client(author.client), message)),
            None => self.counters.unexpected += 1,
        }
    }

    /// Passes a push of a client to the home of its topic.
    pub(super) fn pass_on(&mut self, home: BrokerId, push: Reliable) {
        if let Reliable::Push {
            topic,
            publisher,
            first,
            pieces,
            ..
        } = &push
            && let Some(author) = self.authors.get_mut(publisher)
        {
            let next = first + pieces.len() as u64;
            let most = author.passed.as_ref().map_or(0, |(.., next)| *next);
            author.passed = Some((topic.clone(), home, most.max(next)));
        }
        self.out.push_back((Peer::Broker(home), push));
    }

    /// Passes on to its publisher what a home holds.
    pub(super) fn pass_held(&mut self, held: Reliable) {
        let Reliable::Held {
            publisher, through, ..
        } = held
        else {
            return;
        };
        if let Some(author) = self.authors.get_mut(&publisher) {
            author.through = author.through.max(through);
        }
        self.pass_to_author(publisher, held);
    }

    /// Has publishers send again what was passed on a way that is another now, or to a broker that
    /// is the first home no more.
    pub(super) fn remind(&mut self, ways: &Ways) {
        let waits = |author: &Author| {
            let (topic, home, next) = author.passed.as_ref()?;
            let lost = ways.changed.contains(home) || !ways.reachable.contains_key(home);
            (author.through + 1 < *next).then(|| (topic.clone(), *home, lost))
        };
        let waiting = self.authors.iter();
        let waiting = waiting.filter_map(|(id, author)| Some((*id, author.client, waits(author)?)));
        for (publisher, client, (topic, home, lost)) in waiting.collect::<Vec<_>>() {
            if lost || self.homes(&topic).first() != Some(&home) {
                let held = Reliable::Held {
                    publisher,
                    through: 0,
                    next: 1,
                    again: true,
                };
                self.out.push_back((Peer::Client(client), held));
            }
        }
    }

    pub(super) fn gather(&mut self, peer: Peer, attach: Reliable) {
        let Reliable::Attach {
            feed,
            topic,
            replay,
            part,
            parts,
            positions,
        } = attach
        else {
            return;
        };
        let mut partial = self.partials.remove(&(peer, feed)).unwrap_or_default();
        if partial.take(part, &positions).is_none() {
            self.counters.unexpected += 1;
            return;
        }
        if part + 1 == parts {
            let feed = Feed::new(self.now, feed, replay, partial.positions());
            return self.attach(peer, &topic, feed);
        }
        if self.partials.len() >= PARTIALS_MAX {
            self.counters.refused += 1;
            self.partials.pop_first();
        }
        self.partials.insert((peer, feed), partial);
    }

    pub(super) fn attach(&mut self, peer: Peer, topic: &Topic, feed: Feed) {
        let (id, of) = (feed.id, self.numbers.get(topic));
        let owes = of
            .and_then(|number| self.topics.get(number))
            .is_some_and(Replica::owes);
        let refusal = match peer {
            Peer::Broker(_) if !owes && !self.homes(topic).contains(&self.config.id) => {
                Some(Refusal::Leaving)
            }
            Peer::Client(_) => {
                let own = self.feeds.range((peer, 0)..=(peer, u64::MAX)).count();
                (own >= PER_CLIENT).then_some(Refusal::Limit)
            }
            Peer::Broker(_) => None,
        };
        if let Some(reason) = refusal {
            self.counters.refused += u64::from(reason == Refusal::Limit);
            return self.end(peer, id, reason);
        }
        let Some(number) = self.number(topic, 0) else {
            return self.end(peer, id, Refusal::Full);
        };
        self.feeds.insert((peer, id), number);
        self.with(number, |topic, cx| topic.attach(peer, feed, cx));
    }

    pub(super) fn taken(&mut self, peer: Peer, feed: u64, next: u64) {
        let number = self.feeds.get(&(peer, feed)).copied();
        let topic = number.and_then(|number| self.topics.get_mut(&number));
        let known = topic.and_then(|topic| topic.feeds.get_mut(&peer));
        let Some(known) = known.filter(|known| known.id == feed) else {
            self.feeds.remove(&(peer, feed));
            return self.end(peer, feed, Refusal::Leaving);
        };
        if !known.taken(self.now, next) {
            self.counters.unexpected += 1;
        }
        self.dirty.extend(number);
    }

    pub(super) fn fed(&mut self, from: BrokerId, feed: u64, at: (u64, bool), records: Vec<Record>) {
        let number = (feed >> 32) as u32;
        let topic = self.topics.get(&number);
        if topic.is_none_or(|topic| !topic.is_fed_by(from, feed)) {
            return self.end(Peer::Broker(from), feed, Refusal::Goodbye);
        }
        self.with(number, |topic, cx| topic.fed(from, at, records, cx));
    }

    pub(super) fn ended(&mut self, peer: Peer, id: u64, reason: Refusal) {
        if let Some(number) = self.feeds.remove(&(peer, id)) {
            return self.with(number, |topic, cx| topic.detach(peer, id, cx));
        }
        let publisher = PublisherId(id);
        match peer {
            Peer::Client(client) => {
                self.forget_author(client, publisher);
                if let Some(own) = self.by_client.get_mut(&client) {
                    own.remove(&publisher);
                }
            }
            Peer::Broker(from) => {
                let number = (id >> 32) as u32;
                let topic = self.topics.get(&number);
                if topic.is_some_and(|topic| topic.is_fed_by(from, id)) {
                    self.with(number, |topic, cx| topic.left_by(from, cx));
                } else if self.authors.contains_key(&publisher) {
                    self.pass_to_author(publisher, Reliable::End { id, reason });
                }
            }
        }
    }

    pub(super) fn gone(&mut self, client: ClientId) {
        for publisher in self.by_client.remove(&client).unwrap_or_default() {
            self.forget_author(client, publisher);
        }
        let peer = Peer::Client(client);
        let own = self.feeds.range((peer, 0)..=(peer, u64::MAX));
        for ((_, id), number) in own.map(|(key, of)| (*key, *of)).collect::<Vec<_>>() {
            self.feeds.remove(&(peer, id));
            // If it is there all the same, it comes again, and is asked what it may do.
            self.end(peer, id, Refusal::Leaving);
            self.with(number, |topic, cx| topic.detach(peer, id, cx));
        }
    }

    /// Unless it speaks by another client now.
    fn forget_author(&mut self, client: ClientId, publisher: PublisherId) {
        let author = self.authors.get(&publisher);
        if author.is_some_and(|author| author.client == client) {
            self.authors.remove(&publisher);
        }
    }
}
