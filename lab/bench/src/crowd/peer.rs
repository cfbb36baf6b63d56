//! One participant: a dialer that joins, asks for what it came for, and keeps alive.

use std::net::SocketAddr;

use sangam_emulator::Site;
use sangam_io::clock;
use sangam_io::udp::Address;
use sangam_link::{Backoff, DialInput, DialOutput, Dialer, DialerConfig};
use sangam_model::{Filter, MediaInfo, StreamId, Time, Topic};
use sangam_wire::{Capabilities, Frame, Message, Refusal, Role, Welcome};

/// Loopback carries far more; no load of the bench needs it.
const DATAGRAM_MAX: u16 = 9_000;

/// What a participant came for.
#[derive(Clone, Debug)]
pub(crate) enum Purpose {
    /// To receive what this filter selects.
    Listen(Filter),
    /// To publish here.
    Publish(Topic, MediaInfo),
}

/// A participant to be.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    /// Its broker's public UDP address.
    pub(crate) broker: SocketAddr,
    /// What it came for.
    pub(crate) purpose: Purpose,
    /// Where it lives; participants that share sockets all live where their thread does.
    pub(crate) site: Option<Site>,
}

/// How far a participant is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Not begun.
    Waiting,
    /// Between hello and the broker's answer to what it came for.
    Joining,
    /// Receives, or may publish.
    Ready,
    /// The broker refused it.
    Refused(Refusal),
}

/// One participant.
pub(super) struct Peer {
    dialer: Dialer,
    spec: Spec,
    control: Address,
    /// Where its events go, once up.
    pub(super) media: Address,
    /// The stream it was granted.
    pub(super) stream: Option<StreamId>,
    /// How far it is.
    pub(super) standing: Standing,
    /// The streams it was told of since its link came up.
    pub(super) announced: u32,
    /// How often its link died.
    pub(super) deaths: u32,
}

impl Peer {
    /// A participant that waits; `seed` makes its nonces.
    pub(super) fn new(spec: Spec, seed: u64) -> Self {
        let config = DialerConfig {
            role: Role::Client,
            capabilities: Capabilities::OURS,
            datagram_max: DATAGRAM_MAX,
            clock_domain: clock::clock_domain(),
            reliable: false,
            in_order: false,
            seed,
            backoff: Backoff::default(),
        };
        let broker = Address::from(spec.broker);
        Self {
            dialer: Dialer::new(config),
            spec,
            control: broker,
            media: broker,
            stream: None,
            standing: Standing::Waiting,
            announced: 0,
            deaths: 0,
        }
    }

    /// Begins to join.
    pub(super) fn start(&mut self, now: Time) {
        self.standing = Standing::Joining;
        self.dialer.handle(now, DialInput::Start);
    }

    /// Says goodbye.
    pub(super) fn close(&mut self, now: Time) {
        self.dialer.handle(now, DialInput::Close);
    }

    /// Takes a frame of the broker.
    pub(super) fn frame(&mut self, now: Time, frame: &Frame<'_>) {
        self.dialer.handle(now, DialInput::Frame(frame));
    }

    /// Something of the broker came.
    pub(super) fn heard(&mut self, now: Time) {
        self.dialer.heard(now);
    }

    /// When to poll next.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.dialer.deadline()
    }

    /// The next datagram to send, until `None`.
    pub(super) fn poll(&mut self, now: Time) -> Option<(Address, Vec<u8>)> {
        loop {
            match self.dialer.poll(now)? {
                DialOutput::Hello(bytes) => return Some((self.spec.broker.into(), bytes)),
                DialOutput::Transmit(bytes) => return Some((self.control, bytes)),
                DialOutput::Up(welcome) => self.up(now, &welcome),
                DialOutput::Message(message) => self.message(&message),
                DialOutput::Down(_) => {
                    self.deaths += 1;
                    self.standing = Standing::Joining;
                }
                DialOutput::Refused { reason, again, .. } => {
                    if again.is_none() {
                        self.standing = Standing::Refused(reason);
                    }
                }
                // Only byte streams connect; only broker links are suspected and measured.
                DialOutput::Connect
                | DialOutput::Suspect
                | DialOutput::Recovered
                | DialOutput::Sample(_)
                | DialOutput::Carries(_) => {}
            }
        }
    }

    fn up(&mut self, now: Time, welcome: &Welcome) {
        self.announced = 0;
        let at = |port: u16| {
            let mut address = self.spec.broker;
            if port != 0 {
                address.set_port(port);
            }
            Address::from(address)
        };
        (self.control, self.media) = (at(welcome.control_port), at(welcome.media_port));
        let request = 1;
        let message = match self.spec.purpose.clone() {
            Purpose::Listen(filter) => Message::Subscribe { request, filter },
            Purpose::Publish(topic, media) => Message::Publish {
                request,
                topic,
                media,
            },
        };
        self.dialer.handle(now, DialInput::Send(message));
    }

    fn message(&mut self, message: &Message) {
        match message {
            Message::Accepted { .. } => self.standing = Standing::Ready,
            Message::Published { stream, .. } => {
                self.stream = Some(*stream);
                self.standing = Standing::Ready;
            }
            Message::Announce { .. } => self.announced += 1,
            Message::Refused { reason, .. } => self.standing = Standing::Refused(*reason),
            _ => {}
        }
    }
}
