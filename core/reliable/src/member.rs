//! A client's part in reliable topics.

use core::fmt;
use std::collections::{BTreeMap, VecDeque};

use sangam_model::{PublisherId, Random, Time, Topic};
use sangam_wire::{Refusal, Reliable};

use crate::limits::{EVENT_BYTES, PER_CLIENT, RESEND};
use crate::publisher::Publisher;
use crate::subscription::Subscription;

/// Events that may wait for the application before the broker has to wait, too.
const EVENTS_WAIT: usize = 1_024;

/// The publishers and subscriptions of one client. They outlive its links: what is not held is
/// pushed again, and subscriptions go on behind what came.
#[derive(Debug)]
pub struct Member {
    random: Random,
    up: bool,
    publishers: BTreeMap<PublisherId, Publisher>,
    subscriptions: Vec<Subscription>,
    events: VecDeque<Event>,
    out: VecDeque<Reliable>,
}

/// What comes to the application.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// An event, once and behind the earlier ones of its publisher.
    Received {
        /// Where.
        topic: Topic,
        /// Who published it.
        publisher: PublisherId,
        /// Sequence of its last record, from 1, rising.
        sequence: u64,
        /// What was sent.
        payload: Vec<u8>,
    },
    /// Records that no broker keeps any more; what they were part of does not come.
    Gap {
        /// Where.
        topic: Topic,
        /// Whose.
        publisher: PublisherId,
        /// Sequence of the first.
        first: u64,
        /// Sequence of the last.
        through: u64,
    },
    /// What was kept when the subscription began has come; from now on events are new.
    Live(Topic),
    /// More of a publisher of ours is held.
    Held(PublisherId),
    /// A publisher of ours was ended by the broker.
    PublisherEnded(PublisherId, Refusal),
    /// A subscription of ours was ended by the broker.
    SubscriptionEnded(Topic, Refusal),
}

/// Why nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberError {
    /// Too much is not held yet; try again after the next [`Event::Held`].
    Full,
    /// The event is longer than [`EVENT_BYTES`].
    Oversized,
    /// More publishers or subscriptions than a client may have.
    Limit,
    /// There is no such publisher, or the broker has ended it.
    Unknown,
}

impl Member {
    /// A client without publishers and subscriptions; `seed` is drawn at random.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            up: false,
            publishers: BTreeMap::new(),
            subscriptions: Vec::new(),
            events: VecDeque::new(),
            out: VecDeque::new(),
        }
    }

    /// A new publisher on a topic.
    ///
    /// # Errors
    /// [`MemberError::Limit`]
    pub fn publish(&mut self, topic: Topic) -> Result<PublisherId, MemberError> {
        if self.publishers.len() >= PER_CLIENT {
            return Err(MemberError::Limit);
        }
        let id = PublisherId(self.random.bits());
        self.publishers.insert(id, Publisher::new(id, topic));
        Ok(id)
    }

    /// Forgets a publisher and what of it is not held.
    pub fn unpublish(&mut self, publisher: PublisherId) {
        if self.publishers.remove(&publisher).is_some() {
            self.end(publisher.0);
        }
    }

    /// Publishes an event: the sequence of its last record. It is kept here until it is held.
    ///
    /// # Errors
    /// [`MemberError::Full`], [`MemberError::Oversized`], [`MemberError::Unknown`]
    pub fn send(&mut self, publisher: PublisherId, event: &[u8]) -> Result<u64, MemberError> {
        if event.len() > EVENT_BYTES {
            return Err(MemberError::Oversized);
        }
        let publisher = self.publishers.get_mut(&publisher);
        let publisher = publisher.ok_or(MemberError::Unknown)?;
        publisher.push(event).ok_or(MemberError::Full)
    }

    /// Records of a publisher that are not held yet.
    #[must_use]
    pub fn unheld(&self, publisher: PublisherId) -> usize {
        let publisher = self.publishers.get(&publisher);
        publisher.map_or(0, Publisher::unheld)
    }

    /// Asks for a topic, beginning with up to `replay` of the latest records that are kept.
    /// Nothing happens if it was asked for already.
    ///
    /// # Errors
    /// [`MemberError::Limit`]
    pub fn subscribe(&mut self, now: Time, topic: Topic, replay: u32) -> Result<(), MemberError> {
        if self.subscriptions.iter().any(|one| one.topic == topic) {
            return Ok(());
        }
        if self.subscriptions.len() >= PER_CLIENT {
            return Err(MemberError::Limit);
        }
        let mut subscription = Subscription::new(topic, replay);
        if self.up {
            subscription.restart(now, self.random.bits());
        }
        self.subscriptions.push(subscription);
        Ok(())
    }

    /// Asks for no more of a topic.
    pub fn unsubscribe(&mut self, topic: &Topic) {
        let all = &mut self.subscriptions;
        if let Some(index) = all.iter().position(|one| one.topic == *topic) {
            let feed = all.remove(index).feed;
            self.end(feed);
        }
    }

    /// The link to a broker is up, which knows nothing of us.
    pub fn link_up(&mut self, now: Time) {
        self.up = true;
        self.out.clear();
        for publisher in self.publishers.values_mut() {
            publisher.restart(now);
        }
        for subscription in &mut self.subscriptions {
            subscription.restart(now, self.random.bits());
        }
    }

    /// There is no link.
    pub fn link_down(&mut self) {
        self.up = false;
        self.subscriptions.iter_mut().for_each(Subscription::rest);
    }

    /// The broker says something.
    pub fn take(&mut self, now: Time, message: Reliable) {
        match message {
            Reliable::Held {
                publisher,
                through,
                next,
                again,
            } => {
                let known = self.publishers.get_mut(&publisher);
                if known.is_some_and(|known| known.held(now, (through, next), again)) {
                    self.events.push_back(Event::Held(publisher));
                }
            }
            Reliable::Records {
                feed,
                index,
                all_sent,
                records,
            } => {
                let mut all = self.subscriptions.iter_mut();
                if let Some(known) = all.find(|known| known.feed == feed) {
                    known.records((index, all_sent), records, &mut self.events);
                }
            }
            Reliable::End { id, reason } => self.ended(now, id, reason),
            _ => {}
        }
    }

    /// What to tell the broker; until `None`. Nothing while there is no link.
    pub fn poll(&mut self, now: Time) -> Option<Reliable> {
        if !self.up {
            return None;
        }
        let room = self.events.len() < EVENTS_WAIT;
        for subscription in &mut self.subscriptions {
            if self.out.is_empty() {
                self.out.extend(subscription.poll(now, room));
            }
        }
        self.out.pop_front().or_else(|| {
            self.publishers.values_mut().find_map(|publisher| {
                publisher.expire(now);
                publisher.poll(now)
            })
        })
    }

    /// The next thing for the application. Poll afterwards: the broker may wait for this.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When to poll even if nothing happens.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let publishers = self.publishers.values().map(Publisher::deadline);
        let subscriptions = self.subscriptions.iter().map(Subscription::deadline);
        let due = publishers.chain(subscriptions).min()?;
        (self.up && due != Time::NEVER).then_some(due)
    }

    fn ended(&mut self, now: Time, id: u64, reason: Refusal) {
        // What a broker has no room for now, or does not do any more, another may later.
        let passing = matches!(
            reason,
            Refusal::Full | Refusal::Overflow | Refusal::Leaving | Refusal::Goodbye
        );
        let publisher = PublisherId(id);
        if !passing && self.publishers.remove(&publisher).is_some() {
            self.events
                .push_back(Event::PublisherEnded(publisher, reason));
        }
        let feed = self.random.bits();
        let all = &mut self.subscriptions;
        let Some(index) = all.iter().position(|one| one.feed == id) else {
            return;
        };
        if passing {
            all[index].restart(now + RESEND, feed);
        } else {
            let topic = all.remove(index).topic;
            self.events
                .push_back(Event::SubscriptionEnded(topic, reason));
        }
    }

    fn end(&mut self, id: u64) {
        if self.up {
            let reason = Refusal::Goodbye;
            self.out.push_back(Reliable::End { id, reason });
        }
    }
}

impl fmt::Display for MemberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("too much is not acknowledged yet; send slower"),
            Self::Oversized => write!(f, "an event has at most {EVENT_BYTES} bytes"),
            Self::Limit => write!(
                f,
                "a client has at most {PER_CLIENT} reliable publishers and as many subscriptions"
            ),
            Self::Unknown => f.write_str("the publisher has ended"),
        }
    }
}

impl core::error::Error for MemberError {}
