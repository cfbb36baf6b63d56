//! Clients over QUIC. Every shard has a socket of its own on the same port: the kernel chooses it
//! by the client's address, so no packet changes threads. A client that moves to another address
//! may meet another shard, which knows by the connection id to whom to hand its packets over.

mod open;
mod peer;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Duration;

use sangam_broker::{Admit, DropReason, FeedbackOutput};
use sangam_io::clock;
use sangam_io::poll::Interest;
use sangam_io::pool::{Packet, PacketMut, Pool};
use sangam_io::port::{Action, Context, Delivery, PeerKey, Port};
use sangam_io::quic::{Endpoint, Event};
use sangam_io::timer::Wheel;
use sangam_io::wake::Waker;
use sangam_link::{Acceptor, Input, Output, Session, SessionConfig, Timing, Verdict};
use sangam_model::Time;
use sangam_model::limits::CONTROL_QUEUE_MAX;
use sangam_wire::feedback::Feedback;
use sangam_wire::{Frame, Hello, Message, Refusal, Role, Welcome, WireError, is_event};

use super::request;
use crate::addresses::Knock;
use crate::certificate::Certificate;
use crate::counters::Counters;
use crate::feedback;
use crate::welcome::{Greeting, of_no_version};
pub(crate) use open::Opening;
use peer::Peer;

/// How long a connection may stay without a hello.
const HELLO_WITHIN: Duration = Duration::from_secs(5);
/// Batches before others have their turn; the poller tells when there is more.
const BATCHES_PER_TURN: usize = 4;

/// A packet of a client that has moved, on its way to its shard.
#[derive(Debug)]
pub(crate) struct Handover {
    from: SocketAddr,
    packet: Packet,
}

/// The ways between the shards' sockets of one port: an entry for each shard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group(pub(crate) Vec<(SyncSender<Handover>, Waker)>);

/// All QUIC clients of one family in one shard.
pub(crate) struct QuicPort {
    endpoint: Endpoint,
    certificate: Certificate,
    group: Group,
    arrivals: Receiver<Handover>,
    acceptor: Acceptor,
    greeting: Greeting,
    counters: Arc<Counters>,
    peers: Vec<Option<Peer>>,
    count: usize,
    wheel: Wheel<PeerKey>,
    due: Vec<PeerKey>,
    /// How many packets may wait for all clients together: else a few that do not read could
    /// hold every buffer of the pool.
    queued_max: usize,
}

impl Group {
    fn hand_over(&self, pool: &Pool, member: u8, from: SocketAddr, bytes: &[u8]) -> bool {
        let Some((sender, waker)) = self.0.get(usize::from(member)) else {
            return false;
        };
        let Some(packet) = pool.copy(bytes).map(PacketMut::freeze) else {
            return false;
        };
        let sent = sender.try_send(Handover { from, packet }).is_ok();
        waker.wake();
        sent
    }
}

impl QuicPort {
    pub(crate) fn new(
        endpoint: Endpoint,
        certificate: Certificate,
        (group, arrivals): (Group, Receiver<Handover>),
        (acceptor, greeting): (Acceptor, Greeting),
        (queued_max, counters): (usize, Arc<Counters>),
    ) -> Self {
        Self {
            endpoint,
            certificate,
            group,
            arrivals,
            acceptor,
            greeting,
            counters,
            peers: Vec::new(),
            count: 0,
            wheel: Wheel::new(clock::now()),
            due: Vec::new(),
            queued_max,
        }
    }

    fn receive(&mut self, cx: &mut Context<'_>) -> bool {
        let (group, counters, pool) = (&self.group, &self.counters, cx.pool);
        let more = self.endpoint.receive(cx.now, |member, from, bytes| {
            if !group.hand_over(pool, member, from, bytes) {
                counters.dropped(DropReason::UnknownPeer);
            }
        });
        match more {
            Ok(more) => more,
            Err(error) => {
                tracing::warn!(%error, "receiving from QUIC clients failed");
                false
            }
        }
    }

    /// Takes what the connections tell.
    fn take(&mut self, cx: &mut Context<'_>) {
        while let Some((key, event)) = self.endpoint.poll() {
            match event {
                Event::Connected => self.add(key, cx),
                Event::Unit(bytes) => self.unit(key, &bytes, cx),
                Event::Lost { cause, .. } => {
                    tracing::debug!(cause, "a QUIC client is gone");
                    self.forget(key, cx);
                }
                _ => {}
            }
        }
    }

    fn add(&mut self, key: PeerKey, cx: &mut Context<'_>) {
        let index = key as usize;
        if index >= self.peers.len() {
            self.peers.resize_with(index + 1, || None);
        }
        let Some(address) = self.endpoint.peer(key).map(|peer| peer.ip()) else {
            return;
        };
        let surplus = match self.greeting.addresses.knock(address) {
            Knock::Enter { surplus } => surplus,
            Knock::Leave => {
                self.counters.dropped(DropReason::AddressFull);
                return self.endpoint.close(key, cx.now, "too many of one address");
            }
        };
        self.peers[index] = Some(Peer::new(address, surplus));
        self.count += 1;
        self.wheel.set(key, cx.now + HELLO_WITHIN);
    }

    fn peer(&mut self, key: PeerKey) -> Option<&mut Peer> {
        self.peers.get_mut(key as usize)?.as_mut()
    }

    fn session(&mut self, key: PeerKey) -> Option<&mut Session> {
        self.peer(key)?.session.as_mut()
    }

    fn unit(&mut self, key: PeerKey, unit: &[u8], cx: &mut Context<'_>) {
        match unit.first().copied().and_then(is_event) {
            Some(true) => self.event(key, unit, cx),
            Some(false) => self.frame(key, unit, cx),
            None => self.counters.dropped(DropReason::Version),
        }
    }

    fn event(&mut self, key: PeerKey, bytes: &[u8], cx: &mut Context<'_>) {
        let Some(session) = self.session(key) else {
            return self.counters.dropped(DropReason::UnknownPeer);
        };
        session.heard(cx.now);
        let Some(packet) = cx.pool.copy(bytes).map(PacketMut::freeze) else {
            return self.counters.dropped(DropReason::PoolExhausted);
        };
        match request::event(key, packet) {
            Ok(action) => cx.actions.push(action),
            Err(error) => self.counters.dropped(error.into()),
        }
    }

    fn frame(&mut self, key: PeerKey, bytes: &[u8], cx: &mut Context<'_>) {
        self.counters.frames.add(1);
        let frame = match Frame::decode(bytes) {
            Ok(Frame::Hello(hello)) => return self.hello(key, &hello, cx),
            Ok(frame) => frame,
            Err(error) => return self.unreadable(key, bytes, (error, cx.now)),
        };
        if let Some(session) = self.session(key) {
            session.handle(cx.now, Input::Frame(&frame));
            self.drain(key, cx);
        }
    }

    /// A frame that cannot be read; of a hello from another release it is known what to answer.
    fn unreadable(&mut self, key: PeerKey, bytes: &[u8], (error, now): (WireError, Time)) {
        self.counters.dropped(error.into());
        if let Some(refuse) = of_no_version(bytes) {
            self.answer(key, &Frame::Refuse(refuse));
            // What is known of the client goes when the connection is gone.
            self.wheel.set(key, now);
        }
    }

    fn hello(&mut self, key: PeerKey, hello: &Hello, cx: &mut Context<'_>) {
        // The handshake has proved the address.
        let verdict = self.acceptor.judge_stream(hello);
        let known = self.peer(key).is_none_or(|peer| peer.session.is_some());
        if known || hello.role != Role::Client {
            return self.counters.dropped(DropReason::ControlUnexpected);
        }
        let frame = match verdict {
            Verdict::Retry(frame) | Verdict::Refuse(frame) => frame,
            Verdict::Accept { .. } if self.peer(key).is_some_and(|peer| peer.surplus) => {
                self.counters.dropped(DropReason::AddressFull);
                Frame::Refuse(Greeting::no_room(hello, Refusal::Limit))
            }
            Verdict::Accept { .. } if !self.greeting.enter() => {
                Frame::Refuse(Greeting::no_room(hello, Refusal::Full))
            }
            Verdict::Accept { .. } => {
                let config = SessionConfig {
                    number: self.greeting.next_session(),
                    timing: Timing::accepting(self.greeting.keepalive()),
                    datagram_max: self.greeting.datagram_max,
                    reliable: true,
                };
                if let Some(peer) = self.peer(key) {
                    peer.session = Some(Session::new(config, cx.now));
                }
                Frame::Welcome(Welcome {
                    session: config.number,
                    datagram_max: config.datagram_max,
                    media_port: 0,
                    ..self.greeting.welcome(hello)
                })
            }
        };
        self.answer(key, &frame);
        if let Frame::Refuse(_) = frame {
            return self.remove(key, "refused", cx);
        }
        self.drain(key, cx);
    }

    fn answer(&mut self, key: PeerKey, frame: &Frame<'_>) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        // Nothing waits on the stream before the hello is answered.
        let _ = self.endpoint.send_frame(key, &bytes);
    }

    /// Carries out what a session wants, and sets the timer.
    fn drain(&mut self, key: PeerKey, cx: &mut Context<'_>) {
        loop {
            let Some(peer) = self.peer(key) else {
                return;
            };
            let address = peer.address;
            let Some(session) = &mut peer.session else {
                return;
            };
            match session.poll(cx.now) {
                Some(Output::Transmit(bytes)) => {
                    if self.endpoint.send_frame(key, &bytes).is_err() {
                        self.counters.dropped(DropReason::ControlOverflow);
                        return self.remove(key, "control overflow", cx);
                    }
                }
                // Only broker links are suspected and measured.
                Some(
                    Output::Suspect | Output::Recovered | Output::Sample(_) | Output::Carries(_),
                ) => {}
                Some(Output::Message(message)) => {
                    match request::action(key, message, (address, None)) {
                        Some(action) => cx.actions.push(action),
                        None => self.counters.dropped(DropReason::ControlUnexpected),
                    }
                }
                Some(Output::Down(reason)) => {
                    return self.remove(key, &reason.to_string(), cx);
                }
                None => break,
            }
        }
        let deadline = self.session(key).and_then(|session| session.deadline());
        if let Some(deadline) = deadline {
            self.wheel.set(key, deadline);
        }
    }

    /// Ends a connection from our side.
    fn remove(&mut self, key: PeerKey, reason: &str, cx: &mut Context<'_>) {
        self.endpoint.close(key, cx.now, reason);
        self.forget(key, cx);
    }

    fn forget(&mut self, key: PeerKey, cx: &mut Context<'_>) {
        let Some(peer) = self.peers.get_mut(key as usize).and_then(Option::take) else {
            return;
        };
        self.greeting.addresses.leave(peer.address);
        if peer.session.is_some() {
            self.greeting.leave();
        }
        self.count -= 1;
        self.wheel.cancel(key);
        cx.actions.push(Action::Gone { peer: key });
    }

    /// Sends what may leave, and counts what the endpoint has counted.
    fn send(&mut self, done: &mut Delivery) -> bool {
        let all = self.endpoint.flush(clock::now());
        let counted = self.endpoint.counters();
        done.messages += counted.sent.messages;
        done.errors += counted.oversized;
        let turned_away = counted.retried + counted.refused + counted.ignored;
        self.counters
            .dropped_many(DropReason::FloodHello, turned_away);
        self.counters
            .dropped_many(DropReason::SendError, counted.sent.errors);
        all
    }
}

impl Port for QuicPort {
    fn name(&self) -> &'static str {
        "quic"
    }

    fn start(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        cx.poller.add(self.endpoint.fd(), cx.token, Interest::Read)
    }

    fn ready(&mut self, _token: u32, cx: &mut Context<'_>) {
        if let Some(shown) = self.certificate.quic()
            && let Err(error) = self.endpoint.show(&shown)
        {
            tracing::warn!(%error, "the new certificate is no use for QUIC");
        }
        for _ in 0..BATCHES_PER_TURN {
            let more = self.receive(cx);
            self.take(cx);
            if !more {
                break;
            }
        }
        self.send(&mut Delivery::default());
    }

    fn woken(&mut self, cx: &mut Context<'_>) {
        let mut any = false;
        while let Ok(Handover { from, packet }) = self.arrivals.try_recv() {
            self.endpoint.handed_over(cx.now, from, &packet);
            any = true;
        }
        if any {
            self.take(cx);
            self.send(&mut Delivery::default());
        }
    }

    fn deliver(&mut self, burst: &[Packet], peers: &[PeerKey], cx: &mut Context<'_>) -> Delivery {
        let mut done = Delivery {
            peers: peers.len(),
            ..Delivery::default()
        };
        for key in peers {
            let Some(peer) = self.peers.get_mut(*key as usize).and_then(Option::as_mut) else {
                continue;
            };
            for packet in burst {
                let Ok(header) = packet.header() else {
                    continue;
                };
                let waiting = self.endpoint.waiting(*key, cx.now);
                let crowded = self.endpoint.packets() >= self.queued_max;
                let admit = peer.shedders.admit(&header, &waiting, crowded);
                if admit == Admit::Deliver
                    && (self.endpoint)
                        .send_event(*key, packet.clone(), cx.now)
                        .is_ok()
                {
                    done.packets += 1;
                    done.bytes += packet.len() as u64;
                } else {
                    done.peer_full += 1;
                }
            }
            let stream = burst.first().and_then(|first| first.header().ok());
            let stream = stream.map(|header| header.stream);
            if let Some(stream) = stream.filter(|stream| peer.shedders.wants_key_frame(*stream)) {
                // Merged and limited by the shard like any other.
                let feedback = Feedback::KeyFrame;
                let request = FeedbackOutput {
                    stream,
                    layer: 0,
                    feedback,
                };
                if let Some(packet) = feedback::event(&request, cx.pool) {
                    cx.actions.push(Action::Feedback { peer: *key, packet });
                }
            }
        }
        done
    }

    fn flush(&mut self, done: &mut Delivery) -> bool {
        self.send(done)
    }

    fn tell(&mut self, peer: PeerKey, message: Message, cx: &mut Context<'_>) {
        let Some(known) = self.peer(peer) else {
            return;
        };
        if let Message::Retire { stream } = &message {
            known.shedders.forget(*stream);
        }
        if let Some(session) = &mut known.session {
            session.handle(cx.now, Input::Send(message));
            self.drain(peer, cx);
        }
        self.send(&mut Delivery::default());
    }

    fn room(&self, peer: PeerKey) -> usize {
        let peer = self.peers.get(peer as usize).and_then(Option::as_ref);
        let session = peer.and_then(|peer| peer.session.as_ref());
        CONTROL_QUEUE_MAX.saturating_sub(session.map_or(0, Session::unacknowledged))
    }

    fn feedback(&mut self, peer: PeerKey, packet: &Packet, cx: &mut Context<'_>) {
        let sent = self.endpoint.send_event(peer, packet.clone(), cx.now);
        if sent.is_err() {
            self.counters.dropped(DropReason::PeerQueueFull);
        }
        self.send(&mut Delivery::default());
    }

    fn deadline(&self) -> Option<Time> {
        let deadlines = [self.wheel.deadline(), self.endpoint.deadline()];
        deadlines.into_iter().flatten().min()
    }

    fn timeout(&mut self, cx: &mut Context<'_>) {
        self.endpoint.timeout(cx.now);
        self.take(cx);
        let mut due = std::mem::take(&mut self.due);
        due.clear();
        self.wheel.expired(cx.now, &mut due);
        for key in due.drain(..) {
            match self.session(key) {
                Some(_) => self.drain(key, cx),
                None => self.remove(key, "no hello", cx),
            }
        }
        self.due = due;
        self.send(&mut Delivery::default());
    }

    fn peers(&self) -> usize {
        self.count
    }

    fn clients(&self) -> Vec<PeerKey> {
        (0..self.peers.len() as PeerKey).collect()
    }

    fn close(&mut self, cx: &mut Context<'_>) {
        for key in 0..self.peers.len() as PeerKey {
            if let Some(session) = self.session(key) {
                session.handle(cx.now, Input::Close(Refusal::Leaving));
                self.drain(key, cx);
            }
        }
        self.send(&mut Delivery::default());
    }
}
