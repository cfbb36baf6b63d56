//! Messages of reliable topics on their way over a link. They wait here, so that what brokers say
//! of the network never waits behind many of them, and a link that is slow holds back only these.

use std::collections::VecDeque;

use sangam_broker::{DropReason, LinkId};
use sangam_link::Session;
use sangam_wire::Message;

use super::Lane;
use super::link::Link;

/// Messages that may wait for a link; those beyond are sent again from where they come.
const WAITING: usize = 8_192;
/// Messages of a link that may be on their way to be acknowledged, of all kinds, while more of
/// these follow: a window of frames and some.
const UNDER_WAY: usize = 48;

/// What waits, by link.
#[derive(Debug, Default)]
pub(super) struct Carried {
    queues: Vec<VecDeque<Message>>,
    /// Links with something new, as a bit set.
    fresh: u64,
}

impl Lane {
    /// Queues a message for a link.
    pub(super) fn carry(&mut self, link: LinkId, message: Message) {
        let index = usize::from(link.0);
        let queues = &mut self.carried.queues;
        if !self.links.get(link).is_some_and(|link| link.up) {
            return self.counters.dropped(DropReason::LinkDown);
        }
        if index >= queues.len() {
            queues.resize_with(index + 1, VecDeque::new);
        }
        if queues[index].len() >= WAITING {
            return self.counters.dropped(DropReason::ReliableFull);
        }
        queues[index].push_back(message);
        self.carried.fresh |= 1 << index;
    }

    /// Starts what was queued since the last time.
    pub(super) fn start_carried(&mut self) {
        let fresh = std::mem::take(&mut self.carried.fresh);
        for index in (0..64).filter(|index| fresh & (1 << index) != 0) {
            self.drain_link(LinkId(index));
        }
    }

    /// Gives a link more of what waits for it, if it takes more; whether it did.
    pub(super) fn load_carried(&mut self, id: LinkId) -> bool {
        let queue = self.carried.queues.get_mut(usize::from(id.0));
        let Some(queue) = queue.filter(|queue| !queue.is_empty()) else {
            return false;
        };
        let link = self.links.get(id).filter(|link| link.up);
        if link.is_some_and(|link| link.before.is_some()) {
            // Others wait already for the way before.
            return false;
        }
        let Some(session) = link.and_then(Link::session) else {
            let lost = queue.drain(..).count() as u64;
            self.counters.dropped_many(DropReason::LinkDown, lost);
            return false;
        };
        let room = UNDER_WAY.saturating_sub(Session::unacknowledged(session));
        let more: Vec<Message> = queue.drain(..room.min(queue.len())).collect();
        let any = !more.is_empty();
        for message in more {
            self.links.send(id, message, self.now);
        }
        any
    }
}
