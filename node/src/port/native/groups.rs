//! Groups: a stream that many clients of one segment receive leaves once, for all who hear it.
//!
//! Make before break: a group carries beacons until a client says that it hears them; only then
//! its own copies end, and they begin again as soon as it says that it hears nothing, which both
//! ends notice within half a second.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sangam_io::pool::Packet;
use sangam_io::port::PeerKey;
use sangam_io::udp::Address;
use sangam_model::limits::{DATAGRAM_LEN_SAFE, GROUPS_PER_CLIENT};
use sangam_model::{StreamId, Time, Topic};
use sangam_wire::{Frame, Group, Message};

use crate::counters::Counters;
use crate::segment::{Segment, Sources};

/// How often a group without events carries a beacon: a client misses three in a row before it
/// takes the group for dead.
const BEACON: Duration = Duration::from_millis(100);
/// How often it is looked whether one is due.
const TICK: Duration = Duration::from_millis(50);
/// The same while nobody hears the group: enough to notice when the network lets it pass again.
const BEACON_UNHEARD: Duration = Duration::from_secs(1);
/// How long beacons come quickly after somebody was asked to join: IGMP and switches take a while.
const LIVELY: Duration = Duration::from_secs(2);
/// How long a group with too few clients stays: who comes and goes shall not move the others.
const LINGER: Duration = Duration::from_secs(10);

/// The groups of one port.
pub(super) struct Groups {
    segment: Arc<Segment>,
    sources: Sources,
    counters: Arc<Counters>,
    crowds: HashMap<StreamId, Crowd>,
    /// Streams that have a group; no more than there are groups.
    opened: Vec<StreamId>,
    /// Streams of each client that is in a crowd.
    places: HashMap<PeerKey, Place>,
    /// What clients are to be told.
    messages: VecDeque<(PeerKey, Message)>,
    /// Reused by every delivery.
    apart: Vec<PeerKey>,
    tick: Option<Time>,
}

/// Those who could hear a group of one stream.
struct Crowd {
    /// No path to any of them takes less.
    datagram_max: u16,
    members: HashMap<PeerKey, Member>,
    open: Option<Open>,
}

#[derive(Default)]
struct Place {
    streams: Vec<StreamId>,
    invited: usize,
}

struct Member {
    datagram_max: u16,
    standing: Standing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Apart,
    Invited,
    Hears,
}

/// A group in use.
struct Open {
    group: Group,
    to: Address,
    /// A bit for each client that hears it.
    hears: Vec<u64>,
    /// Those who hear it since the last burst began.
    joining: Vec<PeerKey>,
    listeners: u64,
    /// The last event of the burst that was sent last, which goes to the group once, however
    /// many slices its receivers are served in.
    last: Option<u16>,
    sent: Time,
    lively: Time,
    /// Since it has too few members.
    thin: Option<Time>,
}

/// Where one burst goes.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    pub(super) stream: StreamId,
    pub(super) to: Address,
    pub(super) datagram_max: u16,
    /// An earlier slice brought the burst there.
    pub(super) done: bool,
    last: u16,
}

impl Groups {
    pub(super) fn new(segment: Arc<Segment>, sources: Sources, counters: Arc<Counters>) -> Self {
        Self {
            segment,
            sources,
            counters,
            crowds: HashMap::new(),
            opened: Vec::new(),
            places: HashMap::new(),
            messages: VecDeque::new(),
            apart: Vec::new(),
            tick: None,
        }
    }

    /// The next thing to tell a client.
    pub(super) fn message(&mut self) -> Option<(PeerKey, Message)> {
        self.messages.pop_front()
    }

    /// A client that can hear groups gets a stream from now on.
    pub(super) fn announced(
        &mut self,
        (peer, datagram_max): (PeerKey, u16),
        (stream, topic): (StreamId, &Topic),
        now: Time,
    ) {
        let config = &self.segment.config;
        let wanted = config.topics.iter().any(|filter| filter.matches(topic));
        // Who takes less would have everybody's events cut to pieces.
        if !wanted || usize::from(datagram_max) < DATAGRAM_LEN_SAFE {
            return;
        }
        let crowd = self.crowds.entry(stream).or_insert_with(Crowd::new);
        if crowd.members.contains_key(&peer) {
            return;
        }
        let standing = Standing::Apart;
        let member = Member {
            datagram_max,
            standing,
        };
        crowd.members.insert(peer, member);
        crowd.datagram_max = crowd.datagram_max.min(datagram_max);
        self.places.entry(peer).or_default().streams.push(stream);
        let (members, clients) = (crowd.members.len(), config.clients);
        match &mut crowd.open {
            Some(open) => {
                open.thin = open.thin.filter(|_| is_thin(members, clients));
                self.invite(peer, stream, now);
            }
            None if members >= clients => self.open(stream, now),
            None => {}
        }
    }

    /// A client gets a stream no more; it knows, and leaves the group by itself.
    pub(super) fn retired(&mut self, peer: PeerKey, stream: StreamId, now: Time) {
        let Some(place) = self.places.get_mut(&peer) else {
            return;
        };
        place.streams.retain(|other| *other != stream);
        if place.streams.is_empty() {
            self.places.remove(&peer);
        }
        self.leave(peer, stream, now);
    }

    /// A client left.
    pub(super) fn gone(&mut self, peer: PeerKey, now: Time) {
        let Some(place) = self.places.remove(&peer) else {
            return;
        };
        for stream in place.streams {
            self.leave(peer, stream, now);
        }
        self.messages.retain(|(other, _)| *other != peer);
    }

    /// A client hears a group, or does no longer. Who was not asked to, or not any more, is passed
    /// over.
    pub(super) fn hearing(&mut self, peer: PeerKey, stream: StreamId, hears: bool) {
        let Some(crowd) = self.crowds.get_mut(&stream) else {
            return;
        };
        let (Some(open), Some(member)) = (&mut crowd.open, crowd.members.get_mut(&peer)) else {
            return;
        };
        let standing = &mut member.standing;
        match (*standing, hears) {
            (Standing::Invited, true) => {
                *standing = Standing::Hears;
                open.add_listener(peer);
                self.counters.group_listeners.add(1);
            }
            (Standing::Hears, false) => {
                *standing = Standing::Invited;
                open.drop_listener(peer);
                self.counters.group_listeners.sub(1);
                self.counters.group_falls.add(1);
            }
            (Standing::Apart, _) | (Standing::Invited, false) | (Standing::Hears, true) => {}
        }
    }

    /// Where a burst goes besides to those apart; `None` if it has no group that anybody hears.
    pub(super) fn turn(&mut self, burst: &[Packet]) -> Option<Turn> {
        let stream = burst.first()?.header().ok()?.stream;
        let crowd = self.crowds.get_mut(&stream)?;
        let open = crowd.open.as_mut()?;
        let last = burst.last()?.header().ok()?.sequence;
        let done = open.last == Some(last);
        if !done {
            // Whoever began to hear it amid a burst may have missed the burst's turn there.
            open.take_listeners();
        }
        (open.listeners > 0).then_some(Turn {
            stream,
            to: open.to,
            datagram_max: crowd.datagram_max,
            done,
            last,
        })
    }

    /// The burst went to the group.
    pub(super) fn sent(&mut self, turn: &Turn, packets: usize, now: Time) {
        let crowd = self.crowds.get_mut(&turn.stream);
        if let Some(open) = crowd.and_then(|crowd| crowd.open.as_mut()) {
            open.last = Some(turn.last);
            open.sent = now;
            self.counters.group_packets.add(packets as u64);
            let heard = open.listeners * packets as u64;
            self.counters.group_deliveries.add(heard);
        }
    }

    /// Those of `peers` who do not hear the group; to be given back by [`Self::reuse`].
    pub(super) fn apart(&mut self, stream: StreamId, peers: &[PeerKey]) -> Vec<PeerKey> {
        let mut apart = std::mem::take(&mut self.apart);
        apart.clear();
        let crowd = self.crowds.get(&stream);
        let open = crowd.and_then(|crowd| crowd.open.as_ref());
        let hears = |peer: &PeerKey| open.is_some_and(|open| open.is_heard_by(*peer));
        apart.extend(peers.iter().filter(|peer| !hears(peer)));
        apart
    }

    pub(super) fn reuse(&mut self, apart: Vec<PeerKey>) {
        self.apart = apart;
    }

    pub(super) const fn deadline(&self) -> Option<Time> {
        self.tick
    }

    /// Ends groups that are not worth it; whether there is any left to look after.
    pub(super) fn tick(&mut self, now: Time) -> bool {
        for stream in self.opened.clone() {
            let crowd = self.crowds.get(&stream);
            let open = crowd.and_then(|crowd| crowd.open.as_ref());
            let thin = open.and_then(|open| open.thin);
            if thin.is_some_and(|since| now - since >= LINGER) {
                self.close(stream);
            }
        }
        let any = !self.opened.is_empty();
        self.tick = any.then(|| now + TICK);
        any
    }

    /// Shows every beacon that is due, and where it goes.
    pub(super) fn beacons(&mut self, now: Time, mut send: impl FnMut(&[u8], Address)) {
        let mut bytes = Vec::new();
        for stream in &self.opened {
            let crowd = self.crowds.get_mut(stream);
            let Some(open) = crowd.and_then(|crowd| crowd.open.as_mut()) else {
                continue;
            };
            let heard = open.listeners > 0 || !open.joining.is_empty();
            let every = match heard || now < open.lively {
                true => BEACON,
                false => BEACON_UNHEARD,
            };
            if now - open.sent >= every {
                open.sent = now;
                bytes.clear();
                Frame::Beacon { stream: *stream }.encode(&mut bytes);
                send(&bytes, open.to);
            }
        }
    }

    fn open(&mut self, stream: StreamId, now: Time) {
        let Some(ip) = self.sources.free.pop_front() else {
            return self.counters.group_refusals.add(1);
        };
        let Some(crowd) = self.crowds.get_mut(&stream) else {
            return;
        };
        let address = SocketAddr::new(ip, self.segment.config.port);
        crowd.open = Some(Open {
            group: Group {
                address,
                source: self.sources.source,
            },
            to: Address::from(address),
            hears: Vec::new(),
            joining: Vec::new(),
            listeners: 0,
            last: None,
            sent: Time::ZERO,
            lively: now,
            thin: None,
        });
        self.opened.push(stream);
        self.counters.groups.add(1);
        let members: Vec<PeerKey> = crowd.members.keys().copied().collect();
        for peer in members {
            self.invite(peer, stream, now);
        }
        // The first beacon leaves at once.
        self.tick = Some(now);
    }

    fn invite(&mut self, peer: PeerKey, stream: StreamId, now: Time) {
        let (Some(crowd), Some(place)) = (self.crowds.get_mut(&stream), self.places.get_mut(&peer))
        else {
            return;
        };
        let Some(open) = &mut crowd.open else {
            return;
        };
        if place.invited >= GROUPS_PER_CLIENT {
            return self.counters.group_refusals.add(1);
        }
        place.invited += 1;
        if let Some(member) = crowd.members.get_mut(&peer) {
            member.standing = Standing::Invited;
        }
        open.lively = now + LIVELY;
        let group = Some(open.group);
        self.messages
            .push_back((peer, Message::Group { stream, group }));
    }

    fn leave(&mut self, peer: PeerKey, stream: StreamId, now: Time) {
        let Some(crowd) = self.crowds.get_mut(&stream) else {
            return;
        };
        let standing = crowd.remove(peer);
        if let Some(open) = &mut crowd.open {
            if standing == Some(Standing::Hears) {
                open.drop_listener(peer);
                self.counters.group_listeners.sub(1);
            }
            if is_thin(crowd.members.len(), self.segment.config.clients) {
                open.thin.get_or_insert(now);
            }
        }
        if standing.is_some_and(|standing| standing != Standing::Apart)
            && let Some(place) = self.places.get_mut(&peer)
        {
            place.invited -= 1;
        }
        if crowd.members.is_empty() {
            self.close(stream);
            self.crowds.remove(&stream);
        }
    }

    /// Everybody gets copies again, and is told to leave.
    fn close(&mut self, stream: StreamId) {
        let Some(crowd) = self.crowds.get_mut(&stream) else {
            return;
        };
        let Some(open) = crowd.open.take() else {
            return;
        };
        for (peer, member) in &mut crowd.members {
            let before = std::mem::replace(&mut member.standing, Standing::Apart);
            if before == Standing::Apart {
                continue;
            }
            if before == Standing::Hears {
                self.counters.group_listeners.sub(1);
            }
            if let Some(place) = self.places.get_mut(peer) {
                place.invited -= 1;
            }
            let message = Message::Group {
                stream,
                group: None,
            };
            self.messages.push_back((*peer, message));
        }
        self.opened.retain(|other| *other != stream);
        self.counters.groups.sub(1);
        // Last in line: who is late to leave it hears nothing for as long as possible.
        self.sources.free.push_back(open.group.address.ip());
    }
}

impl Crowd {
    fn new() -> Self {
        Self {
            datagram_max: u16::MAX,
            members: HashMap::new(),
            open: None,
        }
    }

    /// What a member was that leaves; without the narrowest longer events leave whole.
    fn remove(&mut self, peer: PeerKey) -> Option<Standing> {
        let left = self.members.remove(&peer)?;
        if left.datagram_max <= self.datagram_max {
            let paths = self.members.values().map(|member| member.datagram_max);
            self.datagram_max = paths.min().unwrap_or(u16::MAX);
        }
        Some(left.standing)
    }
}

impl Open {
    fn is_heard_by(&self, peer: PeerKey) -> bool {
        let (word, bit) = place(peer);
        self.hears.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// Makes room for its bit, too: deliveries allocate nothing.
    fn add_listener(&mut self, peer: PeerKey) {
        let (word, _) = place(peer);
        self.hears.resize(self.hears.len().max(word + 1), 0);
        self.joining.push(peer);
    }

    fn take_listeners(&mut self) {
        for peer in self.joining.drain(..) {
            let (word, bit) = place(peer);
            self.hears[word] |= bit;
            self.listeners += 1;
        }
    }

    fn drop_listener(&mut self, peer: PeerKey) {
        self.joining.retain(|other| *other != peer);
        let (word, bit) = place(peer);
        if let Some(bits) = self.hears.get_mut(word).filter(|bits| **bits & bit != 0) {
            *bits &= !bit;
            self.listeners -= 1;
        }
    }
}

/// Half of what opens a group, so that one client who comes and goes opens and closes none.
const fn is_thin(members: usize, clients: usize) -> bool {
    members <= clients / 2
}

const fn place(peer: PeerKey) -> (usize, u64) {
    ((peer / 64) as usize, 1 << (peer % 64))
}

#[cfg(test)]
#[path = "groups_tests.rs"]
mod tests;
