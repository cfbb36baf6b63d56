//! The sending end of an attachment: a receiver's place in a topic's log.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use sangam_model::{PublisherId, Time};
use sangam_wire::{RELIABLE_LEN_MAX, Record, RecordFlags, Reliable};

use crate::limits::{HEARTBEAT, HINT, RESEND, WINDOW_BYTES, WINDOW_RECORDS, backoff};
use crate::log::Log;
use crate::peer::Peer;

/// One receiver of a topic. Records go out in the order of the log, numbered from 0, and all that
/// follow a lost one are sent again with it: the links below lose nothing but with their end.
#[derive(Debug)]
pub(crate) struct Feed {
    pub(crate) id: u64,
    /// What the receiver has already; entries go as the log passes them.
    known: BTreeMap<PublisherId, u64>,
    replay: u32,
    started: bool,
    marks: VecDeque<(PublisherId, u64)>,
    /// The next entry of the log to look at.
    cursor: u64,
    /// What the receiver fed us from this entry on does not return to it. What it fed us before
    /// it attached and does not know now, it has lost.
    own_from: u64,
    /// What is on its way or about to be.
    flight: VecDeque<Sent>,
    bytes: usize,
    /// Number, in the feed, of the first in `flight`.
    base: u64,
    /// How many of `flight` were sent since the last time all were sent again,
    sent: usize,
    /// and how many at all.
    high: usize,
    resend_at: Time,
    resent: Time,
    timeouts: u32,
    spoke: Time,
    /// Something is to be said even if there are no records.
    answer: bool,
    pub(crate) heard: Time,
}

#[derive(Clone, Copy, Debug)]
enum Sent {
    Mark(PublisherId, u64),
    Entry { index: u64, bytes: usize },
}

impl Feed {
    pub(crate) fn new(now: Time, id: u64, replay: u32, known: BTreeMap<PublisherId, u64>) -> Self {
        Self {
            id,
            known,
            replay,
            started: false,
            marks: VecDeque::new(),
            cursor: 0,
            own_from: 0,
            flight: VecDeque::new(),
            bytes: 0,
            base: 0,
            sent: 0,
            high: 0,
            resend_at: Time::NEVER,
            resent: Time::ZERO,
            timeouts: 0,
            spoke: now,
            answer: true,
            heard: now,
        }
    }

    pub(crate) const fn is_started(&self) -> bool {
        self.started
    }

    /// Begins to send. `lasts` tells the last sequence of each publisher.
    pub(crate) fn start(&mut self, log: &Log, lasts: impl Iterator<Item = (PublisherId, u64)>) {
        self.started = true;
        self.cursor = log.first();
        self.own_from = log.end();
        let late = log.end().saturating_sub(u64::from(self.replay));
        // Up to where nothing of a publisher will come: before the oldest record that is kept,
        // and for those the receiver does not know before the ones it asked for.
        let mut floors: BTreeMap<PublisherId, u64> = lasts.collect();
        let mut begun: BTreeMap<PublisherId, ()> = BTreeMap::new();
        for (index, entry) in log.from(log.first()) {
            let publisher = entry.record.publisher;
            let wanted = index >= late || self.known.contains_key(&publisher);
            let wanted = wanted && !entry.record.is_mark();
            if wanted && begun.insert(publisher, ()).is_none() {
                floors.insert(publisher, entry.record.sequence - 1);
            }
        }
        for (publisher, floor) in floors {
            let known = self.known.entry(publisher).or_insert(0);
            if floor > *known {
                *known = floor;
                self.marks.push_back((publisher, floor));
            }
        }
    }

    /// Whether an attachment that came again is this one; then it is answered again.
    pub(crate) fn is_repeated(&mut self, id: u64) -> bool {
        let same = self.id == id;
        self.answer |= same;
        same
    }

    /// Takes how far the receiver is; false if that cannot be.
    pub(crate) fn taken(&mut self, now: Time, next: u64) -> bool {
        self.heard = now;
        let Some(count) = next.checked_sub(self.base) else {
            return true;
        };
        let Ok(count) = usize::try_from(count) else {
            return false;
        };
        if count > self.high {
            return false;
        }
        if count == 0 {
            if self.sent > 0 && now - self.resent >= HINT {
                self.resend(now);
            }
            self.answer |= self.flight.is_empty() && now - self.spoke >= HEARTBEAT / 2;
            return true;
        }
        for gone in self.flight.drain(..count) {
            self.bytes -= gone.bytes();
        }
        self.base = next;
        self.sent = self.sent.saturating_sub(count);
        self.high -= count;
        self.timeouts = 0;
        self.resend_at = if self.sent > 0 {
            now + RESEND
        } else {
            Time::NEVER
        };
        true
    }

    /// Sends again what was not taken in time.
    pub(crate) fn expire(&mut self, now: Time) -> bool {
        let due = now >= self.resend_at;
        if due {
            self.timeouts += 1;
            self.resend(now);
        }
        due
    }

    /// The way to the receiver is another, or it has started anew: what is on its way may be lost.
    pub(crate) fn hasten(&mut self, now: Time) {
        self.timeouts = 0;
        if self.sent > 0 {
            self.resend(now);
        }
    }

    /// Whether the receiver was heard since a moment, and lately: a receiver that is there says
    /// something every [`HEARTBEAT`].
    pub(crate) fn is_attended(&self, now: Time, since: Time) -> bool {
        self.heard > since && now - self.heard < HEARTBEAT * 3 / 2
    }

    pub(crate) const fn deadline(&self) -> Time {
        self.resend_at
    }

    /// Everything in the log before this index has arrived or need not; `None` before the start.
    pub(crate) fn watermark(&self) -> Option<u64> {
        let entry = self.flight.iter().find_map(|sent| match sent {
            Sent::Entry { index, .. } => Some(*index),
            Sent::Mark(..) => None,
        });
        self.started.then(|| entry.unwrap_or(self.cursor))
    }

    /// Whether the receiver has everything before an index of the log.
    pub(crate) fn has_passed(&self, index: u64) -> bool {
        let marks = |sent: &Sent| matches!(sent, Sent::Mark(..));
        self.marks.is_empty()
            && !self.flight.front().is_some_and(marks)
            && self.watermark().is_some_and(|mark| mark >= index)
    }

    /// The next message for the receiver.
    pub(crate) fn poll(&mut self, now: Time, log: &Log, peer: Peer) -> Option<Reliable> {
        if !self.started {
            return None;
        }
        self.fill(log, peer);
        if self.sent == self.flight.len() && !core::mem::take(&mut self.answer) {
            return None;
        }
        self.answer = false;
        let index = self.base + self.sent as u64;
        let mut records = Vec::new();
        let mut room = RELIABLE_LEN_MAX - Reliable::RECORDS_OVERHEAD;
        while let Some(sent) = self.flight.get(self.sent)
            && records.len() < usize::from(u8::MAX)
        {
            // What is in flight is not trimmed.
            let Some(record) = sent.record(log) else {
                break;
            };
            let Some(rest) = room.checked_sub(record.encoded_len()) else {
                break;
            };
            room = rest;
            records.push(record);
            self.sent += 1;
        }
        self.high = self.high.max(self.sent);
        if self.resend_at == Time::NEVER && self.sent > 0 {
            self.resend_at = now + backoff(RESEND, self.timeouts);
        }
        self.spoke = now;
        let all_sent =
            self.sent == self.flight.len() && self.cursor == log.end() && self.marks.is_empty();
        Some(Reliable::Records {
            feed: self.id,
            index,
            all_sent,
            records,
        })
    }

    fn resend(&mut self, now: Time) {
        self.sent = 0;
        self.resent = now;
        self.resend_at = Time::NEVER;
    }

    /// Brings more into flight, as far as the window allows.
    fn fill(&mut self, log: &Log, peer: Peer) {
        while self.flight.len() < WINDOW_RECORDS && self.bytes < WINDOW_BYTES {
            if let Some((publisher, floor)) = self.marks.pop_front() {
                self.flight.push_back(Sent::Mark(publisher, floor));
                continue;
            }
            let Some(entry) = log.get(self.cursor) else {
                return;
            };
            let index = self.cursor;
            self.cursor += 1;
            let record = &entry.record;
            if let Some(known) = self.known.get(&record.publisher) {
                if record.sequence <= *known {
                    continue;
                }
                self.known.remove(&record.publisher);
            }
            let returns = entry.from.is_some_and(|from| peer == Peer::Broker(from));
            if returns && index >= self.own_from {
                continue;
            }
            let bytes = record.payload.len();
            self.bytes += bytes;
            self.flight.push_back(Sent::Entry { index, bytes });
        }
    }
}

impl Sent {
    const fn bytes(self) -> usize {
        match self {
            Self::Mark(..) => 0,
            Self::Entry { bytes, .. } => bytes,
        }
    }

    fn record(self, log: &Log) -> Option<Record> {
        match self {
            Self::Entry { index, .. } => log.get(index).map(|entry| entry.record.clone()),
            Self::Mark(publisher, sequence) => Some(Record {
                publisher,
                sequence,
                flags: RecordFlags::MARK,
                payload: Arc::from([]),
            }),
        }
    }
}
