//! One connection: its streams, its queues, and who goes first.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::Bytes;
use quinn_proto::{
    Connection as Protocol, ConnectionError, Dir, Event as ProtocolEvent, ReadError,
    SendDatagramError, StreamEvent, StreamId, VarInt, WriteError,
};
use sangam_model::{Class, Time};
use sangam_wire::Header;

use super::outgoing::{Outgoing, Stage};
use super::sender::Sender;
use super::units;
use super::{Event, Full, Key, Waiting};
use crate::pool::Packet;
use crate::udp::UdpSocket;

/// Bytes of frames that wait: a session has no more than 32 frames in flight.
const CONTROL_BYTES: usize = 128 << 10;
/// Bytes of data events that wait.
const DATA_BYTES: usize = 512 << 10;
/// Streams by their direction.
const CONTROL: usize = Dir::Bi as usize;
const DATA: usize = Dir::Uni as usize;
/// The stream of frames goes before the stream of data.
const CONTROL_PRIORITY: i32 = 1;
/// Kinds of link frames that are signs of life: ping and pong.
const SIGNS: [u8; 2] = [5, 6];
/// Application error codes: closed in order, and broken units.
const CLOSED: VarInt = VarInt::from_u32(0);
const BROKEN: VarInt = VarInt::from_u32(1);

pub(super) struct Connection {
    pub(super) protocol: Protocol,
    key: Key,
    datagrams: Outgoing,
    /// By direction: frames both ways, data one way.
    streams: [Stream; 2],
    /// Counted among the handshakes in progress.
    pub(super) handshaking: bool,
    /// The owner hears no more of it.
    over: bool,
    /// In the list of those to be flushed.
    pub(super) dirty: bool,
    /// Its earliest timer.
    pub(super) armed: Option<Time>,
    /// Events that were too long for the path all of a sudden.
    pub(super) oversized: u64,
}

/// Units in one or both directions.
struct Stream {
    /// Where ours go, and whence the peer's come.
    out: Option<StreamId>,
    into: Option<StreamId>,
    outgoing: units::Outgoing,
    incoming: units::Incoming,
}

impl Stream {
    fn new(max: usize) -> Self {
        Self {
            out: None,
            into: None,
            outgoing: units::Outgoing::new(max),
            incoming: units::Incoming::default(),
        }
    }
}

impl Connection {
    pub(super) fn new(protocol: Protocol, key: Key, handshaking: bool) -> Self {
        Self {
            protocol,
            key,
            datagrams: Outgoing::default(),
            streams: [Stream::new(CONTROL_BYTES), Stream::new(DATA_BYTES)],
            handshaking,
            over: false,
            dirty: false,
            armed: None,
            oversized: 0,
        }
    }

    pub(super) fn frame(&mut self, frame: &[u8]) -> Result<(), Full> {
        if self.over {
            return Err(Full);
        }
        match frame.get(1) {
            Some(kind) if SIGNS.contains(kind) => self.datagrams.sign(frame),
            _ => self.streams[CONTROL].outgoing.push(frame),
        }
    }

    pub(super) fn event(&mut self, packet: Packet) -> Result<(), Full> {
        if self.over {
            return Err(Full);
        }
        let class = Header::decode(&packet).map_err(|_| Full)?.class;
        match class {
            Class::Data => self.streams[DATA].outgoing.push(&packet),
            _ => self.datagrams.event(class, packet),
        }
    }

    pub(super) fn waiting(&self) -> Waiting {
        Waiting {
            control: self.streams[CONTROL].outgoing.len(),
            data: self.streams[DATA].outgoing.len(),
            ..self.datagrams.waiting()
        }
    }

    /// Packets that wait.
    pub(super) fn packets(&self) -> usize {
        self.datagrams.packets()
    }

    /// Takes what quinn-proto tells, and passes on what the owner needs to know.
    pub(super) fn collect(&mut self, now: Instant, events: &mut VecDeque<(Key, Event)>) {
        while let Some(event) = self.protocol.poll() {
            match event {
                ProtocolEvent::Connected => self.connected(now, events),
                ProtocolEvent::DatagramReceived => {
                    while let Some(datagram) = self.protocol.datagrams().recv() {
                        self.tell(Event::Unit(datagram), events);
                    }
                }
                ProtocolEvent::Stream(StreamEvent::Opened { dir }) => {
                    while let Some(id) = self.protocol.streams().accept(dir) {
                        self.opened(id);
                        self.read(now, id, events);
                    }
                }
                ProtocolEvent::Stream(StreamEvent::Readable { id }) => self.read(now, id, events),
                ProtocolEvent::Stream(StreamEvent::Stopped { .. }) => {
                    self.fail(now, "the peer takes no more of a stream", events);
                }
                ProtocolEvent::ConnectionLost { reason } => {
                    self.lost(reason.to_string(), is_certificate(&reason), events);
                }
                _ => {}
            }
        }
    }

    /// Ends the connection; the owner hears no more of it.
    pub(super) fn close(&mut self, now: Instant, reason: &str) {
        self.over = true;
        self.datagrams = Outgoing::default();
        if !self.protocol.is_closed() {
            let reason = Bytes::copy_from_slice(reason.as_bytes());
            self.protocol.close(now, CLOSED, reason);
        }
    }

    /// Hands over what the path takes now, in the order of service; `false` if the kernel takes
    /// no more.
    pub(super) fn transmit(
        &mut self,
        now: Instant,
        sender: &mut Sender,
        socket: &UdpSocket,
    ) -> bool {
        let mut way = Way {
            now,
            sender,
            socket,
        };
        // The first that the path does not take ends it: nothing less urgent may go ahead.
        let _ = way.pump(&mut self.protocol)
            && self.feed(Stage::Signs, &mut way)
            && self.write(Dir::Bi, &mut way)
            && self.feed(Stage::Urgent, &mut way)
            && self.write(Dir::Uni, &mut way)
            && self.feed(Stage::Video, &mut way);
        way.sender.room(socket).is_some()
    }

    fn connected(&mut self, now: Instant, events: &mut VecDeque<(Key, Event)>) {
        if self.protocol.datagrams().max_size().is_none() {
            return self.fail(now, "the peer takes no datagrams (RFC 9221)", events);
        }
        if self.protocol.side().is_client()
            && let Some(id) = self.protocol.streams().open(Dir::Bi)
        {
            self.opened(id);
        }
        self.tell(Event::Connected, events);
    }

    /// A stream is there. Each end may open one of each direction, but frames have only one.
    fn opened(&mut self, id: StreamId) {
        let stream = &mut self.streams[id.dir() as usize];
        if stream.into.is_some() {
            return;
        }
        stream.into = Some(id);
        if id.dir() == Dir::Bi {
            stream.out = Some(id);
            // It has just been opened.
            let _ = self.protocol.send_stream(id).set_priority(CONTROL_PRIORITY);
        }
    }

    fn read(&mut self, now: Instant, id: StreamId, events: &mut VecDeque<(Key, Event)>) {
        let stream = &mut self.streams[id.dir() as usize];
        let mut ended = stream.into != Some(id);
        if let Ok(mut chunks) = self.protocol.recv_stream(id).read(true) {
            loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => stream.incoming.extend(&chunk.bytes),
                    Err(ReadError::Blocked) => break,
                    Ok(None) | Err(ReadError::Reset(_)) => {
                        ended = true;
                        break;
                    }
                }
            }
            // Whether a packet follows from it shows when the connection is flushed.
            let _ = chunks.finalize();
        }
        loop {
            match self.streams[id.dir() as usize].incoming.pop() {
                Ok(Some(unit)) => self.tell(Event::Unit(unit), events),
                Ok(None) => break,
                Err(units::Broken) => return self.fail(now, "a unit has no valid length", events),
            }
        }
        if ended {
            self.fail(
                now,
                "the peer ended a stream, or opened one too many",
                events,
            );
        }
    }

    /// The peer does what it must not.
    fn fail(&mut self, now: Instant, cause: &'static str, events: &mut VecDeque<(Key, Event)>) {
        let reason = Bytes::from_static(cause.as_bytes());
        self.protocol.close(now, BROKEN, reason);
        self.lost(cause.to_owned(), false, events);
    }

    fn lost(&mut self, cause: String, certificate: bool, events: &mut VecDeque<(Key, Event)>) {
        self.tell(Event::Lost { cause, certificate }, events);
        self.over = true;
        self.datagrams = Outgoing::default();
    }

    fn tell(&self, event: Event, events: &mut VecDeque<(Key, Event)>) {
        if !self.over {
            events.push_back((self.key, event));
        }
    }

    /// Gives a stream what it takes.
    fn write(&mut self, dir: Dir, way: &mut Way<'_>) -> bool {
        let stream = &mut self.streams[dir as usize];
        if stream.outgoing.len() == 0 {
            return true;
        }
        if stream.out.is_none() && dir == Dir::Uni {
            stream.out = self.protocol.streams().open(dir);
        }
        let Some(id) = stream.out else {
            return true;
        };
        while stream.outgoing.len() > 0 {
            match self.protocol.send_stream(id).write(stream.outgoing.rest()) {
                Ok(count) => stream.outgoing.take(count),
                Err(WriteError::Blocked) => break,
                // The end of the stream is an event of its own.
                Err(_) => return true,
            }
        }
        way.pump(&mut self.protocol)
    }

    /// Sends datagrams up to a stage, few at a time; `false` if the path takes no more.
    fn feed(&mut self, stage: Stage, way: &mut Way<'_>) -> bool {
        loop {
            let Some(len_max) = self.protocol.datagrams().max_size() else {
                return false;
            };
            let mut fed = false;
            let mut blocked = false;
            while let Some(datagram) = self.datagrams.next(stage, len_max) {
                match self.protocol.datagrams().send(datagram, false) {
                    Ok(()) => fed = true,
                    Err(SendDatagramError::Blocked(datagram)) => {
                        self.datagrams.put_back(datagram);
                        blocked = true;
                        break;
                    }
                    Err(_) => self.oversized += 1,
                }
            }
            if !fed {
                return !blocked;
            }
            if !way.pump(&mut self.protocol) {
                return false;
            }
        }
    }
}

/// Whether one side did not like the other's certificate. RFC 9001 section 4.8: TLS alerts are
/// error codes from 0x100 on; RFC 8446 section 6.2 numbers them.
fn is_certificate(error: &ConnectionError) -> bool {
    const ALERTS: [u64; 8] = [42, 43, 44, 45, 46, 48, 51, 116];
    let code = match error {
        ConnectionError::TransportError(error) => u64::from(error.code),
        ConnectionError::ConnectionClosed(close) => u64::from(close.error_code),
        _ => return false,
    };
    ALERTS.iter().any(|alert| code == 0x100 | alert)
}

/// The way out, for the length of one turn.
struct Way<'a> {
    now: Instant,
    sender: &'a mut Sender,
    socket: &'a UdpSocket,
}

impl Way<'_> {
    /// Takes the packets that may leave now; `false` if the kernel takes no more.
    fn pump(&mut self, protocol: &mut Protocol) -> bool {
        while let Some(room) = self.sender.room(self.socket) {
            // One at a time: packets of one size to one peer are joined when they are sent.
            match protocol.poll_transmit(self.now, 1, room) {
                Some(transmit) => self.sender.commit(transmit.destination),
                None => return true,
            }
        }
        false
    }
}
