//! Units behind a 16-bit length over TCP: bounded in both directions.

use core::fmt;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use sangam_model::limits::EVENT_LEN_MAX;

use crate::pool::Packet;
use crate::sys;
use crate::udp::Address;

/// Bytes of the length in front of a unit.
const PREFIX: usize = 2;
/// Room for what arrives until a longer unit announces itself.
const INPUT_MIN: usize = 4_096;
/// Reads of one call: a fast peer may not keep the thread from the others.
const READS_MAX: usize = 16;
/// Units of one vectored write.
const WRITES_MAX: usize = 32;
/// Connections the kernel holds until they are accepted.
const BACKLOG: i32 = 1_024;

/// A stream of units in both directions.
#[derive(Debug)]
pub struct Framed {
    stream: TcpStream,
    /// Bytes `start..end` have arrived and are not yet handed out.
    input: Vec<u8>,
    start: usize,
    end: usize,
    queue: VecDeque<Unit>,
    /// Bytes of the first queued unit, prefix included, that are written already.
    written: usize,
    queued: usize,
    limits: OutLimits,
}

/// How much may wait for a peer that does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutLimits {
    /// Units, at most.
    pub units: usize,
    /// Bytes, prefixes included, at most.
    pub bytes: usize,
}

/// How reading went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Everything that was there has been read.
    Idle,
    /// There may be more; come back after the others had their turn.
    More,
    /// The peer has ended the stream.
    Closed,
}

/// Why a stream cannot go on, or a unit could not be queued.
#[derive(Debug)]
#[non_exhaustive]
pub enum FramedError {
    /// The peer announced a unit of this many bytes.
    Oversized(usize),
    /// The peer announced a unit of no bytes.
    Empty,
    /// The peer does not read: its queue is full. The stream itself is well.
    Full,
    /// The connection failed.
    Io(io::Error),
}

#[derive(Debug)]
struct Unit {
    prefix: [u8; PREFIX],
    body: Body,
}

#[derive(Debug)]
enum Body {
    Packet(Packet),
    Bytes(Vec<u8>),
}

/// Opens a non-blocking listener whose port several threads may share (SO_REUSEPORT).
///
/// # Errors
/// With the address in the message: in use, not of this host, not permitted.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let open = || {
        let fd = bound(address, true)?;
        sys::listen(fd.as_fd(), BACKLOG)?;
        Ok(TcpListener::from(fd))
    };
    open()
        .map_err(|error: io::Error| io::Error::new(error.kind(), format!("TCP {address}: {error}")))
}

/// Whether nobody listens at `address` yet: [`listen`] alone would share the port with another
/// process of the same user.
///
/// # Errors
/// As [`listen`].
pub fn is_free(address: SocketAddr) -> io::Result<()> {
    bound(address, false).map(drop)
}

fn bound(address: SocketAddr, shared: bool) -> io::Result<OwnedFd> {
    let wanted = Address::from(address);
    let fd = sys::socket(&wanted, libc::SOCK_STREAM)?;
    sys::set_option(fd.as_fd(), (libc::SOL_SOCKET, libc::SO_REUSEADDR), 1)?;
    let shared = i32::from(shared);
    sys::set_option(fd.as_fd(), (libc::SOL_SOCKET, libc::SO_REUSEPORT), shared)?;
    if address.is_ipv6() {
        sys::set_option(fd.as_fd(), (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY), 1)?;
    }
    sys::bind(fd.as_fd(), &wanted)?;
    Ok(fd)
}

/// The next waiting connection, non-blocking and without Nagle's delay; `None` if none waits.
///
/// # Errors
/// When the process has no descriptor left, or the listener failed.
pub fn accept(listener: &TcpListener) -> io::Result<Option<(TcpStream, SocketAddr)>> {
    match listener.accept() {
        Ok((stream, peer)) => {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            Ok(Some((stream, peer)))
        }
        // A peer that left before its turn is no failure of the listener.
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted => {
                Ok(None)
            }
            _ => Err(error),
        },
    }
}

/// Starts a connection without waiting for it: once the stream is writable,
/// [`TcpStream::take_error`] tells how it went.
///
/// # Errors
/// What can be known at once: no descriptor, no route.
pub fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let wanted = Address::from(address);
    let fd = sys::socket(&wanted, libc::SOCK_STREAM)?;
    sys::set_option(fd.as_fd(), (libc::IPPROTO_TCP, libc::TCP_NODELAY), 1)?;
    sys::connect(fd.as_fd(), &wanted)?;
    Ok(TcpStream::from(fd))
}

impl Framed {
    /// Takes over a non-blocking stream.
    #[must_use]
    pub fn new(stream: TcpStream, limits: OutLimits) -> Self {
        Self {
            stream,
            input: Vec::new(),
            start: 0,
            end: 0,
            queue: VecDeque::new(),
            written: 0,
            queued: 0,
            limits,
        }
    }

    /// The descriptor, for a poller.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// The stream itself, for its addresses and options.
    #[must_use]
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Reads what has arrived and hands every whole unit to `unit`, in order.
    ///
    /// # Errors
    /// [`FramedError::Oversized`], [`FramedError::Empty`], [`FramedError::Io`]; the stream is of no
    /// use afterwards.
    pub fn read_units(&mut self, mut unit: impl FnMut(&[u8])) -> Result<Progress, FramedError> {
        for _ in 0..READS_MAX {
            let room = self.room();
            match self.stream.read(&mut self.input[room..]) {
                Ok(0) => return Ok(Progress::Closed),
                Ok(count) => self.end += count,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(Progress::Idle),
                    ErrorKind::Interrupted => continue,
                    _ => return Err(FramedError::Io(error)),
                },
            }
            let drained = self.end < self.input.len();
            self.hand_out(&mut unit)?;
            if drained {
                return Ok(Progress::Idle);
            }
        }
        Ok(Progress::More)
    }

    /// Queues a packet to be written. It goes out with the next [`Framed::write`].
    ///
    /// # Errors
    /// [`FramedError::Full`], [`FramedError::Oversized`].
    pub fn push(&mut self, packet: Packet) -> Result<(), FramedError> {
        self.enqueue(packet.len(), || Body::Packet(packet))
    }

    /// Queues a copy of `bytes`, for the frames of the link itself.
    ///
    /// # Errors
    /// [`FramedError::Full`], [`FramedError::Oversized`].
    pub fn push_bytes(&mut self, bytes: &[u8]) -> Result<(), FramedError> {
        self.enqueue(bytes.len(), || Body::Bytes(bytes.to_vec()))
    }

    /// Writes what the kernel takes. Whether all has been written.
    ///
    /// # Errors
    /// [`FramedError::Io`]; the stream is of no use afterwards.
    pub fn write(&mut self) -> Result<bool, FramedError> {
        while !self.queue.is_empty() {
            match self.write_some() {
                Ok(0) => return Err(FramedError::Io(ErrorKind::WriteZero.into())),
                Ok(count) => self.consume(count),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(false),
                    ErrorKind::Interrupted => {}
                    _ => return Err(FramedError::Io(error)),
                },
            }
        }
        Ok(true)
    }

    /// Units and bytes that wait to be written.
    #[must_use]
    pub fn queued(&self) -> OutLimits {
        OutLimits {
            units: self.queue.len(),
            bytes: self.queued,
        }
    }

    /// Makes room at the end of the input for the unit that has begun; where it starts.
    fn room(&mut self) -> usize {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        let wanted = match self.announced() {
            Some(len) => (PREFIX + len).max(INPUT_MIN),
            None => INPUT_MIN,
        };
        if self.input.len() < wanted {
            self.input.resize(wanted, 0);
        }
        if self.start > 0 {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        self.end
    }

    /// Length of the unit at the front, once its prefix is there.
    fn announced(&self) -> Option<usize> {
        let prefix = self.input[self.start..self.end].first_chunk()?;
        Some(u16::from_be_bytes(*prefix).into())
    }

    fn hand_out(&mut self, unit: &mut impl FnMut(&[u8])) -> Result<(), FramedError> {
        while let Some(len) = self.announced() {
            if len > EVENT_LEN_MAX {
                return Err(FramedError::Oversized(len));
            }
            if len == 0 {
                return Err(FramedError::Empty);
            }
            let body = self.start + PREFIX;
            if self.end < body + len {
                break;
            }
            unit(&self.input[body..body + len]);
            self.start = body + len;
        }
        Ok(())
    }

    fn enqueue(&mut self, len: usize, body: impl FnOnce() -> Body) -> Result<(), FramedError> {
        if len > EVENT_LEN_MAX {
            return Err(FramedError::Oversized(len));
        }
        if self.queue.len() >= self.limits.units || self.queued + PREFIX + len > self.limits.bytes {
            return Err(FramedError::Full);
        }
        self.queued += PREFIX + len;
        self.queue.push_back(Unit {
            prefix: (len as u16).to_be_bytes(),
            body: body(),
        });
        Ok(())
    }

    fn write_some(&self) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); PREFIX * WRITES_MAX];
        let mut count = 0;
        let mut skip = self.written;
        for unit in self.queue.iter().take(WRITES_MAX) {
            for part in [&unit.prefix[..], unit.body.bytes()] {
                let left = &part[skip.min(part.len())..];
                skip -= part.len() - left.len();
                if !left.is_empty() {
                    slices[count] = IoSlice::new(left);
                    count += 1;
                }
            }
        }
        (&self.stream).write_vectored(&slices[..count])
    }

    fn consume(&mut self, count: usize) {
        self.queued -= count;
        self.written += count;
        while let Some(first) = self.queue.front() {
            let whole = PREFIX + first.body.bytes().len();
            if self.written < whole {
                break;
            }
            self.written -= whole;
            self.queue.pop_front();
        }
    }
}

impl Body {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Packet(packet) => packet,
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl fmt::Display for FramedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Oversized(len) => {
                write!(
                    f,
                    "a unit of {len} bytes; at most {EVENT_LEN_MAX} are allowed"
                )
            }
            Self::Empty => f.write_str("a unit of no bytes"),
            Self::Full => f.write_str("the peer does not read what is sent to it"),
            Self::Io(error) => write!(f, "the connection failed: {error}"),
        }
    }
}

impl core::error::Error for FramedError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}
