//! What neighbours and callers say to the lane, and what the lane answers.

use std::net::SocketAddr;

use sangam_broker::{DropReason, LinkId};
use sangam_io::udp::{Address, SendReport, UdpSocket};
use sangam_link::{DialInput, Input, Sample, Session};
use sangam_model::{BrokerId, Incarnation};
use sangam_wire::{Capabilities, Frame, Hello, Message, Refusal, Welcome};

use super::Lane;
use super::dial::Rungs;
use super::judge::{Call, Proof};
use super::link::{End, Link};
use super::output::Output;
use crate::command::ControlEvent;
use crate::reliable::ReliableEvent;
use crate::welcome;

impl Lane {
    pub(super) fn start_links(&mut self) {
        for id in self.links.ids() {
            self.redial(id);
        }
        self.links.show(self.now, true, &self.outboxes);
    }

    pub(super) fn close_links(&mut self) {
        for id in self.links.ids() {
            let now = self.now;
            if let Some(link) = self.links.get_mut(id) {
                link.tell(now, DialInput::Close, Input::Close(Refusal::Leaving));
                self.drain_link(id);
            }
        }
        self.flush_ways();
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
            self.run_second(id);
            self.run_ladder(id);
        }
        self.run_groups();
        self.run_quic();
        self.run_streams();
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
        self.frame_of(id, &frame);
    }

    /// A frame has come by the way of a link.
    pub(super) fn frame_of(&mut self, id: LinkId, frame: &Frame<'_>) {
        self.tell_link(id, frame);
        let id = self.arrived(id, frame);
        self.drain_link(id);
    }

    pub(super) fn tell_link(&mut self, id: LinkId, frame: &Frame<'_>) {
        let now = self.now;
        if let Some(link) = self.links.get_mut(id) {
            link.tell(now, DialInput::Frame(frame), Input::Frame(frame));
        }
    }

    pub(super) fn admit_broker(
        &mut self,
        hello: &Hello,
        peer: (BrokerId, Incarnation),
        from: SocketAddr,
    ) {
        let mut known = self.links.by_address(from);
        if let Some(id) = known.filter(|id| self.is_second(*id)) {
            if self.is_repeated(id, hello) {
                return self.welcome(id, hello);
            }
            // Whoever calls anew has given up that way.
            self.drop_second(id);
            known = None;
        }
        let call = Call {
            peer,
            from,
            proof: Proof::Network,
            beside: hello.capabilities.contains(Capabilities::SECOND_WAY),
            nonce: hello.nonce,
        };
        let beside = match self.judge_call(&call, known) {
            Ok(beside) => beside,
            Err(reason) => return self.refuse(hello, reason, from),
        };
        let id = match known {
            Some(id) if self.is_repeated(id, hello) => return self.welcome(id, hello),
            Some(id) => match self.answers(id, hello, beside.is_some() || self.id > peer.0) {
                true => id,
                false => return,
            },
            None => match self.links.add_accepted(from, hello, self.now) {
                Some(id) => id,
                None => return self.refuse(hello, Refusal::Full, from),
            },
        };
        self.links.meet(id, hello.capabilities);
        let datagram_max = self.links.greeting.datagram_for(hello, from);
        if let Some(of) = beside {
            self.links.agree(id, datagram_max);
            self.links.called_beside(id, of, self.now);
        }
        self.welcome(id, hello);
        if beside.is_none() {
            self.link_up(id, peer, datagram_max);
        }
        self.drain_link(id);
    }

    fn is_repeated(&self, id: LinkId, hello: &Hello) -> bool {
        let end = self.links.get(id).map(|link| &link.end);
        matches!(end, Some(End::Accepted { nonce, .. }) if *nonce == hello.nonce)
    }

    /// Takes a call by the way of a known link, unless our own call by it stands. Where both dial
    /// that is the call of the lower id, unless a link moves.
    fn answers(&mut self, id: LinkId, hello: &Hello, stands: bool) -> bool {
        let Some(link) = self.links.get(id) else {
            return false;
        };
        if matches!(link.end, End::Dialing(_)) && !stands {
            return false;
        }
        let address = link.address;
        self.link_down(id, Refusal::Goodbye);
        let end = self.links.accepted(address, hello, self.now);
        if let Some(link) = self.links.get_mut(id) {
            link.end = end;
        }
        true
    }

    fn welcome(&mut self, id: LinkId, hello: &Hello) {
        let Some(link) = self.links.get(id) else {
            return;
        };
        let End::Accepted { session, .. } = &link.end else {
            return;
        };
        let welcome = Welcome {
            capabilities: self.links.capabilities(id),
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
            match self.next_output(id) {
                Output::Transmit(bytes) => {
                    let Some(link) = self.links.get(id) else {
                        return;
                    };
                    let (socket, to) = (link.socket, link.wire);
                    match link.is_by_datagrams() {
                        true => self.send_bytes(socket, &bytes, to),
                        false => self.send_frame(id, &bytes),
                    }
                }
                Output::Connect => self.connect(id),
                Output::Message(message) => self.message(self.links.whose(id), message),
                // Only of the way in use.
                Output::Suspect | Output::Recovered | Output::Sample(_) if self.is_second(id) => {}
                Output::Suspect => {
                    let address = self.links.get(id).map(|link| link.address);
                    tracing::debug!(?address, "a neighbour has fallen silent");
                    self.control.send(ControlEvent::LinkSuspect(id));
                    self.links.show(self.now, true, &self.outboxes);
                }
                Output::Recovered => {
                    self.control.send(ControlEvent::LinkRecovered(id));
                    self.links.show(self.now, true, &self.outboxes);
                }
                Output::Sample(sample) => self.sampled(id, sample),
                Output::Carries(size) => self.links.carries(id, size),
                Output::Up(welcome) => {
                    if !self.welcomed(id, &welcome) {
                        return;
                    }
                }
                Output::Refused(..) | Output::Down(_) if self.is_second(id) => {
                    return self.forget_second(id);
                }
                Output::Refused(reason, speaks) => {
                    let address = self.links.get(id).map(|link| link.address);
                    welcome::tell_refusal(address, reason, speaks);
                    self.hang_up(id);
                    match reason {
                        // Those two pass, and by every other way the answer is the same.
                        Refusal::Full => {}
                        Refusal::Invalid => self.refused_beside(id),
                        _ => self.tell_ladder(id, Rungs::failed),
                    }
                }
                Output::Down(reason) => {
                    self.tell_ladder(id, Rungs::failed);
                    self.link_down(id, reason);
                    self.hang_up(id);
                    if self.after_down(id) {
                        return;
                    }
                }
                Output::Nothing if self.load_carried(id) => {}
                Output::Nothing => return,
            }
        }
    }

    /// Hands a message of a neighbour to whom it concerns.
    fn message(&mut self, link: LinkId, message: Message) {
        match message {
            Message::Carried(route, message) => {
                let event = ReliableEvent::Carried(route, message);
                if !self.reliable.offer(event) {
                    self.counters.dropped(DropReason::ReliableFull);
                }
            }
            Message::Group { .. } | Message::Hearing { .. } => self.group_message(link, &message),
            _ => self.control.send(ControlEvent::Message { link, message }),
        }
    }

    /// The neighbour takes our call; whether the link goes on.
    fn welcomed(&mut self, id: LinkId, welcome: &Welcome) -> bool {
        let peer = (welcome.broker, welcome.incarnation);
        self.links.meet(id, welcome.capabilities);
        if !self.is_proved(id, peer.0) {
            tracing::warn!(broker = %peer.0, "a neighbour's certificate is another's");
            self.counters.dropped(DropReason::LinkIdentity);
            self.give_up(id);
            return false;
        }
        if self.links.forbidden.contains(&peer.0) {
            tracing::info!(broker = %peer.0, "a neighbour that is dialled is forbidden");
            self.give_up(id);
            return false;
        }
        if self.is_second(id) {
            self.welcomed_beside(id, (peer, welcome));
            return false;
        }
        if welcome.broker == self.id || !self.stands(id, peer) {
            let own = welcome.broker == self.id;
            tracing::warn!(broker = %peer.0, own, "closing a second link to a broker");
            self.give_up(id);
            return false;
        }
        self.link_up(id, peer, welcome.datagram_max);
        true
    }

    /// Whether our call stands, or a link there is already. Where both have called, that is the
    /// call of the lower id.
    fn stands(&mut self, id: LinkId, peer: (BrokerId, Incarnation)) -> bool {
        let Some(other) = self.links.with_peer(peer.0, Some(id)) else {
            return true;
        };
        let link = self.links.get(other);
        let called = link.is_some_and(|link| !link.is_dialled() && link.peer == Some(peer));
        // First of all a proof counts.
        let ours = match (self.proves(id, peer.0), self.proves(other, peer.0)) {
            (true, false) => true,
            (false, true) => false,
            _ => self.id < peer.0,
        };
        if called && ours && !self.is_by_datagrams(id) {
            self.drop_for_call(other);
            return true;
        }
        false
    }

    pub(super) fn is_by_datagrams(&self, id: LinkId) -> bool {
        self.links.get(id).is_some_and(Link::is_by_datagrams)
    }

    /// Ends a link that comes to nothing although the neighbour answers.
    fn give_up(&mut self, id: LinkId) {
        self.drop_link(id, Refusal::Identity);
        self.tell_ladder(id, Rungs::rest);
    }

    fn next_output(&mut self, id: LinkId) -> Output {
        let now = self.now;
        let link = self.links.get_mut(id);
        link.map_or(Output::Nothing, |link| link.output(now))
    }

    /// Takes what an answered ping measured, and tells control of it.
    fn sampled(&mut self, id: LinkId, sample: Sample) {
        let now = self.now;
        self.outboxes.sampled(id, now, sample);
        self.judge_groups(id, &sample);
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        if let Some(measured) = link.news(now) {
            self.control
                .send(ControlEvent::LinkMeasured { link: id, measured });
        }
    }

    pub(super) fn link_up(&mut self, id: LinkId, peer: (BrokerId, Incarnation), datagram_max: u16) {
        self.links.agree(id, datagram_max);
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        link.up = true;
        link.told = None;
        self.outboxes.open(id, link.pace());
        link.peer = Some(peer);
        if let (End::Dialing(_), Some(rungs)) = (&link.end, &mut link.rungs) {
            rungs.up(self.now);
        }
        let (address, by) = (link.home(), link.transport());
        tracing::info!(broker = %peer.0, address = %link.address, by, "link up");
        self.control.send(ControlEvent::LinkUp {
            link: id,
            peer: peer.0,
            address,
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
        self.leave_groups(id);
        let Some(link) = self.links.get(id) else {
            return;
        };
        tracing::warn!(address = %link.address, %reason, "link down");
        self.control.send(ControlEvent::LinkDown(id));
        self.end_seconds(id);
        self.stir_ladders();
        self.links.show(self.now, true, &self.outboxes);
    }

    /// An accepted session is over: forget the link, or dial it if it is ours to dial. Whether
    /// nothing is left to drain.
    fn after_down(&mut self, id: LinkId) -> bool {
        let Some(link) = self.links.get(id) else {
            return true;
        };
        match (&link.end, &link.rungs) {
            (End::Dialing(_), _) => false,
            (End::Accepted { .. }, Some(_)) => {
                self.dial_again(id);
                true
            }
            (End::Accepted { .. }, None) => {
                self.links.remove(id);
                true
            }
        }
    }

    /// Ends a link from our side.
    pub(super) fn drop_link(&mut self, id: LinkId, reason: Refusal) {
        self.link_down(id, reason);
        let now = self.now;
        if let Some(link) = self.links.get_mut(id) {
            link.tell(now, DialInput::Close, Input::Close(reason));
            self.drain_link(id);
        }
    }

    /// The same where a call of the neighbour takes its place: dialled again when that is over.
    pub(super) fn drop_for_call(&mut self, id: LinkId) {
        self.drop_link(id, Refusal::Leaving);
        self.tell_ladder(id, Rungs::rest);
    }

    pub(super) fn answer(&mut self, frame: &Frame<'_>, to: SocketAddr) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        let family = |socket: &UdpSocket| socket.local_addr().is_ipv6() == to.is_ipv6();
        if let Some(socket) = self.sockets.iter().position(family) {
            self.send_bytes(socket, &bytes, Address::from(to));
        }
    }

    pub(super) fn send_bytes(&mut self, socket: usize, bytes: &[u8], to: Address) {
        let mut report = SendReport::default();
        self.sender
            .send(&self.sockets[socket], [(to, bytes)], &mut report);
        self.counters
            .dropped_many(DropReason::SendError, report.errors);
        self.counters
            .dropped_many(DropReason::SendBufferFull, report.would_block);
    }
}
