//! Feedback on its way to the origin: answered from the cache, merged, limited, passed on.

use sangam_broker::{DropReason, FeedbackOutput, Gate, LinkId, Parent, Shedder};
use sangam_io::port::relayed_feedback;
use sangam_model::Class;
use sangam_wire::Event;
use sangam_wire::feedback::{Feedback, Nack};

use super::Lane;
use super::ingest::Source;
use crate::command::Entry;

impl Lane {
    /// Takes a feedback event of a neighbour or of a shard.
    pub(super) fn feedback(&mut self, bytes: &[u8], source: Source) {
        let event = match Event::decode(bytes) {
            Ok(event) => event,
            Err(error) => return self.malformed(error),
        };
        let mut feedback = match Feedback::decode(event.payload) {
            Ok(feedback) => feedback,
            Err(error) => return self.malformed(error),
        };
        if let Source::Client(_) = source {
            // Clients send feedback to their shard, which knows what they receive.
            return self.counters.dropped(DropReason::UnknownPeer);
        }
        if let (Feedback::Nack(nack), Source::Link(link)) = (&feedback, source) {
            match self.repair(link, event.header.stream, *nack) {
                Some(rest) => feedback = Feedback::Nack(rest),
                None => return,
            }
        }
        let header = event.header;
        if self.snapshot.route(header.stream).is_none() {
            return self.counters.dropped(DropReason::UnknownStream);
        }
        match self.gate.handle(self.now, &header, &feedback) {
            Gate::Passed => {}
            Gate::Merged => self.counters.dropped(DropReason::FeedbackMerged),
            Gate::Full => self.counters.dropped(DropReason::FeedbackFull),
        }
        self.pass_feedback();
    }

    /// Passes on what the gate has let through.
    pub(super) fn pass_feedback(&mut self) {
        self.gate.expire(self.now);
        while let Some((output, hop_limit)) = self.gate.poll_relayed() {
            self.towards_origin(&output, hop_limit);
        }
    }

    /// Where parents point at each other for a moment, only the hop limit ends it.
    fn towards_origin(&mut self, output: &FeedbackOutput, hop_limit: u8) {
        let parent = self.snapshot.route(output.stream).map(|route| route.parent);
        let Some(parent) = parent else {
            return self.counters.dropped(DropReason::UnknownStream);
        };
        let left = hop_limit.saturating_sub(1);
        if left == 0 && matches!(parent, Parent::Link(_)) {
            return self.counters.dropped(DropReason::HopLimit);
        }
        let about = (output.stream, output.layer);
        let packet = relayed_feedback(about, left, &output.feedback, &self.pool);
        let Some(packet) = packet else {
            return self.counters.dropped(DropReason::PoolExhausted);
        };
        match parent {
            Parent::Link(link) => self.outboxes.push(link, packet, Shedder::default()),
            Parent::Local { shard, .. } => {
                let Some(door) = self.shards.get_mut(usize::from(shard)) else {
                    return;
                };
                let entry = Entry {
                    packet,
                    at: self.now,
                };
                match door.inlets[Class::Feedback as usize].push(entry) {
                    Ok(()) => door.waker.wake(),
                    Err(_) => self.counters.dropped(DropReason::RingFullFeedback),
                }
            }
        }
    }

    /// Resends to a neighbour what the cache holds; returns what it does not.
    fn repair(&mut self, link: LinkId, stream: sangam_model::StreamId, nack: Nack) -> Option<Nack> {
        let cache = &self.cache;
        let (found, missing) = crate::feedback::split(nack, |seq| cache.get(stream, seq));
        for packet in found {
            // What finds no room is counted with the outbox.
            let taken = self.outboxes.push_again(link, packet);
            self.counters.repaired.add(taken.into());
        }
        missing
    }
}

#[cfg(test)]
#[path = "feedback_tests.rs"]
mod tests;
