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

use sangam_broker::{Admit, DropReason};
use sangam_io::clock;
use sangam_io::poll::Interest;
use sangam_io::pool::{Packet, PacketMut, Pool};
use sangam_io::port::{Action, Context, Delivery, PeerKey, Port};
use sangam_io::quic::{Endpoint, Event};
use sangam_io::timer::Wheel;
use sangam_io::wake::Waker;
use sangam_link::Acceptor;
use sangam_model::Time;
use sangam_model::limits::CONTROL_QUEUE_MAX;
use sangam_wire::Message;

use super::client::{Desk, Said, Step};
use super::request;
use crate::certificate::Certificate;
use crate::counters::Counters;
use crate::welcome::Greeting;
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
    desk: Desk,
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
            desk: Desk {
                acceptor,
                greeting,
                counters,
            },
            peers: Vec::new(),
            count: 0,
            wheel: Wheel::new(clock::now()),
            due: Vec::new(),
            queued_max,
        }
    }

    fn receive(&mut self, cx: &mut Context<'_>) -> bool {
        let (group, counters, pool) = (&self.group, &self.desk.counters, cx.pool);
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
        let Some(client) = self.desk.knock(address) else {
            return self.endpoint.close(key, cx.now, "too many of one address");
        };
        self.peers[index] = Some(Peer::new(client));
        self.count += 1;
        self.wheel.set(key, cx.now + HELLO_WITHIN);
    }

    fn peer(&mut self, key: PeerKey) -> Option<&mut Peer> {
        self.peers.get_mut(key as usize)?.as_mut()
    }

    fn unit(&mut self, key: PeerKey, unit: &[u8], cx: &mut Context<'_>) {
        let Some(peer) = self.peers.get_mut(key as usize).and_then(Option::as_mut) else {
            return self.desk.counters.dropped(DropReason::UnknownPeer);
        };
        match self.desk.unit(&mut peer.client, (key, unit), cx) {
            Said::Answer(bytes) => self.answer(key, &bytes),
            Said::Refusal(bytes) => {
                self.answer(key, &bytes);
                return self.remove(key, "refused", cx);
            }
            // Neighbours have a port of their own.
            Said::Neighbour(_) => self.desk.counters.dropped(DropReason::ControlUnexpected),
            Said::Heard => {}
            Said::Nothing => return,
        }
        self.drain(key, cx);
    }

    fn answer(&mut self, key: PeerKey, bytes: &[u8]) {
        // Nothing waits on the stream before the hello is answered.
        let _ = self.endpoint.send_frame(key, bytes);
    }

    /// Carries out what a session wants, and sets the timer.
    fn drain(&mut self, key: PeerKey, cx: &mut Context<'_>) {
        let deadline = loop {
            let Some(peer) = self.peers.get_mut(key as usize).and_then(Option::as_mut) else {
                return;
            };
            match self.desk.next(&mut peer.client, key, cx) {
                Step::Transmit(bytes) => {
                    if self.endpoint.send_frame(key, &bytes).is_err() {
                        self.desk.counters.dropped(DropReason::ControlOverflow);
                        return self.remove(key, "control overflow", cx);
                    }
                }
                Step::Over(reason) => return self.remove(key, &reason.to_string(), cx),
                Step::Rest(deadline) => break deadline,
            }
        };
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
        self.desk.leave(&peer.client);
        self.count -= 1;
        self.wheel.cancel(key);
        cx.actions.push(Action::Gone { peer: key });
    }

    /// Sends what may leave while nothing is delivered.
    fn send_now(&mut self) {
        let mut done = Delivery::default();
        self.send(&mut done);
        self.desk.counters.delivery(&done);
    }

    /// Sends what may leave, and counts what the endpoint has counted.
    fn send(&mut self, done: &mut Delivery) -> bool {
        let all = self.endpoint.flush(clock::now());
        let counted = self.endpoint.counters();
        done.messages += counted.sent.messages;
        done.errors += counted.oversized;
        let turned_away = counted.retried + counted.refused + counted.ignored;
        let counters = &self.desk.counters;
        counters.dropped_many(DropReason::FloodHello, turned_away);
        counters.dropped_many(DropReason::SendError, counted.sent.errors);
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
        self.send_now();
    }

    fn woken(&mut self, cx: &mut Context<'_>) {
        let mut any = false;
        while let Ok(Handover { from, packet }) = self.arrivals.try_recv() {
            self.endpoint.handed_over(cx.now, from, &packet);
            any = true;
        }
        if any {
            self.take(cx);
            self.send_now();
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
                let action = request::key_frame(*key, stream, cx.pool);
                cx.actions.extend(action);
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
        if known.client.tell(cx.now, message) {
            self.drain(peer, cx);
        }
        self.send_now();
    }

    fn room(&self, peer: PeerKey) -> usize {
        let peer = self.peers.get(peer as usize).and_then(Option::as_ref);
        CONTROL_QUEUE_MAX.saturating_sub(peer.map_or(0, |peer| peer.client.unacknowledged()))
    }

    fn feedback(&mut self, peer: PeerKey, packet: &Packet, cx: &mut Context<'_>) {
        let sent = self.endpoint.send_event(peer, packet.clone(), cx.now);
        if sent.is_err() {
            self.desk.counters.dropped(DropReason::PeerQueueFull);
        }
        self.send_now();
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
            match self.peer(key).is_none_or(|peer| peer.client.is_stranger()) {
                true => self.remove(key, "no hello", cx),
                false => self.drain(key, cx),
            }
        }
        self.due = due;
        self.send_now();
    }

    fn peers(&self) -> usize {
        self.count
    }

    fn clients(&self) -> Vec<PeerKey> {
        (0..self.peers.len() as PeerKey).collect()
    }

    fn close(&mut self, cx: &mut Context<'_>) {
        for key in 0..self.peers.len() as PeerKey {
            if self.peer(key).is_some_and(|peer| peer.client.close(cx.now)) {
                self.drain(key, cx);
            }
        }
        self.send_now();
    }
}
