//! The relay lane: it owns the public UDP port and the broker links, and nothing local delays it.
//!
//! Each round takes a batch of datagrams, sends what neighbours want, and only then hands the
//! rest to the delivery shards (Uyar & Fox, section 3.1: double queuing).

mod aside;
mod carried;
mod dial;
mod endpoints;
mod feedback;
#[cfg(test)]
mod fixture;
mod fragments;
mod groups;
mod handover;
mod hello;
mod ingest;
mod judge;
mod kernel;
mod link;
mod links;
mod migration;
mod nap;
mod neighbours;
mod outbox;
mod output;
mod quic;
mod reception;
mod strangers;
mod streams;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use arc_swap::ArcSwap;
use rtrb::Consumer;
use sangam_broker::{DropReason, FeedbackGate, LinkId, PacketCache, Snapshot, Stamp};
use sangam_io::clock;
use sangam_io::poll::{Events, Interest, Poller};
use sangam_io::pool::{Packet, Pool};
use sangam_io::udp::{RecvBatch, SendBatch, UdpSocket};
use sangam_io::wake::{Sleeper, Waker};
use sangam_link::{Acceptor, Reassembler};
use sangam_model::{BrokerId, Class, Time};

use crate::command::{ControlEvent, LaneCommand, Outlet};
use crate::config::Network;
use crate::counters::Counters;
use crate::port::native::Admission;
use crate::reliable::ReliableEvent;
use crate::shard::{Inlets, Shard};
pub(crate) use endpoints::QuicEnds;
pub(crate) use groups::Groups;
use ingest::{EARLY_FOR, StreamState};
pub(crate) use links::LinkTable;
use nap::Naps;
use outbox::Outboxes;
pub(crate) use reception::{Caller, Callers, Reception, reception};
pub(crate) use streams::Streams;

/// Datagrams of one recvmmsg call.
const BATCH: usize = 32;
/// Bytes of one receive buffer: GRO joins up to 64 KiB.
const BATCH_BYTES: usize = 65_535;
/// Calls before the lane looks at its other work.
const BATCHES_PER_ROUND: usize = 4;

const WAKE: u64 = 0;
const INLINE_SHARD: u64 = 1;
const STREAMS: u64 = 2;
const GROUPS: u64 = 3;
const SOCKETS: u64 = 4;

/// The lane's way to one shard.
pub(crate) struct ShardDoor {
    pub(crate) inlets: Inlets,
    pub(crate) from: Consumer<Packet>,
    pub(crate) waker: Waker,
    /// Where new UDP clients of each socket (IPv4 or IPv6) are handed over.
    pub(crate) admissions: Vec<SyncSender<Admission>>,
}

/// What a lane is made of.
pub(crate) struct Parts {
    pub(crate) id: BrokerId,
    pub(crate) pool: Pool,
    /// Events kept to answer neighbours' NACKs.
    pub(crate) cache: usize,
    pub(crate) sockets: Vec<UdpSocket>,
    pub(crate) sleeper: Sleeper,
    pub(crate) snapshot: Arc<ArcSwap<Snapshot>>,
    pub(crate) commands: Receiver<LaneCommand>,
    pub(crate) control: Outlet<ControlEvent>,
    pub(crate) reliable: Outlet<ReliableEvent>,
    pub(crate) shards: Vec<ShardDoor>,
    pub(crate) links: LinkTable,
    pub(crate) groups: Option<Box<Groups>>,
    pub(crate) quic: QuicEnds,
    pub(crate) streams: Streams,
    pub(crate) acceptor: Acceptor,
    pub(crate) accept_links: Vec<Network>,
    pub(crate) publisher_packets_per_s: u32,
    pub(crate) hellos_per_s: u32,
    pub(crate) seed: u64,
    pub(crate) counters: Arc<Counters>,
    /// The shard of a single-queue broker, which the lane itself turns.
    pub(crate) inline: Option<Shard>,
}

/// The relay lane.
pub(crate) struct Lane {
    id: BrokerId,
    stamp: Stamp,
    pool: Pool,
    sockets: Vec<UdpSocket>,
    /// Away while its datagrams are handled.
    batch: Option<RecvBatch>,
    /// Datagrams each socket has lost for want of room.
    overflows: Vec<u32>,
    poller: Poller,
    events: Events,
    sleeper: Sleeper,
    shared: Arc<ArcSwap<Snapshot>>,
    snapshot: Arc<Snapshot>,
    commands: Receiver<LaneCommand>,
    control: Outlet<ControlEvent>,
    reliable: Outlet<ReliableEvent>,
    carried: carried::Carried,
    shards: Vec<ShardDoor>,
    links: LinkTable,
    /// Away while something goes to groups or comes from them.
    groups: Option<Box<Groups>>,
    quic: QuicEnds,
    /// Neighbours by streams.
    streams: Streams,
    acceptor: Acceptor,
    accept_links: Vec<Network>,
    publisher_packets_per_s: u32,
    strangers: strangers::Strangers,
    counters: Arc<Counters>,
    inline: Option<Shard>,
    states: Vec<StreamState>,
    outboxes: Outboxes,
    /// Events of this round for local subscribers: shards as a bit set.
    local: Vec<(Packet, u64, Class)>,
    /// Events whose stream is not announced yet, oldest first.
    early: Vec<(Packet, LinkId, Time)>,
    cache: PacketCache<Packet>,
    gate: FeedbackGate,
    /// Room for an event that comes in pieces.
    whole: Vec<u8>,
    /// Pieces from clients, of all together.
    reassembler: Reassembler,
    sender: SendBatch,
    /// Sockets with something to read, as far as is known.
    ready: u64,
    /// Rings were full lately: frames cut then are left out whole until here.
    shed_until: Time,
    naps: Naps,
    now: Time,
    /// Another broker has this one's id: no link any more.
    aside: bool,
    stopping: bool,
}

impl Lane {
    /// Puts the lane together.
    ///
    /// # Errors
    /// The kernel gives no epoll descriptor.
    pub(crate) fn new(parts: Parts) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(parts.sleeper.fd(), WAKE, Interest::Read)?;
        poller.add(parts.streams.poller().fd(), STREAMS, Interest::Read)?;
        if let Some(groups) = &parts.groups {
            poller.add(groups.poller().fd(), GROUPS, Interest::Read)?;
        }
        for (token, socket) in (SOCKETS..).zip(&parts.sockets) {
            poller.add(socket.fd(), token, Interest::Read)?;
        }
        parts
            .quic
            .register(&poller, SOCKETS + parts.sockets.len() as u64)?;
        if let Some(shard) = &parts.inline {
            poller.add(shard.poller().fd(), INLINE_SHARD, Interest::Read)?;
        }
        // One packet at a time where the paper's baseline is first come, first served.
        let batch = if parts.inline.is_some() { 1 } else { BATCH };
        Ok(Self {
            id: parts.id,
            stamp: Stamp {
                broker: parts.id,
                clock_domain: clock::clock_domain(),
            },
            pool: parts.pool,
            overflows: vec![0; parts.sockets.len()],
            sockets: parts.sockets,
            batch: Some(RecvBatch::new(batch, BATCH_BYTES)),
            poller,
            events: Events::with_capacity(16),
            sleeper: parts.sleeper,
            snapshot: parts.snapshot.load_full(),
            shared: parts.snapshot,
            commands: parts.commands,
            control: parts.control,
            reliable: parts.reliable,
            carried: carried::Carried::default(),
            shards: parts.shards,
            links: parts.links,
            groups: parts.groups,
            quic: parts.quic,
            streams: parts.streams,
            acceptor: parts.acceptor,
            accept_links: parts.accept_links,
            publisher_packets_per_s: parts.publisher_packets_per_s,
            strangers: strangers::Strangers::new(parts.hellos_per_s, parts.seed),
            counters: parts.counters,
            inline: parts.inline,
            states: Vec::new(),
            outboxes: Outboxes::default(),
            local: Vec::new(),
            early: Vec::new(),
            cache: PacketCache::new(parts.cache),
            gate: FeedbackGate::default(),
            whole: Vec::new(),
            reassembler: Reassembler::new(),
            sender: SendBatch::new(),
            ready: 0,
            shed_until: Time::ZERO,
            naps: Naps::default(),
            now: clock::now(),
            aside: false,
            stopping: false,
        })
    }

    /// Relays until the broker stops.
    pub(crate) fn run(mut self) {
        self.start_links();
        while !self.stopping {
            if !self.round() {
                self.sleep();
            }
        }
        self.close_links();
        if let Some(shard) = &mut self.inline {
            shard.close();
        }
    }

    /// One round; whether there may be more to do at once.
    fn round(&mut self) -> bool {
        self.now = clock::now();
        self.refresh();
        let mut worked = self.receive_groups();
        for socket in 0..self.sockets.len() {
            if self.ready & (1 << socket) != 0 {
                worked |= self.receive(socket);
            }
        }
        worked |= self.receive_quic();
        worked |= self.receive_streams();
        worked |= self.take_from_shards();
        self.take_commands();
        self.run_links();
        self.pass_feedback();
        self.flush();
        if let Some(shard) = &mut self.inline {
            while shard.turn() {}
            shard.look_at_descriptors(Some(Duration::ZERO));
            self.stopping |= shard.stopping();
        }
        worked
    }

    fn refresh(&mut self) {
        let shared = self.shared.load();
        if !Arc::ptr_eq(&shared, &self.snapshot) {
            self.snapshot = Arc::clone(&shared);
            self.changed();
        } else if !self.early.is_empty() && self.now - self.early[0].2 > EARLY_FOR {
            self.retry_early();
        }
    }

    /// There is another snapshot.
    fn changed(&mut self) {
        let snapshot = &self.snapshot;
        self.outboxes.forget(|stream, link| {
            let route = snapshot.route(stream);
            route.is_some_and(|route| route.hops.contains(&link))
        });
        self.retry_early();
    }

    /// Takes what one socket holds, up to a bound; whether there may be more.
    fn receive(&mut self, socket: usize) -> bool {
        for _ in 0..BATCHES_PER_ROUND {
            let Some(mut batch) = self.batch.take() else {
                return false;
            };
            let got = match self.sockets[socket].recv(&mut batch) {
                Ok(got) => got,
                Err(error) => {
                    tracing::warn!(%error, "receiving on the public port failed");
                    0
                }
            };
            for datagram in batch.datagrams() {
                if let Some(overflow) = datagram.overflow {
                    self.note_overflow(socket, overflow);
                }
                self.datagram(datagram.bytes, datagram.source);
            }
            self.naps.received(got);
            let full = got == batch.capacity();
            self.batch = Some(batch);
            self.flush();
            if !full {
                // Level-triggered: the poller tells when there is more.
                self.ready &= !(1 << socket);
                return false;
            }
            if let Some(shard) = &mut self.inline {
                while shard.turn() {}
            }
        }
        true
    }

    /// Counts what the kernel had no room for; it tells the sum since the socket was opened.
    fn note_overflow(&mut self, socket: usize, overflow: u32) {
        let lost = overflow.wrapping_sub(self.overflows[socket]);
        self.overflows[socket] = overflow;
        self.counters
            .dropped_many(DropReason::SocketOverflow, lost.into());
    }

    fn take_from_shards(&mut self) -> bool {
        let mut worked = false;
        for shard in 0..self.shards.len() {
            // As many as wait now, so that a busy shard cannot hold the lane.
            for _ in 0..self.shards[shard].from.slots() {
                let Ok(packet) = self.shards[shard].from.pop() else {
                    break;
                };
                // Copied once more: it may be shared, and hops are counted in place.
                self.event(&packet, ingest::Source::Shard);
                worked = true;
            }
        }
        worked
    }

    /// Sends to the neighbours, then hands over to the shards.
    fn flush(&mut self) {
        self.send_to_neighbours();
        let mut woken = 0_u64;
        let mut local = std::mem::take(&mut self.local);
        for (packet, shards, class) in local.drain(..) {
            woken |= self.hand_over(packet, shards, class);
        }
        self.local = local;
        for (shard, door) in self.shards.iter().enumerate() {
            if woken & (1 << shard) != 0 {
                door.waker.wake();
            }
        }
    }

    fn take_commands(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                LaneCommand::Send { link, message } => self.links.send(link, message, self.now),
                LaneCommand::Carry { link, message } => self.carry(link, message),
                LaneCommand::Dial(neighbour) => self.dial(&neighbour),
                LaneCommand::HangUp(address) => self.hang_up_at(address),
                LaneCommand::Forbid(brokers) => self.forbid(brokers),
                LaneCommand::StepAside => self.step_aside(),
                LaneCommand::Stop => self.stopping = true,
            }
        }
        self.take_callers();
        self.start_carried();
    }

    fn sleep(&mut self) {
        // The paper's baseline serves whatever comes as it comes.
        let nap = self.naps.next(self.now).filter(|_| self.inline.is_none());
        if let Some(nap) = nap {
            thread::sleep(nap);
        }
        self.sleeper.arm();
        let shards_wait = self.shards.iter().any(|door| !door.from.is_empty());
        self.take_commands();
        self.now = clock::now();
        self.run_links();
        self.flush_ways();
        let timeout = if shards_wait || self.stopping {
            Duration::ZERO
        } else if self.control.flush() && self.outboxes.is_empty() {
            let deadlines = [
                self.links.deadline(),
                self.gate.deadline(),
                self.groups.as_ref().and_then(|groups| groups.deadline()),
                self.quic.deadline(),
                self.streams_deadline(),
            ];
            let deadline = deadlines.into_iter().flatten().min().unwrap_or(Time::NEVER);
            deadline - clock::now()
        } else {
            Duration::from_millis(1)
        };
        self.counters.sleeps.add(1);
        let mut timeout = timeout.min(Duration::from_secs(1));
        if let Some(shard) = &mut self.inline
            && let Some(wait) = shard.before_sleep()
        {
            timeout = timeout.min(wait);
        }
        if let Err(error) = self.poller.wait(&mut self.events, Some(timeout)) {
            tracing::error!(%error, "epoll failed; the lane goes on without this round");
        }
        for event in self.events.iter() {
            match (event.token, &mut self.groups) {
                (SOCKETS.., _) => self.ready |= 1 << (event.token - SOCKETS),
                (GROUPS, Some(groups)) => groups.ready = true,
                _ => {}
            }
        }
        if let Some(shard) = &mut self.inline {
            shard.after_sleep();
        }
        self.sleeper.disarm();
    }
}
