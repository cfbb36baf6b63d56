//! Clients over streams (TCP, TLS, WebSocket): the same units, a bounded queue for each.

mod entrance;
mod hello;
mod peer;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sangam_broker::{DropReason, FeedbackOutput};
use sangam_io::clock;
use sangam_io::poll::Interest;
use sangam_io::pool::{Packet, PacketMut};
use sangam_io::port::{Action, Context, Delivery, PeerKey, Peers, Port};
use sangam_io::stream::{Framed, FramedError, OutLimits, Progress};
use sangam_io::timer::Wheel;
use sangam_link::{Acceptor, Input, Output, Session};
use sangam_model::Time;
use sangam_model::limits::CONTROL_QUEUE_MAX;
use sangam_wire::feedback::Feedback;
use sangam_wire::{Frame, Message, Refusal, is_event};

use super::request;
use crate::addresses::Knock;
use crate::bucket::Bucket;
use crate::counters::Counters;
use crate::feedback;
use crate::welcome::Greeting;
pub(crate) use entrance::Entrance;
use peer::Peer;

/// Token of the listener; connections have theirs from 1.
const LISTENER: u32 = 0;
/// What may wait for a client that does not read: a second of ten video streams.
const QUEUE: OutLimits = OutLimits {
    units: 4_096,
    bytes: 512 << 10,
};
/// How long a connection may take for its opening (TLS, HTTP) and its hello together.
const HELLO_WITHIN: Duration = Duration::from_secs(5);
/// TLS handshakes of one listener in one shard each second: at up to a millisecond each, callers
/// leave the shard most of its time for those who are there.
const HANDSHAKES_PER_S: u32 = 300;
/// Connections of one shard.
const CONNECTIONS: usize = 8_192;

/// All clients of one listener in one shard.
pub(crate) struct TcpPort {
    entrance: Entrance,
    acceptor: Acceptor,
    greeting: Greeting,
    counters: Arc<Counters>,
    /// TLS handshakes that have begun.
    openings: Bucket,
    peers: Peers<Peer>,
    wheel: Wheel<PeerKey>,
    due: Vec<PeerKey>,
    /// Units that wait for all clients together, and how many may: else a few that do not read
    /// could hold every buffer of the pool.
    queued: usize,
    queued_max: usize,
}

impl TcpPort {
    pub(crate) fn new(
        entrance: Entrance,
        acceptor: Acceptor,
        (greeting, queued_max): (Greeting, usize),
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            entrance,
            acceptor,
            greeting,
            counters,
            openings: Bucket::default(),
            peers: Peers::default(),
            wheel: Wheel::new(clock::now()),
            due: Vec::new(),
            queued: 0,
            queued_max,
        }
    }

    fn accept_all(&mut self, cx: &mut Context<'_>) {
        loop {
            match self.entrance.next(QUEUE) {
                // Dropping the stream closes it.
                Ok(Some(_)) if self.peers.len() >= CONNECTIONS || !self.may_open(cx.now) => {
                    self.counters.dropped(DropReason::FloodHello);
                }
                Ok(Some((Some(framed), address))) => {
                    match self.greeting.addresses.knock(address.ip()) {
                        Knock::Enter { surplus } => {
                            self.add(framed, (address, surplus), cx);
                        }
                        Knock::Leave => self.counters.dropped(DropReason::AddressFull),
                    }
                }
                Ok(Some((None, _))) => self.counters.dropped(DropReason::StreamOpening),
                Ok(None) => return,
                Err(error) => return tracing::warn!(%error, "accepting a stream failed"),
            }
        }
    }

    /// Whether one more may begin now.
    fn may_open(&mut self, now: Time) -> bool {
        !self.entrance.transport.is_encrypted() || self.openings.admits(now, HANDSHAKES_PER_S)
    }

    fn add(
        &mut self,
        framed: Framed,
        (address, surplus): (SocketAddr, bool),
        cx: &mut Context<'_>,
    ) {
        let key = self.peers.insert(Peer {
            address,
            surplus,
            framed: None,
            session: None,
            waits_for_room: false,
            queued: 0,
            shedders: HashMap::new(),
            answers: Vec::new(),
            refused: false,
            neighbour: None,
        });
        let token = cx.token | u64::from(key + 1);
        if let Err(error) = cx.poller.add(framed.fd(), token, Interest::Read) {
            tracing::warn!(%error, "the stream of a client cannot be watched");
            return self.remove(key, cx);
        }
        if let Some(peer) = self.peers.get_mut(key) {
            peer.framed = Some(framed);
        }
        self.wheel.set(key, cx.now + HELLO_WITHIN);
    }

    fn read(&mut self, key: PeerKey, cx: &mut Context<'_>) {
        let Some(mut framed) = self.peers.get_mut(key).and_then(|peer| peer.framed.take()) else {
            return;
        };
        let progress = framed.read_units(|unit| self.unit(key, unit, cx));
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        if let Some(hello) = peer.neighbour.take() {
            return self.hand_over(key, framed, hello, cx);
        }
        for answer in peer.answers.drain(..) {
            // The queue is empty before the hello is answered.
            let _ = framed.push_bytes(&answer);
        }
        if peer.refused {
            // What the kernel does not take at once is not worth waiting for.
            let _ = framed.write();
            return self.remove(key, cx);
        }
        peer.framed = Some(framed);
        match progress {
            Ok(Progress::Closed) => self.remove(key, cx),
            Ok(_) => self.drain(key, cx),
            Err(error) => {
                tracing::debug!(%error, "the stream of a client is closed");
                self.counters.dropped(match error {
                    FramedError::Tls(_) | FramedError::Http(_) => DropReason::StreamOpening,
                    _ => DropReason::Malformed,
                });
                self.remove(key, cx);
            }
        }
    }

    fn unit(&mut self, key: PeerKey, unit: &[u8], cx: &mut Context<'_>) {
        match unit.first().copied().and_then(is_event) {
            Some(true) => self.event(key, unit, cx),
            Some(false) => self.frame(key, unit, cx),
            None => self.counters.dropped(DropReason::Version),
        }
    }

    fn event(&mut self, key: PeerKey, bytes: &[u8], cx: &mut Context<'_>) {
        let Some(session) = self
            .peers
            .get_mut(key)
            .and_then(|peer| peer.session.as_mut())
        else {
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
            Err(error) => return self.unreadable(key, bytes, error),
        };
        if let Some(session) = self
            .peers
            .get_mut(key)
            .and_then(|peer| peer.session.as_mut())
        {
            session.handle(cx.now, Input::Frame(&frame));
        }
    }

    /// Carries out what a session wants, writes, and sets the timer.
    fn drain(&mut self, key: PeerKey, cx: &mut Context<'_>) {
        loop {
            let Some(peer) = self.peers.get_mut(key) else {
                return;
            };
            let Some(session) = &mut peer.session else {
                break;
            };
            match session.poll(cx.now) {
                Some(Output::Transmit(bytes)) => {
                    let full = peer
                        .framed
                        .as_mut()
                        .is_some_and(|f| f.push_bytes(&bytes).is_err());
                    if full {
                        self.counters.dropped(DropReason::ControlOverflow);
                        return self.remove(key, cx);
                    }
                }
                // Only broker links are suspected and measured.
                Some(
                    Output::Suspect | Output::Recovered | Output::Sample(_) | Output::Carries(_),
                ) => {}
                Some(Output::Message(message)) => {
                    let from = (peer.address.ip(), None);
                    match request::action(key, message, from) {
                        Some(action) => cx.actions.push(action),
                        None => self.counters.dropped(DropReason::ControlUnexpected),
                    }
                }
                Some(Output::Down(_)) => {
                    self.write(key, cx);
                    return self.remove(key, cx);
                }
                None => break,
            }
        }
        self.write(key, cx);
        let session = self.peers.get(key).and_then(|peer| peer.session.as_ref());
        if let Some(deadline) = session.and_then(Session::deadline) {
            self.wheel.set(key, deadline);
        }
    }

    fn write(&mut self, key: PeerKey, cx: &mut Context<'_>) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        let Some(framed) = &mut peer.framed else {
            return;
        };
        let wait = match framed.write() {
            Ok(done) => !done,
            Err(error) => {
                tracing::debug!(%error, client = %peer.address, "writing to a client failed");
                self.counters.dropped(DropReason::TcpWriteError);
                return self.remove(key, cx);
            }
        };
        let waiting = framed.queued().units;
        self.queued = self.queued + waiting - std::mem::replace(&mut peer.queued, waiting);
        if wait == peer.waits_for_room {
            return;
        }
        peer.waits_for_room = wait;
        let interest = if wait {
            Interest::ReadWrite
        } else {
            Interest::Read
        };
        let token = cx.token | u64::from(key + 1);
        if let Err(error) = cx.poller.modify(framed.fd(), token, interest) {
            tracing::warn!(%error, "the stream of a client cannot be watched");
            self.remove(key, cx);
        }
    }

    fn remove(&mut self, key: PeerKey, cx: &mut Context<'_>) {
        if let Some(mut peer) = self.peers.remove(key) {
            if let Some(framed) = &mut peer.framed {
                framed.finish();
            }
            if peer.session.is_some() {
                self.greeting.leave();
            }
            self.greeting.addresses.leave(peer.address.ip());
            self.queued -= peer.queued;
            self.wheel.cancel(key);
            cx.actions.push(Action::Gone { peer: key });
        }
    }
}

impl Port for TcpPort {
    fn name(&self) -> &'static str {
        self.entrance.transport.name()
    }

    fn start(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        cx.poller.add(
            self.entrance.fd(),
            cx.token | u64::from(LISTENER),
            Interest::Read,
        )
    }

    fn ready(&mut self, token: u32, cx: &mut Context<'_>) {
        if token == LISTENER {
            return self.accept_all(cx);
        }
        self.write(token - 1, cx);
        self.read(token - 1, cx);
    }

    fn woken(&mut self, _: &mut Context<'_>) {}

    fn deliver(&mut self, burst: &[Packet], peers: &[PeerKey], cx: &mut Context<'_>) -> Delivery {
        let mut done = Delivery {
            peers: peers.len(),
            ..Delivery::default()
        };
        for key in peers {
            let crowded = self.queued >= self.queued_max;
            let Some(peer) = self.peers.get_mut(*key) else {
                continue;
            };
            for packet in burst {
                if peer.push(packet, crowded) {
                    done.packets += 1;
                    done.bytes += packet.len() as u64;
                } else {
                    done.peer_full += 1;
                }
            }
            if let Some(stream) = peer.wants_key_frame(burst) {
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
            done.messages += 1;
            self.write(*key, cx);
        }
        done
    }

    fn tell(&mut self, peer: PeerKey, message: Message, cx: &mut Context<'_>) {
        let Some(known) = self.peers.get_mut(peer) else {
            return;
        };
        if let Message::Retire { stream } = &message {
            known.shedders.remove(stream);
        }
        if let Some(session) = &mut known.session {
            session.handle(cx.now, Input::Send(message));
            self.drain(peer, cx);
        }
    }

    fn room(&self, peer: PeerKey) -> usize {
        let Some(peer) = self.peers.get(peer) else {
            return CONTROL_QUEUE_MAX;
        };
        let waiting = peer.session.as_ref().map_or(0, Session::unacknowledged);
        let units = peer
            .framed
            .as_ref()
            .map_or(0, |framed| framed.queued().units);
        CONTROL_QUEUE_MAX.saturating_sub(waiting.max(units))
    }

    fn feedback(&mut self, peer: PeerKey, packet: &Packet, cx: &mut Context<'_>) {
        let Some(known) = self.peers.get_mut(peer) else {
            return;
        };
        let queued = known
            .framed
            .as_mut()
            .is_some_and(|f| f.push(packet.clone()).is_ok());
        if queued {
            self.write(peer, cx);
        } else {
            self.counters.dropped(DropReason::PeerQueueFull);
        }
    }

    fn deadline(&self) -> Option<Time> {
        self.wheel.deadline()
    }

    fn timeout(&mut self, cx: &mut Context<'_>) {
        let mut due = std::mem::take(&mut self.due);
        due.clear();
        self.wheel.expired(cx.now, &mut due);
        for key in due.drain(..) {
            if self
                .peers
                .get(key)
                .is_some_and(|peer| peer.session.is_none())
            {
                // Neither an opening nor a hello in time.
                self.counters.dropped(DropReason::StreamOpening);
                self.remove(key, cx);
            } else {
                self.drain(key, cx);
            }
        }
        self.due = due;
    }

    fn peers(&self) -> usize {
        self.peers.len()
    }

    fn clients(&self) -> Vec<PeerKey> {
        self.peers.keys()
    }

    fn close(&mut self, cx: &mut Context<'_>) {
        for key in self.peers.keys() {
            let session = self
                .peers
                .get_mut(key)
                .and_then(|peer| peer.session.as_mut());
            if let Some(session) = session {
                session.handle(cx.now, Input::Close(Refusal::Leaving));
                self.drain(key, cx);
            }
        }
    }
}
