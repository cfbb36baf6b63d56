//! One subscription of a client: what came, and what is missing.

use std::collections::{BTreeMap, VecDeque};

use sangam_model::{PublisherId, Time, Topic};
use sangam_wire::{Record, RecordFlags, Reliable};

use crate::limits::{EVENT_BYTES, PUBLISHERS_MAX, RESEND_MAX};
use crate::member::Event;
use crate::upstream::attach;

/// Events that are put together at the same time.
const ASSEMBLIES_MAX: usize = 256;

#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) topic: Topic,
    pub(crate) feed: u64,
    replay: u32,
    /// Number of the next record in the feed.
    next: u64,
    positions: BTreeMap<PublisherId, u64>,
    /// Events of which the end has not come.
    assemblies: BTreeMap<PublisherId, Vec<u8>>,
    /// When to attach, again if there is no answer.
    attach_at: Time,
    /// Something is to be acknowledged.
    owes: bool,
    live: bool,
}

impl Subscription {
    pub(crate) fn new(topic: Topic, replay: u32) -> Self {
        Self {
            topic,
            feed: 0,
            replay,
            next: 0,
            positions: BTreeMap::new(),
            assemblies: BTreeMap::new(),
            attach_at: Time::NEVER,
            owes: false,
            live: false,
        }
    }

    /// Attaches at `at`, under a new number.
    pub(crate) fn restart(&mut self, at: Time, feed: u64) {
        self.feed = feed;
        self.next = 0;
        self.owes = false;
        self.attach_at = at;
    }

    /// The link is down: nothing is said.
    pub(crate) fn rest(&mut self) {
        self.attach_at = Time::NEVER;
        self.owes = false;
    }

    pub(crate) const fn deadline(&self) -> Time {
        self.attach_at
    }

    /// What to tell the broker. `room`: the application takes what comes.
    pub(crate) fn poll(&mut self, now: Time, room: bool) -> Vec<Reliable> {
        if now >= self.attach_at {
            self.attach_at = now + RESEND_MAX;
            let positions = self.positions.iter().map(|(id, last)| (*id, *last));
            return attach(self.feed, &self.topic, self.replay, positions);
        }
        if !room || !core::mem::take(&mut self.owes) {
            return Vec::new();
        }
        vec![Reliable::Taken {
            feed: self.feed,
            next: self.next,
        }]
    }

    /// Takes a part of the feed.
    pub(crate) fn records(
        &mut self,
        (index, all_sent): (u64, bool),
        records: Vec<Record>,
        events: &mut VecDeque<Event>,
    ) {
        // Answered; and from now on publishers that are not known are new.
        self.attach_at = Time::NEVER;
        self.replay = u32::MAX;
        self.owes = true;
        let Some(skip) = self.next.checked_sub(index) else {
            return;
        };
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        for record in records.into_iter().skip(skip) {
            self.next += 1;
            self.take(record, events);
        }
        if all_sent && !core::mem::replace(&mut self.live, true) {
            events.push_back(Event::Live(self.topic.clone()));
        }
    }

    fn take(&mut self, record: Record, events: &mut VecDeque<Event>) {
        let publisher = record.publisher;
        if self.positions.len() >= PUBLISHERS_MAX && !self.positions.contains_key(&publisher) {
            // The homes remember no more either.
            self.positions.pop_first();
        }
        let last = self.positions.entry(publisher).or_insert(0);
        if record.sequence <= *last {
            return;
        }
        let through = if record.is_mark() {
            record.sequence
        } else {
            record.sequence - 1
        };
        if *last > 0 && through > *last {
            self.assemblies.remove(&publisher);
            events.push_back(Event::Gap {
                topic: self.topic.clone(),
                publisher,
                first: *last + 1,
                through,
            });
        }
        *last = record.sequence;
        if !record.is_mark() {
            self.assemble(record, events);
        }
    }

    fn assemble(&mut self, record: Record, events: &mut VecDeque<Event>) {
        let Record {
            publisher,
            sequence,
            flags,
            payload,
        } = record;
        let mut bytes = if flags.contains(RecordFlags::FIRST) {
            self.assemblies.remove(&publisher);
            Vec::new()
        } else {
            match self.assemblies.remove(&publisher) {
                Some(bytes) => bytes,
                // It began before we came.
                None => return,
            }
        };
        bytes.extend_from_slice(&payload);
        if bytes.len() > EVENT_BYTES {
            return;
        }
        if flags.contains(RecordFlags::LAST) {
            events.push_back(Event::Received {
                topic: self.topic.clone(),
                publisher,
                sequence,
                payload: bytes,
            });
        } else if self.assemblies.len() < ASSEMBLIES_MAX {
            self.assemblies.insert(publisher, bytes);
        }
    }
}
