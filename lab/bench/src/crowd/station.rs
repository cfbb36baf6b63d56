//! What every thread of participants needs: sockets, a poller, batches, and the participants.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sangam_io::clock;
use sangam_io::poll::{Events, Interest, Poller};
use sangam_io::udp::{Outgoing, RecvBatch, SendBatch, SendReport, UdpOptions, UdpSocket};
use sangam_model::Time;
use sangam_wire::is_event;

use super::home::Home;
use super::peer::Spec;
use super::peers::Peers;
use crate::error::Error;
use crate::loopback;

/// Datagrams of one receive call.
const BATCH: usize = 64;
/// No load has larger events.
const DATAGRAM_MAX: usize = 2_048;
/// Looks for commands and starts participants at least this often.
const TURN: Duration = Duration::from_millis(5);

/// What a thread of participants counts, readable at any time.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Participants that have what they came for.
    pub(crate) ready: AtomicU64,
    /// Participants that know of a stream; brought up to date when somebody asks.
    pub(crate) announced: AtomicU64,
    /// Participants the broker refused.
    pub(crate) refused: AtomicU64,
    /// Links that died.
    pub(crate) deaths: AtomicU64,
    /// Measured participants that have not got any event yet.
    pub(crate) silent: AtomicU64,
    /// Frames with control messages read, those that came once more among them.
    pub(crate) controls: AtomicU64,
    /// Events read.
    pub(crate) events: AtomicU64,
    /// Packets the sockets had no room for.
    pub(crate) overflow: AtomicU64,
    /// Messages sent, as the kernel counts them.
    pub(crate) messages: AtomicU64,
    /// Link frames among them; brokers answer most of them by one of their own.
    pub(crate) frames: AtomicU64,
}

/// How a thread's participants share sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sockets {
    /// One for all, bound to 0.0.0.0.
    Shared,
    /// One each, bound to its own address.
    Own,
}

/// One thread's participants and machinery.
pub(super) struct Station {
    home: Home,
    kind: Sockets,
    options: UdpOptions,
    sockets: Vec<UdpSocket>,
    overflow: Vec<u32>,
    poller: Poller,
    events: Events,
    batch: RecvBatch,
    send: SendBatch,
    report: SendReport,
    read: u64,
    frames: u64,
    tally: Arc<Tally>,
    /// The participants.
    pub(super) peers: Peers,
}

impl Station {
    /// Opens what is shared.
    ///
    /// # Errors
    /// [`Error::System`] if a socket or the poller cannot be opened.
    pub(super) fn new(
        home: Home,
        kind: Sockets,
        recv_buffer: usize,
        tally: Arc<Tally>,
    ) -> Result<Self, Error> {
        let options = UdpOptions {
            recv_buffer,
            pktinfo: true,
            overflow_count: true,
            ..UdpOptions::default()
        };
        let mut station = Self {
            home,
            kind,
            options,
            sockets: Vec::new(),
            overflow: Vec::new(),
            poller: Poller::new().map_err(|error| Error::System("epoll", error))?,
            events: Events::with_capacity(64),
            batch: RecvBatch::new(BATCH, DATAGRAM_MAX),
            send: SendBatch::new(),
            report: SendReport::default(),
            read: 0,
            frames: 0,
            tally,
            peers: Peers::new(clock::now()),
        };
        if kind == Sockets::Shared {
            let home = station.home.clone();
            station.open(&home, Ipv4Addr::UNSPECIFIED)?;
        }
        Ok(station)
    }

    /// Adds a participant.
    ///
    /// # Errors
    /// [`Error::System`] if its socket cannot be opened.
    pub(super) fn add(&mut self, spec: Spec) -> Result<(), Error> {
        let number = self.peers.len() as u32;
        if self.kind == Sockets::Own {
            // The place in the order is the socket's number as well as the participant's.
            let home = Home::new(loopback::PROBES, spec.site.as_ref());
            self.open(&home, home.address(number))?;
        }
        let seed = self.home.seed() | u64::from(number);
        self.peers.add(spec, seed ^ clock::now().as_micros() << 20);
        Ok(())
    }

    /// Never reads again: what comes is dropped by the kernel.
    pub(super) fn stop_reading(&mut self) {
        for socket in &self.sockets {
            // One that is not watched is not read either.
            let _ = self.poller.remove(socket.fd());
        }
    }

    /// Waits until there is something to read, `until`, or a short turn is over.
    pub(super) fn wait(&mut self, until: Time) -> Result<(), Error> {
        let timeout = (until - clock::now()).min(TURN);
        self.poller
            .wait(&mut self.events, Some(timeout))
            .map(|_| ())
            .map_err(|error| Error::System("epoll", error))
    }

    /// Reads what has come: frames go to the participants, events to `take` with the
    /// participant's number and the time of arrival.
    pub(super) fn receive(
        &mut self,
        mut take: impl FnMut(usize, &[u8], Time),
    ) -> Result<(), Error> {
        for event in self.events.iter() {
            let number = event.token as usize;
            let Some(socket) = self.sockets.get(number) else {
                continue;
            };
            let count = socket
                .recv(&mut self.batch)
                .map_err(|error| Error::System("recvmmsg", error))?;
            let now = clock::now();
            for datagram in self.batch.datagrams().take(count) {
                let peer = match self.kind {
                    Sockets::Shared => self.home.number(datagram.local),
                    Sockets::Own => number,
                };
                match datagram.bytes.first().copied().and_then(is_event) {
                    Some(true) => {
                        self.read += 1;
                        take(peer, datagram.bytes, now);
                    }
                    Some(false) => self.peers.frame(peer, datagram.bytes, now),
                    None => {}
                }
                if let Some(overflow) = datagram.overflow {
                    self.overflow[number] = overflow;
                }
            }
        }
        Ok(())
    }

    /// Timers, joins, what is to be sent, and the tally. `heard` as [`Peers::expire`] has it.
    pub(super) fn tend(&mut self, heard: impl FnMut(usize, Time) -> Option<Time>) {
        let now = clock::now();
        self.peers.expire(now, heard);
        self.peers.admit(now);
        self.flush();
        let tally = &self.tally;
        for (counter, value) in [
            (&tally.ready, self.peers.ready() as u64),
            (&tally.refused, self.peers.refused() as u64),
            (&tally.controls, self.peers.controls()),
            (&tally.events, self.read),
            (
                &tally.overflow,
                self.overflow.iter().map(|count| u64::from(*count)).sum(),
            ),
            (&tally.messages, self.report.messages),
            (&tally.frames, self.frames),
        ] {
            counter.store(value, Ordering::Relaxed);
        }
    }

    /// Sends a participant's packets to where its events go; returns how many left.
    pub(super) fn publish<'a>(
        &mut self,
        number: usize,
        packets: impl Iterator<Item = &'a [u8]>,
    ) -> u64 {
        let Some(to) = self.peers.get(number).map(|peer| peer.media) else {
            return 0;
        };
        let from = Some(IpAddr::V4(self.home.address(number as u32)));
        let before = self.report.packets;
        let packets = packets.map(|bytes| Outgoing { to, from, bytes });
        self.send.send(&self.sockets[0], packets, &mut self.report);
        self.report.packets - before
    }

    /// Brings [`Tally::announced`] up to date.
    pub(super) fn count_announced(&self) {
        let count = self.peers.announced();
        self.tally.announced.store(count, Ordering::Relaxed);
    }

    /// Says goodbye for everybody, and counts the links that died before.
    pub(super) fn close(&mut self) {
        self.tally
            .deaths
            .store(self.peers.deaths(), Ordering::Relaxed);
        self.peers.close(clock::now());
        self.flush();
    }

    fn flush(&mut self) {
        let outbox = self.peers.outbox();
        let (home, kind) = (&self.home, self.kind);
        // Participants with own sockets are few, so that one call each is good enough.
        let same = |a: &super::peers::Outbound, b: &super::peers::Outbound| {
            kind == Sockets::Shared || a.peer == b.peer
        };
        for group in outbox.chunk_by(same) {
            let own = match kind {
                Sockets::Own => group[0].peer,
                Sockets::Shared => 0,
            };
            let packets = group.iter().map(|out| Outgoing {
                to: out.to,
                // A socket of its own is bound to its address.
                from: (kind == Sockets::Shared).then(|| IpAddr::V4(home.address(out.peer as u32))),
                bytes: &out.bytes,
            });
            self.send
                .send(&self.sockets[own], packets, &mut self.report);
        }
        self.frames += outbox.len() as u64;
        outbox.clear();
    }

    fn open(&mut self, home: &Home, address: Ipv4Addr) -> Result<(), Error> {
        let socket = home
            .open(address, &self.options)
            .map_err(|error| Error::System("a participant's socket", error))?;
        let token = self.sockets.len() as u64;
        self.poller
            .add(socket.fd(), token, Interest::Read)
            .map_err(|error| Error::System("epoll", error))?;
        self.sockets.push(socket);
        self.overflow.push(0);
        Ok(())
    }
}

/// Lets this thread overtake busy ones where that is permitted, so that a measured time is the
/// broker's and not the scheduler's.
pub(super) fn hurry() {
    // Without the privilege the thread runs like the others.
    let _ = rustix::process::nice(-10);
}
