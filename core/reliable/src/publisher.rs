//! One publisher of a client: what was sent and is not held yet.

use std::collections::VecDeque;
use std::sync::Arc;

use sangam_model::{PublisherId, Time, Topic};
use sangam_wire::{Piece, RECORD_LEN_MAX, RELIABLE_LEN_MAX, RecordFlags, Reliable};

use crate::limits::{GATHER, HINT, PUBLISHER_BYTES, PUBLISHER_RECORDS, RESEND, backoff};

#[derive(Debug)]
pub(crate) struct Publisher {
    pub(crate) id: PublisherId,
    pub(crate) topic: Topic,
    /// From the oldest that is not held.
    records: VecDeque<Piece>,
    bytes: usize,
    /// Sequence of the first in `records`.
    base: u64,
    /// The next to send.
    next: u64,
    resend_at: Time,
    resent: Time,
    timeouts: u32,
}

impl Publisher {
    pub(crate) fn new(id: PublisherId, topic: Topic) -> Self {
        Self {
            id,
            topic,
            records: VecDeque::new(),
            bytes: 0,
            base: 1,
            next: 1,
            resend_at: Time::NEVER,
            resent: Time::ZERO,
            timeouts: 0,
        }
    }

    /// Takes an event, in as many records as it needs; the sequence of the last, or `None` if
    /// too much is not held yet.
    pub(crate) fn push(&mut self, event: &[u8]) -> Option<u64> {
        let count = event.len().div_ceil(RECORD_LEN_MAX).max(1);
        let full = self.records.len() + count > PUBLISHER_RECORDS
            || self.bytes + event.len() > PUBLISHER_BYTES;
        if full {
            return None;
        }
        for part in 0..count {
            let rest = &event[part * RECORD_LEN_MAX..];
            let mut flags = RecordFlags::default();
            if part == 0 {
                flags = flags | RecordFlags::FIRST;
            }
            if part + 1 == count {
                flags = flags | RecordFlags::LAST;
            }
            let payload = Arc::from(&rest[..rest.len().min(RECORD_LEN_MAX)]);
            self.records.push_back(Piece { flags, payload });
        }
        self.bytes += event.len();
        Some(self.base + self.records.len() as u64 - 1)
    }

    /// Records that are not held yet.
    pub(crate) fn unheld(&self) -> usize {
        self.records.len()
    }

    /// Takes how far the homes are; whether more is held than before.
    pub(crate) fn held(&mut self, now: Time, (through, next): (u64, u64), again: bool) -> bool {
        let end = self.base + self.records.len() as u64;
        if through >= end {
            // Never sent: not about this life of ours.
            return false;
        }
        let more = through >= self.base;
        while self.base <= through
            && let Some(piece) = self.records.pop_front()
        {
            self.bytes -= piece.payload.len();
            self.base += 1;
        }
        self.next = self.next.max(self.base);
        if more {
            self.timeouts = 0;
            self.resend_at = Time::NEVER;
        }
        if again && now - self.resent >= HINT {
            self.timeouts = 0;
            self.resend(now, next);
        }
        self.watch(now);
        more
    }

    /// All that is not held is sent again: the link is another one.
    pub(crate) fn restart(&mut self, now: Time) {
        self.timeouts = 0;
        self.resend(now, self.base);
    }

    /// Sends again what was not held in time.
    pub(crate) fn expire(&mut self, now: Time) {
        if now >= self.resend_at {
            self.timeouts += 1;
            self.resend(now, self.base);
        }
    }

    pub(crate) const fn deadline(&self) -> Time {
        self.resend_at
    }

    /// The next message for the broker. While many records are on their way it is a full one:
    /// whoever publishes as fast as it can would send each in a message of its own, more of them
    /// than a broker takes. What is held, or sent again, lets the rest go.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Reliable> {
        let from = usize::try_from(self.next - self.base).unwrap_or(usize::MAX);
        let mut room = RELIABLE_LEN_MAX - Reliable::push_overhead(&self.topic);
        let mut pieces = Vec::new();
        for piece in self.records.iter().skip(from).take(u8::MAX.into()) {
            let Some(rest) = room.checked_sub(piece.encoded_len()) else {
                break;
            };
            room = rest;
            pieces.push(piece.clone());
        }
        let is_full = from + pieces.len() < self.records.len();
        if pieces.is_empty() || (from >= GATHER && !is_full) {
            return None;
        }
        let first = self.next;
        self.next += pieces.len() as u64;
        self.watch(now);
        Some(Reliable::Push {
            topic: self.topic.clone(),
            publisher: self.id,
            base: self.base,
            first,
            pieces,
        })
    }

    fn resend(&mut self, now: Time, from: u64) {
        let end = self.base + self.records.len() as u64;
        self.next = from.clamp(self.base, end);
        self.resent = now;
        self.resend_at = Time::NEVER;
    }

    fn watch(&mut self, now: Time) {
        if self.next == self.base {
            self.resend_at = Time::NEVER;
        } else if self.resend_at == Time::NEVER {
            self.resend_at = now + backoff(RESEND, self.timeouts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publisher() -> Publisher {
        Publisher::new(PublisherId(1), Topic::new("acme/events").unwrap())
    }

    /// Publishes each event by itself and sends what may be sent; the records of each message.
    fn publish(publisher: &mut Publisher, events: usize) -> Vec<usize> {
        let mut sent = Vec::new();
        for _ in 0..events {
            publisher.push(b"an event of some bytes").unwrap();
            sent.extend(flush(publisher));
        }
        sent
    }

    fn flush(publisher: &mut Publisher) -> Vec<usize> {
        let next = || match publisher.poll(Time::ZERO)? {
            Reliable::Push { pieces, .. } => Some(pieces.len()),
            other => panic!("{other:?}"),
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn few_records_leave_at_once_and_many_in_full_messages() {
        let mut publisher = publisher();
        let sent = publish(&mut publisher, PUBLISHER_RECORDS);
        let (alone, gathered) = sent.split_at(GATHER);
        assert!(alone.iter().all(|&records| records == 1), "{alone:?}");
        assert!(gathered.iter().all(|&records| records > 20), "{gathered:?}");
        // All that were sent are held: what waited leaves.
        let through: usize = sent.iter().sum();
        assert!(through < PUBLISHER_RECORDS, "something waits");
        publisher.held(Time::ZERO, (through as u64, 0), false);
        assert_eq!(
            flush(&mut publisher).iter().sum::<usize>(),
            PUBLISHER_RECORDS - through
        );
    }

    #[test]
    fn what_waits_goes_with_what_is_sent_again() {
        let mut publisher = publisher();
        let sent: usize = publish(&mut publisher, PUBLISHER_RECORDS).iter().sum();
        publisher.expire(publisher.deadline());
        let again: usize = flush(&mut publisher).iter().sum();
        assert!(again >= sent, "{again} of {sent}");
    }
}
