//! The handle: it opens the sockets, answers offers, and asks the shards.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sangam_io::port::{Gateway, Port};
use sangam_io::tcp::{is_free, listen};
use sangam_io::udp::{UdpOptions, UdpSocket};
use sangam_io::wake::Waker;
use sangam_model::limits;
use str0m::RtcConfig;
use str0m::crypto;

use crate::counts::Counts;
use crate::credentials;
use crate::offer::OfferError;
use crate::places::Places;
use crate::port::{Parts, WebRtcPort};
use crate::shown::{SHOWN_MAX, SHOWN_MEDIA_MAX, Shown};
use crate::signalling::{
    self, Arrival, Command, Fragment, Join, JoinError, Joined, PeerId, Restart,
};
use crate::signalling::{Description, restarted};
use crate::table::{Group, Note, Way};
use crate::tcp::Connections;

/// How long a question to a shard may take.
const ANSWER: Duration = Duration::from_secs(5);
/// Commands that may wait for a shard.
const COMMANDS: usize = 256;
/// Datagrams and other notes that may wait for a shard.
const NOTES: usize = 4_096;

/// Numbers that the kernel is asked for until one is free for UDP and TCP.
const OFFERS: usize = 16;

/// What the gateway is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where peers are served, UDP and TCP with one number: at most one address per family; port 0
    /// lets the kernel choose.
    pub listen: Vec<SocketAddr>,
    /// Addresses that peers are told instead of this host's own: those of a translator in front.
    pub public: Vec<IpAddr>,
    /// Peers, in all shards together.
    pub peers_max: usize,
    /// Bytes of the kernel's receive and send buffer for each socket.
    pub socket_buffer: usize,
    /// How long ICE and DTLS of a new peer may take.
    pub connect_within: Duration,
}

impl Default for Settings {
    /// Nowhere, until `listen` says where.
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            public: Vec::new(),
            peers_max: limits::WEBRTC_PEERS_PER_BROKER,
            socket_buffer: 4 << 20,
            connect_within: Duration::from_secs(20),
        }
    }
}

/// The WebRTC gateway of one broker. Cheap to share behind an `Arc`.
pub struct WebRtc {
    settings: Settings,
    config: RtcConfig,
    running: OnceLock<Running>,
    next: AtomicU32,
    /// What is counted outside of the shards.
    counts: Counts,
}

#[derive(Debug)]
struct Running {
    group: Group,
    places: Places,
    counts: Vec<Arc<Counts>>,
}

/// One thing that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Metric name.
    pub name: &'static str,
    /// One line for people.
    pub help: &'static str,
    /// The value now.
    pub value: u64,
}

impl WebRtc {
    /// A gateway that is to be given to a broker, which opens it; with a certificate of its own.
    ///
    /// # Errors
    /// No certificate can be made.
    pub fn new(settings: Settings) -> io::Result<Self> {
        let crypto = Arc::new(crypto::from_feature_flags());
        let certificate = crypto.dtls_provider.generate_certificate();
        let certificate = certificate.ok_or_else(|| io::Error::other("no DTLS certificate"))?;
        let config = RtcConfig::new()
            .set_crypto_provider(crypto)
            .set_dtls_cert(certificate);
        Ok(Self {
            settings,
            config,
            running: OnceLock::new(),
            next: AtomicU32::new(0),
            counts: Counts::default(),
        })
    }

    /// Where it listens, with the ports that the kernel chose; nowhere before the broker runs.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let running = self.running.get();
        running
            .map(|running| running.places.sockets().collect())
            .unwrap_or_default()
    }

    /// Peers that are there now.
    #[must_use]
    pub fn peers(&self) -> usize {
        self.running
            .get()
            .map_or(0, |running| running.group.peers())
    }

    /// Everything that is counted.
    #[must_use]
    pub fn counts(&self) -> Vec<Counted> {
        let mut all = self.counts.all();
        let shards = self
            .running
            .get()
            .into_iter()
            .flat_map(|running| &running.counts);
        for shard in shards {
            for (sum, (.., value)) in all.iter_mut().zip(shard.all()) {
                sum.2 += value;
            }
        }
        let counted = |(name, help, value)| Counted { name, help, value };
        all.into_iter().map(counted).collect()
    }

    /// Answers an offer; returns once the broker has granted what it asks for. Takes some
    /// milliseconds and may block for seconds: not for an asynchronous thread.
    ///
    /// # Errors
    /// See [`JoinError`].
    pub fn join(&self, join: Join) -> Result<Joined, JoinError> {
        let running = self.running.get().ok_or(JoinError::Stopping)?;
        if !running.group.enters(self.settings.peers_max) {
            self.counts.refused.one();
            return Err(JoinError::Full);
        }
        let joined = self.enter(join, running);
        if let Err((error, true)) = &joined {
            tracing::debug!(%error, "an offer is not answered");
            running.group.left();
            self.counts.refused.one();
        }
        joined.map_err(|(error, _)| error)
    }

    /// The second half of [`WebRtc::join`]; an error tells whether the peer's place is still to be
    /// given back.
    fn enter(&self, join: Join, running: &Running) -> Result<Joined, (JoinError, bool)> {
        let shards = running.group.len() as u32;
        let shard = (self.next.fetch_add(1, Ordering::Relaxed) % shards) as u16;
        let own = |error| (error, true);
        let creds = credentials::draw(shard).ok_or((JoinError::Stopping, true))?;
        let id = PeerId::draw(shard).ok_or((JoinError::Stopping, true))?;
        let config = self.config.clone().set_local_ice_credentials(creds.clone());
        let candidates = running.places.candidates();
        // The library asserts what it believes of offers, as it does of peers (see `port`). What it
        // had made of this one until then is dropped; nobody else has seen it.
        let answer = || signalling::answer(&join, config, &candidates);
        let contradictory = || OfferError::Unreadable("it contradicts itself".to_owned());
        let answered = catch_unwind(AssertUnwindSafe(answer));
        let answered = answered.unwrap_or_else(|_| Err(contradictory()));
        let answered = answered.map_err(|error| own(error.into()))?;
        let (answer, granted) = sync_channel(1);
        let arrival = Arrival {
            id,
            rtc: answered.rtc,
            creds: creds.clone(),
            offer: join.offer,
            filters: answered.filters,
            ingest: answered.ingest,
            egress: answered.egress,
            token: join.token,
            address: join.address,
            holder: join.holder,
            connect_within: self.settings.connect_within,
            answer,
        };
        if !running.group.ask(shard, Command::Join(Box::new(arrival))) {
            return Err(own(JoinError::Stopping));
        }
        // From here on the shard has the peer, and its place.
        match granted.recv_timeout(ANSWER) {
            Ok(Ok(())) => Ok(Joined {
                id,
                answer: answered.text,
                generation: creds.ufrag,
            }),
            Ok(Err(reason)) => Err((JoinError::Refused(reason), false)),
            Err(_) => Err((JoinError::Stopping, false)),
        }
    }

    /// Takes a fragment with candidates that were found later, or with new credentials: then ICE
    /// starts anew, and the answer holds ours.
    ///
    /// # Errors
    /// No such peer, or nothing in the fragment.
    pub fn patch(&self, id: PeerId, fragment: &str) -> Result<Option<Joined>, JoinError> {
        let running = self.running.get().ok_or(JoinError::Stopping)?;
        let Fragment { creds, candidates } = Fragment::read(fragment)?;
        let (answer, done) = sync_channel(1);
        let restart = match creds {
            Some(theirs) => {
                let ours = credentials::draw(id.shard).ok_or(JoinError::Stopping)?;
                Some((theirs, ours))
            }
            None => None,
        };
        let ours = restart.as_ref().map(|(_, ours)| ours.clone());
        let command = match restart {
            Some((theirs, ours)) => {
                let restart = Restart {
                    theirs,
                    ours,
                    candidates,
                };
                Command::Restart(id, Box::new(restart), answer)
            }
            None => Command::Trickle(id, candidates, answer),
        };
        known(self.ask(id, command, &done)?)?;
        Ok(ours.map(|ours| Joined {
            id,
            answer: restarted(&ours, &running.places.candidates()),
            generation: ours.ufrag,
        }))
    }

    /// Ends a peer.
    ///
    /// # Errors
    /// No such peer.
    pub fn leave(&self, id: PeerId) -> Result<(), JoinError> {
        let (answer, done) = sync_channel(1);
        known(self.ask(id, Command::Leave(id, answer), &done)?)
    }

    /// Shows the broker another token for a peer, whose time goes on with that one's.
    ///
    /// # Errors
    /// No such peer.
    pub fn renew(&self, id: PeerId, token: String, address: IpAddr) -> Result<(), JoinError> {
        let (answer, done) = sync_channel(1);
        known(self.ask(id, Command::Renew(id, (token, address), answer), &done)?)
    }

    /// How high a peer shows the videos that it receives: none comes in a higher layer than that
    /// needs, and none that is not shown at all.
    ///
    /// # Errors
    /// No such peer; one of them is no video that it receives; or it tells them too often.
    pub fn show(&self, id: PeerId, shown: Vec<Shown>) -> Result<(), JoinError> {
        let high = |one: &Shown| one.height > SHOWN_MAX;
        if shown.len() > SHOWN_MEDIA_MAX || shown.iter().any(high) {
            self.counts.shown_refused.one();
            return Err(JoinError::Shown);
        }
        let (answer, done) = sync_channel(1);
        self.ask(id, Command::Show(id, shown, answer), &done)?
    }

    /// A peer as it stands.
    ///
    /// # Errors
    /// No such peer.
    pub fn describe(&self, id: PeerId) -> Result<Description, JoinError> {
        let (answer, done) = sync_channel(1);
        let found = self.ask(id, Command::Describe(id, answer), &done)?;
        found.ok_or(JoinError::Unknown)
    }

    fn ask<T>(&self, id: PeerId, command: Command, answer: &Receiver<T>) -> Result<T, JoinError> {
        let running = self.running.get().ok_or(JoinError::Stopping)?;
        if usize::from(id.shard) >= running.group.len() {
            return Err(JoinError::Unknown);
        }
        if !running.group.ask(id.shard, command) {
            return Err(JoinError::Stopping);
        }
        answer.recv_timeout(ANSWER).map_err(|_| JoinError::Stopping)
    }

    fn udp(&self, address: SocketAddr) -> io::Result<UdpSocket> {
        let options = UdpOptions {
            recv_buffer: self.settings.socket_buffer,
            send_buffer: self.settings.socket_buffer,
            pktinfo: address.ip().is_unspecified(),
            overflow_count: true,
            reuse_port: true,
            // RTP cannot be split by us: IP may.
            path_mtu_discovery: false,
            ..UdpOptions::default()
        };
        UdpSocket::bind(address, &options)
    }

    /// UDP and TCP with one number. What the kernel offers for UDP may be taken for TCP: then it is
    /// asked for another.
    fn pair(&self, address: SocketAddr) -> io::Result<(UdpSocket, TcpListener)> {
        // Held until a number fits, or the kernel might offer the same again.
        let mut unfit = Vec::new();
        loop {
            let socket = self.udp(address)?;
            let at = socket.local_addr();
            let chosen = address.port() == 0;
            let free = if chosen { is_free(at) } else { Ok(()) };
            match free.and_then(|()| listen(at)) {
                Ok(listener) => return Ok((socket, listener)),
                Err(error) if !chosen || unfit.len() == OFFERS => return Err(error),
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => return Err(error),
                Err(_) => unfit.push(socket),
            }
        }
    }

    /// The sockets of one shard; the first one settles the port numbers.
    fn open(&self, listen_at: &mut [SocketAddr]) -> io::Result<(Vec<UdpSocket>, Vec<TcpListener>)> {
        let (mut sockets, mut listeners) = (Vec::new(), Vec::new());
        for address in listen_at {
            let (socket, listener) = self.pair(*address)?;
            *address = socket.local_addr();
            sockets.push(socket);
            listeners.push(listener);
        }
        Ok((sockets, listeners))
    }
}

impl Gateway for WebRtc {
    fn ports(&self, shards: &[Waker]) -> io::Result<Vec<Box<dyn Port>>> {
        let mut listen_at = self.settings.listen.clone();
        for address in &listen_at {
            // The kernel lets several brokers of one user share a port without a word.
            UdpSocket::bind(*address, &UdpOptions::default())?;
            is_free(*address)?;
        }
        let mut opened = Vec::new();
        for _ in shards {
            opened.push(self.open(&mut listen_at)?);
        }
        let places = Places::new(listen_at, &self.settings.public)?;
        let (ways, ends): (Vec<Way>, Vec<_>) = shards.iter().map(way).unzip();
        let group = Group::new(ways);
        let counts: Vec<Arc<Counts>> = shards.iter().map(|_| Arc::default()).collect();
        let mut ports: Vec<Box<dyn Port>> = Vec::new();
        let parts = opened.into_iter().zip(ends).zip(&counts);
        for (number, (((sockets, listeners), (commands, notes)), counts)) in (0..).zip(parts) {
            ports.push(Box::new(WebRtcPort::new(Parts {
                number,
                sockets,
                connections: Connections::new(listeners),
                places: places.clone(),
                group: group.clone(),
                notes,
                commands,
                counts: Arc::clone(counts),
            })));
        }
        let running = Running {
            group,
            places,
            counts,
        };
        match self.running.set(running) {
            Ok(()) => Ok(ports),
            Err(_) => Err(io::Error::other("a WebRTC gateway serves one broker")),
        }
    }
}

impl fmt::Debug for WebRtc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebRtc")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// A way to a shard, and its ends there.
fn way(waker: &Waker) -> (Way, (Receiver<Command>, Receiver<Note>)) {
    let (commands, inbox) = sync_channel(COMMANDS);
    let (notes, arrivals): (SyncSender<Note>, _) = sync_channel(NOTES);
    let way = Way {
        commands,
        notes,
        waker: waker.clone(),
    };
    (way, (inbox, arrivals))
}

fn known(found: bool) -> Result<(), JoinError> {
    match found {
        true => Ok(()),
        false => Err(JoinError::Unknown),
    }
}
