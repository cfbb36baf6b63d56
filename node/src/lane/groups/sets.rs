//! Sets of neighbours that receive the same, and the group of each: the sending end.
//!
//! Make before break, as for clients: a group carries beacons until a neighbour says that it hears
//! them; only then its own copies end. They begin again when it says that it hears nothing, or
//! when its pongs tell of much loss, and what went to the group lately is sent to it once more.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use sangam_broker::LinkId;
use sangam_io::pool::Packet;
use sangam_io::udp::Address;
use sangam_model::limits::{EVENT_LEN_SMALL, LINKS_PER_BROKER};
use sangam_model::{BrokerId, Incarnation, StreamId, Time};
use sangam_wire::{Frame, Group, Message};

use super::penalty::Penalty;
use crate::counters::Counters;
use crate::segment::Sources;

/// Sets that have a group at a time. Brokers with a few neighbours have a handful.
pub(super) const SETS_MAX: usize = 16;
/// Sets without one whose events are counted.
const WANTED_MAX: usize = 16;
/// Events within [`WORTH_SPAN`] that are worth a group: a voice sends 50, a chat does not.
const WORTH: usize = 20;
const WORTH_SPAN: Duration = Duration::from_secs(1);
/// How often a group carries a beacon, whatever else it carries: a neighbour misses three in a row
/// before it takes the group for dead.
pub(super) const BEACON: Duration = Duration::from_millis(50);
/// The same while nobody hears the group: enough to notice when the network lets it pass again.
const BEACON_UNHEARD: Duration = Duration::from_secs(1);
/// How long beacons come quickly after a group was opened: IGMP and switches take a while.
const LIVELY: Duration = Duration::from_secs(2);
/// A set without events for so long gives its group back.
const IDLE: Duration = Duration::from_secs(10);
/// What went to a group so lately is sent again to who stopped hearing it: longer than a neighbour
/// takes to notice, be it late itself.
const AGAIN: Duration = Duration::from_millis(600);
/// Events kept for that at most, for all groups together. They hold small buffers of the pool; what
/// needs a large one, of which there are few, is not kept.
const AGAIN_MAX: usize = 1_024;
/// Loss is judged once so much was sent to a neighbour,
const JUDGED: u64 = 200;
/// and this share of it, 1 in so many, is more than a segment loses.
const LOSS: u64 = 20;

/// All sets of one broker.
pub(super) struct Sets {
    broker: (BrokerId, Incarnation),
    /// For each of the lane's sockets.
    families: Vec<Option<Sources>>,
    port: u16,
    opened: Vec<Set>,
    wanted: Vec<Wanted>,
    recent: VecDeque<Recent>,
    recent_max: usize,
    penalties: [Penalty; LINKS_PER_BROKER],
    /// Sent and lost on each link since it was judged last.
    losses: [(u64, u64); LINKS_PER_BROKER],
    named: u32,
    messages: VecDeque<(LinkId, Message)>,
    counters: Arc<Counters>,
    tick: Option<Time>,
}

/// Neighbours that receive the same, and their group.
struct Set {
    socket: usize,
    /// By link, as are the next two.
    members: u64,
    /// They say that they hear it.
    say: u64,
    /// And they are believed.
    hear: u64,
    /// What beacons and messages call it.
    name: StreamId,
    group: Group,
    to: Address,
    beacon: Time,
    lively: Time,
    used: Time,
}

/// A set that may become worth a group.
struct Wanted {
    socket: usize,
    members: u64,
    since: Time,
    events: usize,
}

/// An event that went to a group.
struct Recent {
    at: Time,
    name: StreamId,
    heard: u64,
    packet: Packet,
}

/// Where an event goes for all of a set that hear its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) name: StreamId,
    pub(super) to: Address,
    /// A bit for each link; at least two.
    pub(super) hear: u64,
}

impl Sets {
    pub(super) fn new(
        broker: (BrokerId, Incarnation),
        (mut families, port): (Vec<Option<Sources>>, u16),
        recent_max: usize,
        counters: Arc<Counters>,
    ) -> Self {
        for family in families.iter_mut().flatten() {
            // Brokers of one segment had better not all begin with the same group.
            let turn = broker.0.0 as usize % family.free.len().max(1);
            family.free.rotate_left(turn);
        }
        Self {
            broker,
            families,
            port,
            opened: Vec::new(),
            wanted: Vec::new(),
            recent: VecDeque::new(),
            recent_max: recent_max.clamp(1, AGAIN_MAX),
            penalties: [Penalty::default(); LINKS_PER_BROKER],
            losses: [(0, 0); LINKS_PER_BROKER],
            named: 0,
            messages: VecDeque::new(),
            counters,
            tick: None,
        }
    }

    /// The next thing to tell a neighbour.
    pub(super) fn message(&mut self) -> Option<(LinkId, Message)> {
        self.messages.pop_front()
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        match self.messages.is_empty() {
            true => self.tick,
            false => Some(Time::ZERO),
        }
    }

    /// Where events go that are due at the same time on all of these links; `None` if they have no
    /// group that at least two of them hear. A set that has many such events gets one.
    pub(super) fn turn(
        &mut self,
        (socket, members): (usize, u64),
        events: usize,
        now: Time,
    ) -> Option<Turn> {
        let is = |set: &&mut Set| set.members == members && set.socket == socket;
        let Some(set) = self.opened.iter_mut().find(is) else {
            self.want((socket, members), events, now);
            return None;
        };
        set.used = now;
        (set.hear.count_ones() >= 2).then_some(Turn {
            name: set.name,
            to: set.to,
            hear: set.hear,
        })
    }

    /// An event went to a group.
    pub(super) fn sent(&mut self, turn: &Turn, packet: &Packet, now: Time) {
        self.counters.link_groups.packets.add(1);
        let copies = turn.hear.count_ones();
        self.counters.link_groups.deliveries.add(copies.into());
        self.forget(now);
        if packet.len() > EVENT_LEN_SMALL {
            return;
        }
        if self.recent.len() == self.recent_max {
            // Whoever stops hearing its group misses it.
            self.recent.pop_front();
            self.counters.link_groups.forgotten.add(1);
        }
        self.recent.push_back(Recent {
            at: now,
            name: turn.name,
            heard: turn.hear,
            packet: packet.clone(),
        });
    }

    /// The kernel refuses to send to a group: its members have copies again. What went there
    /// lately is shown for each of them.
    pub(super) fn failed(&mut self, name: StreamId, now: Time, again: impl FnMut(LinkId, Packet)) {
        let Some(at) = self.opened.iter().position(|set| set.name == name) else {
            return;
        };
        let hear = self.opened[at].hear;
        for link in links(hear) {
            self.penalties[usize::from(link.0)].add(now);
        }
        self.fall(at, hear, again);
    }

    /// A neighbour hears a group, or does no longer: then what went there lately is shown. A group
    /// that it was not told of, or not any more, is passed over.
    pub(super) fn hearing(
        &mut self,
        (link, name, hears): (LinkId, StreamId, bool),
        now: Time,
        again: impl FnMut(LinkId, Packet),
    ) {
        let bit = 1 << link.0;
        let is = |set: &Set| set.name == name && set.members & bit != 0;
        let Some(at) = self.opened.iter().position(is) else {
            return;
        };
        if !hears {
            self.opened[at].say &= !bit;
            self.penalties[usize::from(link.0)].add(now);
            return self.fall(at, bit, again);
        }
        self.opened[at].say |= bit;
        self.believe(now);
    }

    /// A ping of a link was answered: so much had left since the one before, and so much of it was
    /// lost. Who hears groups but loses much has copies again, and what went to its groups lately.
    pub(super) fn sampled(
        &mut self,
        (link, packets, lost): (LinkId, u64, u64),
        now: Time,
        mut again: impl FnMut(LinkId, Packet),
    ) {
        let (bit, index) = (1 << link.0, usize::from(link.0));
        if !self.opened.iter().any(|set| set.hear & bit != 0) {
            self.losses[index] = (0, 0);
            return;
        }
        let (all, missing) = &mut self.losses[index];
        (*all, *missing) = (*all + packets, *missing + lost);
        if *all < JUDGED {
            return;
        }
        let (all, missing) = std::mem::take(&mut self.losses[index]);
        if missing * LOSS < all {
            return;
        }
        self.penalties[index].add(now);
        for at in 0..self.opened.len() {
            self.fall(at, self.opened[at].hear & bit, &mut again);
        }
    }

    /// A link goes by another way now: its neighbour has left the groups, and gets again what went
    /// there lately.
    pub(super) fn moved(&mut self, link: LinkId, mut again: impl FnMut(LinkId, Packet)) {
        for at in 0..self.opened.len() {
            self.fall(at, 1 << link.0, &mut again);
        }
        self.gone(link);
    }

    /// A link is down.
    pub(super) fn gone(&mut self, link: LinkId) {
        let bit = 1 << link.0;
        let with: Vec<_> = self.opened.iter().map(|set| set.members & bit).collect();
        for at in (0..with.len()).rev().filter(|at| with[*at] != 0) {
            self.close(at);
        }
        self.wanted.retain(|wanted| wanted.members & bit == 0);
        self.messages.retain(|(other, _)| *other != link);
        self.penalties[usize::from(link.0)] = Penalty::default();
        self.losses[usize::from(link.0)] = (0, 0);
    }

    /// Ends groups of which nothing comes any more, and shows the beacons that are due: bytes,
    /// socket and where they go.
    pub(super) fn tick(&mut self, now: Time, mut send: impl FnMut(&[u8], usize, Address)) {
        if self.tick.is_none_or(|at| now < at) {
            return;
        }
        for at in (0..self.opened.len()).rev() {
            if now - self.opened[at].used >= IDLE {
                self.close(at);
            }
        }
        self.believe(now);
        self.forget(now);
        let mut bytes = Vec::new();
        for set in &mut self.opened {
            let every = match set.say != 0 || now < set.lively {
                true => BEACON,
                false => BEACON_UNHEARD,
            };
            if now - set.beacon >= every {
                set.beacon = now;
                bytes.clear();
                Frame::Beacon { stream: set.name }.encode(&mut bytes);
                send(&bytes, set.socket, set.to);
            }
        }
        let any = !self.opened.is_empty() || !self.recent.is_empty();
        self.tick = any.then(|| now + BEACON);
    }

    /// Counts events of a set without a group.
    fn want(&mut self, (socket, members): (usize, u64), events: usize, now: Time) {
        let is = |one: &Wanted| one.members == members && one.socket == socket;
        let at = match self.wanted.iter().position(is) {
            Some(at) => at,
            None => {
                if self.wanted.len() == WANTED_MAX {
                    // The one that began to be counted longest ago.
                    self.wanted.remove(0);
                }
                self.wanted.push(Wanted {
                    socket,
                    members,
                    since: now,
                    events: 0,
                });
                self.wanted.len() - 1
            }
        };
        let one = &mut self.wanted[at];
        if now - one.since > WORTH_SPAN {
            (one.since, one.events) = (now, 0);
        }
        one.events += events;
        if one.events >= WORTH {
            self.wanted.remove(at);
            self.open(socket, members, now);
        }
    }

    fn open(&mut self, socket: usize, members: u64, now: Time) {
        if self.opened.len() == SETS_MAX && !self.make_room(now) {
            return self.counters.link_groups.refusals.add(1);
        }
        let family = self.families.get_mut(socket).and_then(Option::as_mut);
        let free = family.and_then(|family| Some((family.free.pop_front()?, family.source)));
        let Some((ip, source)) = free else {
            return self.counters.link_groups.refusals.add(1);
        };
        let address = (ip, self.port).into();
        let group = Group { address, source };
        let name = StreamId::new(self.broker.0, self.broker.1, self.named);
        self.named = self.named.wrapping_add(1);
        for link in links(members) {
            let group = Some(group);
            let message = Message::Group {
                stream: name,
                group,
            };
            self.messages.push_back((link, message));
        }
        self.opened.push(Set {
            socket,
            members,
            say: 0,
            hear: 0,
            name,
            group,
            to: Address::from(address),
            beacon: Time::ZERO,
            lively: now + LIVELY,
            used: now,
        });
        self.counters.link_groups.groups.add(1);
        // The first beacon leaves at once.
        self.tick = Some(now);
    }

    /// Ends a group that fewer than two have come to hear; whether there was one.
    fn make_room(&mut self, now: Time) -> bool {
        let is = |set: &Set| set.hear.count_ones() < 2 && now >= set.lively;
        let useless = self.opened.iter().position(is);
        if let Some(at) = useless {
            self.close(at);
        }
        useless.is_some()
    }

    /// Lets those hear groups who say so and whose penalty is over.
    fn believe(&mut self, now: Time) {
        for set in &mut self.opened {
            for link in links(set.say & !set.hear) {
                if self.penalties[usize::from(link.0)].is_over(now) {
                    set.hear |= 1 << link.0;
                    self.counters.link_groups.listeners.add(1);
                }
            }
        }
    }

    /// These have copies again.
    fn fall(&mut self, at: usize, who: u64, mut again: impl FnMut(LinkId, Packet)) {
        let set = &mut self.opened[at];
        let who = who & set.hear;
        set.hear &= !who;
        let fallen = u64::from(who.count_ones());
        self.counters.link_groups.listeners.sub(fallen);
        self.counters.link_groups.falls.add(fallen);
        let name = set.name;
        for recent in self.recent.iter().filter(|recent| recent.name == name) {
            for link in links(recent.heard & who) {
                self.counters.link_groups.again.add(1);
                again(link, recent.packet.clone());
            }
        }
    }

    /// Everybody has copies again, and is told to leave.
    fn close(&mut self, at: usize) {
        let set = self.opened.remove(at);
        let heard = u64::from(set.hear.count_ones());
        self.counters.link_groups.listeners.sub(heard);
        self.counters.link_groups.groups.sub(1);
        for link in links(set.members) {
            let message = Message::Group {
                stream: set.name,
                group: None,
            };
            self.messages.push_back((link, message));
        }
        if let Some(Some(family)) = self.families.get_mut(set.socket) {
            // Last in line: who is late to leave it hears nothing for as long as possible.
            family.free.push_back(set.group.address.ip());
        }
    }

    fn forget(&mut self, now: Time) {
        while let Some(oldest) = self.recent.front()
            && now - oldest.at > AGAIN
        {
            self.recent.pop_front();
        }
    }
}

/// The links of a bit set.
pub(super) fn links(mut bits: u64) -> impl Iterator<Item = LinkId> {
    std::iter::from_fn(move || {
        let next = (bits != 0).then(|| bits.trailing_zeros())?;
        bits &= bits - 1;
        Some(LinkId(next as u16))
    })
}

#[cfg(test)]
#[path = "sets_tests.rs"]
mod tests;
