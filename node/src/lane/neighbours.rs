//! What neighbours and callers say to the lane, and what the lane answers.

use std::net::SocketAddr;

use sangam_broker::{DropReason, LinkId};
use sangam_io::pool::Packet;
use sangam_io::udp::{Address, SendReport, UdpSocket};
use sangam_link::{DialInput, Input, ReassemblyCounters, Sample, Session, fragment};
use sangam_model::{BrokerId, Incarnation};
use sangam_wire::{Frame, Header, Hello, Message, Refusal, Welcome};

use super::Lane;
use super::aside::is_later_life;
use super::ingest::{Source, may_send};
use super::links::{End, Link};
use super::outbox::Pace;
use super::wish::Wish;
use crate::command::ControlEvent;
use crate::reliable::ReliableEvent;
use crate::welcome;

impl Lane {
    pub(super) fn start_links(&mut self) {
        for id in self.links.ids() {
            if self
                .links
                .get(id)
                .is_some_and(|link| link.stands_in_for.is_none())
            {
                self.redial(id);
            }
        }
        self.links.show(self.now, true, &self.outboxes);
    }

    pub(super) fn close_links(&mut self) {
        for id in self.links.ids() {
            let Some(link) = self.links.get_mut(id) else {
                continue;
            };
            match &mut link.end {
                End::Dialing(dialer) => dialer.handle(self.now, DialInput::Close),
                End::Accepted { session, .. } => {
                    session.handle(self.now, Input::Close(Refusal::Leaving));
                }
            }
            self.drain_link(id);
        }
        self.flush_quic();
    }

    /// Polls the links that are due.
    pub(super) fn run_links(&mut self) {
        for id in self.links.ids() {
            let due = self.links.get(id).and_then(|link| link.deadline());
            if due.is_some_and(|at| at <= self.now) {
                let session = self.links.get(id).and_then(Link::session);
                if let Some(since) = session.and_then(Session::awaits_since) {
                    self.outboxes.overdue(id, self.now, self.now - since);
                }
                self.drain_link(id);
            }
        }
        self.run_quic();
        self.links.show(self.now, false, &self.outboxes);
    }

    /// Takes a link frame from the public port.
    pub(super) fn frame(&mut self, bytes: &[u8], from: SocketAddr) {
        self.counters.frames.add(1);
        let frame = match Frame::decode(bytes) {
            Ok(frame) => frame,
            Err(error) => {
                if let Some(refuse) = welcome::of_no_version(bytes) {
                    self.answer_stranger(&Frame::Refuse(refuse), from);
                }
                return self.malformed(error);
            }
        };
        if let Frame::Hello(hello) = frame {
            return self.hello(hello, from);
        }
        let Some(id) = self.links.by_address(from) else {
            return self.counters.dropped(DropReason::UnknownPeer);
        };
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        match &mut link.end {
            End::Dialing(dialer) => dialer.handle(self.now, DialInput::Frame(&frame)),
            End::Accepted { session, .. } => session.handle(self.now, Input::Frame(&frame)),
        }
        self.drain_link(id);
    }

    pub(super) fn admit_broker(
        &mut self,
        hello: &Hello,
        peer: (BrokerId, Incarnation),
        from: SocketAddr,
    ) {
        if peer.0 == self.id || self.aside {
            welcome::tell_twin(peer.0, from);
            return self.refuse(hello, Refusal::Identity, from);
        }
        let known = self.links.by_address(from);
        let allowed = self
            .accept_links
            .iter()
            .any(|network| network.contains(from.ip()));
        if known.is_none() && !allowed {
            return self.refuse(hello, Refusal::Forbidden, from);
        }
        if let Some(other) = self.links.with_peer(peer.0, known) {
            let linked = self.links.get(other).and_then(|link| link.peer);
            if linked == Some(peer) {
                return self.refuse(hello, Refusal::Invalid, from);
            }
            if linked.is_some_and(|(_, known)| !is_later_life(peer.1, known)) {
                welcome::tell_twin(peer.0, from);
                return self.refuse(hello, Refusal::Identity, from);
            }
            // The neighbour has started anew, elsewhere.
            self.drop_link(other, Refusal::Leaving);
        }
        let id = match known {
            Some(id) => {
                let Some(link) = self.links.get(id) else {
                    return;
                };
                match &link.end {
                    End::Accepted { nonce, .. } if *nonce == hello.nonce => {
                        self.links.heard(id, self.now);
                        return self.welcome(id, hello);
                    }
                    // Both dial: the call of the lower id stands.
                    End::Dialing(_) if self.id < peer.0 => return,
                    _ => {}
                }
                self.link_down(id, Refusal::Goodbye);
                let end = self.links.accepted(from, hello, self.now);
                let Some(link) = self.links.get_mut(id) else {
                    return;
                };
                link.end = end;
                id
            }
            None => match self.links.add_accepted(from, hello, self.now) {
                Some(id) => id,
                None => return self.refuse(hello, Refusal::Full, from),
            },
        };
        let datagram_max = self.links.greeting.datagram_for(hello, from);
        self.welcome(id, hello);
        self.link_up(id, peer, datagram_max);
        self.drain_link(id);
    }

    fn welcome(&mut self, id: LinkId, hello: &Hello) {
        let Some(link) = self.links.get(id) else {
            return;
        };
        let End::Accepted { session, .. } = &link.end else {
            return;
        };
        let welcome = Welcome {
            session: session.number(),
            datagram_max: self.links.greeting.datagram_for(hello, link.address),
            keepalive_ms: 50,
            media_port: 0,
            ..self.links.greeting.welcome(hello)
        };
        let to = link.address;
        self.answer(&Frame::Welcome(welcome), to);
    }

    /// Carries out what a link wants until it wants nothing more.
    pub(super) fn drain_link(&mut self, id: LinkId) {
        loop {
            match self.next_wish(id) {
                Wish::Transmit(bytes) => {
                    let Some(link) = self.links.get(id) else {
                        return;
                    };
                    let (socket, to) = (link.socket, link.wire);
                    match link.quic {
                        Some(_) => self.send_frame(id, &bytes),
                        None => self.send_bytes(socket, &bytes, to),
                    }
                }
                Wish::Connect => self.connect(id),
                Wish::Message(Message::Carried(route, message)) => {
                    let event = ReliableEvent::Carried(route, message);
                    if !self.reliable.offer(event) {
                        self.counters.dropped(DropReason::ReliableFull);
                    }
                }
                Wish::Message(message) => {
                    self.control
                        .send(ControlEvent::Message { link: id, message });
                }
                Wish::Suspect => {
                    let address = self.links.get(id).map(|link| link.address);
                    tracing::debug!(?address, "a neighbour has fallen silent");
                    self.control.send(ControlEvent::LinkSuspect(id));
                    self.links.show(self.now, true, &self.outboxes);
                }
                Wish::Recovered => {
                    self.control.send(ControlEvent::LinkRecovered(id));
                    self.links.show(self.now, true, &self.outboxes);
                }
                Wish::Sample(sample) => self.sampled(id, sample),
                Wish::Carries(size) => self.links.carries(id, size),
                Wish::Up(welcome) => {
                    let peer = (welcome.broker, welcome.incarnation);
                    if !self.is_proved(id, peer.0) {
                        tracing::warn!(broker = %peer.0, "a neighbour's certificate is another's");
                        self.drop_link(id, Refusal::Identity);
                        return;
                    }
                    self.end_stand_in(id);
                    if welcome.broker == self.id || self.links.with_peer(peer.0, Some(id)).is_some()
                    {
                        let own = welcome.broker == self.id;
                        tracing::warn!(broker = %peer.0, own, "closing a second link to a broker");
                        self.drop_link(id, Refusal::Identity);
                        return;
                    }
                    self.link_up(id, peer, welcome.datagram_max);
                }
                Wish::Refused(reason, speaks) => {
                    let address = self.links.get(id).map(|link| link.address);
                    welcome::tell_refusal(address, reason, speaks);
                    self.hang_up(id);
                }
                Wish::Down(reason) => {
                    self.link_down(id, reason);
                    self.hang_up(id);
                    if self.after_down(id) {
                        return;
                    }
                }
                Wish::Nothing if self.load_carried(id) => {}
                Wish::Nothing => return,
            }
        }
    }

    fn next_wish(&mut self, id: LinkId) -> Wish {
        let now = self.now;
        let link = self.links.get_mut(id);
        link.map_or(Wish::Nothing, |link| link.wish(now))
    }

    /// Takes what an answered ping measured, and tells control of it.
    fn sampled(&mut self, id: LinkId, sample: Sample) {
        let now = self.now;
        self.outboxes.sampled(id, now, sample);
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        if let Some(measured) = link.news(now) {
            self.control
                .send(ControlEvent::LinkMeasured { link: id, measured });
        }
    }

    pub(super) fn link_up(&mut self, id: LinkId, peer: (BrokerId, Incarnation), datagram_max: u16) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        link.up = true;
        link.told = None;
        // A QUIC connection has a window and a queue of its own. Within a machine there is no
        // path to spare, and delay tells of its processors alone.
        let pace = if link.quic.is_some() || link.address.ip().is_loopback() {
            Pace::Free
        } else {
            Pace::Begins(link.session().and_then(Session::rtt))
        };
        self.outboxes.open(id, pace);
        link.peer = Some(peer);
        link.datagram_max = datagram_max.into();
        let link_address = link.address;
        tracing::info!(broker = %peer.0, address = %link.address, "link up");
        self.control.send(ControlEvent::LinkUp {
            link: id,
            peer: peer.0,
            address: link_address,
        });
        self.links.show(self.now, true, &self.outboxes);
    }

    pub(super) fn link_down(&mut self, id: LinkId, reason: Refusal) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        if !std::mem::take(&mut link.up) {
            return;
        }
        link.reassembler = sangam_link::Reassembler::default();
        link.down_since = self.now;
        tracing::warn!(address = %link.address, %reason, "link down");
        self.control.send(ControlEvent::LinkDown(id));
        self.links.show(self.now, true, &self.outboxes);
    }

    /// An accepted session is over: forget the link, or dial it if it is ours to dial. Whether
    /// nothing is left to drain.
    fn after_down(&mut self, id: LinkId) -> bool {
        let Some(link) = self.links.get(id) else {
            return true;
        };
        match (&link.end, link.configured) {
            (End::Dialing(_), _) => false,
            (End::Accepted { .. }, true) => {
                let reliable = self.links.get(id).is_some_and(|link| link.quic.is_some());
                let dialer = self.links.dialer(reliable);
                if let Some(link) = self.links.get_mut(id) {
                    link.end = End::Dialing(Box::new(dialer));
                }
                self.redial(id);
                true
            }
            (End::Accepted { .. }, false) => {
                self.links.remove(id);
                true
            }
        }
    }

    /// Links with the broker at this address, as control organises it.
    pub(super) fn dial(&mut self, address: SocketAddr) {
        if let Some(id) = self.links.add_organised(address) {
            self.redial(id);
        }
    }

    /// Gives up a link that was made by [`Self::dial`].
    pub(super) fn hang_up_at(&mut self, address: SocketAddr) {
        let Some(id) = self.links.by_address(address) else {
            return;
        };
        if self.links.get(id).is_some_and(|link| link.organised) {
            self.drop_link(id, Refusal::Goodbye);
            self.links.remove(id);
        }
    }

    /// Ends a link from our side.
    pub(super) fn drop_link(&mut self, id: LinkId, reason: Refusal) {
        self.link_down(id, reason);
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        match &mut link.end {
            End::Dialing(dialer) => dialer.handle(self.now, DialInput::Close),
            End::Accepted { session, .. } => session.handle(self.now, Input::Close(reason)),
        }
        self.drain_link(id);
    }

    pub(super) fn redial(&mut self, id: LinkId) {
        if let Some(link) = self.links.get_mut(id)
            && let End::Dialing(dialer) = &mut link.end
            && !self.aside
        {
            dialer.handle(self.now, DialInput::Start);
            self.drain_link(id);
        }
    }

    pub(super) fn answer(&mut self, frame: &Frame<'_>, to: SocketAddr) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        let family = |socket: &UdpSocket| socket.local_addr().is_ipv6() == to.is_ipv6();
        if let Some(socket) = self.sockets.iter().position(family) {
            self.send_bytes(socket, &bytes, Address::from(to));
        }
    }

    fn send_bytes(&mut self, socket: usize, bytes: &[u8], to: Address) {
        let mut report = SendReport::default();
        self.sender
            .send(&self.sockets[socket], [(to, bytes)], &mut report);
        self.counters
            .dropped_many(DropReason::SendError, report.errors);
    }

    /// Takes a piece of an event that a neighbour had to split.
    pub(super) fn fragment(&mut self, id: LinkId, bytes: &[u8]) {
        let mut whole = std::mem::take(&mut self.whole);
        let now = self.now;
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let before = *link.reassembler.counters();
        let joined = link.reassembler.push(now, bytes, &mut whole);
        let after = *link.reassembler.counters();
        self.count_given_up(before, after);
        match joined {
            Ok(true) => self.event(&whole, Source::Link(id)),
            Ok(false) => {}
            Err(_) => self.counters.dropped(DropReason::FragmentInvalid),
        }
        self.whole = whole;
    }

    /// Takes a piece of an event that a client had to split.
    pub(super) fn fragment_of_client(&mut self, header: &Header, bytes: &[u8], source: Source) {
        // Strangers may not fill the room for pieces that all clients share.
        let route = self
            .snapshot
            .route(header.stream)
            .ok_or(DropReason::UnknownStream);
        if let Err(reason) = route.and_then(|route| may_send(route, source)) {
            return self.counters.dropped(reason);
        }
        let mut whole = std::mem::take(&mut self.whole);
        let before = *self.reassembler.counters();
        let joined = self.reassembler.push(self.now, bytes, &mut whole);
        self.count_given_up(before, *self.reassembler.counters());
        match joined {
            Ok(true) => self.event(&whole, source),
            Ok(false) => {}
            Err(_) => self.counters.dropped(DropReason::FragmentInvalid),
        }
        self.whole = whole;
    }

    /// Counts events that were given up as pieces are missing.
    fn count_given_up(&self, before: ReassemblyCounters, after: ReassemblyCounters) {
        let expired = after.expired - before.expired;
        let evicted = after.evicted - before.evicted;
        self.counters
            .dropped_many(DropReason::ReassemblyTimeout, expired);
        self.counters
            .dropped_many(DropReason::ReassemblyFull, evicted);
    }

    /// Sends an event that is larger than the link's datagrams.
    pub(super) fn send_in_pieces(&mut self, id: LinkId, packet: &Packet) {
        let Some((socket, address, most)) = self.links.route_to(id) else {
            return self.counters.dropped(DropReason::LinkDown);
        };
        let Ok(mut pieces) = fragment(packet, most) else {
            return self.counters.dropped(DropReason::MessageSize);
        };
        let mut bytes = std::mem::take(&mut self.whole);
        bytes.resize(most, 0);
        while let Some(Ok(len)) = pieces.write_next(&mut bytes) {
            self.send_bytes(socket, &bytes[..len], address);
            self.links.sent(id, 1, len as u64);
        }
        self.whole = bytes;
    }
}
