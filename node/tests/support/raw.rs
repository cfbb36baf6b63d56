//! A client without manners: it speaks the wire format itself, and says whatever a test wants.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use sangam_model::{Class, MediaInfo, StreamId, limits};
use sangam_wire::{
    Capabilities, Event, Extensions, Flags, Frame, Header, Hello, Message, Refusal, Role, VERSION,
    Welcome, is_event, messages, stream as units,
};

use super::{PATIENCE, filter, topic};

/// A session with a broker, driven by hand.
pub(crate) struct Raw {
    wire: Wire,
    pub(crate) welcome: Welcome,
    /// Number of the next control frame.
    sequence: u16,
    /// Number of the broker's next one.
    expected: u16,
    request: u32,
    /// Messages that came and were not asked for yet.
    said: Vec<Message>,
    /// Events that came and were not asked for yet.
    events: Vec<Vec<u8>>,
    pub(crate) bye: Option<Refusal>,
}

enum Wire {
    Udp {
        socket: UdpSocket,
        public: SocketAddr,
        control: SocketAddr,
    },
    Tcp {
        stream: TcpStream,
        input: Vec<u8>,
    },
}

/// A hello as a client says it.
pub(crate) fn hello(nonce: u64, cookie: Option<[u8; 16]>) -> Hello {
    Hello {
        role: Role::Client,
        version_min: VERSION,
        version_max: VERSION,
        capabilities: Capabilities::OURS,
        nonce,
        datagram_max: 1_472,
        clock_domain: 1,
        cookie,
    }
}

pub(crate) fn bytes_of(frame: &Frame<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    bytes
}

/// One event of a stream.
pub(crate) fn event(class: Class, stream: StreamId, sequence: u16, payload: &[u8]) -> Vec<u8> {
    flagged((class, Flags::NONE), stream, sequence, payload)
}

/// One event of a stream, with flags.
pub(crate) fn flagged(
    (class, flags): (Class, Flags),
    stream: StreamId,
    sequence: u16,
    payload: &[u8],
) -> Vec<u8> {
    let hop_limit = limits::HOP_LIMIT;
    let event = Event {
        header: Header {
            class,
            flags,
            stream,
            sequence,
            hop_limit,
            layer: 0,
        },
        extensions: Extensions::NONE,
        payload,
    };
    let mut bytes = vec![0; event.encoded_len()];
    event
        .write(&mut bytes)
        .expect("an event of an ordinary size");
    bytes
}

/// A UDP socket on the loopback address of the peer's family, which waits with patience.
pub(crate) fn socket_beside(peer: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((peer.ip(), 0)).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket
}

/// The next datagram; panics if none comes.
#[track_caller]
pub(crate) fn datagram(socket: &UdpSocket) -> Vec<u8> {
    let mut bytes = vec![0; 65_535];
    let (len, _) = socket.recv_from(&mut bytes).expect("an answer");
    bytes.truncate(len);
    bytes
}

impl Raw {
    /// Says hello to the public UDP port, twice as it must.
    #[track_caller]
    pub(crate) fn udp(public: SocketAddr) -> Self {
        Self::udp_with(public, hello(7, None))
    }

    /// The same, with a hello of the caller's choice.
    #[track_caller]
    pub(crate) fn udp_with(public: SocketAddr, hello: Hello) -> Self {
        let say = |cookie| {
            bytes_of(&Frame::Hello(Hello {
                cookie,
                ..hello.clone()
            }))
        };
        let socket = socket_beside(public);
        socket.send_to(&say(None), public).expect("sent");
        let retry = datagram(&socket);
        let Ok(Frame::Retry { cookie, .. }) = Frame::decode(&retry) else {
            panic!("no retry: {retry:?}");
        };
        socket.send_to(&say(Some(cookie)), public).expect("sent");
        // A client's comes from another port of the broker.
        let welcome = welcome_in(&datagram(&socket));
        let mut control = public;
        if welcome.control_port != 0 {
            control.set_port(welcome.control_port);
        }
        Self::new(
            Wire::Udp {
                socket,
                public,
                control,
            },
            welcome,
        )
    }

    /// Says hello over TCP.
    #[track_caller]
    pub(crate) fn tcp(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("a listener");
        stream.set_nodelay(true).expect("a socket option");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut wire = Wire::Tcp {
            stream,
            input: Vec::new(),
        };
        wire.send(&bytes_of(&Frame::Hello(hello(7, None))));
        let answer = wire.recv(PATIENCE).expect("an answer");
        Self::new(wire, welcome_in(&answer))
    }

    fn new(wire: Wire, welcome: Welcome) -> Self {
        Self {
            wire,
            welcome,
            sequence: 0,
            expected: 0,
            request: 0,
            said: Vec::new(),
            events: Vec::new(),
            bye: None,
        }
    }

    /// Sends bytes to where control frames go.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.wire.send(bytes);
    }

    /// Sends bytes to where published events go.
    pub(crate) fn send_media(&mut self, bytes: &[u8]) {
        match &mut self.wire {
            Wire::Udp { socket, public, .. } => {
                socket.send_to(bytes, *public).expect("sent");
            }
            tcp @ Wire::Tcp { .. } => tcp.send(bytes),
        }
    }

    /// Tells the broker several things in one frame.
    pub(crate) fn tell(&mut self, all: &[Message]) {
        let mut encoded = Vec::new();
        for message in all {
            message.push(&mut encoded).expect("a message that fits");
        }
        let frame = Frame::Control {
            session: self.welcome.session,
            sequence: self.sequence,
            ack: self.expected,
            messages: &encoded,
        };
        self.sequence = self.sequence.wrapping_add(1);
        self.wire.send(&bytes_of(&frame));
    }

    /// Asks to subscribe and returns the answer.
    #[track_caller]
    pub(crate) fn subscribe(&mut self, text: &str) -> Message {
        let request = self.next_request();
        self.tell(&[Message::Subscribe {
            request,
            filter: filter(text),
        }]);
        self.answer(request)
    }

    /// Asks to publish data and returns the stream.
    #[track_caller]
    pub(crate) fn publish(&mut self, name: &str, media: MediaInfo) -> StreamId {
        let request = self.next_request();
        self.tell(&[Message::Publish {
            request,
            topic: topic(name),
            media,
        }]);
        match self.answer(request) {
            Message::Published { stream, .. } => stream,
            other => panic!("not published: {other:?}"),
        }
    }

    pub(crate) fn next_request(&mut self) -> u32 {
        self.request += 1;
        self.request
    }

    /// The broker's answer to a request.
    #[track_caller]
    pub(crate) fn answer(&mut self, wanted: u32) -> Message {
        let is_answer = |message: &Message| {
            matches!(
                *message,
                Message::Accepted { request }
                    | Message::Refused { request, .. }
                    | Message::Published { request, .. } if request == wanted
            )
        };
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.said.iter().position(is_answer) {
                return self.said.remove(at);
            }
            assert!(self.take(until), "no answer to request {wanted}");
        }
    }

    /// The next event, if one comes in time.
    pub(crate) fn event(&mut self, timeout: Duration) -> Option<Vec<u8>> {
        let until = Instant::now() + timeout;
        while self.events.is_empty() {
            if !self.take(until) {
                return None;
            }
        }
        Some(self.events.remove(0))
    }

    /// Takes and acknowledges what came, as the broker gives up a client that never does.
    pub(crate) fn catch_up(&mut self) {
        while self.event(Duration::from_millis(1)).is_some() {}
    }

    /// Reads on in a thread of its own, until nothing comes for long or the connection ends.
    pub(crate) fn read_on(mut self) {
        thread::spawn(move || while self.event(PATIENCE).is_some() {});
    }

    /// Whether the broker says goodbye or ends the stream in time.
    pub(crate) fn is_dismissed(&mut self) -> bool {
        let until = Instant::now() + PATIENCE;
        while self.bye.is_none() && self.take(until) {}
        self.bye.is_some()
    }

    /// Takes one unit; false once the time is over or the stream has ended.
    fn take(&mut self, until: Instant) -> bool {
        let left = until.saturating_duration_since(Instant::now());
        let Some(unit) = (!left.is_zero()).then(|| self.wire.recv(left)).flatten() else {
            return false;
        };
        if unit.first().copied().and_then(is_event) == Some(true) {
            self.events.push(unit);
            return true;
        }
        match Frame::decode(&unit).expect("a frame of the broker") {
            Frame::Control {
                sequence,
                messages: bytes,
                ..
            } => self.control(sequence, bytes),
            Frame::Bye { reason, .. } => self.bye = Some(reason),
            _ => {}
        }
        true
    }

    fn control(&mut self, sequence: u16, bytes: &[u8]) {
        if sequence == self.expected {
            self.expected = self.expected.wrapping_add(1);
            self.said
                .extend(messages(bytes).map(|message| message.expect("a message")));
        }
        let session = self.welcome.session;
        self.wire.send(&bytes_of(&Frame::Ack {
            session,
            ack: self.expected,
        }));
    }
}

impl Wire {
    fn send(&mut self, bytes: &[u8]) {
        match self {
            Self::Udp {
                socket, control, ..
            } => {
                socket.send_to(bytes, *control).expect("sent");
            }
            Self::Tcp { stream, .. } => {
                let unit = [&units::prefix(bytes.len())[..], bytes].concat();
                // A broker that has closed the connection is what some tests wait for.
                let _ = stream.write_all(&unit);
            }
        }
    }

    /// The next unit; `None` if none comes in time or the stream has ended.
    fn recv(&mut self, timeout: Duration) -> Option<Vec<u8>> {
        match self {
            Self::Udp { socket, .. } => {
                socket.set_read_timeout(Some(timeout)).expect("a timeout");
                let mut bytes = vec![0; 65_535];
                let len = match socket.recv(&mut bytes) {
                    Ok(len) => len,
                    Err(error) if is_timeout(error.kind()) => return None,
                    Err(error) => panic!("{error}"),
                };
                bytes.truncate(len);
                Some(bytes)
            }
            Self::Tcp { stream, input } => next_unit(stream, input, timeout),
        }
    }
}

fn next_unit(stream: &mut TcpStream, input: &mut Vec<u8>, timeout: Duration) -> Option<Vec<u8>> {
    stream.set_read_timeout(Some(timeout)).expect("a timeout");
    loop {
        if let Some((unit, used)) = units::next_unit(input).expect("units of the broker") {
            let unit = unit.to_vec();
            input.drain(..used);
            return Some(unit);
        }
        let mut room = [0; 16_384];
        match stream.read(&mut room) {
            Ok(0) | Err(_) => return None,
            Ok(len) => input.extend_from_slice(&room[..len]),
        }
    }
}

fn is_timeout(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

#[track_caller]
fn welcome_in(bytes: &[u8]) -> Welcome {
    match Frame::decode(bytes) {
        Ok(Frame::Welcome(welcome)) => welcome,
        other => panic!("no welcome: {other:?}"),
    }
}
