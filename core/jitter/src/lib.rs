//! When a receiver hands on, and when it plays, packets that a network has delayed unevenly.
//!
//! A [`Receiver`] takes the numbers of each packet, never its payload, and says what to do with it:
//!
//! - [`Output::Release`]: hand it to the decoder, in order. *Release delay* counts to here.
//! - [`Output::Play`]: it is heard or seen from now on. *Playout delay* counts to here, and it is
//!   even: it changes only as fast as speech can be stretched or compressed.
//! - [`Output::Conceal`]: there was nothing to play, because of a loss or because playout waited.
//! - [`Output::Discard`]: it came too late, twice, or makes no sense.
//!
//! Both delays are told of every receiver, as one cannot be compared with the other.
//!
//! # The receivers
//! | [`Kind`] | releases | plays |
//! |---|---|---|
//! | `Fixed` | the first of four held packets (VCRoute paper, figure 6) | evenly |
//! | `NetEq` | when it plays | WebRTC's decisions every 10 ms |
//! | `WmJitterLiteral`, `WmJitterLiteralWindow` | algorithms 1 and 2 to the letter | evenly |
//! | `WmJitter` | the same as we read it | evenly |
//! | `Ours` | what is next at once; behind a gap by what waiting costs and brings | evenly |
//!
//! *Evenly* is one playout stage for all of them (`playout.rs`), so that their playout delays
//! differ only by how they release.
//!
//! # Time
//! `deadline()` says when `handle(now, Input::Timer)` is due. Being late with it, or leaving it out
//! until the next packet, changes when outputs can be polled but not what they say: `at` is when
//! something was due. So a simulation needs no timers but one at the end.
//!
//! # Sequences
//! [`Packet::seq`] never wraps and [`Packet::sent`] is in microseconds of the sender's clock, which
//! may have any origin and may drift; [`RtpClock`] makes both of an RTP header.

mod buffer;
mod fading;
mod fixed;
mod line;
mod neteq;
mod ours;
mod outbox;
mod playout;
mod rtp;
mod window;
mod wmjitter;

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use sangam_model::Time;

use fixed::Fixed;
use line::Line;
use neteq::NetEq;
use ours::Ours;
use wmjitter::{Reading, WmJitter};

pub use outbox::Stats;
pub use rtp::RtpClock;

/// Sequences that a receiver looks ahead. A packet beyond ends what was before it: all that is held
/// is released.
pub const HELD_MAX: usize = 1_024;

/// What a receiver needs to know of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its place in the stream: one more for each packet sent, never wrapping.
    pub seq: u64,
    /// Its media timestamp, by the sender's clock. Several packets may share one (video).
    pub sent: Time,
}

impl Packet {
    /// Media time with a sign, and so that sums and differences stay within 64 bits.
    fn sent_us(&self) -> i64 {
        self.sent.as_micros().min(1 << 60) as i64
    }
}

/// What happens to a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A packet has come.
    Packet(Packet),
    /// [`Receiver::deadline`] has passed.
    Timer,
}

/// What a receiver decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Decode this packet now. Sequences of releases only rise.
    Release {
        /// The packet.
        seq: u64,
        /// When it was due, at most `now`.
        at: Time,
    },
    /// The packet is played from `at` on; it was released before.
    Play {
        /// The packet.
        seq: u64,
        /// When it was due, at most `now`.
        at: Time,
    },
    /// Nothing was there to be played for a while; told when the next packet plays.
    Conceal {
        /// Since when.
        at: Time,
        /// For how long.
        length: Duration,
    },
    /// Throw this packet away: it is not released.
    Discard {
        /// The packet.
        seq: u64,
        /// Why.
        reason: Discard,
    },
}

/// Why a packet is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// A later one was released before it came.
    Late,
    /// It has come before.
    Duplicate,
}

/// The receivers there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A buffer of four packets.
    Fixed,
    /// The delay manager of WebRTC's NetEQ, with its defaults.
    NetEq,
    /// WMJitter to the letter, its histogram over all history.
    WmJitterLiteral,
    /// WMJitter to the letter, its histogram over the last two seconds.
    WmJitterLiteralWindow,
    /// WMJitter as we read it.
    WmJitter,
    /// Releases at once what is next; waits for what is missing as long as that pays.
    #[default]
    Ours,
}

/// What can be set. The defaults are the papers' and WebRTC's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Quantile of the jitter that WMJitter waits for, in 0..1.
    pub percentile: f64,
    /// Delay that one percent of loss is worth, in milliseconds (WMJitter as we read it, ours).
    pub ms_per_loss_percent: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            percentile: 0.95,
            ms_per_loss_percent: 20.0,
        }
    }
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Fixed,
        Self::NetEq,
        Self::WmJitterLiteral,
        Self::WmJitterLiteralWindow,
        Self::WmJitter,
        Self::Ours,
    ];

    /// Its name on command lines and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::NetEq => "neteq",
            Self::WmJitterLiteral => "wmjitter-literal",
            Self::WmJitterLiteralWindow => "wmjitter-literal-window",
            Self::WmJitter => "wmjitter",
            Self::Ours => "ours",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// No receiver has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKind;

impl fmt::Display for UnknownKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such receiver: ")?;
        let names = Kind::ALL.map(Kind::name);
        f.write_str(&names.join(", "))
    }
}

impl core::error::Error for UnknownKind {}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        let mut all = Self::ALL.into_iter();
        all.find(|kind| kind.name() == name).ok_or(UnknownKind)
    }
}

/// One receiver of one stream, of any [`Kind`].
#[derive(Clone, Debug)]
pub struct Receiver {
    policy: Policy,
    line: Line,
    /// What was before is decided.
    now: Time,
}

#[derive(Clone, Debug)]
enum Policy {
    Fixed(Fixed),
    NetEq(NetEq),
    WmJitter(WmJitter),
    Ours(Ours),
}

impl Receiver {
    /// Allocates all it will ever need.
    #[must_use]
    pub fn new(kind: Kind, config: &Config) -> Self {
        let policy = match kind {
            Kind::Fixed => Policy::Fixed(Fixed::default()),
            Kind::NetEq => Policy::NetEq(NetEq::new()),
            Kind::WmJitterLiteral => Policy::WmJitter(WmJitter::new(Reading::Letter, config)),
            Kind::WmJitterLiteralWindow => {
                Policy::WmJitter(WmJitter::new(Reading::LetterWindow, config))
            }
            Kind::WmJitter => Policy::WmJitter(WmJitter::new(Reading::Ours, config)),
            Kind::Ours => Policy::Ours(Ours::new(config)),
        };
        Self {
            policy,
            line: Line::new(config),
            now: Time::ZERO,
        }
    }

    /// WMJitter as figure 6 of the VCRoute paper draws it: with a lag that is given.
    #[must_use]
    pub fn figure_6(lag: Duration) -> Self {
        let lag_us = lag.as_micros() as i64;
        let config = Config::default();
        Self {
            policy: Policy::WmJitter(WmJitter::new(Reading::Figure6(lag_us), &config)),
            line: Line::new(&config),
            now: Time::ZERO,
        }
    }

    /// Takes a packet or notices that time has passed. `now` never goes back.
    pub fn handle(&mut self, now: Time, input: Input) {
        self.advance(now);
        let Input::Packet(packet) = input else {
            return;
        };
        let line = &mut self.line;
        line.out.stats.received += 1;
        match &mut self.policy {
            Policy::Fixed(fixed) => fixed.packet(line, packet, now),
            Policy::NetEq(neteq) => neteq.packet(line, packet, now),
            Policy::WmJitter(wmjitter) => wmjitter.packet(line, packet, now),
            Policy::Ours(ours) => ours.packet(line, packet, now),
        }
        self.advance(now);
    }

    /// The next thing that was decided. To be asked until `None` after each `handle`; what piles
    /// up past a bound is lost, and counted.
    pub fn poll(&mut self) -> Option<Output> {
        self.line.out.poll()
    }

    /// When `handle(now, Input::Timer)` is due, if nothing comes before.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let playout = self.line.playout.deadline();
        let decision = self.decision();
        match (decision, playout) {
            (Some(decision), Some(playout)) => Some(decision.min(playout)),
            (decision, playout) => decision.or(playout),
        }
    }

    /// What WMJitter tells the sender: the jitter of the last packet and how long packets wait for
    /// stragglers now. Other receivers have no such numbers.
    #[must_use]
    pub fn estimate(&self) -> Option<(Duration, Duration)> {
        let Policy::WmJitter(wmjitter) = &self.policy else {
            return None;
        };
        let (jitter, lag) = wmjitter.estimate();
        let us = |us: i64| Duration::from_micros(us.max(0) as u64);
        Some((us(jitter), us(lag)))
    }

    /// Counts so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.line.out.stats()
    }

    /// Decides what was due, each at its time.
    fn advance(&mut self, now: Time) {
        while let Some(at) = self.decision().filter(|at| *at <= now) {
            // A deadline may move into the past when less patience is learnt.
            let at = at.max(self.now);
            self.now = at;
            let line = &mut self.line;
            match &mut self.policy {
                Policy::Fixed(fixed) => fixed.expired(line, at),
                Policy::NetEq(neteq) => neteq.expired(line, at),
                Policy::WmJitter(wmjitter) => wmjitter.expired(line, at),
                Policy::Ours(ours) => ours.expired(line, at),
            }
        }
        self.now = self.now.max(now);
        self.line.playout.advance(now, &mut self.line.out);
    }

    fn decision(&self) -> Option<Time> {
        match &self.policy {
            Policy::Fixed(fixed) => fixed.deadline(&self.line),
            Policy::NetEq(neteq) => neteq.deadline(),
            Policy::WmJitter(wmjitter) => wmjitter.deadline(&self.line),
            Policy::Ours(ours) => ours.deadline(&self.line),
        }
    }
}
