//! The links to neighbour brokers: dialled or accepted, watched, and given up.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use sangam_broker::LinkId;
use sangam_io::udp::Address;
use sangam_link::{
    Asks, Backoff, DialInput, Dialer, DialerConfig, Input, Reassembler, Session, SessionConfig,
    Timing,
};
use sangam_model::limits::LINKS_PER_BROKER;
use sangam_model::{BrokerId, Time};
use sangam_wire::{Capabilities, Hello, Message, Role};

use super::dial::Rungs;
use super::link::{End, Link, SHOW_EVERY, Via};
use super::outbox::Outboxes;
use crate::broker::LinkInfo;
use crate::config::{BrokerConfig, LinkWay, Neighbour};
use crate::welcome::Greeting;

/// All neighbours, by number and by address.
#[derive(Debug)]
pub(crate) struct LinkTable {
    pub(super) greeting: Greeting,
    /// Family of each socket: whether it is IPv6.
    sockets: Vec<bool>,
    pub(super) links: Vec<Option<Link>>,
    addresses: HashMap<SocketAddr, LinkId>,
    /// With whom there is no link.
    pub(super) forbidden: BTreeSet<BrokerId>,
    shown: Arc<Mutex<Vec<LinkInfo>>>,
    show_at: Time,
    seed: u64,
}

impl LinkTable {
    /// A table with the neighbours that the configuration names.
    pub(crate) fn of(
        config: &BrokerConfig,
        (greeting, udp): (&Greeting, &[SocketAddr]),
        shown: Arc<Mutex<Vec<LinkInfo>>>,
    ) -> Self {
        let mut links = Self {
            greeting: greeting.clone(),
            sockets: udp.iter().map(SocketAddr::is_ipv6).collect(),
            links: Vec::new(),
            addresses: HashMap::new(),
            forbidden: config.rules.forbidden.clone(),
            shown,
            show_at: Time::ZERO,
            seed: config.seed(),
        };
        let plain = config.links.iter().map(|address| Neighbour::from(*address));
        for neighbour in plain.chain(config.neighbours.iter().cloned()) {
            if links.add_neighbour(&neighbour).is_none() {
                let address = neighbour.home();
                tracing::warn!(
                    ?address,
                    "a link is configured twice, or for another address family"
                );
            }
        }
        // A seed that is configured as a link, too, stays.
        for seed in &config.join {
            links.add_organised(seed);
        }
        links
    }

    /// Adds a neighbour to dial; `None` if no socket has its address family, or it is known.
    pub(crate) fn add_neighbour(&mut self, neighbour: &Neighbour) -> Option<LinkId> {
        let home = neighbour.home()?;
        if self.by_home(home).is_some() || self.addresses.contains_key(&home) {
            return None;
        }
        let rungs = Rungs::new(neighbour.ways.clone());
        let id = self.add_way(neighbour.ways.first()?, Capabilities::OURS)?;
        self.get_mut(id)?.rungs = Some(rungs);
        Some(id)
    }

    /// The same until control ends it.
    pub(crate) fn add_organised(&mut self, neighbour: &Neighbour) -> Option<LinkId> {
        let id = self.add_neighbour(neighbour)?;
        self.get_mut(id)?.organised = true;
        Some(id)
    }

    /// An entry that dials one way.
    pub(super) fn add_way(&mut self, way: &LinkWay, asked: Capabilities) -> Option<LinkId> {
        let end = End::Dialing(Box::new(self.dialer(way, asked)));
        match way {
            LinkWay::Udp(address) => self.add(*address, end),
            _ => self.place(way.address(), end, Via::of(way)),
        }
    }

    /// Puts a link that is down on another way.
    pub(super) fn set_way(&mut self, id: LinkId, way: &LinkWay) {
        let dialer = self.dialer(way, Capabilities::OURS);
        let (address, datagram_max) = (way.address(), self.greeting.datagram_max);
        let socket = self.socket_for(address).unwrap_or_default();
        let Some(link) = self
            .links
            .get_mut(usize::from(id.0))
            .and_then(Option::as_mut)
        else {
            return;
        };
        if let Via::Datagrams = link.via
            && self.addresses.get(&link.address) == Some(&id)
        {
            self.addresses.remove(&link.address);
        }
        (link.address, link.wire, link.socket) = (address, Address::from(address), socket);
        (link.end, link.via) = (End::Dialing(Box::new(dialer)), Via::of(way));
        (link.datagram_max, link.reassembler) = (datagram_max.into(), Reassembler::default());
        link.near = false;
        if let Via::Datagrams = link.via {
            // Whoever called from there stays.
            self.addresses.entry(address).or_insert(id);
        }
    }

    /// Gives the way of each to the other.
    pub(super) fn exchange(&mut self, one: LinkId, other: LinkId) {
        let (one, other) = (usize::from(one.0), usize::from(other.0));
        let Ok([Some(a), Some(b)]) = self.links.get_disjoint_mut([one, other]) else {
            return;
        };
        std::mem::swap(&mut a.address, &mut b.address);
        std::mem::swap(&mut a.wire, &mut b.wire);
        std::mem::swap(&mut a.socket, &mut b.socket);
        std::mem::swap(&mut a.datagram_max, &mut b.datagram_max);
        std::mem::swap(&mut a.end, &mut b.end);
        std::mem::swap(&mut a.via, &mut b.via);
        std::mem::swap(&mut a.reassembler, &mut b.reassembler);
        std::mem::swap(&mut a.near, &mut b.near);
        for (index, link) in [(one, a), (other, b)] {
            if let Via::Datagrams = link.via {
                self.addresses.insert(link.address, LinkId(index as u16));
            }
        }
    }

    /// The link that is ours to dial at this address.
    pub(super) fn by_home(&self, home: SocketAddr) -> Option<LinkId> {
        let is = |link: &Link| link.rungs.as_ref().and_then(Rungs::home) == Some(home);
        self.find(is)
    }

    /// Whether a neighbour has this address for datagrams, though perhaps another way is in use.
    pub(super) fn is_neighbour(&self, address: SocketAddr) -> bool {
        let way = LinkWay::Udp(address);
        let has = |link: &Link| link.rungs.as_ref().is_some_and(|rungs| rungs.has(&way));
        self.find(has).is_some()
    }

    fn find(&self, is: impl Fn(&Link) -> bool) -> Option<LinkId> {
        let found = |link: &Option<Link>| link.as_ref().is_some_and(&is);
        let index = self.links.iter().position(found)?;
        Some(LinkId(index as u16))
    }

    /// The link by QUIC to this address.
    pub(super) fn by_quic(&self, address: SocketAddr) -> Option<LinkId> {
        self.find(|link| link.quic().is_some() && link.address == address && link.second.is_none())
    }

    /// A link that was accepted. `None` if there are too many.
    pub(super) fn add_accepted(
        &mut self,
        address: SocketAddr,
        hello: &Hello,
        now: Time,
    ) -> Option<LinkId> {
        let end = self.accepted(address, hello, now);
        self.add(address, end)
    }

    fn add(&mut self, address: SocketAddr, end: End) -> Option<LinkId> {
        if self.addresses.contains_key(&address) {
            return None;
        }
        let id = self.place(address, end, Via::Datagrams)?;
        self.addresses.insert(address, id);
        Some(id)
    }

    /// A new entry; `None` if there are too many, or no socket has its address family.
    pub(super) fn place(&mut self, address: SocketAddr, end: End, via: Via) -> Option<LinkId> {
        let socket = match (self.socket_for(address), &via) {
            (None, Via::Datagrams) => return None,
            (found, _) => found.unwrap_or_default(),
        };
        let free = self.links.iter().position(Option::is_none);
        let index = free.unwrap_or(self.links.len());
        if index >= LINKS_PER_BROKER {
            return None;
        }
        let link = Link {
            address,
            wire: Address::from(address),
            socket,
            datagram_max: self.greeting.datagram_max.into(),
            end,
            via,
            reassembler: Reassembler::default(),
            peer: None,
            up: false,
            near: false,
            rungs: None,
            organised: false,
            told: None,
            second: None,
            before: None,
            held: VecDeque::new(),
        };
        if index == self.links.len() {
            self.links.push(None);
        }
        self.links[index] = Some(link);
        Some(LinkId(index as u16))
    }

    /// Whether one more entry finds a place.
    pub(super) fn has_room(&self) -> bool {
        self.links.len() < LINKS_PER_BROKER || self.links.iter().any(Option::is_none)
    }

    fn socket_for(&self, address: SocketAddr) -> Option<usize> {
        self.sockets.iter().position(|v6| *v6 == address.is_ipv6())
    }

    pub(super) fn remove(&mut self, id: LinkId) {
        if let Some(link) = self.links[usize::from(id.0)].take()
            && let Via::Datagrams = link.via
            && self.addresses.get(&link.address) == Some(&id)
        {
            self.addresses.remove(&link.address);
        }
    }

    fn dialer(&mut self, way: &LinkWay, capabilities: Capabilities) -> Dialer {
        let capabilities = match way {
            LinkWay::Udp(address) if self.greeting.shares_segment(*address) => {
                capabilities.with(Capabilities::MULTICAST)
            }
            _ => capabilities,
        };
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        Dialer::new(DialerConfig {
            role: Role::Broker(self.greeting.broker, self.greeting.incarnation),
            capabilities,
            datagram_max: self.greeting.datagram_max,
            clock_domain: sangam_io::clock::clock_domain(),
            reliable: !matches!(way, LinkWay::Udp(_)),
            in_order: matches!(way, LinkWay::Stream(_)),
            seed: self.seed,
            backoff: Backoff::BROKER,
        })
    }

    pub(super) fn accepted(&self, address: SocketAddr, hello: &Hello, now: Time) -> End {
        let datagram_max = self.greeting.datagram_for(hello, address);
        self.session((datagram_max, false), Timing::BROKER, hello, now)
    }

    /// Our end of a link over a QUIC connection.
    pub(super) fn accepted_by_quic(&self, hello: &Hello, now: Time) -> End {
        let datagram_max = self.greeting.datagram_max;
        self.session((datagram_max, true), Timing::BROKER, hello, now)
    }

    /// Our end of a link over a stream.
    pub(super) fn accepted_by_stream(&self, hello: &Hello, now: Time) -> End {
        let datagram_max = self.greeting.datagram_max;
        self.session((datagram_max, true), Timing::BROKER_BY_STREAM, hello, now)
    }

    fn session(
        &self,
        (datagram_max, reliable): (u16, bool),
        timing: Timing,
        hello: &Hello,
        now: Time,
    ) -> End {
        let config = SessionConfig {
            number: self.greeting.next_session(),
            timing,
            datagram_max,
            reliable,
        };
        let mut session = Box::new(Session::new(config, now));
        if !reliable && hello.capabilities.contains(Capabilities::PROBES) {
            session.watch_path(now, datagram_max);
        }
        if hello.capabilities.contains(Capabilities::QUIET) {
            session.rest(now, Asks::Otherwise);
        }
        End::Accepted {
            session,
            nonce: hello.nonce,
        }
    }

    /// Events may be as long as both ends take.
    pub(super) fn agree(&mut self, id: LinkId, theirs: u16) {
        let most = theirs.min(self.greeting.datagram_max);
        if let Some(link) = self.get_mut(id) {
            link.datagram_max = most.into();
        }
    }

    /// What the welcome of an entry says: whether it was taken as a second way, too.
    pub(super) fn capabilities(&self, id: LinkId) -> Capabilities {
        let link = self.get(id);
        let mut ours = Capabilities::OURS;
        if link.is_some_and(|link| link.second.is_some()) {
            ours = ours.with(Capabilities::SECOND_WAY);
        }
        if link.is_some_and(|link| link.near) {
            ours = ours.with(Capabilities::MULTICAST);
        }
        ours
    }

    /// Notes whether a neighbour that can do this may share groups with others.
    pub(super) fn meet(&mut self, id: LinkId, theirs: Capabilities) {
        let greeting = &self.greeting;
        let link = self.links.get_mut(usize::from(id.0));
        if let Some(link) = link.and_then(Option::as_mut) {
            let by_datagrams = matches!(link.via, Via::Datagrams);
            let able = by_datagrams && theirs.contains(Capabilities::MULTICAST);
            link.near = able && greeting.shares_segment(link.address);
        }
    }

    /// The path of a link has become narrower or wider: longer events leave in pieces.
    pub(super) fn carries(&mut self, id: LinkId, size: u16) {
        let Some(link) = self.get_mut(id) else {
            return;
        };
        let before = std::mem::replace(&mut link.datagram_max, size.into());
        let address = link.address;
        tracing::warn!(%address, before, size, "a link carries datagrams of another size now");
    }

    pub(super) fn get(&self, id: LinkId) -> Option<&Link> {
        self.links.get(usize::from(id.0))?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: LinkId) -> Option<&mut Link> {
        self.links.get_mut(usize::from(id.0))?.as_mut()
    }

    pub(super) fn by_address(&self, address: SocketAddr) -> Option<LinkId> {
        if self.addresses.is_empty() {
            return None;
        }
        self.addresses.get(&address).copied()
    }

    /// Another link that is up with this broker.
    pub(super) fn with_peer(&self, peer: BrokerId, but: Option<LinkId>) -> Option<LinkId> {
        let ids = (0..).map(LinkId).zip(&self.links);
        ids.filter(|(id, _)| Some(*id) != but)
            .find(|(_, link)| {
                link.as_ref()
                    .is_some_and(|l| l.up && l.peer.is_some_and(|(id, _)| id == peer))
            })
            .map(|(id, _)| id)
    }

    /// Whether the neighbour of a link that is ours to dial is up by another entry: one of its
    /// own calls, as far as it is not known.
    pub(super) fn is_up_beside(&self, id: LinkId) -> bool {
        match self.get(id).and_then(|link| link.peer) {
            Some((peer, _)) => self.with_peer(peer, Some(id)).is_some(),
            None => self.find(|link| link.up && !link.is_dialled()).is_some(),
        }
    }

    /// Notes an event of so many bytes; the link it counts as of, if that is up.
    pub(super) fn received(&mut self, id: LinkId, now: Time, bytes: usize) -> Option<LinkId> {
        let link = self.get_mut(id)?;
        match &mut link.end {
            End::Dialing(dialer) => dialer.received(now, bytes),
            End::Accepted { session, .. } => session.received(now, bytes),
        }
        match &link.second {
            None => link.up.then_some(id),
            Some(second) => Some(second.of),
        }
    }

    /// The same for what came by a group, and proves no life.
    pub(super) fn received_by_group(&mut self, id: LinkId, bytes: usize) -> Option<LinkId> {
        let link = self.get_mut(id)?;
        match &mut link.end {
            End::Dialing(dialer) => dialer.received_by_group(bytes),
            End::Accepted { session, .. } => session.received_by_group(bytes),
        }
        match &link.second {
            None => link.up.then_some(id),
            Some(second) => Some(second.of),
        }
    }

    /// Notes events that left.
    pub(super) fn sent(&mut self, id: LinkId, now: Time, (packets, bytes): (u64, u64)) {
        let Some(link) = self.get_mut(id) else { return };
        match &mut link.end {
            End::Dialing(dialer) => dialer.sent(now, packets, bytes),
            End::Accepted { session, .. } => session.sent(now, packets, bytes),
        }
    }

    /// The same for what left for a group.
    pub(super) fn sent_by_group(&mut self, id: LinkId, now: Time, (packets, bytes): (u64, u64)) {
        let Some(link) = self.get_mut(id) else { return };
        match &mut link.end {
            End::Dialing(dialer) => dialer.sent_by_group(now, packets, bytes),
            End::Accepted { session, .. } => session.sent_by_group(now, packets, bytes),
        }
    }

    /// Socket, address and datagram size of a link that is up.
    pub(super) fn route_to(&self, id: LinkId) -> Option<(usize, Address, usize)> {
        let link = self.get(id).filter(|link| link.up)?;
        Some((link.socket, link.wire, link.datagram_max))
    }

    pub(super) fn send(&mut self, id: LinkId, message: Message, now: Time) {
        let Some(link) = self.get_mut(id) else { return };
        if link.before.is_some() {
            return link.held.push_back(message);
        }
        match &mut link.end {
            End::Dialing(dialer) => dialer.handle(now, DialInput::Send(message)),
            End::Accepted { session, .. } => session.handle(now, Input::Send(message)),
        }
    }

    /// When the next link wants to be polled.
    pub(super) fn deadline(&self) -> Option<Time> {
        let links = self.links.iter().flatten();
        links.filter_map(Link::deadline).min()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = LinkId> + use<> {
        (0..self.links.len() as u16).map(LinkId)
    }

    /// Shows the state of the links, at most once a second unless something `changed`.
    pub(super) fn show(&mut self, now: Time, changed: bool, outboxes: &Outboxes) {
        if !changed && now < self.show_at {
            return;
        }
        self.show_at = now + SHOW_EVERY;
        if let Ok(mut shown) = self.shown.lock() {
            shown.clear();
            let links = (0..).map(LinkId).zip(&self.links);
            let info = |(id, link): (LinkId, &Option<Link>)| {
                let link = link.as_ref().filter(|link| link.second.is_none())?;
                Some(link.info(outboxes.state(id)))
            };
            shown.extend(links.filter_map(info));
        }
    }
}
