//! The links of this broker, and what each has yet to be told.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use sangam_model::{BrokerId, Measured, Time};
use sangam_route::Weigher;
use sangam_wire::{LinkView, Message, Version};

use super::joins::Key;
use crate::LinkId;
use crate::outbox::{Outbox, Pace};

/// Half a control channel's queue at once, then, at ten records in a frame, a sixth of what 32
/// frames in a round trip of 100 ms carry.
const PACE: Pace = Pace {
    burst: 512,
    every: Duration::from_millis(2),
};
/// Whole messages that may wait for a link; what is routed is repeated by its sender.
const WAITING_MAX: usize = 4_096;

#[derive(Debug, Default)]
pub(super) struct Links {
    links: BTreeMap<LinkId, Link>,
    /// Weights of links by neighbour, as operators fixed them.
    pinned: BTreeMap<LinkId, u16>,
}

/// A link that is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkRoute {
    /// Its number.
    pub link: LinkId,
    /// The neighbour.
    pub peer: BrokerId,
    /// What crossing it costs.
    pub weight: u16,
}

/// What a link is told about when its turn comes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Item {
    /// A broker's record.
    State(BrokerId),
    /// What we want of a tree.
    Tree(Key),
}

#[derive(Debug)]
pub(super) struct Link {
    pub(super) peer: BrokerId,
    weigher: Weigher,
    outbox: Outbox<Item>,
    /// Messages that are made already: digests, routed ones, parts of a join.
    waiting: VecDeque<Message>,
    /// What the neighbour's map holds, while it tells it.
    pub(super) digest: BTreeMap<BrokerId, Version>,
}

impl Links {
    pub(super) fn up(&mut self, id: LinkId, peer: BrokerId, now: Time) {
        let link = Link {
            peer,
            weigher: Weigher::new(self.pinned.get(&id).copied()),
            outbox: Outbox::new(now, PACE),
            waiting: VecDeque::new(),
            digest: BTreeMap::new(),
        };
        self.links.insert(id, link);
    }

    /// Whether it was up.
    pub(super) fn down(&mut self, id: LinkId) -> bool {
        self.links.remove(&id).is_some()
    }

    pub(super) fn is_up(&self, id: LinkId) -> bool {
        self.links.contains_key(&id)
    }

    pub(super) fn get_mut(&mut self, id: LinkId) -> Option<&mut Link> {
        self.links.get_mut(&id)
    }

    pub(super) fn peer(&self, id: LinkId) -> Option<BrokerId> {
        self.links.get(&id).map(|link| link.peer)
    }

    pub(super) fn with_peer(&self, peer: BrokerId) -> Option<LinkId> {
        let found = self.links.iter().find(|(_, link)| link.peer == peer);
        found.map(|(id, _)| *id)
    }

    pub(super) fn views(&self) -> Vec<LinkView> {
        let mut views: Vec<_> = self
            .links
            .values()
            .map(|link| LinkView {
                to: link.peer,
                weight: link.weigher.weight(),
            })
            .collect();
        views.sort_by_key(|view| view.to);
        views
    }

    pub(super) fn routes(&self) -> impl Iterator<Item = LinkRoute> + '_ {
        self.links.iter().map(|(id, link)| LinkRoute {
            link: *id,
            peer: link.peer,
            weight: link.weigher.weight(),
        })
    }

    /// Whether the weight changed.
    pub(super) fn measure(&mut self, id: LinkId, now: Time, measured: &Measured) -> bool {
        self.links
            .get_mut(&id)
            .is_some_and(|link| link.weigher.measure(now, measured))
    }

    /// Whether the weight changed. It holds for the link whenever it is up.
    pub(super) fn pin(&mut self, id: LinkId, weight: Option<u16>) -> bool {
        match weight {
            Some(weight) => self.pinned.insert(id, weight.max(1)),
            None => self.pinned.remove(&id),
        };
        self.links
            .get_mut(&id)
            .is_some_and(|link| link.weigher.pin(weight))
    }

    pub(super) fn tell(&mut self, id: LinkId, item: Item) {
        if let Some(link) = self.links.get_mut(&id) {
            link.outbox.push(item);
        }
    }

    /// Tells all but one.
    pub(super) fn tell_all(&mut self, but: Option<LinkId>, item: &Item) {
        for (_, link) in self.links.iter_mut().filter(|(id, _)| Some(**id) != but) {
            link.outbox.push(item.clone());
        }
    }

    /// Queues a message as it is; whether there was room.
    pub(super) fn send(&mut self, id: LinkId, message: Message) -> bool {
        let Some(link) = self.links.get_mut(&id) else {
            return false;
        };
        let room = link.waiting.len() < WAITING_MAX;
        if room {
            link.waiting.push_back(message);
        }
        room
    }

    pub(super) fn refill(&mut self, now: Time) {
        for link in self.links.values_mut() {
            link.outbox.refill(now);
        }
    }

    /// A link that waits for something and may be told it.
    pub(super) fn ready(&self) -> Option<LinkId> {
        let ready = |link: &Link| link.outbox.may_send() && link.waits();
        let found = self.links.iter().find(|(_, link)| ready(link));
        found.map(|(id, _)| *id)
    }

    pub(super) fn deadline(&self) -> Time {
        let waiting = self.links.values().filter(|link| link.waits());
        let ready = waiting.map(|link| link.outbox.ready());
        ready.min().unwrap_or(Time::NEVER)
    }
}

impl Link {
    /// A message that is made already.
    pub(super) fn next_waiting(&mut self) -> Option<Message> {
        let message = self.waiting.pop_front()?;
        self.outbox.spend();
        Some(message)
    }

    /// The next thing to make a message about.
    pub(super) fn next_item(&mut self) -> Option<Item> {
        self.outbox.pop()
    }

    pub(super) const fn spend(&mut self) {
        self.outbox.spend();
    }

    /// Queues the later parts of something whose first part leaves now.
    pub(super) fn follow(&mut self, parts: impl IntoIterator<Item = Message>) {
        for part in parts.into_iter().collect::<Vec<_>>().into_iter().rev() {
            self.waiting.push_front(part);
        }
    }

    fn waits(&self) -> bool {
        !self.waiting.is_empty() || !self.outbox.is_empty()
    }
}
