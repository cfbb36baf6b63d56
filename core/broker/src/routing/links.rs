//! The links of this broker, and what each has yet to be told.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use sangam_model::{BrokerId, Measured, Scope, Time};
use sangam_route::Weigher;
use sangam_wire::{LinkView, Message, Version};

use super::joins::Key;
use super::pins::{PinnedBy, Pins};
use crate::LinkId;
use crate::outbox::{Outbox, Pace};

/// Half a control channel's queue at once, then, at ten records in a frame, a sixth of what 32
/// frames in a round trip of 100 ms carry.
const PACE: Pace = Pace {
    burst: 512,
    every: Duration::from_millis(2),
};
/// What a neighbour only lacks, and what is told again though nothing changed, leaves at 8 KB a
/// second, counted in bytes: below 1 % of 10 Mb/s, as nobody waits for it. A burst is a network of
/// forty brokers.
const BACKLOG: Pace = Pace {
    burst: 3_000,
    every: Duration::from_micros(125),
};
/// Past the burst it leaves by frames: alone each record would cost as much again for headers.
const BACKLOG_FRAME: i32 = 1_000;
/// A message's length and kind.
const MESSAGE_HEAD: usize = 3;
/// Routed messages are short, forty to a frame, so eight times as many of them may leave: when a
/// partition heals every session is told to a new directory.
const ROUTED: Pace = Pace {
    burst: 256,
    every: Duration::from_micros(250),
};
/// Past the burst they leave by frames, too.
const ROUTED_FRAME: i32 = 64;
/// Routed messages that may wait for a link; they are repeated by their senders.
const WAITING_MAX: usize = 16_384;

#[derive(Debug, Default)]
pub(super) struct Links {
    links: BTreeMap<LinkId, Link>,
    pub(super) pins: Pins,
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
    /// Who fixed that, if it is not measured.
    pub pinned: Option<PinnedBy>,
}

/// What a link is told about when its turn comes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Item {
    /// A broker's record.
    State(BrokerId),
    /// What we want of a tree.
    Tree(Key),
}

/// What a routed message is about: a later one of the same says more.
type Routed = (BrokerId, BrokerId, Scope, Option<u8>);

#[derive(Debug)]
pub(super) struct Link {
    pub(super) peer: BrokerId,
    suspect: bool,
    weigher: Weigher,
    outbox: Outbox<Item>,
    /// Parts of a join whose first part has left.
    parts: VecDeque<Message>,
    /// Routed messages. Records and joins go before them: media waits for those, while the
    /// directory only introduces, and repeats itself. What is told again while it waits takes
    /// the place of what was told before.
    waiting: BTreeMap<Routed, Message>,
    routed: Outbox<Routed>,
    /// What routed messages may use was used up, and is less than a frame yet.
    gathers: bool,
    /// Parts of our digest that were not sent yet.
    digests: VecDeque<Message>,
    /// Records that the neighbour lacks, or that are told again.
    backlog: Outbox<BrokerId>,
    /// What the backlog may send was used up, and is less than a frame yet.
    rests: bool,
    /// Brokers of which the neighbour's map holds a record, while it tells them.
    pub(super) listed: BTreeSet<BrokerId>,
}

impl Links {
    pub(super) fn up(&mut self, id: LinkId, peer: BrokerId, now: Time) {
        let link = Link {
            peer,
            suspect: false,
            weigher: Weigher::new(self.pins.get(peer).map(|(_, weight)| weight)),
            outbox: Outbox::new(now, PACE),
            parts: VecDeque::new(),
            waiting: BTreeMap::new(),
            routed: Outbox::new(now, ROUTED),
            gathers: false,
            digests: VecDeque::new(),
            backlog: Outbox::new(now, BACKLOG),
            rests: false,
            listed: BTreeSet::new(),
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

    /// Takes a link for one that may be dead; whom it leads to.
    pub(super) fn doubt(&mut self, id: LinkId) -> Option<BrokerId> {
        let link = self.links.get_mut(&id)?;
        link.suspect = true;
        Some(link.peer)
    }

    pub(super) fn trust(&mut self, id: LinkId) {
        if let Some(link) = self.links.get_mut(&id) {
            link.suspect = false;
        }
    }

    /// Whether a link may be dead.
    pub(super) fn is_suspect(&self, id: LinkId) -> bool {
        self.links.get(&id).is_some_and(|link| link.suspect)
    }

    /// Whether there is a link to this neighbour that is not in doubt.
    pub(super) fn is_well(&self, peer: BrokerId) -> bool {
        let link = self.links.values().find(|link| link.peer == peer);
        link.is_some_and(|link| !link.suspect)
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
            pinned: self.pins.get(link.peer).map(|(by, _)| by),
        })
    }

    /// Whether the weight changed.
    pub(super) fn measure(&mut self, id: LinkId, now: Time, measured: &Measured) -> bool {
        self.links
            .get_mut(&id)
            .is_some_and(|link| link.weigher.measure(now, measured))
    }

    /// Whether the weight of a link that is up changed; `None` if there was no room. It holds for
    /// this neighbour whenever there is a link to it.
    pub(super) fn pin(
        &mut self,
        peer: BrokerId,
        (by, weight): (PinnedBy, Option<u16>),
    ) -> Option<bool> {
        if !self.pins.set(peer, by, weight) {
            return None;
        }
        let held = self.pins.get(peer).map(|(_, weight)| weight);
        let links = self.links.values_mut().filter(|link| link.peer == peer);
        let changed = links.filter_map(|link| link.weigher.pin(held).then_some(()));
        Some(changed.count() > 0)
    }

    pub(super) fn tell(&mut self, id: LinkId, item: Item) {
        if let Some(link) = self.links.get_mut(&id) {
            link.outbox.push(item);
        }
    }

    /// Tells all.
    pub(super) fn tell_all(&mut self, item: &Item) {
        for link in self.links.values_mut() {
            link.outbox.push(item.clone());
        }
    }

    /// Tells a record to all but who told it, and those that `spares` names by neighbour and
    /// weight: at once if there is `haste`.
    pub(super) fn spread(
        &mut self,
        (from, origin): (LinkId, BrokerId),
        haste: bool,
        spares: impl Fn((BrokerId, u16)) -> bool,
    ) {
        for (id, link) in &mut self.links {
            if *id == from || spares((link.peer, link.weigher.weight())) {
                continue;
            }
            match haste {
                true => link.outbox.push(Item::State(origin)),
                false => link.owe(origin),
            }
        }
    }

    /// The neighbour has our record of this broker.
    pub(super) fn knows(&mut self, id: LinkId, origin: BrokerId) {
        if let Some(link) = self.links.get_mut(&id) {
            link.outbox.cancel(&Item::State(origin));
            link.backlog.cancel(&origin);
        }
    }

    /// Queues a routed message as it is; whether there was room.
    pub(super) fn send(&mut self, id: LinkId, message: Message) -> bool {
        let Some(link) = self.links.get_mut(&id) else {
            return false;
        };
        let Some(about) = about(&message) else {
            return false;
        };
        let room = link.waiting.len() < WAITING_MAX || link.waiting.contains_key(&about);
        if room {
            link.drop_parts(&about);
            link.routed.push(about.clone());
            link.waiting.insert(about, message);
        }
        room
    }

    pub(super) fn refill(&mut self, now: Time) {
        for link in self.links.values_mut() {
            link.outbox.refill(now);
            link.backlog.refill(now);
            link.routed.refill(now);
        }
    }

    /// A link that waits for something and may be told it.
    pub(super) fn ready(&self) -> Option<LinkId> {
        let ready = |link: &Link| link.has_news() || link.has_routed() || link.has_backlog();
        let found = self.links.iter().find(|(_, link)| ready(link));
        found.map(|(id, _)| *id)
    }

    pub(super) fn deadline(&self) -> Time {
        let ready = self.links.values().map(Link::ready);
        ready.min().unwrap_or(Time::NEVER)
    }
}

impl Link {
    /// The next part of what has begun.
    pub(super) fn next_part(&mut self) -> Option<Message> {
        let message = self.parts.pop_front()?;
        self.outbox.spend();
        Some(message)
    }

    /// A routed message, once there is no news.
    pub(super) fn next_routed(&mut self) -> Option<Message> {
        let about = self.routed.pop()?;
        self.routed.spend();
        self.gathers = !self.routed.may_send();
        self.waiting.remove(&about)
    }

    /// The next thing to make a message about, once there is no such part.
    pub(super) fn next_item(&mut self) -> Option<Item> {
        self.outbox.pop()
    }

    pub(super) const fn spend(&mut self) {
        self.outbox.spend();
    }

    /// Part of our digest that is not sent yet.
    pub(super) fn next_digest(&mut self) -> Option<Message> {
        let message = self.digests.pop_front()?;
        if let Message::Digest { entries, .. } = &message {
            self.pay(entries.len() * size_of::<Version>());
        }
        Some(message)
    }

    /// A broker whose record the neighbour lacks.
    pub(super) fn next_owed(&mut self) -> Option<BrokerId> {
        self.backlog.pop()
    }

    /// Pays for a message of the backlog of about so many bytes.
    pub(super) fn pay(&mut self, bytes: usize) {
        // Messages have at most 1,100 bytes.
        self.backlog.spend_many((bytes + MESSAGE_HEAD) as i32);
        self.rests = !self.backlog.may_send();
    }

    /// Tells the neighbour of a record, without haste.
    pub(super) fn owe(&mut self, origin: BrokerId) {
        self.backlog.push(origin);
    }

    /// A record has been told.
    pub(super) fn told(&mut self, origin: BrokerId) {
        self.backlog.cancel(&origin);
    }

    pub(super) fn tell_digest(&mut self, parts: impl IntoIterator<Item = Message>) {
        self.digests.extend(parts);
    }

    /// Queues the later parts of something whose first part leaves now.
    pub(super) fn follow(&mut self, parts: impl IntoIterator<Item = Message>) {
        self.parts.extend(parts);
    }

    pub(super) fn has_news(&self) -> bool {
        self.outbox.may_send() && self.waits()
    }

    /// Further parts of an older answer do not follow the first of a newer one.
    fn drop_parts(&mut self, about: &Routed) {
        let (to, from, scope, Some(0)) = about else {
            return;
        };
        let part = |part| (*to, *from, scope.clone(), Some(part));
        let later = self.waiting.range(part(1)..=part(u8::MAX));
        for part in later.map(|(part, _)| part.clone()).collect::<Vec<_>>() {
            self.waiting.remove(&part);
            self.routed.cancel(&part);
        }
    }

    pub(super) fn has_routed(&self) -> bool {
        let least = if self.gathers { ROUTED_FRAME } else { 1 };
        self.routed.has(least) && !self.routed.is_empty()
    }

    fn has_backlog(&self) -> bool {
        let least = if self.rests { BACKLOG_FRAME } else { 1 };
        self.backlog.has(least) && self.owes()
    }

    fn ready(&self) -> Time {
        let news = self.waits().then(|| self.outbox.ready());
        let least = if self.gathers { ROUTED_FRAME } else { 1 };
        let routed = (!self.routed.is_empty()).then(|| self.routed.ready_for(least));
        let least = if self.rests { BACKLOG_FRAME } else { 1 };
        let backlog = self.owes().then(|| self.backlog.ready_for(least));
        let all = news.into_iter().chain(routed).chain(backlog);
        all.min().unwrap_or(Time::NEVER)
    }

    fn waits(&self) -> bool {
        !(self.parts.is_empty() && self.outbox.is_empty())
    }

    fn owes(&self) -> bool {
        !self.digests.is_empty() || !self.backlog.is_empty()
    }
}

/// `None` if it is not routed.
fn about(message: &Message) -> Option<Routed> {
    let (route, scope, part) = match message {
        Message::Register(register) => (register.route, &register.scope, None),
        Message::Sources(sources) => (sources.route, &sources.scope, Some(sources.part)),
        _ => return None,
    };
    Some((route.to, route.from, scope.clone(), part))
}
