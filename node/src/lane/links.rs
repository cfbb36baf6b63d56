//! The links to neighbour brokers: dialled or accepted, watched, and given up.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sangam_broker::LinkId;
use sangam_io::udp::Address;
use sangam_link::{
    Backoff, Dialer, DialerConfig, Input, Reassembler, Session, SessionConfig, Timing,
};
use sangam_model::limits::LINKS_PER_BROKER;
use sangam_model::{Bitrate, BrokerId, Incarnation, Measured, Time};
use sangam_wire::{Capabilities, Hello, Role};

use super::outbox::Outboxes;
use super::quic::Way;
use crate::broker::{LinkInfo, Queue};
use crate::config::QuicNeighbour;
use crate::welcome::Greeting;

/// How often the state of the links is shown to the rest of the program.
const SHOW_EVERY: Duration = Duration::from_secs(1);
/// Changes of a link's quality are told at most so often.
const TELL_APART: Duration = Duration::from_millis(100);

/// One neighbour.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) address: SocketAddr,
    pub(super) wire: Address,
    /// Which of the lane's sockets reaches it.
    pub(super) socket: usize,
    pub(super) datagram_max: usize,
    pub(super) end: End,
    pub(super) peer: Option<(BrokerId, Incarnation)>,
    pub(super) up: bool,
    /// Configured, so dialled again when an accepted session has died.
    pub(super) configured: bool,
    /// Made by control, which may end it.
    pub(super) organised: bool,
    pub(super) reassembler: Reassembler,
    /// What control was told last, and when.
    pub(super) told: Option<(Measured, Time)>,
    /// Its frames and events travel by QUIC, not as datagrams of the public port.
    pub(super) quic: Option<Way>,
    /// Dialled only while this link is not up.
    pub(super) stands_in_for: Option<LinkId>,
    /// When it went down, or was made.
    pub(super) down_since: Time,
}

/// Our end of a link.
#[derive(Debug)]
pub(super) enum End {
    Dialing(Box<Dialer>),
    Accepted { session: Box<Session>, nonce: u64 },
}

impl Link {
    pub(super) fn deadline(&self) -> Option<Time> {
        match &self.end {
            End::Dialing(dialer) => dialer.deadline(),
            End::Accepted { session, .. } => session.deadline(),
        }
    }

    pub(super) fn session(&self) -> Option<&Session> {
        match &self.end {
            End::Dialing(dialer) => dialer.session(),
            End::Accepted { session, .. } => Some(session),
        }
    }

    /// What control has to be told of the link's quality, if anything.
    pub(super) fn news(&mut self, now: Time) -> Option<Measured> {
        let measured = self.session()?.measured()?;
        let stale = self.told.is_none_or(|(told, at)| {
            now - at >= SHOW_EVERY || (now - at >= TELL_APART && measured.differs(&told))
        });
        if !stale {
            return None;
        }
        self.told = Some((measured, now));
        Some(measured)
    }

    fn info(&self, (queue, rate): (Queue, Option<Bitrate>)) -> LinkInfo {
        let session = self.session();
        let (sent, received) = session.and_then(Session::traffic).unwrap_or_default();
        LinkInfo {
            address: self.address,
            transport: if self.quic.is_some() { "quic" } else { "udp" },
            peer: self.peer,
            up: self.up,
            suspect: self.up && session.is_some_and(Session::is_suspect),
            rtt: session.and_then(Session::rtt),
            measured: session.and_then(Session::measured),
            sent,
            received,
            queue,
            rate,
        }
    }
}

/// All neighbours, by number and by address.
#[derive(Debug)]
pub(crate) struct LinkTable {
    pub(super) greeting: Greeting,
    /// Family of each socket: whether it is IPv6.
    sockets: Vec<bool>,
    pub(super) links: Vec<Option<Link>>,
    addresses: HashMap<SocketAddr, LinkId>,
    shown: Arc<Mutex<Vec<LinkInfo>>>,
    show_at: Time,
    seed: u64,
}

impl LinkTable {
    pub(crate) fn new(
        greeting: Greeting,
        sockets: Vec<bool>,
        seed: u64,
        shown: Arc<Mutex<Vec<LinkInfo>>>,
    ) -> Self {
        Self {
            greeting,
            sockets,
            links: Vec::new(),
            addresses: HashMap::new(),
            shown,
            show_at: Time::ZERO,
            seed,
        }
    }

    /// Adds a neighbour to dial. False if no socket has its address family, or it is known.
    pub(crate) fn add_configured(&mut self, address: SocketAddr) -> bool {
        let dialer = self.dialer(false);
        self.add(address, End::Dialing(Box::new(dialer)), true)
            .is_some()
    }

    /// Adds a neighbour to dial until control ends it; `None` as above.
    pub(crate) fn add_organised(&mut self, address: SocketAddr) -> Option<LinkId> {
        let dialer = self.dialer(false);
        let id = self.add(address, End::Dialing(Box::new(dialer)), true)?;
        self.get_mut(id)?.organised = true;
        Some(id)
    }

    /// Adds a neighbour to dial by QUIC, and by datagrams as long as that fails. False as above.
    pub(crate) fn add_quic(&mut self, neighbour: &QuicNeighbour) -> bool {
        let dialer = self.dialer(true);
        let way = Way::new(neighbour.name.clone());
        let end = End::Dialing(Box::new(dialer));
        let Some(id) = self.add_by_quic(neighbour.address, end, way) else {
            return false;
        };
        if let Some(link) = self.get_mut(id) {
            link.configured = true;
        }
        let Some(fallback) = neighbour.fallback else {
            return true;
        };
        let dialer = self.dialer(false);
        let Some(other) = self.add(fallback, End::Dialing(Box::new(dialer)), true) else {
            return false;
        };
        if let Some(link) = self.get_mut(other) {
            link.stands_in_for = Some(id);
        }
        true
    }

    /// A link over a connection; its address is not one of the public port's.
    pub(super) fn add_by_quic(
        &mut self,
        address: SocketAddr,
        end: End,
        way: Way,
    ) -> Option<LinkId> {
        if self.by_quic(address).is_some() {
            return None;
        }
        self.place(address, end, Some(way))
    }

    /// The link by QUIC to this address.
    pub(super) fn by_quic(&self, address: SocketAddr) -> Option<LinkId> {
        let ids = (0..).map(LinkId).zip(&self.links);
        let mut by_quic = ids.filter_map(|(id, link)| Some((id, link.as_ref()?)));
        let found = by_quic.find(|(_, link)| link.quic.is_some() && link.address == address);
        found.map(|(id, _)| id)
    }

    /// A link that was accepted. `None` if there are too many.
    pub(super) fn add_accepted(
        &mut self,
        address: SocketAddr,
        hello: &Hello,
        now: Time,
    ) -> Option<LinkId> {
        let end = self.accepted(address, hello, now);
        self.add(address, end, false)
    }

    fn add(&mut self, address: SocketAddr, end: End, configured: bool) -> Option<LinkId> {
        if self.addresses.contains_key(&address) {
            return None;
        }
        let id = self.place(address, end, None)?;
        self.get_mut(id)?.configured = configured;
        self.addresses.insert(address, id);
        Some(id)
    }

    fn place(&mut self, address: SocketAddr, end: End, quic: Option<Way>) -> Option<LinkId> {
        let family = |v6: &bool| *v6 == address.is_ipv6();
        let socket = match self.sockets.iter().position(family) {
            None if quic.is_some() => 0,
            found => found?,
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
            peer: None,
            up: false,
            configured: false,
            organised: false,
            reassembler: Reassembler::default(),
            told: None,
            quic,
            stands_in_for: None,
            down_since: sangam_io::clock::now(),
        };
        if index == self.links.len() {
            self.links.push(None);
        }
        self.links[index] = Some(link);
        Some(LinkId(index as u16))
    }

    pub(super) fn remove(&mut self, id: LinkId) {
        if let Some(link) = self.links[usize::from(id.0)].take()
            && link.quic.is_none()
        {
            self.addresses.remove(&link.address);
        }
    }

    pub(super) fn dialer(&mut self, reliable: bool) -> Dialer {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        Dialer::new(DialerConfig {
            role: Role::Broker(self.greeting.broker, self.greeting.incarnation),
            capabilities: Capabilities::OURS,
            datagram_max: self.greeting.datagram_max,
            clock_domain: sangam_io::clock::clock_domain(),
            reliable,
            seed: self.seed,
            backoff: Backoff::BROKER,
        })
    }

    pub(super) fn accepted(&self, address: SocketAddr, hello: &Hello, now: Time) -> End {
        self.session(
            (self.greeting.datagram_for(hello, address), false),
            hello,
            now,
        )
    }

    /// Our end of a link over a connection.
    pub(super) fn accepted_by_quic(&self, hello: &Hello, now: Time) -> End {
        self.session((self.greeting.datagram_max, true), hello, now)
    }

    fn session(&self, (datagram_max, reliable): (u16, bool), hello: &Hello, now: Time) -> End {
        let config = SessionConfig {
            number: self.greeting.next_session(),
            timing: Timing::BROKER,
            datagram_max,
            reliable,
        };
        let mut session = Box::new(Session::new(config, now));
        if !reliable && hello.capabilities.contains(Capabilities::PROBES) {
            session.watch_path(now, datagram_max);
        }
        End::Accepted {
            session,
            nonce: hello.nonce,
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

    /// Notes an event of so many bytes; whether the link is up.
    pub(super) fn received(&mut self, id: LinkId, now: Time, bytes: usize) -> bool {
        let Some(link) = self.get_mut(id) else {
            return false;
        };
        match &mut link.end {
            End::Dialing(dialer) => dialer.received(now, bytes),
            End::Accepted { session, .. } => session.received(now, bytes),
        }
        link.up
    }

    /// Notes events that left.
    pub(super) fn sent(&mut self, id: LinkId, packets: u64, bytes: u64) {
        let Some(link) = self.get_mut(id) else { return };
        match &mut link.end {
            End::Dialing(dialer) => dialer.sent(packets, bytes),
            End::Accepted { session, .. } => session.sent(packets, bytes),
        }
    }

    /// Notes a sign of life that is no event; whether the link is up.
    pub(super) fn heard(&mut self, id: LinkId, now: Time) -> bool {
        let Some(link) = self.get_mut(id) else {
            return false;
        };
        match &mut link.end {
            End::Dialing(dialer) => dialer.heard(now),
            End::Accepted { session, .. } => session.heard(now),
        }
        link.up
    }

    /// Socket, address and datagram size of a link that is up.
    pub(super) fn route_to(&self, id: LinkId) -> Option<(usize, Address, usize)> {
        let link = self.get(id).filter(|link| link.up && link.quic.is_none())?;
        Some((link.socket, link.wire, link.datagram_max))
    }

    pub(super) fn send(&mut self, id: LinkId, message: sangam_wire::Message, now: Time) {
        let Some(link) = self.get_mut(id) else { return };
        match &mut link.end {
            End::Dialing(dialer) => dialer.handle(now, sangam_link::DialInput::Send(message)),
            End::Accepted { session, .. } => session.handle(now, Input::Send(message)),
        }
    }

    /// When the next link wants to be polled.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.links.iter().flatten().filter_map(Link::deadline).min()
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
            let info =
                |(id, link): (LinkId, &Option<Link>)| Some(link.as_ref()?.info(outboxes.state(id)));
            shown.extend(links.filter_map(info));
        }
    }
}
