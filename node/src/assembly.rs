//! Puts a broker together: sockets, rings, threads.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use arc_swap::ArcSwap;
use rtrb::RingBuffer;
use sangam_broker::Snapshot;
use sangam_io::pool::{Packet, Pool};
use sangam_io::port::Port;
use sangam_io::tcp::{is_free, listen};
use sangam_io::udp::{UdpOptions, UdpSocket};
use sangam_io::wake::{Sleeper, Waker, pair};
use sangam_link::Acceptor;

use crate::addresses::Addresses as ByAddress;
use crate::authority::{Question, Verifier};
use crate::broker::{Addresses, Broker, LinkInfo, ShardHandle, StartError};
use crate::certificate::Certificate;
use crate::command::{ControlEvent, LaneCommand, Outlet, ShardCommand};
use crate::config::{BrokerConfig, Queuing, Transport};
use crate::control::{self, Control};
use crate::counters::Counters;
use crate::guests::{self, Guests};
use crate::lane::{
    self, Callers, Groups, Lane, LinkTable, QuicEnds, Reception, ShardDoor, Streams,
};
use crate::organise;
use crate::port::door::DoorPort;
use crate::port::leg::LegPort;
use crate::port::native::NativePort;
use crate::port::quic::Opening;
use crate::port::tcp::{Entrance, TcpPort};
use crate::reliable::{Desk, Reliables};
use crate::segment::Segment;
use crate::shard::{self, RING, Shard};
use crate::sockets::{self, lacks_family, public_sockets};
use crate::welcome::Greeting;

/// Commands that may wait for a thread.
const COMMANDS: usize = 65_536;
/// Hellos that may wait for a shard.
const ADMISSIONS: usize = 4_096;
/// Events kept to answer NACKs, in the lane and in each shard: a second of 40 video streams.
const CACHE: usize = 2_048;
/// Legs and doors that may wait for a shard.
const REQUESTS: usize = 64;

/// What all parts share while they are made.
struct Site {
    config: BrokerConfig,
    pool: Pool,
    greeting: Greeting,
    acceptor: Acceptor,
    control: (SyncSender<ControlEvent>, Waker),
    reliable: Desk,
    lane_waker: Waker,
    /// Where neighbours go that call at the ports for clients.
    reception: Reception,
    quic: Vec<Opening>,
    streams: Vec<(Transport, SocketAddr)>,
    certificate: Certificate,
    /// The way to the thread that verifies tokens, and what becomes that thread.
    asks: Option<SyncSender<Question>>,
    verifier: Option<Verifier>,
}

/// The ends of a shard that others hold.
struct ShardEnds {
    shard: Shard,
    door: ShardDoor,
    handle: ShardHandle,
    commands: SyncSender<ShardCommand>,
    waker: Waker,
    counters: Arc<Counters>,
}

/// What the handle of a running broker holds of its threads.
type Running = (
    Vec<ShardHandle>,
    Vec<(String, Arc<Counters>)>,
    Vec<JoinHandle<()>>,
);

/// What the lane alone holds.
type LaneEnds = (
    (Vec<UdpSocket>, QuicEnds, Callers),
    Sleeper,
    Receiver<LaneCommand>,
);

/// What the lane and control talk through.
struct Middle {
    snapshot: Arc<ArcSwap<Snapshot>>,
    lane: (SyncSender<LaneCommand>, Waker),
    shown: Arc<Mutex<Vec<LinkInfo>>>,
    counters: Arc<Counters>,
}

pub(crate) fn start(config: BrokerConfig) -> Result<Broker, StartError> {
    if !(1..=64).contains(&config.shards) {
        return Err(StartError::Config("a broker has between 1 and 64 shards"));
    }
    let sockets = public_sockets(&config)?;
    let udp: Vec<SocketAddr> = sockets.iter().map(UdpSocket::local_addr).collect();
    let (control_sender, control_events) = sync_channel(COMMANDS);
    let (control_waker, control_sleeper) = pair()?;
    let (lane_waker, lane_sleeper) = pair()?;
    let (desk, reliable) = Desk::open(&config)?;
    let (reception, callers) = lane::reception(lane_waker.clone());
    let mut site = Site::new(
        config,
        &udp,
        (control_sender, control_waker, desk),
        reception,
    );
    if let Some(identity) = &site.config.identity {
        let authorities = site.config.authorities.as_ref();
        let shown = site.certificate.show(identity, authorities);
        shown.map_err(StartError::Tls)?;
    }
    site.greeting.segment = Segment::open(&site.config)?;
    let ends = site.shards(&udp)?;
    let (lane_commands, lane_inbox) = sync_channel(COMMANDS);
    let middle = Middle {
        snapshot: Arc::new(ArcSwap::from_pointee(Snapshot::default())),
        lane: (lane_commands, lane_waker),
        shown: Arc::new(Mutex::new(Vec::new())),
        counters: Arc::new(Counters::default()),
    };
    let verifier = site.verifier(&ends);
    let quic = QuicEnds::open(&site.config, &site.certificate)?;
    let quic_links = quic.addresses();
    let organiser = organise::organiser(&site.config, site.control.clone())?;
    let (organiser, surveyor) = organiser.unzip();
    let control = Control::new(control::Parts {
        id: site.config.id,
        incarnation: site.config.incarnation,
        seed: site.config.seed(),
        events: control_events,
        sleeper: control_sleeper,
        snapshot: middle.snapshot.clone(),
        lane: middle.lane.clone(),
        ways: site.reliable.teller(site.config.dials()),
        shards: ways(&ends),
        description: organise::description(&site.config, (&udp, &quic_links, &site.streams)),
        organiser,
        rules: site.config.rules.clone(),
    });
    let reliable = reliable.keep(&site.config, (middle.lane.clone(), ways(&ends)));
    let counters = counters(&middle, &ends);
    let (doors, handles, mut running) = part(ends);
    let inline = match site.config.queuing {
        Queuing::Double => None,
        Queuing::Single => running.pop(),
    };
    let lane = site.lane(
        &middle,
        ((sockets, quic, callers), lane_sleeper, lane_inbox),
        (doors, inline),
    )?;
    let mut threads = spawn_all((control, lane, reliable), running, verifier)?;
    threads.extend(surveyor);
    site.broker(
        (udp, quic_links),
        middle.shown,
        (handles, counters, threads),
    )
}

/// One thread for each.
fn spawn_all(
    (control, lane, reliable): (Control, Lane, Reliables),
    shards: Vec<Shard>,
    verifier: Option<Verifier>,
) -> std::io::Result<Vec<JoinHandle<()>>> {
    let mut threads = vec![spawn("sangam-control", move || control.run())?];
    threads.push(spawn("sangam-lane", move || lane.run())?);
    threads.push(spawn("sangam-reliable", move || reliable.run())?);
    for (number, shard) in shards.into_iter().enumerate() {
        threads.push(spawn(&format!("sangam-shard{number}"), || shard.run())?);
    }
    if let Some(verifier) = verifier {
        threads.push(spawn("sangam-verify", move || verifier.run())?);
    }
    Ok(threads)
}

/// The ways to all shards.
fn ways(ends: &[ShardEnds]) -> Vec<(SyncSender<ShardCommand>, Waker)> {
    let ways = ends.iter();
    ways.map(|end| (end.commands.clone(), end.waker.clone()))
        .collect()
}

/// The ends of all shards by who holds them.
fn part(ends: Vec<ShardEnds>) -> (Vec<ShardDoor>, Vec<ShardHandle>, Vec<Shard>) {
    let (mut doors, mut handles, mut running) = (Vec::new(), Vec::new(), Vec::new());
    for end in ends {
        doors.push(end.door);
        handles.push(end.handle);
        running.push(end.shard);
    }
    (doors, handles, running)
}

fn counters(middle: &Middle, ends: &[ShardEnds]) -> Vec<(String, Arc<Counters>)> {
    let lane = [("lane".to_owned(), middle.counters.clone())];
    let shards = (0..)
        .zip(ends)
        .map(|(n, end)| (format!("shard{n}"), end.counters.clone()));
    lane.into_iter().chain(shards).collect()
}

impl Site {
    fn new(
        config: BrokerConfig,
        udp: &[SocketAddr],
        (control, control_waker, reliable): (SyncSender<ControlEvent>, Waker, Desk),
        reception: Reception,
    ) -> Self {
        let (asks, verifier) = config.authority.clone().map(Verifier::new).unzip();
        Self {
            pool: Pool::new(config.pool_small, config.pool_large),
            greeting: Greeting {
                broker: config.id,
                incarnation: config.incarnation,
                media_port: udp[0].port(),
                datagram_max: config.datagram_max,
                keepalive_ms: config.keepalive_ms,
                sessions: Arc::new(AtomicU32::new(1)),
                clients: Arc::default(),
                clients_max: config.clients_max,
                addresses: Arc::new(ByAddress::new(config.clients_per_address)),
                segment: None,
            },
            acceptor: Acceptor::new(config.secret),
            control: (control, control_waker),
            reliable,
            lane_waker: reception.waker().clone(),
            reception,
            quic: Vec::new(),
            streams: config.stream_listeners(),
            certificate: Certificate::new(&config.ws_origins),
            asks,
            verifier,
            config,
        }
    }

    fn shards(&mut self, udp: &[SocketAddr]) -> Result<Vec<ShardEnds>, StartError> {
        let shards = match self.config.queuing {
            Queuing::Double => self.config.shards,
            Queuing::Single => 1,
        };
        self.streams.retain(|(_, address)| !lacks_family(*address));
        for (transport, address) in &self.streams {
            if transport.is_encrypted() && self.config.identity.is_none() {
                return Err(StartError::Config("a port with TLS needs a certificate"));
            }
            is_free(*address).map_err(|source| cannot_listen((*transport, *address), source))?;
        }
        let wakes: Vec<_> = (0..shards).map(|_| pair()).collect::<Result<_, _>>()?;
        let wakers: Vec<Waker> = wakes.iter().map(|(waker, _)| waker.clone()).collect();
        for address in &self.config.quic {
            if !lacks_family(*address) {
                self.quic.push(Opening::new(*address, &wakers)?);
            }
        }
        let guests = guests::of(&self.config.gateways, &wakers)?;
        (0..)
            .zip(wakes.into_iter().zip(guests))
            .map(|(number, (wake, guests))| self.shard((number, guests), wake, udp))
            .collect()
    }

    /// The thread that verifies tokens, if clients need any. It ends with the last shard.
    fn verifier(&mut self, ends: &[ShardEnds]) -> Option<Verifier> {
        // Only shards may hold this end from now on.
        self.asks = None;
        let verifier = self.verifier.take()?;
        Some(verifier.answering(ways(ends)))
    }

    fn lane(
        &self,
        middle: &Middle,
        ((sockets, quic, callers), sleeper, commands): LaneEnds,
        (shards, inline): (Vec<ShardDoor>, Option<Shard>),
    ) -> Result<Lane, StartError> {
        let udp: Vec<SocketAddr> = sockets.iter().map(UdpSocket::local_addr).collect();
        let ends = (&sockets[..], self.config.socket_buffer);
        let groups = Groups::open(&self.greeting, ends, self.cache() / 2, &middle.counters)?;
        Ok(Lane::new(lane::Parts {
            id: self.config.id,
            pool: self.pool.clone(),
            cache: self.cache(),
            sockets,
            sleeper,
            snapshot: middle.snapshot.clone(),
            commands,
            control: self.outlet(),
            reliable: self.reliable.outlet(),
            shards,
            links: LinkTable::of(&self.config, (&self.greeting, &udp), middle.shown.clone()),
            groups,
            quic,
            streams: Streams::new(callers, self.certificate.clone())?,
            acceptor: self.acceptor.clone(),
            accept_links: self.config.accept_links.clone(),
            publisher_packets_per_s: self.config.publisher_packets_per_s,
            hellos_per_s: self.config.hellos_per_s,
            seed: self.config.seed(),
            counters: middle.counters.clone(),
            inline,
        })?)
    }

    fn broker(
        self,
        (udp, quic_links): (Vec<SocketAddr>, Vec<SocketAddr>),
        links: Arc<Mutex<Vec<LinkInfo>>>,
        (shards, counters, threads): Running,
    ) -> Result<Broker, StartError> {
        let (tcp, streams): (Vec<_>, _) =
            (self.streams.into_iter()).partition(|(transport, _)| *transport == Transport::Tcp);
        let broker = Broker {
            id: self.config.id,
            incarnation: self.config.incarnation,
            addresses: Addresses {
                udp,
                quic: self.quic.iter().map(|opening| opening.address).collect(),
                quic_links,
                tcp: tcp.into_iter().map(|(_, address)| address).collect(),
                streams,
            },
            control: self.control.0,
            control_waker: self.control.1,
            shards,
            counters,
            links,
            reliable: self.reliable.report(),
            pool: self.pool,
            next_shard: AtomicU32::new(0),
            certificate: self.certificate,
            threads,
        };
        for leg in self.config.legs {
            let name = leg.name.clone();
            broker
                .add_leg(leg)
                .map_err(|error| StartError::Leg(name, error))?;
        }
        Ok(broker)
    }

    /// Events kept in each cache: all caches together hold at most half of the small buffers.
    fn cache(&self) -> usize {
        let share = self.config.pool_small / (2 * (self.config.shards + 1));
        let share = share.clamp(1, CACHE);
        // The largest power of two in it.
        1 << share.ilog2()
    }

    fn outlet(&self) -> Outlet<ControlEvent> {
        Outlet::new(self.control.0.clone(), self.control.1.clone())
    }

    fn shard(
        &mut self,
        (number, guests): (u16, Guests),
        (waker, sleeper): (Waker, Sleeper),
        udp: &[SocketAddr],
    ) -> Result<ShardEnds, StartError> {
        let counters = Arc::new(Counters::default());
        let mut ports: Vec<Box<dyn Port>> = Vec::new();
        let mut admissions = Vec::new();
        for address in udp {
            let (sender, arrivals) = sync_channel(ADMISSIONS);
            admissions.push(sender);
            let port = self.native(*address, arrivals, &counters)?;
            ports.push(Box::new(port.with_groups(number)?));
        }
        for index in 0..self.streams.len() {
            ports.push(Box::new(self.stream(index, &counters)?));
        }
        for opening in &mut self.quic {
            let greeter = (self.acceptor.clone(), self.greeting.clone());
            let shown = (self.certificate.clone(), counters.clone());
            let port = opening.port(number, &self.config, greeter, shown)?;
            ports.push(Box::new(port));
        }
        let (legs, leg_commands) = sync_channel(REQUESTS);
        ports.push(Box::new(LegPort::new(leg_commands, counters.clone())));
        let (doors, door_arrivals) = sync_channel(REQUESTS);
        ports.push(Box::new(DoorPort::new(door_arrivals, counters.clone())));
        ports.extend(guests);

        let (inlets, inbound) = shard::rings();
        let (to_lane, from) = RingBuffer::<Packet>::new(RING);
        let (commands, inbox) = sync_channel(COMMANDS);
        let shard = Shard::new(shard::Parts {
            number,
            pool: self.pool.clone(),
            cache: self.cache(),
            sleeper,
            inbound,
            commands: inbox,
            control: self.outlet(),
            reliable: self.reliable.outlet(),
            to_lane,
            lane: self.lane_waker.clone(),
            ports,
            trusted: self.config.accept_links.clone(),
            verifier: self.asks.clone(),
            counters: counters.clone(),
        })?;
        let door = ShardDoor {
            inlets,
            from,
            waker: waker.clone(),
            admissions,
        };
        let handle = ShardHandle {
            waker: waker.clone(),
            legs,
            doors,
        };
        Ok(ShardEnds {
            shard,
            door,
            handle,
            commands,
            waker,
            counters,
        })
    }

    /// The shard's own UDP port beside a public address.
    fn native(
        &self,
        public: SocketAddr,
        arrivals: Receiver<crate::port::native::Admission>,
        counters: &Arc<Counters>,
    ) -> Result<NativePort, StartError> {
        let address = SocketAddr::new(public.ip(), 0);
        let options = UdpOptions {
            gro: false,
            ..sockets::options(&self.config)
        };
        let socket = sockets::bind("udp", address, &options)?;
        Ok(NativePort::new(
            socket,
            arrivals,
            self.greeting.clone(),
            counters.clone(),
        ))
    }

    /// The shard's listener; the first shard settles the port number for all.
    fn stream(&mut self, index: usize, counters: &Arc<Counters>) -> Result<TcpPort, StartError> {
        let (transport, address) = self.streams[index];
        let listener =
            listen(address).map_err(|source| cannot_listen((transport, address), source))?;
        self.streams[index].1 = listener.local_addr()?;
        let entrance = Entrance {
            listener,
            transport,
            certificate: self.certificate.clone(),
            reception: self.reception.clone(),
        };
        let (acceptor, greeting) = (self.acceptor.clone(), self.greeting.clone());
        let queued_max = self.config.pool_small / (4 * self.config.shards * self.streams.len());
        let counters = counters.clone();
        Ok(TcpPort::new(
            entrance,
            acceptor,
            (greeting, queued_max),
            counters,
        ))
    }
}

fn cannot_listen(
    (transport, address): (Transport, SocketAddr),
    source: std::io::Error,
) -> StartError {
    StartError::Bind {
        transport: transport.name(),
        address,
        source,
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run)
}
