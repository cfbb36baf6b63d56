//! A dialer and a small broker on a bad path, in virtual time; a run replays from its seed.

// Each test file uses its own part.
#![allow(dead_code)]

use std::net::SocketAddr;
use std::time::Duration;

use sangam_link::{
    Acceptor, Asks, Backoff, DialInput, DialOutput, Dialer, DialerConfig, Input, Output, Sample,
    Session, SessionConfig, Timing, Verdict,
};
use sangam_model::{BrokerId, Incarnation, Time};
use sangam_wire::{Capabilities, Frame, Hello, Message, Refusal, Role, Welcome};

/// What the path does to each datagram.
#[derive(Clone, Copy, Default)]
pub(crate) struct Path {
    /// Out of a thousand.
    pub(crate) lost: u64,
    /// Out of a thousand.
    pub(crate) doubled: u64,
    pub(crate) up: Duration,
    pub(crate) down: Duration,
    /// Longer datagrams vanish, if not 0.
    pub(crate) narrow: usize,
    /// At most so much is added to each datagram's delay, so that they overtake each other.
    pub(crate) jitter: Duration,
}

impl Path {
    pub(crate) fn delay(ms: u64) -> Self {
        Self {
            up: Duration::from_millis(ms),
            down: Duration::from_millis(ms),
            ..Self::default()
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    Dialer,
    Broker,
}

/// What the dialer's owner saw.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Connect,
    Up(u32),
    Suspect,
    Recovered,
    Carries(u16),
    Down(Refusal),
    Refused(Refusal),
}

pub(crate) struct Pair {
    pub(crate) now: Time,
    pub(crate) path: Path,
    pub(crate) dialer: Dialer,
    pub(crate) broker: Broker,
    pub(crate) seen: Vec<(Time, Seen)>,
    pub(crate) samples: Vec<(Time, Sample)>,
    /// Messages the dialer's owner got.
    pub(crate) messages: Vec<Message>,
    /// Hellos that left the dialer.
    pub(crate) hellos: Vec<Hello>,
    /// Datagrams that left either end.
    pub(crate) sent: usize,
    /// Their bytes, without headers.
    pub(crate) bytes: usize,
    /// Nothing passes.
    pub(crate) cut: bool,
    random: u64,
    flying: Vec<(Time, To, Vec<u8>)>,
    events: Vec<(Time, To, usize)>,
}

/// A broker with room for one session.
pub(crate) struct Broker {
    acceptor: Acceptor,
    pub(crate) source: SocketAddr,
    pub(crate) session: Option<Session>,
    pub(crate) keepalive: Duration,
    pub(crate) refuse: Option<Frame<'static>>,
    nonce: u64,
    number: u32,
    reliable: bool,
    role: Role,
    /// Its clock is so far ahead.
    pub(crate) ahead: Duration,
    pub(crate) messages: Vec<Message>,
    pub(crate) down: Vec<(Time, Refusal)>,
}

pub(crate) fn config(seed: u64) -> DialerConfig {
    DialerConfig {
        role: Role::Client,
        capabilities: Capabilities::OURS,
        datagram_max: 1_472,
        clock_domain: 1,
        reliable: false,
        in_order: false,
        seed,
        backoff: Backoff::default(),
    }
}

impl Pair {
    pub(crate) fn new(config: DialerConfig, path: Path) -> Self {
        let broker = Broker {
            acceptor: Acceptor::new([7; 16]),
            source: SocketAddr::from(([192, 0, 2, 1], 5_000)),
            session: None,
            keepalive: Duration::from_secs(1),
            refuse: None,
            nonce: 0,
            number: 0,
            reliable: config.reliable,
            role: config.role,
            ahead: Duration::from_secs(1_000),
            messages: Vec::new(),
            down: Vec::new(),
        };
        let random = config.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut dialer = Dialer::new(config);
        let now = Time::from_millis(1_000);
        dialer.handle(now, DialInput::Start);
        Self {
            now,
            path,
            dialer,
            broker,
            seen: Vec::new(),
            samples: Vec::new(),
            messages: Vec::new(),
            hellos: Vec::new(),
            sent: 0,
            bytes: 0,
            cut: false,
            random,
            flying: Vec::new(),
            events: Vec::new(),
        }
    }

    /// A pair that is up.
    pub(crate) fn joined(config: DialerConfig, path: Path) -> Self {
        let mut pair = Self::new(config, path);
        pair.run(Duration::from_secs(1));
        if pair.dialer.session().is_none() {
            // Two round trips.
            pair.run(2 * (path.up + path.down));
        }
        assert!(pair.dialer.session().is_some(), "{:?}", pair.seen);
        pair
    }

    pub(crate) fn send(&mut self, message: Message) {
        self.dialer.handle(self.now, DialInput::Send(message));
    }

    pub(crate) fn answer(&mut self, message: Message) {
        let now = self.broker.clock(self.now);
        if let Some(session) = &mut self.broker.session {
            session.handle(now, Input::Send(message));
        }
    }

    /// The dialer sends an event of so many bytes, of which only the arrival counts here.
    pub(crate) fn dialer_sends(&mut self, bytes: usize) {
        self.dialer.sent(self.now, 1, bytes as u64);
        self.drain();
        if !self.cut {
            let at = self.now + self.path.up;
            self.events.push((at, To::Broker, bytes));
        }
    }

    /// So does the broker.
    pub(crate) fn broker_sends(&mut self, bytes: usize) {
        let now = self.broker.clock(self.now);
        if let Some(session) = &mut self.broker.session {
            session.sent(now, 1, bytes as u64);
        }
        self.drain();
        if !self.cut {
            let at = self.now + self.path.down;
            self.events.push((at, To::Dialer, bytes));
        }
    }

    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.drain();
            let next = self.next();
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            let now = self.now;
            for (_, to, bytes) in self.events.extract_if(.., |(at, ..)| *at <= now) {
                match (to, &mut self.broker.session) {
                    (To::Dialer, _) => self.dialer.received(now, bytes),
                    (To::Broker, Some(session)) => session.received(now + self.broker.ahead, bytes),
                    (To::Broker, None) => {}
                }
            }
            while let Some(index) = self.flying.iter().position(|(at, ..)| *at <= self.now) {
                let (_, to, bytes) = self.flying.remove(index);
                self.deliver(to, &bytes);
            }
        }
    }

    pub(crate) fn run_until_up(&mut self, limit: Duration) -> Duration {
        let start = self.now;
        while self.dialer.session().is_none() {
            assert!(
                self.now - start < limit,
                "not up after {limit:?}: {:?}",
                self.seen
            );
            self.run(Duration::from_millis(1));
        }
        self.now - start
    }

    /// Hands bytes to the dialer as if they came from the broker.
    pub(crate) fn inject(&mut self, frame: &Frame<'_>) {
        self.dialer.handle(self.now, DialInput::Frame(frame));
        self.drain();
    }

    fn next(&self) -> Time {
        let flying = self.flying.iter().map(|(at, ..)| *at);
        let flying = flying.chain(self.events.iter().map(|(at, ..)| *at));
        let broker = self.broker.session.as_ref().and_then(Session::deadline);
        let broker = broker.map(|at| Time::from_micros(at.as_micros() - self.broker.lead()));
        flying
            .chain(self.dialer.deadline())
            .chain(broker)
            .min()
            .unwrap_or(Time::NEVER)
    }

    fn drain(&mut self) {
        while let Some(output) = self.dialer.poll(self.now) {
            match output {
                DialOutput::Connect => {
                    self.seen.push((self.now, Seen::Connect));
                    if !self.cut {
                        self.dialer.handle(self.now, DialInput::Connected);
                    }
                }
                DialOutput::Hello(bytes) => {
                    if let Ok(Frame::Hello(hello)) = Frame::decode(&bytes) {
                        self.hellos.push(hello);
                    }
                    self.fly(To::Broker, bytes);
                }
                DialOutput::Transmit(bytes) => self.fly(To::Broker, bytes),
                DialOutput::Up(welcome) => self.seen.push((self.now, Seen::Up(welcome.session))),
                DialOutput::Message(message) => self.messages.push(message),
                DialOutput::Suspect => self.seen.push((self.now, Seen::Suspect)),
                DialOutput::Recovered => self.seen.push((self.now, Seen::Recovered)),
                DialOutput::Sample(sample) => self.samples.push((self.now, sample)),
                DialOutput::Carries(size) => self.seen.push((self.now, Seen::Carries(size))),
                DialOutput::Down(reason) => self.seen.push((self.now, Seen::Down(reason))),
                DialOutput::Refused { reason, .. } => {
                    self.seen.push((self.now, Seen::Refused(reason)));
                }
            }
        }
        for bytes in self.broker.poll(self.now) {
            self.fly(To::Dialer, bytes);
        }
    }

    fn fly(&mut self, to: To, bytes: Vec<u8>) {
        self.sent += 1;
        self.bytes += bytes.len();
        if self.cut || self.roll(1_000) < self.path.lost {
            return;
        }
        if self.path.narrow > 0 && bytes.len() > self.path.narrow {
            return;
        }
        let copies = if self.roll(1_000) < self.path.doubled {
            2
        } else {
            1
        };
        let way = if to == To::Broker {
            self.path.up
        } else {
            self.path.down
        };
        for _ in 0..copies {
            let jitter = self.roll(self.path.jitter.as_micros() as u64 + 1);
            self.flying.push((
                self.now + way + Duration::from_micros(jitter),
                to,
                bytes.clone(),
            ));
        }
    }

    fn deliver(&mut self, to: To, bytes: &[u8]) {
        let frame = Frame::decode(bytes).expect("both ends write what they can read");
        match to {
            To::Dialer => self.dialer.handle(self.now, DialInput::Frame(&frame)),
            To::Broker => {
                if let Some(answer) = self.broker.handle(self.now, &frame) {
                    let mut bytes = Vec::new();
                    answer.encode(&mut bytes);
                    self.fly(To::Dialer, bytes);
                }
            }
        }
        self.drain();
    }

    /// xorshift64*, independent of the generator under test.
    fn roll(&mut self, bound: u64) -> u64 {
        let mut x = self.random;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random = x;
        (x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }
}

impl Broker {
    pub(crate) fn clock(&self, now: Time) -> Time {
        now + self.ahead
    }

    fn lead(&self) -> u64 {
        self.ahead.as_micros() as u64
    }

    fn handle(&mut self, now: Time, frame: &Frame<'_>) -> Option<Frame<'static>> {
        let now = self.clock(now);
        let Frame::Hello(hello) = frame else {
            if let Some(session) = &mut self.session {
                session.handle(now, Input::Frame(frame));
            }
            return None;
        };
        let verdict = if self.reliable {
            self.acceptor.judge_stream(hello)
        } else {
            self.acceptor.judge(hello, self.source, now)
        };
        match verdict {
            Verdict::Retry(frame) | Verdict::Refuse(frame) => Some(frame),
            Verdict::Accept { .. } if self.refuse.is_some() => match self.refuse.clone()? {
                Frame::Refuse(refuse) => Some(Frame::Refuse(sangam_wire::Refuse {
                    nonce: hello.nonce,
                    ..refuse
                })),
                other => Some(other),
            },
            Verdict::Accept { version } => Some(self.welcome(now, hello, version)),
        }
    }

    fn welcome(&mut self, now: Time, hello: &Hello, version: u8) -> Frame<'static> {
        if self.session.is_none() || self.nonce != hello.nonce {
            self.nonce = hello.nonce;
            self.number += 1;
            let timing = match self.role {
                Role::Client => Timing::accepting(self.keepalive),
                Role::Broker(..) => Timing::BROKER,
            };
            let config = SessionConfig {
                number: self.number,
                timing,
                datagram_max: hello.datagram_max,
                reliable: self.reliable,
            };
            let mut session = Session::new(config, now);
            let rests = hello.capabilities.contains(Capabilities::QUIET);
            if rests && matches!(self.role, Role::Broker(..)) {
                session.rest(now, Asks::Otherwise);
            }
            self.session = Some(session);
        } else if let (Role::Client, Some(session)) = (self.role, &mut self.session) {
            session.heard(now);
        }
        Frame::Welcome(Welcome {
            nonce: hello.nonce,
            version,
            capabilities: Capabilities::OURS,
            session: self.number,
            control_port: 0,
            media_port: 0,
            datagram_max: hello.datagram_max,
            keepalive_ms: self.keepalive.as_millis() as u16,
            clock_domain: 2,
            broker: BrokerId(9),
            incarnation: Incarnation(1),
        })
    }

    fn poll(&mut self, now: Time) -> Vec<Vec<u8>> {
        let clock = self.clock(now);
        let mut out = Vec::new();
        while let Some(output) = self
            .session
            .as_mut()
            .and_then(|session| session.poll(clock))
        {
            match output {
                Output::Transmit(bytes) => out.push(bytes),
                Output::Message(message) => self.messages.push(message),
                Output::Suspect | Output::Recovered | Output::Sample(_) | Output::Carries(_) => {}
                Output::Down(reason) => {
                    self.down.push((now, reason));
                    self.session = None;
                }
            }
        }
        out
    }
}

pub(crate) fn accepted(request: u32) -> Message {
    Message::Accepted { request }
}

pub(crate) fn requests(messages: &[Message]) -> Vec<u32> {
    let number = |message: &Message| match message {
        Message::Accepted { request } => *request,
        other => panic!("{other:?}"),
    };
    messages.iter().map(number).collect()
}

pub(crate) const BROKER_ROLE: Role = Role::Broker(BrokerId(5), Incarnation(1));
