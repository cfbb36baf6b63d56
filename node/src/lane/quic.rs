//! Neighbours by QUIC: the lane's endpoints, and the links over their connections.
//!
//! Certificates at both ends say who the neighbour is: its broker id is the hash of the key.
//! Frames travel on a stream, but pings and pongs as datagrams, so that a link's life is judged
//! by the path and not by what must be repeated on it.

use sangam_broker::{Admit, DropReason, LinkId};
use sangam_io::pool::Packet;
use sangam_io::quic::{Endpoint, Event};
use sangam_link::{DialInput, Input, Verdict};
use sangam_model::{BrokerId, Incarnation};
use sangam_wire::{Capabilities, Frame, Hello, Refusal, Role, Welcome, is_event};

use super::Lane;
use super::dial::Rungs;
use super::endpoints::Place;
use super::ingest::Source;
use super::judge::{Call, Proof};
use super::link::{End, Via};
use crate::shedders::Shedders;
use crate::welcome::{Greeting, of_no_version};

/// Batches of one endpoint before others have their turn.
const BATCHES_PER_ROUND: usize = 4;
/// How a link over QUIC reaches its neighbour.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) connection: Option<Place>,
    /// What the neighbour's certificate must be for, if it is ours to dial.
    name: String,
    shedders: Shedders,
}

impl Way {
    pub(super) fn new(name: String) -> Self {
        Self {
            connection: None,
            name,
            shedders: Shedders::default(),
        }
    }

    fn over(connection: Place) -> Self {
        Self {
            connection: Some(connection),
            ..Self::new(String::new())
        }
    }
}

impl Lane {
    /// Takes what the endpoints' sockets hold; whether there may be more.
    pub(super) fn receive_quic(&mut self) -> bool {
        let mut more = false;
        for index in 0..self.quic.endpoints.len() {
            let bit = 1 << (self.sockets.len() + index);
            if self.ready & bit == 0 {
                continue;
            }
            let mut full = true;
            for _ in 0..BATCHES_PER_ROUND {
                // No other socket shares the port.
                full = match self.quic.endpoints[index].receive(self.now, |_, _, _| {}) {
                    Ok(full) => full,
                    Err(error) => {
                        tracing::warn!(%error, "receiving from neighbours by QUIC failed");
                        false
                    }
                };
                self.take_quic(index);
                self.flush();
                if !full {
                    self.ready &= !bit;
                    break;
                }
            }
            more |= full;
        }
        more
    }

    /// Runs the timers of connections.
    pub(super) fn run_quic(&mut self) {
        for index in 0..self.quic.endpoints.len() {
            let endpoint = &mut self.quic.endpoints[index];
            if endpoint.deadline().is_some_and(|at| at <= self.now) {
                endpoint.timeout(self.now);
                self.take_quic(index);
            }
        }
        self.quic.look_at(self.streams.certificate(), self.now);
    }

    /// Sends what waits at the endpoints.
    pub(super) fn flush_quic(&mut self) {
        for endpoint in &mut self.quic.endpoints {
            endpoint.flush(self.now);
            let counted = endpoint.counters();
            let lost = counted.sent.errors + counted.oversized;
            self.counters.dropped_many(DropReason::SendError, lost);
            let turned_away = counted.retried + counted.refused + counted.ignored;
            self.counters
                .dropped_many(DropReason::FloodHello, turned_away);
            self.counters.relayed.messages.add(counted.sent.messages);
        }
    }

    fn take_quic(&mut self, index: usize) {
        while let Some((key, event)) = self.quic.endpoints[index].poll() {
            let at = Place {
                endpoint: index,
                key,
            };
            let link = self.quic.links.get(&at).copied();
            match (event, link) {
                (Event::Connected, Some(id)) => self.tell_dialer(id, DialInput::Connected),
                (Event::Unit(unit), _) => self.unit(&unit, at, link),
                (Event::Lost { cause, .. }, Some(id)) => {
                    self.quic.links.remove(&at);
                    self.lost(id, &cause);
                }
                _ => {}
            }
        }
    }

    fn unit(&mut self, unit: &[u8], at: Place, link: Option<LinkId>) {
        match (unit.first().copied().and_then(is_event), link) {
            (Some(true), Some(id)) => self.event(unit, Source::Link(id)),
            (Some(false), _) => self.frame_by_quic(unit, at, link),
            (Some(true), None) => self.counters.dropped(DropReason::UnknownPeer),
            (None, _) => self.counters.dropped(DropReason::Version),
        }
    }

    fn frame_by_quic(&mut self, bytes: &[u8], at: Place, link: Option<LinkId>) {
        self.counters.frames.add(1);
        let frame = match Frame::decode(bytes) {
            Ok(Frame::Hello(hello)) => return self.hello_by_quic(&hello, at),
            Ok(frame) => frame,
            Err(error) => {
                if let Some(refuse) = of_no_version(bytes) {
                    self.answer_at(&Frame::Refuse(refuse), at);
                }
                return self.malformed(error);
            }
        };
        let Some(id) = link else {
            return self.counters.dropped(DropReason::UnknownPeer);
        };
        self.frame_of(id, &frame);
    }

    fn hello_by_quic(&mut self, hello: &Hello, at: Place) {
        let reason = match (self.acceptor.judge_stream(hello), hello.role) {
            (Verdict::Retry(frame) | Verdict::Refuse(frame), _) => {
                return self.answer_at(&frame, at);
            }
            (_, Role::Client) => Refusal::Invalid,
            (_, Role::Broker(peer, incarnation)) => {
                match self.admit_by_quic(hello, (peer, incarnation), at) {
                    Ok(()) => return,
                    Err(reason) => reason,
                }
            }
        };
        self.answer_at(&Frame::Refuse(Greeting::refusal(hello, reason)), at);
    }

    fn admit_by_quic(
        &mut self,
        hello: &Hello,
        peer: (BrokerId, Incarnation),
        at: Place,
    ) -> Result<(), Refusal> {
        let address = self.quic.peer(at).ok_or(Refusal::Silent)?;
        let known = self.links.by_quic(address);
        let call = Call {
            peer,
            from: address,
            proof: Proof::Certificate(self.quic.identity(at)),
            beside: hello.capabilities.contains(Capabilities::SECOND_WAY),
            nonce: hello.nonce,
        };
        let beside = self.judge_call(&call, known)?;
        let end = self.links.accepted_by_quic(hello, self.now);
        let id = match known {
            Some(id) => {
                let link = self.links.get(id).ok_or(Refusal::Full)?;
                // Both dial: the call of the lower id stands.
                if beside.is_none() && matches!(&link.end, End::Dialing(_)) && self.id < peer.0 {
                    return Err(Refusal::Invalid);
                }
                self.link_down(id, Refusal::Goodbye);
                self.hang_up(id);
                let link = self.links.get_mut(id).ok_or(Refusal::Full)?;
                link.end = end;
                if let Some(way) = link.quic_mut() {
                    way.connection = Some(at);
                }
                id
            }
            None => {
                let added = self.links.place(address, end, Via::Quic(Way::over(at)));
                added.ok_or(Refusal::Full)?
            }
        };
        self.quic.links.insert(at, id);
        if let Some(of) = beside {
            self.links.called_beside(id, of, self.now);
        }
        self.welcome_by_quic(id, hello, at);
        if beside.is_none() {
            self.link_up(id, peer, self.links.greeting.datagram_max);
        }
        self.drain_link(id);
        Ok(())
    }

    fn welcome_by_quic(&mut self, id: LinkId, hello: &Hello, at: Place) {
        let session = match self.links.get(id).map(|link| &link.end) {
            Some(End::Accepted { session, .. }) => session.number(),
            _ => return,
        };
        let welcome = Welcome {
            capabilities: self.links.capabilities(id),
            session,
            datagram_max: self.links.greeting.datagram_max,
            keepalive_ms: 100,
            media_port: 0,
            ..self.links.greeting.welcome(hello)
        };
        self.answer_at(&Frame::Welcome(welcome), at);
    }

    fn answer_at(&mut self, frame: &Frame<'_>, at: Place) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        // Little waits on a stream whose hello is being answered.
        self.quic.send_frame(at, &bytes);
    }

    /// Whether the neighbour behind a link has proved to be this broker.
    pub(super) fn is_proved(&self, id: LinkId, broker: BrokerId) -> bool {
        match self.links.get(id).map(|link| &link.via) {
            // A trusted network answers for datagrams.
            None | Some(Via::Datagrams) => true,
            Some(Via::Stream(end)) if !end.transport.is_encrypted() => true,
            Some(_) => self.proves(id, broker),
        }
    }

    /// Whether a certificate says that the neighbour behind a link is this broker.
    pub(super) fn proves(&self, id: LinkId, broker: BrokerId) -> bool {
        let identity = match self.links.get(id).map(|link| &link.via) {
            None | Some(Via::Datagrams) => None,
            Some(Via::Stream(end)) => end.identity,
            Some(Via::Quic(way)) => way.connection.and_then(|at| self.quic.identity(at)),
        };
        identity == Some(broker)
    }

    /// A dialer wants a connection.
    pub(super) fn connect(&mut self, id: LinkId) {
        self.hang_up(id);
        match self.links.get(id).map(|link| &link.via) {
            Some(Via::Quic(_)) => self.connect_quic(id),
            Some(Via::Stream(_)) => self.connect_stream(id),
            Some(Via::Datagrams) | None => {}
        }
    }

    fn connect_quic(&mut self, id: LinkId) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let address = link.address;
        let Some(way) = link.quic_mut() else { return };
        let family = |endpoint: &Endpoint| endpoint.local_addr().is_ipv6() == address.is_ipv6();
        let tried = match self.quic.endpoints.iter().position(family) {
            None => Err("no QUIC address of its family".to_owned()),
            Some(endpoint) => self.quic.endpoints[endpoint]
                .connect(self.now, address, &way.name)
                .map(|key| Place { endpoint, key }),
        };
        match tried {
            Ok(at) => {
                way.connection = Some(at);
                self.quic.links.insert(at, id);
            }
            Err(cause) => self.lost(id, &cause),
        }
    }

    /// Forgets the connection of a link.
    pub(super) fn hang_up(&mut self, id: LinkId) {
        self.hang_up_stream(id);
        let way = self.links.get_mut(id).and_then(|link| link.quic_mut());
        let Some(way) = way else { return };
        way.shedders = Shedders::default();
        if let Some(at) = way.connection.take() {
            self.quic.close(at, self.now, "the link is down");
        }
    }

    /// The connection of a link is gone, or has not come about.
    pub(super) fn lost(&mut self, id: LinkId, cause: &str) {
        self.forget_stream(id);
        self.tell_ladder(id, Rungs::failed);
        let now = self.now;
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let by = link.transport();
        tracing::warn!(address = %link.address, by, cause, "no connection to a neighbour");
        if let Some(way) = link.quic_mut() {
            way.connection = None;
        }
        link.tell(now, DialInput::TransportLost, Input::TransportLost);
        match link.second {
            // Whoever dials has nothing to say then.
            Some(_) => self.forget_second(id),
            None => self.drain_link(id),
        }
    }

    fn tell_dialer(&mut self, id: LinkId, input: DialInput<'_>) {
        if let Some(link) = self.links.get_mut(id)
            && let End::Dialing(dialer) = &mut link.end
        {
            dialer.handle(self.now, input);
            self.drain_link(id);
        }
    }

    /// Sends a link frame over the link's connection.
    pub(super) fn send_frame(&mut self, id: LinkId, frame: &[u8]) {
        let sent = match self.links.get(id).map(|link| &link.via) {
            Some(Via::Quic(way)) => {
                let at = way.connection;
                at.is_some_and(|at| self.quic.send_frame(at, frame))
            }
            Some(Via::Stream(_)) => self.push_frame(id, frame),
            Some(Via::Datagrams) | None => false,
        };
        if !sent {
            self.counters.dropped(DropReason::ControlOverflow);
        }
    }

    /// Hands events over to the link's connection, or sheds them.
    pub(super) fn send_by_quic(&mut self, id: LinkId, events: impl Iterator<Item = Packet>) {
        let link = self.links.get_mut(id).filter(|link| link.up);
        let way = link.and_then(|link| link.quic_mut());
        let Some((way, at)) = way.and_then(|way| way.connection.map(|at| (way, at))) else {
            let lost = events.count() as u64;
            return self.counters.dropped_many(DropReason::LinkDown, lost);
        };
        let endpoint = &mut self.quic.endpoints[at.endpoint];
        let (mut packets, mut bytes) = (0, 0);
        for packet in events {
            let len = packet.len() as u64;
            let Ok(header) = packet.header() else {
                continue;
            };
            let waiting = endpoint.waiting(at.key, self.now);
            match way.shedders.admit(&header, &waiting, false) {
                Admit::Drop(reason) => self.counters.dropped(reason),
                Admit::Deliver if endpoint.send_event(at.key, packet, self.now).is_err() => {
                    self.counters.dropped(DropReason::SendBufferFull);
                }
                Admit::Deliver => {
                    packets += 1;
                    bytes += len;
                }
            }
        }
        self.counters.relayed.packets.add(packets);
        self.counters.relayed.bytes.add(bytes);
        self.links.sent(id, self.now, (packets, bytes));
    }
}
