//! The links to neighbour brokers: dialled or accepted, watched, and given up.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sangam_broker::LinkId;
use sangam_io::udp::Address;
use sangam_link::{
    Backoff, Dialer, DialerConfig, Input, Measured, Reassembler, Session, SessionConfig, Timing,
};
use sangam_model::limits::LINKS_PER_BROKER;
use sangam_model::{Bitrate, BrokerId, Incarnation, Time};
use sangam_wire::{Capabilities, Hello, Role};

use super::outbox::Outboxes;
use crate::broker::{LinkInfo, Queue};
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
    pub(super) reassembler: Reassembler,
    /// What control was told last, and when.
    pub(super) told: Option<(Measured, Time)>,
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
        let dialer = self.dialer();
        self.add(address, End::Dialing(Box::new(dialer)), true)
            .is_some()
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
        let socket = self
            .sockets
            .iter()
            .position(|v6| *v6 == address.is_ipv6())?;
        if self.addresses.contains_key(&address) {
            return None;
        }
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
            configured,
            reassembler: Reassembler::default(),
            told: None,
        };
        if index == self.links.len() {
            self.links.push(None);
        }
        self.links[index] = Some(link);
        let id = LinkId(index as u16);
        self.addresses.insert(address, id);
        Some(id)
    }

    pub(super) fn remove(&mut self, id: LinkId) {
        if let Some(link) = self.links[usize::from(id.0)].take() {
            self.addresses.remove(&link.address);
        }
    }

    pub(super) fn dialer(&mut self) -> Dialer {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        Dialer::new(DialerConfig {
            role: Role::Broker(self.greeting.broker, self.greeting.incarnation),
            capabilities: Capabilities::OURS,
            datagram_max: self.greeting.datagram_max,
            clock_domain: sangam_io::clock::clock_domain(),
            reliable: false,
            seed: self.seed,
            backoff: Backoff::BROKER,
        })
    }

    pub(super) fn accepted(&self, address: SocketAddr, hello: &Hello, now: Time) -> End {
        let config = SessionConfig {
            number: self.greeting.next_session(),
            timing: Timing::BROKER,
            datagram_max: self.greeting.datagram_for(hello, address),
            reliable: false,
        };
        let session = Box::new(Session::new(config, now));
        End::Accepted {
            session,
            nonce: hello.nonce,
        }
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
        let link = self.get(id).filter(|link| link.up)?;
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
