//! A lane without threads for tests: what a test hands it, it does at once; what comes of it lies
//! in the rings of its shards and in the sockets of its neighbours.

use std::net::{SocketAddr, UdpSocket as StdSocket};
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use rtrb::{Consumer, RingBuffer};
use sangam_broker::{DropReason, LinkId, LinkSet, Parent, Route, Snapshot};
use sangam_io::pool::{Packet, Pool};
use sangam_io::udp::UdpSocket;
use sangam_io::wake::{Sleeper, pair};
use sangam_link::Acceptor;
use sangam_model::{BrokerId, Class, Incarnation, StreamId, Time};
use sangam_wire::{
    Capabilities, Event, ExtensionBlock, Extensions, Flags, Fragment, Header, Hello, Role, VERSION,
};

use super::outbox::Pace;
use super::{Lane, LinkTable, Parts, QuicEnds, ShardDoor, Streams, reception};
use crate::addresses::Addresses;
use crate::certificate::Certificate;
use crate::command::{ControlEvent, Entry, Outlet};
use crate::config::BrokerConfig;
use crate::counters::Counters;
use crate::reliable::ReliableEvent;
use crate::shard::rings;
use crate::sockets::public_sockets;
use crate::welcome::Greeting;

pub(super) const STREAM: StreamId = StreamId::new(BrokerId(1), Incarnation(1), 1);

pub(super) struct Stage {
    pub(super) lane: Lane,
    /// What each shard finds, by class.
    pub(super) shards: Vec<[Consumer<Entry>; Class::ALL.len()]>,
    pub(super) counters: Arc<Counters>,
    _far_ends: (
        Vec<Sleeper>,
        Receiver<ControlEvent>,
        Receiver<ReliableEvent>,
    ),
}

impl Stage {
    pub(super) fn new(shards: usize) -> Self {
        Self::with(shards, BrokerConfig::default())
    }

    pub(super) fn with(shards: usize, config: BrokerConfig) -> Self {
        let sockets = public_sockets(&config).expect("sockets on loopback");
        let udp: Vec<_> = sockets.iter().map(UdpSocket::local_addr).collect();
        let (control, control_end) = sync_channel(1_024);
        let (reliable, reliable_end) = sync_channel(16);
        let (waker, lane_sleeper) = pair().expect("a descriptor");
        let (_, callers) = reception(waker.clone());
        let (mut doors, mut inbound, mut sleepers) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..shards {
            let (inlets, ends) = rings();
            let (waker, sleeper) = pair().expect("a descriptor");
            doors.push(ShardDoor {
                inlets,
                from: RingBuffer::new(16).1,
                waker,
                admissions: Vec::new(),
            });
            inbound.push(ends);
            sleepers.push(sleeper);
        }
        let certificate = Certificate::default();
        let greeting = greeting(&config, udp[0]);
        let counters = Arc::new(Counters::default());
        let lane = Lane::new(Parts {
            id: config.id,
            pool: Pool::new(1_024, 64),
            cache: 64,
            sockets,
            sleeper: lane_sleeper,
            snapshot: Arc::new(ArcSwap::from_pointee(Snapshot::default())),
            commands: sync_channel(1).1,
            control: Outlet::new(control, waker.clone()),
            reliable: Outlet::new(reliable, waker),
            shards: doors,
            links: LinkTable::of(&config, (&greeting, &udp), Arc::new(Mutex::default())),
            groups: None,
            quic: QuicEnds::open(&config, &certificate).expect("none"),
            streams: Streams::new(callers, certificate).expect("a descriptor"),
            acceptor: Acceptor::new(config.secret),
            accept_links: config.accept_links.clone(),
            publisher_packets_per_s: config.publisher_packets_per_s,
            hellos_per_s: config.hellos_per_s,
            seed: config.seed(),
            counters: counters.clone(),
            inline: None,
        });
        Self {
            lane: lane.expect("an epoll descriptor"),
            shards: inbound,
            counters,
            _far_ends: (sleepers, control_end, reliable_end),
        }
    }

    /// These streams are known from now on.
    pub(super) fn routes(&mut self, routes: impl IntoIterator<Item = (StreamId, Route)>) {
        self.lane.shared.store(Arc::new(Snapshot::new(1, routes)));
        self.lane.refresh();
    }

    /// A neighbour whose link is up, and what it reads.
    pub(super) fn neighbour(&mut self) -> (LinkId, StdSocket) {
        let socket = StdSocket::bind(("127.0.0.1", 0)).expect("a socket");
        socket.set_nonblocking(true).expect("a socket option");
        let address = socket.local_addr().expect("an address");
        let hello = Hello {
            role: Role::Broker(BrokerId(2), Incarnation(1)),
            version_min: VERSION,
            version_max: VERSION,
            capabilities: Capabilities::OURS,
            nonce: 1,
            datagram_max: 1_472,
            clock_domain: 1,
            cookie: None,
        };
        let link = self.lane.links.add_accepted(address, &hello, self.lane.now);
        let link = link.expect("room for a link");
        self.lane.links.get_mut(link).expect("it is there").up = true;
        self.lane.outboxes.open(link, Pace::Free);
        (link, socket)
    }

    pub(super) fn dropped(&self, reason: DropReason) -> u64 {
        self.counters.drops(reason)
    }

    /// Events of a class that wait for a shard.
    pub(super) fn waiting(&self, shard: usize, class: Class) -> usize {
        self.shards[shard][class as usize].slots()
    }

    /// Fills a shard's ring, as if the shard stood still.
    pub(super) fn fill(&mut self, shard: usize, class: Class) {
        let packet = self.packet();
        let ring = &mut self.lane.shards[shard].inlets[class as usize];
        let at = Time::ZERO;
        while ring
            .push(Entry {
                packet: packet.clone(),
                at,
            })
            .is_ok()
        {}
    }

    pub(super) fn packet(&self) -> Packet {
        let bytes = event((Class::Data, Flags::NONE), STREAM, 0, &[0; 10]);
        self.lane.pool.copy(&bytes).expect("a buffer").freeze()
    }

    pub(super) fn later(&mut self, by: std::time::Duration) {
        self.lane.now += by;
    }
}

fn greeting(config: &BrokerConfig, udp: SocketAddr) -> Greeting {
    Greeting {
        broker: config.id,
        incarnation: config.incarnation,
        media_port: udp.port(),
        datagram_max: config.datagram_max,
        keepalive_ms: config.keepalive_ms,
        sessions: Arc::new(AtomicU32::new(1)),
        clients: Arc::default(),
        clients_max: config.clients_max,
        addresses: Arc::new(Addresses::new(config.clients_per_address)),
        segment: None,
    }
}

/// A stream of a client that sends from this address, for these shards and links.
pub(super) fn local(index: u32, source: SocketAddr, (shards, hops): (u64, &[LinkId])) -> Route {
    Route {
        index,
        class: Class::Video,
        parent: Parent::Local {
            source: Some(source),
            shard: 0,
        },
        announcers: LinkSet::EMPTY,
        hops: hops.into(),
        shards,
        closed: false,
    }
}

/// A stream that a neighbour brings and announces, for these shards.
pub(super) fn remote(index: u32, link: LinkId, shards: u64) -> Route {
    let mut announcers = LinkSet::EMPTY;
    announcers.insert(link);
    Route {
        parent: Parent::Link(link),
        announcers,
        ..local(index, client(1), (shards, &[]))
    }
}

pub(super) fn client(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

pub(super) fn event(
    (class, flags): (Class, Flags),
    stream: StreamId,
    sequence: u16,
    payload: &[u8],
) -> Vec<u8> {
    let event = Event {
        header: header((class, flags), stream, sequence),
        extensions: Extensions::NONE,
        payload,
    };
    written(&event)
}

/// 300 bytes of an event of so many.
pub(super) fn piece(stream: StreamId, sequence: u16, (offset, total): (u16, u16)) -> Vec<u8> {
    let mut block = ExtensionBlock::new();
    assert!(block.fragment(Fragment { offset, total }));
    written(&Event {
        header: header((Class::Data, Flags::FRAGMENT), stream, sequence),
        extensions: block.extensions(),
        payload: &[7; 300],
    })
}

fn header((class, flags): (Class, Flags), stream: StreamId, sequence: u16) -> Header {
    Header {
        class,
        flags,
        stream,
        sequence,
        hop_limit: 9,
        layer: 0,
    }
}

fn written(event: &Event<'_>) -> Vec<u8> {
    let mut bytes = vec![0; event.encoded_len()];
    event
        .write(&mut bytes)
        .expect("an event of an ordinary size");
    bytes
}
