//! Native clients over UDP: one socket for each shard and address family.

mod egress;
mod gathered;
mod groups;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::slice;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use sangam_broker::DropReason;
use sangam_io::clock;
use sangam_io::poll::Interest;
use sangam_io::pool::Packet;
use sangam_io::port::{Action, Context, Delivery, PeerKey, Peers, Port};
use sangam_io::timer::Wheel;
use sangam_io::udp::{Address, Fanout, RecvBatch, SendBatch, SendReport, UdpSocket};
use sangam_link::{Input, Output, Session, SessionConfig, Timing};
use sangam_model::Time;
use sangam_model::limits::CONTROL_QUEUE_MAX;
use sangam_wire::{Capabilities, Frame, Hello, Message, Refusal, Welcome, is_event};

use self::egress::PIECES_LEN;
use self::gathered::Gathered;
use self::groups::Groups;
use super::request;
use crate::broker::StartError;
use crate::counters::Counters;
use crate::welcome::Greeting;

/// Datagrams of one recvmmsg call; clients send control, keep-alives and feedback here.
const BATCH: usize = 32;
const BATCH_BYTES: usize = 4_096;
/// Calls before others have their turn; the poller tells when there is more.
const BATCHES_PER_TURN: usize = 4;
/// The shard of all clients that may hear groups: an event leaves once for all of them.
pub(crate) const GROUPS_SHARD: usize = 0;

/// A client whose hello the lane has judged, on its way to its shard.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) hello: Hello,
    pub(crate) source: SocketAddr,
}

/// All UDP clients of one family in one shard.
pub(crate) struct NativePort {
    socket: UdpSocket,
    /// Away while its datagrams are handled.
    batch: Option<RecvBatch>,
    fanout: Fanout,
    admissions: Receiver<Admission>,
    greeting: Greeting,
    counters: Arc<Counters>,
    peers: Peers<Peer>,
    by_address: HashMap<SocketAddr, PeerKey>,
    /// Beside `peers`, so that a fan-out walks through two dense arrays only.
    addresses: Vec<Address>,
    datagram_max: Vec<u16>,
    /// No peer takes less.
    smallest: u16,
    /// Scratch for packets that leave in pieces.
    pieces: Box<[u8]>,
    destinations: Vec<Address>,
    /// Single packets for small audiences, which share system calls.
    gathered: Gathered,
    sender: SendBatch,
    wheel: Wheel<PeerKey>,
    due: Vec<PeerKey>,
    /// Away while something is delivered.
    groups: Option<Box<Groups>>,
    /// Datagrams the socket has lost for want of room.
    overflow: u32,
}

struct Peer {
    address: SocketAddr,
    session: Session,
    hello: Hello,
    /// It may be told of groups.
    near: bool,
}

impl NativePort {
    pub(crate) fn new(
        socket: UdpSocket,
        admissions: Receiver<Admission>,
        greeting: Greeting,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            socket,
            batch: Some(RecvBatch::new(BATCH, BATCH_BYTES)),
            fanout: Fanout::new(),
            admissions,
            smallest: greeting.datagram_max,
            greeting,
            counters,
            peers: Peers::default(),
            by_address: HashMap::new(),
            addresses: Vec::new(),
            datagram_max: Vec::new(),
            pieces: vec![0; PIECES_LEN].into(),
            destinations: Vec::new(),
            gathered: Gathered::default(),
            sender: SendBatch::new(),
            wheel: Wheel::new(clock::now()),
            due: Vec::new(),
            groups: None,
            overflow: 0,
        }
    }

    /// Lets the port send to groups, if it is of the shard that does.
    ///
    /// # Errors
    /// [`StartError::Multicast`].
    pub(crate) fn with_groups(mut self, shard: u16) -> Result<Self, StartError> {
        let segment = self.greeting.segment.clone();
        if let Some(segment) = segment.filter(|_| usize::from(shard) == GROUPS_SHARD)
            && let Some(sources) = segment.prepare(&self.socket)?
        {
            let groups = Groups::new(segment, sources, self.counters.clone());
            self.groups = Some(Box::new(groups));
        }
        Ok(self)
    }

    fn admit(&mut self, admission: Admission, cx: &mut Context<'_>) {
        let Admission { hello, source } = admission;
        if let Some(key) = self.by_address.get(&source).copied() {
            let known = self
                .peers
                .get(key)
                .is_some_and(|peer| peer.hello.nonce == hello.nonce);
            if known {
                // Our welcome was lost.
                if let Some(peer) = self.peers.get_mut(key) {
                    peer.session.heard(cx.now);
                }
                return self.welcome(key);
            }
            // The client has started anew.
            self.remove(key, cx);
        }
        if let Err(reason) = self.enter(source) {
            let mut bytes = Vec::new();
            Frame::Refuse(Greeting::refusal(&hello, reason)).encode(&mut bytes);
            return self.transmit(&bytes, Address::from(source));
        }
        let datagram_max = self.greeting.datagram_for(&hello, source);
        let config = SessionConfig {
            number: self.greeting.next_session(),
            timing: Timing::accepting(self.greeting.keepalive()),
            datagram_max,
            reliable: false,
        };
        let session = Session::new(config, cx.now);
        let key = self.peers.insert(Peer {
            address: source,
            session,
            near: self.greeting.may_hear_groups(&hello, source),
            hello,
        });
        self.by_address.insert(source, key);
        self.reach(key, (Address::from(source), datagram_max));
        self.welcome(key);
        self.drain(key, cx);
    }

    /// Takes a client in if there is room in the broker and for its address.
    fn enter(&self, source: SocketAddr) -> Result<(), Refusal> {
        if !self.greeting.addresses.enter(source.ip()) {
            self.counters.dropped(DropReason::AddressFull);
            return Err(Refusal::Limit);
        }
        if self.greeting.enter() {
            return Ok(());
        }
        self.greeting.addresses.leave(source.ip());
        Err(Refusal::Full)
    }

    /// Notes by which way a peer is reached.
    fn reach(&mut self, key: PeerKey, (to, datagram_max): (Address, u16)) {
        let index = key as usize;
        if index >= self.addresses.len() {
            self.addresses.resize(index + 1, to);
            self.datagram_max.resize(index + 1, u16::MAX);
        }
        self.addresses[index] = to;
        self.datagram_max[index] = datagram_max;
        self.smallest = self.smallest.min(datagram_max);
    }

    /// Without the narrowest the others' packets need not be looked at one by one any more.
    fn let_go(&mut self, key: PeerKey) {
        let Some(way) = self.datagram_max.get_mut(key as usize) else {
            return;
        };
        let most = self.greeting.datagram_max;
        if std::mem::replace(way, u16::MAX) <= self.smallest && self.smallest < most {
            let least = self.datagram_max.iter().copied().min();
            self.smallest = least.map_or(most, |least| least.min(most));
        }
    }

    fn welcome(&mut self, key: PeerKey) {
        let Some(peer) = self.peers.get(key) else {
            return;
        };
        let ours = self.greeting.welcome(&peer.hello);
        let capabilities = match peer.near {
            true => ours.capabilities.with(Capabilities::MULTICAST),
            false => ours.capabilities,
        };
        let welcome = Welcome {
            capabilities,
            session: peer.session.number(),
            datagram_max: self.datagram_max[key as usize],
            control_port: self.socket.local_addr().port(),
            ..ours
        };
        let mut bytes = Vec::new();
        Frame::Welcome(welcome).encode(&mut bytes);
        self.transmit(&bytes, self.addresses[key as usize]);
    }

    fn datagram(&mut self, bytes: &[u8], source: SocketAddr, cx: &mut Context<'_>) {
        let Some(key) = self.by_address.get(&source).copied() else {
            return self.counters.dropped(DropReason::UnknownPeer);
        };
        match bytes.first().copied().and_then(is_event) {
            Some(true) => self.event(key, bytes, cx),
            Some(false) => self.frame(key, bytes, cx),
            None => self.counters.dropped(DropReason::Version),
        }
    }

    fn event(&mut self, key: PeerKey, bytes: &[u8], cx: &mut Context<'_>) {
        if let Some(peer) = self.peers.get_mut(key) {
            peer.session.heard(cx.now);
        }
        let Some(packet) = cx.pool.copy(bytes).map(sangam_io::pool::PacketMut::freeze) else {
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
            Ok(frame) => frame,
            Err(error) => return self.counters.dropped(error.into()),
        };
        if let Some(peer) = self.peers.get_mut(key) {
            peer.session.handle(cx.now, Input::Frame(&frame));
            self.drain(key, cx);
        }
    }

    /// Carries out what a session wants, and sets its timer.
    fn drain(&mut self, key: PeerKey, cx: &mut Context<'_>) {
        loop {
            let Some(peer) = self.peers.get_mut(key) else {
                return;
            };
            match peer.session.poll(cx.now) {
                Some(Output::Transmit(bytes)) => {
                    self.transmit(&bytes, self.addresses[key as usize]);
                }
                // Only broker links are suspected and measured.
                Some(
                    Output::Suspect | Output::Recovered | Output::Sample(_) | Output::Carries(_),
                ) => {}
                Some(Output::Message(Message::Hearing { stream, hears })) => {
                    match &mut self.groups {
                        Some(groups) => groups.hearing(key, stream, hears),
                        None => self.counters.dropped(DropReason::ControlUnexpected),
                    }
                }
                Some(Output::Message(message)) => {
                    let from = (peer.address.ip(), Some(peer.address));
                    match request::action(key, message, from) {
                        Some(action) => cx.actions.push(action),
                        None => self.counters.dropped(DropReason::ControlUnexpected),
                    }
                }
                Some(Output::Down(_)) => return self.remove(key, cx),
                None => break,
            }
        }
        if let Some(deadline) = self.peers.get(key).and_then(|peer| peer.session.deadline()) {
            self.wheel.set(key, deadline);
        }
    }

    fn remove(&mut self, key: PeerKey, cx: &mut Context<'_>) {
        if let Some(peer) = self.peers.remove(key) {
            self.by_address.remove(&peer.address);
            self.greeting.addresses.leave(peer.address.ip());
            self.greeting.leave();
            self.wheel.cancel(key);
            self.let_go(key);
            if let Some(groups) = &mut self.groups {
                groups.gone(key, cx.now);
            }
            cx.actions.push(Action::Gone { peer: key });
        }
    }

    fn transmit(&mut self, bytes: &[u8], to: Address) {
        let mut report = SendReport::default();
        self.fanout.send(&self.socket, &[bytes], &[to], &mut report);
    }
}

impl Port for NativePort {
    fn name(&self) -> &'static str {
        "udp"
    }

    fn start(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        cx.poller.add(self.socket.fd(), cx.token, Interest::Read)
    }

    fn ready(&mut self, _token: u32, cx: &mut Context<'_>) {
        let Some(mut batch) = self.batch.take() else {
            return;
        };
        for _ in 0..BATCHES_PER_TURN {
            let got = match self.socket.recv(&mut batch) {
                Ok(got) => got,
                Err(error) => {
                    tracing::warn!(%error, "receiving from clients failed");
                    break;
                }
            };
            for datagram in batch.datagrams() {
                if let Some(overflow) = datagram.overflow {
                    // The kernel tells the sum since the socket was opened.
                    let lost =
                        overflow.wrapping_sub(std::mem::replace(&mut self.overflow, overflow));
                    self.counters
                        .dropped_many(DropReason::SocketOverflow, lost.into());
                }
                self.datagram(datagram.bytes, datagram.source, cx);
            }
            if got < batch.capacity() {
                break;
            }
        }
        self.batch = Some(batch);
    }

    fn woken(&mut self, cx: &mut Context<'_>) {
        while let Ok(admission) = self.admissions.try_recv() {
            self.admit(admission, cx);
        }
    }

    fn look_up(&self, peers: &[PeerKey]) -> u64 {
        let addresses = peers
            .iter()
            .filter_map(|peer| self.addresses.get(*peer as usize));
        addresses.map(|address| u64::from(address.port())).sum()
    }

    fn deliver(&mut self, burst: &[Packet], peers: &[PeerKey], cx: &mut Context<'_>) -> Delivery {
        let Some(mut groups) = self.groups.take() else {
            return self.send_each(burst, peers);
        };
        let done = self.by_group(&mut groups, burst, peers, cx.now);
        self.groups = Some(groups);
        done
    }

    fn repair(&mut self, packet: &Packet, peer: PeerKey, _: &mut Context<'_>) -> Delivery {
        self.send_each(slice::from_ref(packet), &[peer])
    }

    fn flush(&mut self, done: &mut Delivery) -> bool {
        self.send_gathered(done)
    }

    fn tell(&mut self, peer: PeerKey, message: Message, cx: &mut Context<'_>) {
        self.note(peer, &message, cx.now);
        if let Some(known) = self.peers.get_mut(peer) {
            known.session.handle(cx.now, Input::Send(message));
            self.drain(peer, cx);
        }
        self.tell_of_groups(cx);
    }

    fn room(&self, peer: PeerKey) -> usize {
        let waiting = self
            .peers
            .get(peer)
            .map(|peer| peer.session.unacknowledged());
        waiting.map_or(CONTROL_QUEUE_MAX, |waiting| {
            CONTROL_QUEUE_MAX.saturating_sub(waiting)
        })
    }

    fn feedback(&mut self, peer: PeerKey, packet: &Packet, _: &mut Context<'_>) {
        if self.peers.get(peer).is_some() {
            self.transmit(packet, self.addresses[peer as usize]);
        }
    }

    fn deadline(&self) -> Option<Time> {
        let groups = self.groups.as_ref().and_then(|groups| groups.deadline());
        [self.wheel.deadline(), groups].into_iter().flatten().min()
    }

    fn timeout(&mut self, cx: &mut Context<'_>) {
        let mut due = std::mem::take(&mut self.due);
        due.clear();
        self.wheel.expired(cx.now, &mut due);
        for key in due.drain(..) {
            self.drain(key, cx);
        }
        self.due = due;
        self.look_after_groups(cx);
    }

    fn peers(&self) -> usize {
        self.peers.len()
    }

    fn clients(&self) -> Vec<PeerKey> {
        self.peers.keys()
    }

    fn close(&mut self, cx: &mut Context<'_>) {
        for key in self.peers.keys() {
            if let Some(peer) = self.peers.get_mut(key) {
                peer.session.handle(cx.now, Input::Close(Refusal::Leaving));
                self.drain(key, cx);
            }
        }
    }
}
