//! A running broker: its threads, and the handle through which the rest of the program sees it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use sangam_broker::{PinnedBy, TopicGate};
use sangam_io::door::{ClientDoor, door};
use sangam_io::tls::{Identity, Roots, TlsError};
use sangam_io::wake::Waker;
use sangam_model::{Bitrate, BrokerId, Filter, Incarnation, Measured, MediaInfo, StreamId, Topic};
use sangam_wire::{Plan, Traffic};

use crate::certificate::Certificate;
use crate::command::ControlEvent;
use crate::config::{BrokerConfig, LegSpec, Transport};
use crate::counters::{Counters, Sample};
use crate::network::NetworkMap;
use crate::port::door::Arrival;
use crate::port::leg::{LegCommand, LegError, LegInfo};
use crate::reliable::{Report, StoreError};
use crate::rules::{LinkRule, LinkRules, RulesInForce};
use crate::{assembly, samples};

/// How long a question to another thread of the broker may take.
const ANSWER: Duration = Duration::from_secs(5);
/// Events that may wait in each direction of an in-process door.
pub(crate) const DOOR: usize = 4_096;

/// Why a broker does not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// An address cannot be bound.
    Bind {
        /// `udp`, `quic`, `tcp`, `tls`, `ws` or `wss`.
        transport: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the kernel says.
        source: io::Error,
    },
    /// The configuration contradicts itself.
    Config(&'static str),
    /// QUIC cannot be spoken with this certificate or these settings.
    Quic(sangam_io::quic::ConfigError),
    /// The certificate cannot be shown.
    Tls(TlsError),
    /// A leg of the configuration cannot be made.
    Leg(String, LegError),
    /// Records of reliable topics cannot be written or read.
    Store(StoreError),
    /// Groups cannot be sent to as configured, and what to do.
    Multicast(String),
    /// A gateway cannot open what it needs.
    Gateway(io::Error),
    /// The kernel refuses something else.
    Io(io::Error),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bind {
                transport,
                address,
                source,
            } if source.kind() == io::ErrorKind::AddrInUse => {
                write!(
                    f,
                    "{transport} port {address} is in use; stop the program that holds it \
                     (`ss -lunpt` names it) or choose another port"
                )
            }
            Self::Bind {
                transport,
                address,
                source,
            } => {
                write!(f, "cannot listen on {transport} {address}: {source}")
            }
            Self::Config(what) => f.write_str(what),
            Self::Quic(error) => write!(f, "QUIC: {error}"),
            Self::Tls(error) => error.fmt(f),
            Self::Leg(name, error) => write!(f, "leg `{name}`: {error}"),
            Self::Store(error) => error.fmt(f),
            Self::Multicast(what) => write!(f, "multicast: {what}"),
            Self::Gateway(error) => error.fmt(f),
            Self::Io(error) => write!(f, "the kernel refuses: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Where a broker listens in truth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Public UDP ports.
    pub udp: Vec<SocketAddr>,
    /// TCP ports.
    pub tcp: Vec<SocketAddr>,
    /// QUIC ports for clients.
    pub quic: Vec<SocketAddr>,
    /// QUIC ports for neighbours.
    pub quic_links: Vec<SocketAddr>,
    /// Ports for streams of the other kinds.
    pub streams: Vec<(Transport, SocketAddr)>,
}

impl Addresses {
    /// The ports of one kind.
    #[must_use]
    pub fn of(&self, transport: Transport) -> Vec<SocketAddr> {
        if transport == Transport::Tcp {
            return self.tcp.clone();
        }
        let of_kind = self.streams.iter().filter(|(kind, _)| *kind == transport);
        of_kind.map(|(_, address)| *address).collect()
    }
}

/// One stream that the broker knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamInfo {
    /// Its id.
    pub id: StreamId,
    /// Its topic.
    pub topic: Topic,
    /// What it carries.
    pub media: MediaInfo,
    /// Neighbours it is sent to.
    pub links: usize,
    /// Whether it enters the network here.
    pub local: bool,
}

/// What control knows, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Brief {
    /// Streams the broker knows.
    pub streams: usize,
    /// Some of those that enter the network here.
    pub origins: Vec<StreamInfo>,
    /// Different filters of local subscribers.
    pub filters: usize,
    /// Some of them.
    pub interest: Vec<Filter>,
    /// Brokers that can be reached, this one included.
    pub brokers: usize,
    /// What crossing the link to each neighbour costs, and who says so if it is not measured.
    pub weights: Vec<(BrokerId, u16, Option<PinnedBy>)>,
    /// The same in all brokers with the same map.
    pub epoch: u64,
    /// Whether this broker is about to leave.
    pub draining: bool,
    /// Brokers to which the way is as a scheduler plans, and the neighbour by which it begins.
    pub planned: Vec<(BrokerId, BrokerId)>,
}

/// What waits to be sent over a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Events.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long the last of them will wait at the link's rate.
    pub time: Duration,
    /// Events that were not queued, or dropped from the queue, since the link came up.
    pub dropped: u64,
}

/// A neighbour link as it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkInfo {
    /// The neighbour's address.
    pub address: SocketAddr,
    /// `udp`, `quic`, `tcp`, `tls`, `ws` or `wss`: the way in use.
    pub transport: &'static str,
    /// Who it is, once known.
    pub peer: Option<(BrokerId, Incarnation)>,
    /// Whether events flow.
    pub up: bool,
    /// Whether the neighbour has not been heard for 150 ms.
    pub suspect: bool,
    /// Smoothed round trip.
    pub rtt: Option<Duration>,
    /// Round trip, jitter and loss towards the neighbour, once measured.
    pub measured: Option<Measured>,
    /// Units sent since the link came up.
    pub sent: Traffic,
    /// Units received since the link came up.
    pub received: Traffic,
    /// What waits to be sent.
    pub queue: Queue,
    /// What may be sent, by congestion control; `None` before the first measurement
    /// and where the transport has a window of its own or stays within the machine.
    pub rate: Option<Bitrate>,
}

/// A way to one shard for the handle.
#[derive(Debug)]
pub(crate) struct ShardHandle {
    pub(crate) waker: Waker,
    pub(crate) legs: SyncSender<LegCommand>,
    pub(crate) doors: SyncSender<Arrival>,
}

/// A running broker. Dropping it stops the broker.
#[derive(Debug)]
pub struct Broker {
    pub(crate) id: BrokerId,
    pub(crate) incarnation: Incarnation,
    pub(crate) addresses: Addresses,
    pub(crate) control: SyncSender<ControlEvent>,
    pub(crate) control_waker: Waker,
    pub(crate) shards: Vec<ShardHandle>,
    pub(crate) counters: Vec<(String, Arc<Counters>)>,
    pub(crate) links: Arc<std::sync::Mutex<Vec<LinkInfo>>>,
    pub(crate) reliable: Arc<Report>,
    pub(crate) pool: sangam_io::pool::Pool,
    pub(crate) next_shard: AtomicU32,
    pub(crate) certificate: Certificate,
    pub(crate) threads: Vec<JoinHandle<()>>,
}

impl Broker {
    /// Binds, links and serves.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(config: BrokerConfig) -> Result<Self, StartError> {
        assembly::start(config)
    }

    /// The broker's id.
    #[must_use]
    pub fn id(&self) -> BrokerId {
        self.id
    }

    /// Which of its lives this is.
    #[must_use]
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Where it listens, with the ports the kernel chose.
    #[must_use]
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Shows another certificate to who comes from now on, and checks theirs by `authorities`; who
    /// is here stays.
    ///
    /// # Errors
    /// The key does not fit; then nothing changes.
    pub fn show(&self, identity: &Identity, authorities: Option<&Roots>) -> Result<(), TlsError> {
        self.certificate.show(identity, authorities)
    }

    /// Everything the broker counts.
    #[must_use]
    pub fn samples(&self) -> Vec<Sample> {
        samples::collect(self)
    }

    /// The neighbour links, as of the last change or second.
    #[must_use]
    pub fn links(&self) -> Vec<LinkInfo> {
        self.links
            .lock()
            .map(|links| links.clone())
            .unwrap_or_default()
    }

    /// The streams the broker knows; empty if it is stopping.
    #[must_use]
    pub fn streams(&self) -> Vec<StreamInfo> {
        let (answer, streams) = sync_channel(1);
        if self.control.send(ControlEvent::Streams(answer)).is_err() {
            return Vec::new();
        }
        self.control_waker.wake();
        streams.recv_timeout(ANSWER).unwrap_or_default()
    }

    /// What control knows, with at most `most` streams and filters by name; empty if it is
    /// stopping.
    #[must_use]
    pub fn brief(&self, most: usize) -> Brief {
        let (answer, brief) = sync_channel(1);
        if self
            .control
            .send(ControlEvent::Brief(most, answer))
            .is_err()
        {
            return Brief::default();
        }
        self.control_waker.wake();
        brief.recv_timeout(ANSWER).unwrap_or_default()
    }

    /// The network as this broker knows it; `None` if it is stopping.
    #[must_use]
    pub fn map(&self) -> Option<NetworkMap> {
        let (answer, map) = sync_channel(1);
        self.control.send(ControlEvent::Map(answer)).ok()?;
        self.control_waker.wake();
        map.recv_timeout(ANSWER).ok()
    }

    /// Tells the network how busy this broker is, in percent.
    pub fn set_load(&self, percent: u8) {
        self.tell_control(ControlEvent::Load(percent));
    }

    /// Fixes what crossing the link to a neighbour costs, whenever there is one, or takes back what
    /// `by` has fixed: then what a lower rank fixed holds, or what is measured. At 65,535 streams
    /// take it only where there is no other way.
    pub fn weigh(&self, peer: BrokerId, by: PinnedBy, weight: Option<u16>) {
        self.tell_control(ControlEvent::Rule(LinkRule::Weigh(peer, by, weight)));
    }

    /// Forbids links with a broker, or allows them, whatever the configuration says, until the end
    /// of this process. A link that is up ends.
    pub fn forbid(&self, peer: BrokerId, forbidden: bool) {
        self.tell_control(ControlEvent::Rule(LinkRule::Forbid(peer, forbidden)));
    }

    /// Takes what the configuration says about links, in place of what it said before.
    pub fn set_rules(&self, rules: LinkRules) {
        self.tell_control(ControlEvent::Rule(LinkRule::Configured(rules)));
    }

    /// What holds about links; nothing if the broker is stopping.
    #[must_use]
    pub fn rules(&self) -> RulesInForce {
        let (answer, rules) = sync_channel(1);
        self.tell_control(ControlEvent::Rules(answer));
        rules.recv_timeout(ANSWER).unwrap_or_default()
    }

    /// Takes a message of a central scheduler, which publishes by the stream `from`. What it plans
    /// is followed where that is safe, for 5 s after it was last heard; otherwise ways are the
    /// shortest.
    pub fn plan(&self, from: StreamId, plan: Plan) {
        self.tell_control(ControlEvent::Plan(from, plan));
    }

    /// Says what may be published below a prefix of topics, by the clients of this broker: a
    /// session server's word on who holds a floor. It stands until a newer one comes, also when
    /// that server is gone. Events of others are dropped before they go anywhere
    /// ([`DropReason::GateClosed`]).
    ///
    /// [`DropReason::GateClosed`]: sangam_broker::DropReason::GateClosed
    pub fn gate(&self, prefix: Topic, gate: TopicGate) {
        self.tell_control(ControlEvent::Gate { prefix, gate });
    }

    /// Tells the network that this broker is about to leave: streams take other ways, before the
    /// old ones end, no client is sent here, and clients that know another broker go there. Who
    /// is here is served on.
    pub fn drain(&self) {
        self.tell_control(ControlEvent::Drain);
    }

    /// Native clients, legs and doors.
    #[must_use]
    pub fn peers(&self) -> u64 {
        self.counters
            .iter()
            .map(|(_, counters)| counters.peers.get())
            .sum()
    }

    /// Opens a door for a client in this process.
    ///
    /// # Errors
    /// The kernel gives no eventfd, or the broker is stopping.
    pub fn door(&self) -> io::Result<ClientDoor> {
        self.open(false)
    }

    /// Opens a door for a part of the broker's own program, which alone may publish on topics
    /// below `$sangam`.
    ///
    /// # Errors
    /// As [`Broker::door`].
    pub fn system_door(&self) -> io::Result<ClientDoor> {
        self.open(true)
    }

    fn open(&self, system: bool) -> io::Result<ClientDoor> {
        let shard = &self.shards[self.pick_shard()];
        let (client, end) = door(DOOR, shard.waker.clone())?;
        let stopping = |_| io::Error::other("the broker is stopping");
        let arrival = Arrival { end, system };
        shard.doors.send(arrival).map_err(stopping)?;
        shard.waker.wake();
        Ok(client)
    }

    /// Makes a raw RTP leg.
    ///
    /// # Errors
    /// A name twice, an address in use, a socket the kernel refuses.
    pub fn add_leg(&self, spec: LegSpec) -> Result<LegInfo, LegError> {
        if self.legs().iter().any(|leg| leg.spec.name == spec.name) {
            return Err(LegError::Exists);
        }
        let shard = self.pick_shard();
        self.ask_leg(shard, |answer| LegCommand::Add(Box::new(spec), answer))
            .unwrap_or(Err(LegError::Stopping))
    }

    /// Ends a leg; whether there was one of this name.
    #[must_use]
    pub fn remove_leg(&self, name: &str) -> bool {
        (0..self.shards.len()).any(|shard| {
            let removed = |answer| LegCommand::Remove(name.to_owned(), answer);
            self.ask_leg(shard, removed).unwrap_or(false)
        })
    }

    /// The legs there are.
    #[must_use]
    pub fn legs(&self) -> Vec<LegInfo> {
        let of = |shard| self.ask_leg(shard, LegCommand::List).unwrap_or_default();
        (0..self.shards.len()).flat_map(of).collect()
    }

    /// Says goodbye to clients and neighbours, and stops all threads.
    pub fn shutdown(&mut self) {
        // The thread may be gone already: then there is nothing left to stop.
        let _ = self.control.send(ControlEvent::Stop);
        self.control_waker.wake();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the broker had panicked");
            }
        }
    }

    fn tell_control(&self, event: ControlEvent) {
        // Control has stopped only when the whole broker stops.
        let _ = self.control.send(event);
        self.control_waker.wake();
    }

    fn pick_shard(&self) -> usize {
        let next = self
            .next_shard
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        next as usize % self.shards.len()
    }

    fn ask_leg<T>(
        &self,
        shard: usize,
        command: impl FnOnce(SyncSender<T>) -> LegCommand,
    ) -> Option<T> {
        let (answer, answered) = sync_channel(1);
        self.shards[shard].legs.send(command(answer)).ok()?;
        self.shards[shard].waker.wake();
        answered.recv_timeout(ANSWER).ok()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.shutdown();
    }
}
