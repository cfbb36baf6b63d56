//! What clients say about reliable topics, on its way to the thread that keeps them.

use sangam_broker::DropReason;
use sangam_io::clock;
use sangam_io::port::Action;
use sangam_model::Filter;
use sangam_wire::{Message, Refusal, Reliable};

use super::Shard;
use super::audience::Subscriber;
use crate::reliable::ReliableEvent;

/// Messages of one client each second: a thousand more than a link of 100 Mb/s brings.
const MESSAGES_PER_S: u32 = 20_000;
/// Places in a client's control queue that records leave to answers.
const RESERVE: usize = 128;

impl Shard {
    /// Passes on what a client may say; what is lost here the client says again.
    pub(super) fn reliable(&mut self, who: Subscriber, message: Reliable) {
        if self.guards(who) && self.access.is_asked(who) {
            let action = Action::Reliable {
                peer: who.peer,
                message,
            };
            if self.access.hold(who, action).is_err() {
                self.counters.dropped(DropReason::FloodControl);
            }
            return;
        }
        if !self.is_granted(who, &message) {
            return;
        }
        let speaker = self.speakers.entry(who).or_default();
        if !speaker.admits(clock::now(), MESSAGES_PER_S) {
            return self.counters.dropped(DropReason::FloodControl);
        }
        let event = ReliableEvent::Client(self.owner(who), message);
        if !self.reliable.offer(event) {
            self.counters.dropped(DropReason::ReliableFull);
        }
    }

    /// What a client may do has changed, or it has left: what it has ends. If it is there it
    /// attaches again, behind what it got, and is asked what it may do.
    pub(super) fn end_reliable(&mut self, who: Subscriber) {
        if self.speakers.remove(&who).is_some() {
            let event = ReliableEvent::Gone(self.owner(who));
            self.reliable.send(event);
        }
    }

    /// Whether there is room for a message; of records some is left to answers.
    pub(super) fn may_tell(&self, who: Subscriber, message: &Message) -> bool {
        let port = self.ports.get(usize::from(who.port));
        let room = || port.map_or(0, |port| port.room(who.peer));
        !matches!(message, Message::Reliable(_)) || room() > RESERVE
    }

    /// Whether a client speaks for this broker.
    fn is_system(&self, who: Subscriber) -> bool {
        let port = self.ports.get(usize::from(who.port));
        port.is_some_and(|port| port.is_system(who.peer))
    }

    /// Topics of the brokers are not kept, and what happens in sessions only they tell.
    fn is_granted(&mut self, who: Subscriber, message: &Reliable) -> bool {
        let (id, topic) = match message {
            Reliable::Push {
                topic, publisher, ..
            } => (publisher.0, topic),
            Reliable::Attach { topic, feed, .. } => (*feed, topic),
            Reliable::Taken { .. } | Reliable::End { .. } => return true,
            _ => {
                self.counters.dropped(DropReason::ControlUnexpected);
                return false;
            }
        };
        let granted = match message {
            Reliable::Push { .. } => self.keeps(who, topic),
            _ => self.hears(who, &Filter::from(topic)),
        };
        let is_told = matches!(message, Reliable::Push { .. }) && topic.is_session_events();
        if granted && !topic.is_system() && (!is_told || self.is_system(who)) {
            return true;
        }
        self.counters.dropped(DropReason::NotGranted);
        let reason = Refusal::Forbidden;
        self.tell(who, Message::Reliable(Reliable::End { id, reason }));
        false
    }
}
