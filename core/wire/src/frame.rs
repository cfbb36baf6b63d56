//! Link frames: what two endpoints say to each other about their link.

mod codec;

use sangam_model::{BrokerId, Incarnation, StreamId, limits};

use crate::{Message, Refusal, WireError, message};

/// Bytes of a hello, padding included: more than any answer to it has, so that a broker is no
/// amplifier for forged addresses.
pub const HELLO_LEN: usize = 64;
/// Bytes of the largest link frame: every path carries it.
pub const FRAME_LEN_MAX: usize = limits::DATAGRAM_LEN_SAFE;
/// Bytes of messages (each with its 16-bit length) that fit one [`Frame::Control`].
pub const CONTROL_ROOM: usize = FRAME_LEN_MAX - 10;
/// The least `datagram_max` an endpoint may name: IPv4's 576 less headers and options.
pub const DATAGRAM_MIN: u16 = 508;

/// Who is calling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A publisher or subscriber.
    Client,
    /// A neighbour broker with its identity.
    Broker(BrokerId, Incarnation),
}

/// Optional abilities, one bit each; an endpoint uses what both have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(pub u32);

impl Capabilities {
    /// Understands events that were split on the link.
    pub const FRAGMENTS: Self = Self(1);
    /// Understands traces.
    pub const TRACES: Self = Self(2);
    /// In a broker's hello: the dialer has a link with the acceptor, and asks for a second way of
    /// it, to which the link moves.
    pub const SECOND_WAY: Self = Self(4);
    /// Answers pings that are longer than other frames may be.
    pub const PROBES: Self = Self(8);
    /// Hears groups on its own segment.
    pub const MULTICAST: Self = Self(16);
    /// Asks and answers by echoes, and knows that a neighbour which says so in one is silent for
    /// long where nothing is to be told.
    pub const QUIET: Self = Self(64);
    /// What this build can do on every link.
    pub const OURS: Self = Self::FRAGMENTS
        .with(Self::TRACES)
        .with(Self::PROBES)
        .with(Self::QUIET);

    /// What either can do.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What both can do.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether all of `other` is there.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The first frame of a link, from the endpoint that dials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Client or broker.
    pub role: Role,
    /// Lowest version understood.
    pub version_min: u8,
    /// Highest version understood.
    pub version_max: u8,
    /// What the dialer can do.
    pub capabilities: Capabilities,
    /// Drawn at random for this attempt; comes back in the answer.
    pub nonce: u64,
    /// Largest datagram in bytes (UDP payload) the dialer's way carries, at least
    /// [`DATAGRAM_MIN`].
    pub datagram_max: u16,
    /// Names the clock of the dialer's machine (a hash of its boot): equal domains can subtract
    /// their timestamps.
    pub clock_domain: u32,
    /// Proof that the dialer receives at its address, from [`Frame::Retry`].
    pub cookie: Option<[u8; 16]>,
}

/// The acceptance of a [`Hello`] with a good cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The nonce of the hello.
    pub nonce: u64,
    /// The version both use from now on.
    pub version: u8,
    /// What the acceptor can do.
    pub capabilities: Capabilities,
    /// Number of this session at the acceptor; every later frame carries it.
    pub session: u32,
    /// UDP port for the dialer's control frames and feedback (its delivery shard's own). The
    /// port that took the hello if 0.
    pub control_port: u16,
    /// UDP port for the events the dialer publishes. The port that took the hello if 0.
    pub media_port: u16,
    /// Largest datagram in bytes both ways carry, at least [`DATAGRAM_MIN`].
    pub datagram_max: u16,
    /// How often, in milliseconds, the dialer must be heard; not 0.
    pub keepalive_ms: u16,
    /// Clock domain of the acceptor.
    pub clock_domain: u32,
    /// The accepting broker.
    pub broker: BrokerId,
    /// Which of its lives.
    pub incarnation: Incarnation,
}

/// The refusal of a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refuse {
    /// The nonce of the hello.
    pub nonce: u64,
    /// Why.
    pub reason: Refusal,
    /// When to try again, in milliseconds; 0: not before something changed.
    pub retry_after_ms: u32,
    /// The highest version the refuser speaks; 0: it does not say.
    pub speaks: u8,
}

/// Units that went one way in a session, frames and events alike, since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// How many.
    pub packets: u64,
    /// Their bytes (UDP payload).
    pub bytes: u64,
}

/// Asks, answers, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// Session of the link.
    pub session: u32,
    /// Sender's time in microseconds, echoed.
    pub now_us: u64,
    /// To be answered at once.
    pub asks: bool,
    /// From now on the sender may be silent for long.
    pub quiet: bool,
    /// The last echo of the other end that came; `None` before the first.
    pub heard: Option<Heard>,
}

/// What the sender of an [`Echo`] tells of the last one of the other end that it heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The low 32 bits of its `now_us`.
    pub echo_us: u32,
    /// So long ago it came, in microseconds.
    pub held_us: u32,
    /// The low 32 bits of what had been received by then in this session, it included.
    pub packets: u32,
    /// The same of bytes (UDP payload).
    pub bytes: u32,
}

/// One link frame.
///
/// `session` is the number from [`Welcome`], so that a frame from an earlier session of the same
/// address is recognised and ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// May I come in?
    Hello(Hello),
    /// Prove first that you receive at this address: no larger than the hello.
    Retry {
        /// The nonce of the hello.
        nonce: u64,
        /// To be sent back.
        cookie: [u8; 16],
    },
    /// Come in.
    Welcome(Welcome),
    /// No.
    Refuse(Refuse),
    /// Are you there? Answered by [`Frame::Pong`].
    Ping {
        /// Session of the link.
        session: u32,
        /// Sender's time in microseconds, echoed.
        sent_us: u64,
        /// What the sender has sent in this session, this frame included; `None` from an
        /// endpoint that does not measure.
        traffic: Option<Traffic>,
    },
    /// I am.
    Pong {
        /// Session of the link.
        session: u32,
        /// Copied from the ping.
        echo_us: u64,
        /// The answerer's own time in microseconds.
        now_us: u64,
        /// What the answerer has received in this session, the ping included; there if the ping
        /// told its own.
        traffic: Option<Traffic>,
    },
    /// In place of both where both ends have [`Capabilities::QUIET`]: each one that is echoed
    /// measures the link for its sender, whichever end asked.
    Echo(Echo),
    /// Control messages, in order, delivered once.
    Control {
        /// Session of the link.
        session: u32,
        /// Number of this frame in its direction, modulo 2^16.
        sequence: u16,
        /// The next number expected from the other direction (cumulative).
        ack: u16,
        /// Encoded messages, each behind its 16-bit length; see [`Frame::messages`].
        messages: &'a [u8],
    },
    /// Acknowledges control frames when there is nothing to say.
    Ack {
        /// Session of the link.
        session: u32,
        /// The next number expected.
        ack: u16,
    },
    /// The link ends.
    Bye {
        /// Session of the link.
        session: u32,
        /// Why.
        reason: Refusal,
    },
    /// To a group: this is where events of the stream come, though there is none right now.
    Beacon {
        /// The stream.
        stream: StreamId,
    },
}

impl Frame<'_> {
    /// The session that the frame says it is of; `None` before there is one. Who was not welcomed
    /// does not know its number.
    #[must_use]
    pub const fn session(&self) -> Option<u32> {
        match self {
            Self::Ping { session, .. }
            | Self::Pong { session, .. }
            | Self::Echo(Echo { session, .. })
            | Self::Control { session, .. }
            | Self::Ack { session, .. }
            | Self::Bye { session, .. } => Some(*session),
            _ => None,
        }
    }

    /// The messages of a [`Frame::Control`], see [`crate::messages`]; none for other frames.
    pub fn messages(&self) -> impl Iterator<Item = Result<Message, WireError>> + '_ {
        message::messages(match self {
            Self::Control { messages, .. } => messages,
            _ => &[],
        })
    }
}
