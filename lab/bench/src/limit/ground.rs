//! Receivers for any number of participants: a few sockets bound to 0.0.0.0, each standing for
//! every address of 127.0.0.0/8.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sangam_io::poll::{Events, Interest, Poller};
use sangam_io::udp::{RecvBatch, UdpOptions, UdpSocket};

use crate::args::Receivers;
use crate::error::Error;
use crate::loopback;
use crate::machine;

/// Room of a socket that stands for many: as their own sockets together would have.
const READ_BUFFER: usize = 64 << 20;

const BATCH: usize = 64;
const DATAGRAM_MAX: usize = 2_048;

/// How often to look whether readers have caught up.
const LOOK: Duration = Duration::from_micros(50);

/// Open sockets, read or not.
pub(crate) struct Ground {
    ports: Vec<u16>,
    sinks: Vec<UdpSocket>,
    readers: Vec<Reader>,
    stop: Arc<AtomicBool>,
}

struct Reader {
    thread: JoinHandle<()>,
    tally: Arc<Tally>,
}

#[derive(Default)]
struct Tally {
    /// Packets.
    read: AtomicU64,
    /// Times the socket was found empty.
    empty: AtomicU64,
}

impl Ground {
    /// Opens one socket per core, and a reading thread for each where they are to be read.
    ///
    /// # Errors
    /// [`Error::System`] if a socket cannot be opened.
    pub(crate) fn new(receivers: Receivers) -> Result<Self, Error> {
        let mut ground = Self {
            ports: Vec::new(),
            sinks: Vec::new(),
            readers: Vec::new(),
            stop: Arc::default(),
        };
        for _ in 0..machine::cores() {
            let socket = open(receivers)?;
            ground.ports.push(socket.local_addr().port());
            match receivers {
                Receivers::Sink => ground.sinks.push(socket),
                Receivers::Read => ground.add_reader(socket),
            }
        }
        Ok(ground)
    }

    /// Addresses of participants, spread over the sockets.
    pub(crate) fn destinations(&self, count: usize) -> Vec<SocketAddrV4> {
        // Blocks of four to one socket: interleaved lists of 2 or 4 threads reach all sockets.
        let port = |participant: usize| self.ports[participant / 4 % self.ports.len()];
        (0..count)
            .map(|n| SocketAddrV4::new(loopback::address(0, n as u32), port(n)))
            .collect()
    }

    /// Whether what is sent here is read.
    pub(crate) fn is_read(&self) -> bool {
        !self.readers.is_empty()
    }

    /// Packets read so far.
    pub(crate) fn read(&self) -> u64 {
        let read = |reader: &Reader| reader.tally.read.load(Ordering::Relaxed);
        self.readers.iter().map(read).sum()
    }

    /// Waits until everything that has been sent is read or lost: until `read` have been read in
    /// all, or every reader has found its socket empty. To be called when nothing is sent.
    pub(crate) fn catch_up(&self, read: u64) {
        let empty = |reader: &Reader| reader.tally.empty.load(Ordering::Acquire);
        let before: Vec<u64> = self.readers.iter().map(empty).collect();
        let is_done = || {
            let now = self.readers.iter().map(empty);
            let all_empty = now.zip(&before).all(|(now, before)| now > *before);
            self.read() >= read || all_empty || self.readers.iter().any(Reader::has_failed)
        };
        while !is_done() {
            thread::park_timeout(LOOK);
        }
    }

    /// Closes everything and tells how many packets were read.
    pub(crate) fn close(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let mut read = 0;
        for Reader { thread, tally } in self.readers.drain(..) {
            // A reader that failed has read less, which the figures show.
            let _ = thread.join();
            read += tally.read.load(Ordering::Relaxed);
        }
        read
    }

    fn add_reader(&mut self, socket: UdpSocket) {
        let (stop, tally) = (Arc::clone(&self.stop), Arc::<Tally>::default());
        let own = Arc::clone(&tally);
        let thread = thread::spawn(move || {
            // An error ends the reader; nothing read is the report's business.
            let _ = drain(&socket, &stop, &own);
        });
        self.readers.push(Reader { thread, tally });
    }
}

impl Reader {
    fn has_failed(&self) -> bool {
        self.thread.is_finished()
    }
}

fn open(receivers: Receivers) -> Result<UdpSocket, Error> {
    let options = UdpOptions {
        recv_buffer: if receivers == Receivers::Read {
            READ_BUFFER
        } else {
            0
        },
        // As the bench's participants have it, who know by it whom a packet is for.
        pktinfo: true,
        overflow_count: true,
        ..UdpOptions::default()
    };
    UdpSocket::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), &options)
        .map_err(|error| Error::System("a receiving socket", error))
}

fn drain(socket: &UdpSocket, stop: &AtomicBool, tally: &Tally) -> std::io::Result<()> {
    let poller = Poller::new()?;
    poller.add(socket.fd(), 0, Interest::Read)?;
    let mut events = Events::with_capacity(1);
    let mut batch = RecvBatch::new(BATCH, DATAGRAM_MAX);
    while !stop.load(Ordering::Relaxed) {
        poller.wait(&mut events, Some(Duration::from_millis(10)))?;
        loop {
            let count = socket.recv(&mut batch)?;
            let bytes: usize = batch.datagrams().map(|datagram| datagram.bytes.len()).sum();
            std::hint::black_box(bytes);
            tally.read.fetch_add(count as u64, Ordering::Relaxed);
            if count < BATCH {
                tally.empty.fetch_add(1, Ordering::Release);
                break;
            }
        }
    }
    Ok(())
}
