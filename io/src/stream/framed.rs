//! Units over a byte stream: bounded in both directions.

use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice};
use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use sangam_model::limits::EVENT_LEN_MAX;

use super::bytes::ByteStream;
use super::error::FramedError;
use super::framing::{self, Body, Framing, Unit};
use super::http;
use super::opening::{Accept, Dial};
use super::websocket::{Code, Piece, Side};
use crate::pool::Packet;
use crate::tls::{Secret, TlsStream};

/// Room for what arrives until a longer unit announces itself.
const INPUT_MIN: usize = 4_096;
/// Reads of one call: a fast peer may not keep the thread from the others.
const READS_MAX: usize = 16;
/// Units of one vectored write.
const WRITES_MAX: usize = 32;

/// A stream of units in both directions.
#[derive(Debug)]
pub struct Framed {
    stream: ByteStream,
    framing: Framing,
    stage: Stage,
    /// HTTP that goes out before any unit.
    preface: Vec<u8>,
    /// Bytes `start..end` have arrived and are not yet handed out.
    input: Vec<u8>,
    start: usize,
    end: usize,
    queue: VecDeque<Unit>,
    /// Bytes of the first queued unit, prefix included, that are written already.
    written: usize,
    queued: usize,
    /// Bytes that were written since the beginning.
    taken: u64,
    limits: OutLimits,
}

/// What comes before units; of HTTP that arrives, so many bytes are known not to be its end.
#[derive(Debug)]
enum Stage {
    /// Units flow.
    Open,
    /// A client asks for a WebSocket.
    Request {
        searched: usize,
        origins: Arc<[String]>,
    },
    /// A server answers, and must say `accept`.
    Answer { searched: usize, accept: String },
    /// Ended by us or the peer.
    Over,
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

impl Framed {
    /// Takes over a non-blocking stream of units behind their lengths.
    #[must_use]
    pub fn new(stream: TcpStream, limits: OutLimits) -> Self {
        Self::over(ByteStream::Plain(stream), limits)
    }

    /// The end that was called. Until its opening is over no unit comes and none may be queued.
    ///
    /// # Errors
    /// TLS cannot begin.
    pub fn accept(stream: TcpStream, how: &Accept, limits: OutLimits) -> Result<Self, FramedError> {
        let stream = match &how.tls {
            Some(config) => ByteStream::Tls(TlsStream::accept(stream, config.clone())?.into()),
            None => ByteStream::Plain(stream),
        };
        let mut framed = Self::over(stream, limits);
        if how.websocket {
            framed.framing = Framing::websocket(Side::Server);
            framed.stage = Stage::Request {
                searched: 0,
                origins: how.origins.clone(),
            };
        }
        Ok(framed)
    }

    /// The end that calls, over a socket that is connected. Units flow once
    /// [`Framed::is_open`].
    ///
    /// # Errors
    /// TLS cannot begin.
    pub fn dial(stream: TcpStream, how: &Dial, limits: OutLimits) -> Result<Self, FramedError> {
        let stream = match &how.tls {
            Some((config, name)) => {
                let tls = TlsStream::connect(stream, config.clone(), name.clone())?;
                ByteStream::Tls(tls.into())
            }
            None => ByteStream::Plain(stream),
        };
        let mut framed = Self::over(stream, limits);
        if let Some(endpoint) = &how.websocket {
            let (request, accept) = http::request(&endpoint.authority, &endpoint.path)?;
            framed.framing = Framing::websocket(Side::Client);
            framed.stage = Stage::Answer {
                searched: 0,
                accept,
            };
            framed.preface = request;
        }
        Ok(framed)
    }

    /// The descriptor, for a poller.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.fd()
    }

    /// The socket beneath, for its addresses and options.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        self.stream.socket()
    }

    /// The certificate that the peer has shown, if any.
    #[must_use]
    pub fn certificate(&self) -> Option<&CertificateDer<'static>> {
        match &self.stream {
            ByteStream::Plain(_) => None,
            ByteStream::Tls(tls) => tls.peer_certificate(),
        }
    }

    /// A secret of the two ends for a purpose, if the stream is encrypted.
    #[must_use]
    pub fn secret(&self, purpose: &[u8]) -> Option<Secret> {
        self.stream.secret(purpose)
    }

    /// Whether units flow.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open) && self.stream.is_open()
    }

    /// Reads what has arrived and hands every whole unit to `unit`, in order. What the stream has
    /// to say in return goes out with the next [`Framed::write`].
    ///
    /// # Errors
    /// Whatever ends the stream; the peer has been told why where that is possible.
    pub fn read_units(&mut self, mut unit: impl FnMut(&[u8])) -> Result<Progress, FramedError> {
        let result = self.read_all(&mut unit);
        if let Err(error) = &result {
            let code = match error {
                FramedError::WebSocket(_) | FramedError::Empty => Some(Code::Protocol),
                FramedError::Oversized(_) => Some(Code::TooBig),
                _ => None,
            };
            if let Some(code) = code {
                self.say_goodbye(code);
            }
        }
        result
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
    /// Whatever ends the stream.
    pub fn write(&mut self) -> Result<bool, FramedError> {
        let mut blocked = false;
        while !(blocked || self.preface.is_empty() && self.queue.is_empty()) {
            match self.write_some() {
                Ok(0) => return Err(FramedError::Io(ErrorKind::WriteZero.into())),
                Ok(count) => self.consume(count),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => blocked = true,
                    ErrorKind::Interrupted => {}
                    _ => return Err(error.into()),
                },
            }
        }
        match self.stream.flush() {
            Ok(()) => Ok(!blocked || !self.stream.is_open()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the stream in good order, as far as the kernel takes it at once.
    pub fn finish(&mut self) {
        self.say_goodbye(Code::Normal);
    }

    /// Units and bytes that wait to be written.
    #[must_use]
    pub fn queued(&self) -> OutLimits {
        OutLimits {
            units: self.queue.len(),
            bytes: self.queued,
        }
    }

    /// Bytes that the stream has taken since the beginning, encryption not included.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken
    }

    fn over(stream: ByteStream, limits: OutLimits) -> Self {
        Self {
            stream,
            framing: Framing::Length,
            stage: Stage::Open,
            preface: Vec::new(),
            input: Vec::new(),
            start: 0,
            end: 0,
            queue: VecDeque::new(),
            written: 0,
            queued: 0,
            taken: 0,
            limits,
        }
    }

    fn read_all(&mut self, unit: &mut impl FnMut(&[u8])) -> Result<Progress, FramedError> {
        let mut reads = 0;
        // No poller tells of what is decrypted already; that is bounded.
        while reads < READS_MAX || self.stream.has_buffered() {
            reads += 1;
            let room = self.room();
            match self.stream.read(&mut self.input[room..]) {
                Ok(0) => return Ok(Progress::Closed),
                Ok(count) => self.end += count,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(Progress::Idle),
                    ErrorKind::Interrupted => continue,
                    _ => return Err(error.into()),
                },
            }
            let drained = self.end < self.input.len() && !self.stream.has_buffered();
            if self.opened()? && self.hand_out(unit)? {
                return Ok(Progress::Closed);
            }
            if drained {
                return Ok(Progress::Idle);
            }
        }
        Ok(Progress::More)
    }

    /// Makes room at the end of the input for the unit that has begun; where it starts.
    fn room(&mut self) -> usize {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        let wanted = match self.stage {
            Stage::Open => self.framing.announced(&self.input[self.start..self.end]),
            _ => Some(http::HEAD_MAX),
        };
        let wanted = wanted.unwrap_or(INPUT_MIN).max(INPUT_MIN);
        if self.input.len() < wanted {
            self.input.resize(wanted, 0);
        }
        if self.start > 0 {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        self.end
    }

    /// Reads the HTTP in front of units; whether they flow.
    fn opened(&mut self) -> Result<bool, FramedError> {
        let searched = match &self.stage {
            Stage::Open => return Ok(true),
            Stage::Over => return Ok(false),
            Stage::Request { searched, .. } | Stage::Answer { searched, .. } => *searched,
        };
        let Some(end) = http::end(&self.input[..self.end], searched) else {
            if self.end >= http::HEAD_MAX {
                return Err(self.deny(http::TOO_LONG));
            }
            if let Stage::Request { searched, .. } | Stage::Answer { searched, .. } =
                &mut self.stage
            {
                *searched = self.end;
            }
            return Ok(false);
        };
        let head = &self.input[..end];
        match &self.stage {
            Stage::Answer { accept, .. } => http::check_answer(head, accept)?,
            Stage::Request { origins, .. } => match http::upgrade(head, origins) {
                Ok(answer) => self.preface = answer,
                Err(denial) => return Err(self.deny(denial)),
            },
            Stage::Open | Stage::Over => {}
        }
        self.start = end;
        self.stage = Stage::Open;
        Ok(true)
    }

    /// Answers a request that opens nothing; a server's answer is not answered.
    fn deny(&mut self, denial: http::Denial) -> FramedError {
        if let Stage::Request { .. } = self.stage {
            self.preface = denial.answer();
        }
        self.stage = Stage::Over;
        // What the kernel does not take at once is not worth waiting for.
        let _ = self.write();
        denial.error()
    }

    /// Hands out what is there whole; whether the peer ends the stream.
    fn hand_out(&mut self, unit: &mut impl FnMut(&[u8])) -> Result<bool, FramedError> {
        if let Framing::Length = self.framing {
            let input = &self.input[..self.end];
            while let Some((size, body)) = framing::first(&input[self.start..])? {
                unit(&input[self.start + body..self.start + size]);
                self.start += size;
            }
            return Ok(false);
        }
        while let Framing::WebSocket(receiver) = &mut self.framing {
            let Some((size, piece)) = receiver.next(&mut self.input[self.start..self.end])? else {
                break;
            };
            self.start += size;
            match piece {
                Piece::Unit(bytes) => unit(bytes),
                Piece::Nothing => {}
                Piece::Ping(payload) => {
                    let payload = payload.to_vec();
                    let pong = self.framing.pong(&payload);
                    self.enqueue_control(pong);
                }
                Piece::Close => {
                    self.say_goodbye(Code::Normal);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn say_goodbye(&mut self, code: Code) {
        if !self.is_open() {
            return;
        }
        let close = self.framing.close(code);
        self.enqueue_control(close);
        self.stage = Stage::Over;
        // What the kernel does not take at once is not worth waiting for.
        if let Ok(true) = self.write() {
            self.stream.send_close();
            let _ = self.stream.flush();
        }
    }

    fn enqueue(&mut self, len: usize, body: impl FnOnce() -> Body) -> Result<(), FramedError> {
        if len > EVENT_LEN_MAX {
            return Err(FramedError::Oversized(len));
        }
        let size = self.framing.size(len);
        if self.queue.len() >= self.limits.units || self.queued + size > self.limits.bytes {
            return Err(FramedError::Full);
        }
        let unit = self.framing.wrap(body())?;
        self.queued += unit.size();
        self.queue.push_back(unit);
        Ok(())
    }

    /// Control frames count like units: a peer that pings and does not read gains nothing.
    fn enqueue_control(&mut self, unit: Option<Unit>) {
        if let Some(unit) = unit.filter(|_| self.queue.len() < self.limits.units) {
            self.queued += unit.size();
            self.queue.push_back(unit);
        }
    }

    fn write_some(&mut self) -> std::io::Result<usize> {
        if !self.preface.is_empty() {
            return self.stream.write_vectored(&[IoSlice::new(&self.preface)]);
        }
        let mut slices = [IoSlice::new(&[]); 2 * WRITES_MAX];
        let mut count = 0;
        let mut skip = self.written;
        for unit in self.queue.iter().take(WRITES_MAX) {
            for part in unit.parts() {
                let left = &part[skip.min(part.len())..];
                skip -= part.len() - left.len();
                if !left.is_empty() {
                    slices[count] = IoSlice::new(left);
                    count += 1;
                }
            }
        }
        self.stream.write_vectored(&slices[..count])
    }

    fn consume(&mut self, count: usize) {
        if !self.preface.is_empty() {
            self.preface.drain(..count);
            return;
        }
        self.queued -= count;
        self.taken += count as u64;
        self.written += count;
        while let Some(first) = self.queue.front() {
            let whole = first.size();
            if self.written < whole {
                break;
            }
            self.written -= whole;
            self.queue.pop_front();
        }
    }
}
