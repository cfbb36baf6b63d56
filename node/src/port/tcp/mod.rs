//! Clients over streams (TCP, TLS, WebSocket): the same units, a bounded queue for each.

mod entrance;
mod peer;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sangam_broker::DropReason;
use sangam_io::clock;
use sangam_io::poll::Interest;
use sangam_io::pool::Packet;
use sangam_io::port::{Action, Context, Delivery, PeerKey, Peers, Port};
use sangam_io::stream::{Framed, FramedError, OutLimits, Progress};
use sangam_io::timer::Wheel;
use sangam_link::Acceptor;
use sangam_model::Time;
use sangam_model::limits::CONTROL_QUEUE_MAX;
use sangam_wire::{Hello, Message};

use super::client::{Client, Desk, Said, Step};
use super::request;
use crate::bucket::Bucket;
use crate::counters::Counters;
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
    desk: Desk,
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
            desk: Desk {
                acceptor,
                greeting,
                counters,
            },
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
                    self.dropped(DropReason::FloodHello);
                }
                Ok(Some((Some(framed), address))) => {
                    if let Some(client) = self.desk.knock(address.ip()) {
                        self.add(framed, (address, client), cx);
                    }
                }
                Ok(Some((None, _))) => self.dropped(DropReason::StreamOpening),
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
        (address, client): (SocketAddr, Client),
        cx: &mut Context<'_>,
    ) {
        let key = self.peers.insert(Peer {
            address,
            client,
            framed: None,
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
            return self.hand_over(key, (framed, hello), cx);
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
                self.dropped(match error {
                    FramedError::Tls(_) | FramedError::Http(_) => DropReason::StreamOpening,
                    _ => DropReason::Malformed,
                });
                self.remove(key, cx);
            }
        }
    }

    fn unit(&mut self, key: PeerKey, unit: &[u8], cx: &mut Context<'_>) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        match self.desk.unit(&mut peer.client, (key, unit), cx) {
            Said::Answer(bytes) => peer.answers.push(bytes),
            Said::Refusal(bytes) => {
                peer.answers.push(bytes);
                peer.refused = true;
            }
            Said::Neighbour(hello) => peer.neighbour = Some(hello),
            Said::Heard | Said::Nothing => {}
        }
    }

    /// Neighbours are the lane's.
    fn hand_over(&mut self, key: PeerKey, (framed, hello): (Framed, Hello), cx: &mut Context<'_>) {
        let address = self.peers.get(key).map(|peer| peer.address);
        let removed = cx.poller.remove(framed.fd());
        self.remove(key, cx);
        let taken = removed.is_ok()
            && address.is_some_and(|address| self.entrance.hand_over(framed, (hello, address)));
        if !taken {
            self.dropped(DropReason::FloodHello);
        }
    }

    fn dropped(&self, reason: DropReason) {
        self.desk.counters.dropped(reason);
    }

    /// Carries out what a session wants, writes, and sets the timer.
    fn drain(&mut self, key: PeerKey, cx: &mut Context<'_>) {
        let deadline = loop {
            let Some(peer) = self.peers.get_mut(key) else {
                return;
            };
            match self.desk.next(&mut peer.client, key, cx) {
                Step::Transmit(bytes) => {
                    let framed = peer.framed.as_mut();
                    if framed.is_some_and(|framed| framed.push_bytes(&bytes).is_err()) {
                        self.dropped(DropReason::ControlOverflow);
                        return self.remove(key, cx);
                    }
                }
                Step::Over(_) => {
                    self.write(key, cx);
                    return self.remove(key, cx);
                }
                Step::Rest(deadline) => break deadline,
            }
        };
        self.write(key, cx);
        if let Some(deadline) = deadline
            && self.peers.get(key).is_some()
        {
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
                self.dropped(DropReason::TcpWriteError);
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
            self.desk.leave(&peer.client);
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
                let action = request::key_frame(*key, stream, cx.pool);
                cx.actions.extend(action);
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
        if known.client.tell(cx.now, message) {
            self.drain(peer, cx);
        }
    }

    fn room(&self, peer: PeerKey) -> usize {
        let Some(peer) = self.peers.get(peer) else {
            return CONTROL_QUEUE_MAX;
        };
        let waiting = peer.client.unacknowledged();
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
            self.dropped(DropReason::PeerQueueFull);
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
            let peer = self.peers.get(key);
            if peer.is_some_and(|peer| peer.client.is_stranger()) {
                // Neither an opening nor a hello in time.
                self.dropped(DropReason::StreamOpening);
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
            let peer = self.peers.get_mut(key);
            if peer.is_some_and(|peer| peer.client.close(cx.now)) {
                self.drain(key, cx);
            }
        }
    }
}
