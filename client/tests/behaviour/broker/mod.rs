//! A small broker on real sockets: it welcomes, keeps subscriptions and sends events on.

mod service;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};

use sangam_io::door::{BrokerDoor, DoorState, Item};
use sangam_io::poll::{Events, Interest, Poller};
use sangam_io::pool::Pool;
use sangam_io::stream::{Framed, OutLimits, Progress};
use sangam_io::tcp;
use sangam_io::udp::{Address, RecvBatch, SendBatch, SendReport, UdpSocket};
use sangam_io::wake::Sleeper;
use sangam_link::{Acceptor, Reassembler, Session, SessionConfig, Timing, Verdict};
use sangam_model::{BrokerId, Filter, Incarnation, MediaInfo, StreamId, Topic};
use sangam_wire::{Capabilities, Frame, Header, Hello, Refusal, Refuse};
use sangam_wire::{VERSION, Welcome, is_event};

/// How the broker behaves.
#[derive(Clone, Debug)]
pub(crate) struct Conduct {
    pub(crate) keepalive_ms: u16,
    pub(crate) datagram_max: u16,
    /// Every hello is refused, for this reason and pause in milliseconds.
    pub(crate) refuse: Option<(Refusal, u32)>,
    /// Filters and streams of each client.
    pub(crate) requests_max: usize,
    pub(crate) incarnation: u8,
    /// The only token that is accepted; `None`: all are.
    pub(crate) token: Option<&'static str>,
}

/// What the broker saw.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) headers: Vec<Header>,
    /// Kernel messages and datagrams with events.
    pub(crate) messages: usize,
    pub(crate) datagrams: usize,
    pub(crate) goodbyes: usize,
    pub(crate) peers: usize,
    pub(crate) filters: usize,
}

pub(crate) enum Command {
    Door(BrokerDoor),
    /// Sends these bytes to every UDP client as they are.
    Junk(Vec<u8>),
    Stop,
}

/// What the broker listens on. `shard` serves UDP clients, as a delivery shard's socket does.
pub(crate) struct Sockets {
    pub(crate) public: UdpSocket,
    pub(crate) shard: UdpSocket,
    pub(crate) listener: TcpListener,
    pub(crate) sleeper: Sleeper,
}

pub(crate) struct Broker {
    pub(crate) sockets: Sockets,
    pub(crate) commands: Receiver<Command>,
    pub(crate) conduct: Conduct,
    pub(crate) seen: Arc<Mutex<Seen>>,
    pub(crate) acceptor: Acceptor,
    pub(crate) pool: Pool,
    pub(crate) poller: Poller,
    pub(crate) peers: Vec<Option<Peer>>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) sent: SendBatch,
}

pub(crate) struct Peer {
    way: Way,
    /// `None` until the hello of a TCP client, and for doors.
    session: Option<Session>,
    nonce: u64,
    joiner: Reassembler,
    filters: Vec<Filter>,
}

enum Way {
    Udp(SocketAddr),
    Tcp(Framed),
    Door(BrokerDoor),
}

pub(crate) struct Stream {
    id: StreamId,
    topic: Topic,
    media: MediaInfo,
    owner: usize,
}

const WAKE: u64 = 0;
const PUBLIC: u64 = 1;
const SHARD: u64 = 2;
const LISTENER: u64 = 3;
const STREAMS: u64 = 100;

impl Broker {
    pub(crate) fn run(mut self) -> io::Result<()> {
        let watch = |fd, token| self.poller.add(fd, token, Interest::Read);
        watch(self.sockets.sleeper.fd(), WAKE)?;
        watch(self.sockets.public.fd(), PUBLIC)?;
        watch(self.sockets.shard.fd(), SHARD)?;
        watch(std::os::fd::AsFd::as_fd(&self.sockets.listener), LISTENER)?;
        let mut events = Events::with_capacity(16);
        loop {
            // Armed before it looks: whoever comes later rings.
            self.sockets.sleeper.arm();
            if !self.obey()? {
                return Ok(());
            }
            self.serve_doors();
            (0..self.peers.len()).for_each(|peer| self.drain(peer));
            let deadlines = self
                .peers
                .iter()
                .flatten()
                .filter_map(|peer| peer.session.as_ref().and_then(Session::deadline));
            let timeout = deadlines
                .min()
                .map(|deadline| deadline - sangam_io::clock::now());
            self.poller.wait(&mut events, timeout)?;
            self.sockets.sleeper.disarm();
            for event in events.iter() {
                match event.token {
                    WAKE => {}
                    PUBLIC | SHARD => self.datagrams(event.token)?,
                    LISTENER => self.accept()?,
                    token => self.read((token - STREAMS) as usize),
                }
            }
        }
    }

    fn obey(&mut self) -> io::Result<bool> {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Door(door) => {
                    let peer = self.enter(Way::Door(door), 0);
                    self.say(peer, Item::State(DoorState::Up));
                }
                Command::Junk(bytes) => {
                    for peer in 0..self.peers.len() {
                        self.transmit(peer, &bytes);
                    }
                }
                Command::Stop => return Ok(false),
            }
        }
        Ok(true)
    }

    fn enter(&mut self, way: Way, nonce: u64) -> usize {
        let joiner = Reassembler::new();
        self.peers.push(Some(Peer {
            way,
            session: None,
            nonce,
            joiner,
            filters: Vec::new(),
        }));
        self.note(|seen| seen.peers += 1);
        self.peers.len() - 1
    }

    fn note(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.seen.lock().expect("no test panicked"));
    }

    fn datagrams(&mut self, token: u64) -> io::Result<()> {
        let mut batch = RecvBatch::new(16, 65_535);
        let socket = if token == PUBLIC {
            &self.sockets.public
        } else {
            &self.sockets.shard
        };
        let count = socket.recv(&mut batch)?;
        let events = batch
            .datagrams()
            .filter(|one| is_event(one.bytes[0]) == Some(true))
            .count();
        if events > 0 {
            self.note(|seen| {
                seen.messages += count;
                seen.datagrams += events;
            });
        }
        for datagram in batch.datagrams() {
            let peer = self.peers.iter().position(|peer| {
                matches!(peer, Some(Peer { way: Way::Udp(at), .. }) if *at == datagram.source)
            });
            match (peer, Frame::decode(datagram.bytes)) {
                (_, Ok(Frame::Hello(hello))) => self.hello(&hello, datagram.source, peer),
                (Some(peer), _) => self.unit(peer, datagram.bytes),
                (None, _) => {}
            }
        }
        Ok(())
    }

    fn hello(&mut self, hello: &Hello, source: SocketAddr, known: Option<usize>) {
        if let Some(peer) = known {
            if self.peers[peer]
                .as_ref()
                .is_some_and(|peer| peer.nonce == hello.nonce)
            {
                return self.welcome(peer, hello);
            }
            self.leave(peer);
        }
        let refusal = self.conduct.refuse;
        let answer = match self.acceptor.judge(hello, source, sangam_io::clock::now()) {
            Verdict::Retry(frame) | Verdict::Refuse(frame) => frame,
            Verdict::Accept { .. } => match refusal {
                Some(refusal) => refuse(hello, refusal),
                None => {
                    let peer = self.enter(Way::Udp(source), hello.nonce);
                    return self.welcome(peer, hello);
                }
            },
        };
        let bytes = encoded(&answer);
        let to = Address::from(source);
        let mut report = SendReport::default();
        self.sent
            .send(&self.sockets.public, [(to, &bytes[..])], &mut report);
    }

    fn welcome(&mut self, peer: usize, hello: &Hello) {
        let control_port = self.sockets.shard.local_addr().port();
        let number = 1_000 * u32::from(self.conduct.incarnation) + peer as u32;
        let welcome = Welcome {
            nonce: hello.nonce,
            version: VERSION,
            capabilities: Capabilities::OURS,
            session: number,
            control_port,
            media_port: 0,
            datagram_max: self.conduct.datagram_max.min(hello.datagram_max),
            keepalive_ms: self.conduct.keepalive_ms,
            clock_domain: sangam_io::clock::clock_domain(),
            broker: BrokerId(7),
            incarnation: Incarnation(self.conduct.incarnation),
        };
        let keepalive = std::time::Duration::from_millis(self.conduct.keepalive_ms.into());
        let config = SessionConfig {
            number,
            timing: Timing::accepting(keepalive),
            datagram_max: welcome.datagram_max,
            reliable: self.peers[peer]
                .as_ref()
                .is_some_and(|p| matches!(p.way, Way::Tcp(_))),
        };
        if let Some(peer) = &mut self.peers[peer] {
            let now = sangam_io::clock::now();
            peer.session
                .get_or_insert_with(|| Session::new(config, now));
        }
        self.transmit(peer, &encoded(&Frame::Welcome(welcome)));
    }

    fn accept(&mut self) -> io::Result<()> {
        while let Some((stream, _)) = tcp::accept(&self.sockets.listener)? {
            let limits = OutLimits {
                units: 100_000,
                bytes: 64 << 20,
            };
            let framed = Framed::new(stream, limits);
            let token = STREAMS + self.peers.len() as u64;
            self.poller.add(framed.fd(), token, Interest::Read)?;
            self.enter(Way::Tcp(framed), 0);
        }
        Ok(())
    }

    fn read(&mut self, peer: usize) {
        let mut units = Vec::new();
        let Some(Peer {
            way: Way::Tcp(framed),
            ..
        }) = &mut self.peers[peer]
        else {
            return;
        };
        let progress = framed.read_units(|unit| units.push(unit.to_vec()));
        for unit in units {
            match (Frame::decode(&unit), self.conduct.refuse) {
                (Ok(Frame::Hello(hello)), Some(refusal)) => {
                    self.transmit(peer, &encoded(&refuse(&hello, refusal)));
                }
                (Ok(Frame::Hello(hello)), None) => self.welcome(peer, &hello),
                _ => self.unit(peer, &unit),
            }
        }
        if !matches!(progress, Ok(Progress::Idle | Progress::More)) {
            self.leave(peer);
        }
    }
}

fn refuse(hello: &Hello, (reason, retry_after_ms): (Refusal, u32)) -> Frame<'static> {
    Frame::Refuse(Refuse {
        nonce: hello.nonce,
        reason,
        retry_after_ms,
        speaks: 0,
    })
}

fn encoded(frame: &Frame<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    bytes
}
