//! The gateway's part in one shard: sockets, peers and their timers.

use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use sangam_io::clock;
use sangam_io::poll::Interest;
use sangam_io::pool::Packet;
use sangam_io::port::{Action, Context, Delivery, PeerKey, Peers, Port};
use sangam_io::timer::Wheel;
use sangam_io::udp::{RecvBatch, UdpSocket};
use sangam_model::Time;
use sangam_wire::feedback::Feedback;
use sangam_wire::{Event, Message};

use crate::clock::Clock;
use crate::counts::Counts;
use crate::credentials::{self, Ufrag};
use crate::early::Early;
use crate::end::End;
use crate::inbound::Inbound;
use crate::item::Item;
use crate::outbox::Outbox;
use crate::peer::{Hands, Peer};
use crate::places::Places;
use crate::signalling::{Arrival, Command, JoinError, PeerId};
use crate::table::{Group, Note, Table};
use crate::tcp::Connections;

/// Datagrams of one recvmmsg call, and bytes of each: what SRTP and STUN send fits a path.
const BATCH: usize = 64;
const BATCH_BYTES: usize = 2_048;
/// What a peer costs beside its packets: the library's state, which lies in no cache by then (14 us
/// with 400 peers on a machine where raw sendmmsg takes 7 a packet; ADR 0081).
const VISIT: Duration = Duration::from_micros(10);
/// Tokens of what the port polls: sockets, listeners, connections.
const SOCKETS: std::ops::Range<u32> = 0..2;
pub(crate) const LISTENERS: std::ops::Range<u32> = 2..4;
pub(crate) const CONNECTIONS: u32 = 16;

/// What a port is made of.
pub(crate) struct Parts {
    pub(crate) number: u16,
    pub(crate) sockets: Vec<UdpSocket>,
    pub(crate) connections: Connections,
    pub(crate) places: Places,
    pub(crate) group: Group,
    pub(crate) notes: Receiver<Note>,
    pub(crate) commands: Receiver<Command>,
    pub(crate) counts: Arc<Counts>,
}

/// All WebRTC peers of one shard.
pub(crate) struct WebRtcPort {
    pub(crate) parts: Parts,
    /// Away while its datagrams are handled.
    pub(crate) batch: Option<RecvBatch>,
    pub(crate) peers: Peers<Peer>,
    pub(crate) by_ufrag: HashMap<Ufrag, PeerKey>,
    pub(crate) by_id: HashMap<PeerId, PeerKey>,
    pub(crate) table: Table,
    pub(crate) early: Early,
    pub(crate) wheel: Wheel<PeerKey>,
    pub(crate) due: Vec<PeerKey>,
    pub(crate) out: Outbox,
    pub(crate) burst: Vec<Item>,
    pub(crate) clock: Clock,
}

impl WebRtcPort {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            out: Outbox::new(parts.places.clone()),
            parts,
            batch: Some(RecvBatch::new(BATCH, BATCH_BYTES)),
            peers: Peers::default(),
            by_ufrag: HashMap::new(),
            by_id: HashMap::new(),
            table: Table::default(),
            early: Early::default(),
            wheel: Wheel::new(clock::now()),
            due: Vec::new(),
            burst: Vec::new(),
            clock: Clock::new(),
        }
    }

    /// Lets a peer go on, with a datagram or because it is time.
    pub(crate) fn drive(
        &mut self,
        key: PeerKey,
        inbound: Option<Inbound<'_>>,
        cx: &mut Context<'_>,
    ) {
        let receive = match inbound.map(|inbound| inbound.receive()) {
            Some(None) => return self.parts.counts.malformed.one(),
            receive => receive.flatten(),
        };
        let next = self.with(key, cx, |peer, hands| peer.turn(receive, hands));
        if let Some(next) = next {
            self.wheel.set(key, next);
        }
    }

    /// Does something with a peer; if it fails, the peer ends. The library asserts what it
    /// believes of itself: should a peer's bytes prove it wrong, that peer pays and nobody else.
    fn with<T>(
        &mut self,
        key: PeerKey,
        cx: &mut Context<'_>,
        f: impl FnOnce(&mut Peer, &mut Hands<'_, '_>) -> Result<T, End>,
    ) -> Option<T> {
        let peer = self.peers.get_mut(key)?;
        let mut hands = Hands {
            key,
            cx,
            out: &mut self.out,
            counts: &self.parts.counts,
            clock: self.clock,
        };
        let done = catch_unwind(AssertUnwindSafe(|| f(peer, &mut hands)));
        let done = done.unwrap_or_else(|_| Err(End::Failed("a bug in the library".to_owned())));
        match done {
            Ok(value) => Some(value),
            Err(end) => {
                self.remove(key, &end, cx);
                None
            }
        }
    }

    fn remove(&mut self, key: PeerKey, end: &End, cx: &mut Context<'_>) {
        let Some(peer) = self.peers.remove(key) else {
            return;
        };
        let counts = &self.parts.counts;
        match end {
            End::Left => counts.left.one(),
            End::Unconnected => counts.unconnected.one(),
            End::Lost => counts.lost.one(),
            End::Failed(_) => counts.failed.one(),
            End::Refused(_) => counts.refused.one(),
        }
        tracing::debug!(peer = %peer.id, %end, "a WebRTC peer is gone");
        self.by_ufrag.remove(&peer.ufrag);
        self.by_id.remove(&peer.id);
        for (address, via) in peer.addresses().to_vec() {
            self.forget(address, via);
        }
        self.connections_end(key);
        self.wheel.cancel(key);
        self.parts.group.left();
        cx.actions.push(Action::Gone { peer: key });
    }

    fn add(&mut self, arrival: Arrival, cx: &mut Context<'_>) {
        let Some(ufrag) = credentials::ufrag(&arrival.creds.ufrag) else {
            return;
        };
        let id = arrival.id;
        let counts = Arc::clone(&self.parts.counts);
        let clock = self.clock;
        let out = &mut self.out;
        let key = self.peers.insert_with(|key| {
            let mut hands = Hands {
                key,
                cx,
                out,
                counts: &counts,
                clock,
            };
            Peer::new(arrival, ufrag, &mut hands)
        });
        self.by_ufrag.insert(ufrag, key);
        self.by_id.insert(id, key);
        counts.joined.one();
        self.drive(key, None, cx);
    }

    fn command(&mut self, command: Command, cx: &mut Context<'_>) {
        let find = |id: &PeerId| self.by_id.get(id).copied();
        // Whoever asked may have given up waiting: then nobody takes the answer.
        match command {
            Command::Join(arrival) => self.add(*arrival, cx),
            Command::Trickle(id, candidates, answer) => {
                let key = find(&id);
                if let Some(key) = key {
                    self.with(key, cx, |peer, _| peer.trickle(candidates));
                    self.drive(key, None, cx);
                }
                let _ = answer.send(key.is_some());
            }
            Command::Restart(id, restart, answer) => {
                let _ = answer
                    .send(find(&id).is_some_and(|key| self.restart(key, *restart, cx).is_some()));
            }
            Command::Renew(id, token, answer) => {
                let key = find(&id);
                if let Some(key) = key {
                    cx.actions.push(Peer::shows(key, token));
                }
                let _ = answer.send(key.is_some());
            }
            Command::Leave(id, answer) => {
                let key = find(&id);
                if let Some(key) = key {
                    self.with(key, cx, |peer, hands| {
                        peer.close(hands);
                        Err::<(), _>(End::Left)
                    });
                }
                let _ = answer.send(key.is_some());
            }
            Command::Show(id, shown, answer) => {
                let key = find(&id);
                let told = key.and_then(|key| {
                    let told = self.with(key, cx, |peer, hands| Ok(peer.show(&shown, hands)));
                    self.drive(key, None, cx);
                    told
                });
                let _ = answer.send(told.unwrap_or(Err(JoinError::Unknown)));
            }
            Command::Describe(id, answer) => {
                let peer = find(&id).and_then(|key| self.peers.get(key));
                let _ = answer.send(peer.map(Peer::describe));
            }
        }
    }

    fn restart(
        &mut self,
        key: PeerKey,
        restart: crate::signalling::Restart,
        cx: &mut Context<'_>,
    ) -> Option<()> {
        let old = self.peers.get(key)?.ufrag;
        let new = self.with(key, cx, |peer, hands| {
            peer.restart(restart, hands)?;
            Ok(peer.ufrag)
        })?;
        self.parts.counts.restarted.one();
        self.by_ufrag.remove(&old);
        self.by_ufrag.insert(new, key);
        self.drive(key, None, cx);
        Some(())
    }

    /// The part of a burst that all receivers share.
    fn take(&mut self, burst: &[Packet]) {
        self.burst.clear();
        let counts = &self.parts.counts;
        self.burst
            .extend(burst.iter().filter_map(|packet| Item::of(packet, counts)));
    }
}

impl Port for WebRtcPort {
    fn name(&self) -> &'static str {
        "webrtc"
    }

    fn start(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        for (token, socket) in SOCKETS.zip(&self.parts.sockets) {
            cx.poller
                .add(socket.fd(), cx.token | u64::from(token), Interest::Read)?;
        }
        self.parts.connections.start(cx)
    }

    fn ready(&mut self, token: u32, cx: &mut Context<'_>) {
        if SOCKETS.contains(&token) {
            self.receive(token as usize, cx);
        } else if LISTENERS.contains(&token) {
            self.accept((token - LISTENERS.start) as usize, cx);
        } else if let Some(connection) = token.checked_sub(CONNECTIONS) {
            self.read(connection, cx);
        }
        self.send_units(cx);
    }

    fn woken(&mut self, cx: &mut Context<'_>) {
        while let Ok(command) = self.parts.commands.try_recv() {
            self.command(command, cx);
        }
        while let Ok(note) = self.parts.notes.try_recv() {
            self.note(note, cx);
        }
        self.send_units(cx);
    }

    fn visit(&self) -> Duration {
        VISIT
    }

    fn deliver(&mut self, burst: &[Packet], peers: &[PeerKey], cx: &mut Context<'_>) -> Delivery {
        let mut done = Delivery::default();
        if self.out.is_full() && !self.out.flush(&self.parts.sockets, &mut done) {
            return done;
        }
        self.take(burst);
        let mut items = std::mem::take(&mut self.burst);
        for key in peers {
            done.peers += 1;
            let next = self.with(*key, cx, |peer, hands| peer.send(&mut items, hands));
            if let Some(Some(next)) = next {
                self.wheel.set(*key, next);
            }
            if self.out.is_full() && !self.out.flush(&self.parts.sockets, &mut done) {
                break;
            }
        }
        self.burst = items;
        self.send_units(cx);
        done
    }

    fn flush(&mut self, done: &mut Delivery) -> bool {
        self.out.flush(&self.parts.sockets, done)
    }

    fn tell(&mut self, peer: PeerKey, message: Message, cx: &mut Context<'_>) {
        self.with(peer, cx, |peer, hands| peer.told(message, hands));
    }

    fn room(&self, _: PeerKey) -> usize {
        usize::MAX
    }

    fn feedback(&mut self, peer: PeerKey, packet: &Packet, cx: &mut Context<'_>) {
        let feedback = Event::decode(packet)
            .and_then(|event| Ok((event.header.stream, Feedback::decode(event.payload)?)));
        if let Ok((stream, Feedback::KeyFrame)) = feedback {
            self.with(peer, cx, |peer, _| peer.asked_for_key_frame(stream));
            self.drive(peer, None, cx);
        }
    }

    fn deadline(&self) -> Option<Time> {
        self.wheel.deadline()
    }

    fn timeout(&mut self, cx: &mut Context<'_>) {
        let mut due = std::mem::take(&mut self.due);
        self.wheel.expired(cx.now, &mut due);
        for key in due.drain(..) {
            self.drive(key, None, cx);
        }
        self.due = due;
        self.idle_connections(cx);
        self.send_units(cx);
    }

    fn peers(&self) -> usize {
        self.peers.len()
    }

    fn close(&mut self, cx: &mut Context<'_>) {
        for key in self.peers.keys() {
            self.with(key, cx, |peer, hands| {
                peer.close(hands);
                Err::<(), _>(End::Left)
            });
        }
        self.send_units(cx);
        self.out
            .flush(&self.parts.sockets, &mut Delivery::default());
    }
}
