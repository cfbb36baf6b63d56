//! What one broker measured.

use sangam_model::{BrokerId, Time};

/// Links of one digest.
pub const LINKS_MAX: usize = sangam_model::limits::LINKS_PER_BROKER;
/// Bytes of one name.
pub const WORD_MAX: usize = 64;
/// Brokers in one beat.
pub const BEAT_MAX: usize = 64;

/// Figures of a broker; [`Digest::figures`] has them in this order. New ones are added at the end,
/// and readers skip those that they do not know.
pub mod broker {
    /// Milliseconds since 1970 by its clock.
    pub const UNIX_MS: usize = 0;
    /// Seconds since its start.
    pub const UPTIME_S: usize = 1;
    /// 1 while it sends clients elsewhere.
    pub const DRAINING: usize = 2;
    /// Clients, legs and doors.
    pub const CLIENTS: usize = 3;
    /// Streams it knows.
    pub const STREAMS: usize = 4;
    /// Filters of its clients.
    pub const FILTERS: usize = 5;
    /// Thousandths of a processor core in use.
    pub const CPU_CORES: usize = 6;
    /// Thousandths of all its cores.
    pub const CPU_SHARE: usize = 7;
    /// Resident bytes.
    pub const MEMORY: usize = 8;
    /// Packets taken since the start.
    pub const RECEIVED_PACKETS: usize = 9;
    /// Their bytes.
    pub const RECEIVED_BYTES: usize = 10;
    /// Packets sent to neighbours.
    pub const RELAYED_PACKETS: usize = 11;
    /// Their bytes.
    pub const RELAYED_BYTES: usize = 12;
    /// Packets sent to subscribers.
    pub const DELIVERED_PACKETS: usize = 13;
    /// Their bytes.
    pub const DELIVERED_BYTES: usize = 14;
    /// Packets dropped.
    pub const DROPPED_PACKETS: usize = 15;
    /// Packets dropped over the last second.
    pub const DROPPED_PER_S: usize = 16;
    /// Brokers on its map.
    pub const KNOWN_BROKERS: usize = 17;
    /// Epoch of the map.
    pub const EPOCH: usize = 18;
}

/// Figures of one end of a link, as [`Link::figures`] has them.
pub mod link {
    /// 1 while events flow.
    pub const UP: usize = 0;
    /// 1 while the other end is silent.
    pub const SUSPECT: usize = 1;
    /// Cost in the broker network map.
    pub const WEIGHT: usize = 2;
    /// Round trip in microseconds.
    pub const RTT_US: usize = 3;
    /// Jitter in microseconds.
    pub const JITTER_US: usize = 4;
    /// Loss in millionths.
    pub const LOSS_PPM: usize = 5;
    /// Estimated capacity in bits per second.
    pub const BANDWIDTH_BPS: usize = 6;
    /// Bits per second that arrive.
    pub const IN_BPS: usize = 7;
    /// Bits per second that leave.
    pub const OUT_BPS: usize = 8;
    /// Events that wait.
    pub const QUEUE_PACKETS: usize = 9;
    /// Their bytes.
    pub const QUEUE_BYTES: usize = 10;
    /// How long the oldest waits, in microseconds.
    pub const QUEUE_US: usize = 11;
    /// Events dropped since it came up.
    pub const DROPPED_PACKETS: usize = 12;
}

/// How many figures a broker has.
pub const BROKER: usize = broker::EPOCH + 1;
/// How many figures an end of a link has.
pub const LINK: usize = link::DROPPED_PACKETS + 1;

/// One broker at one moment, or some of its links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// Who.
    pub broker: BrokerId,
    /// Which of its lives, modulo 256.
    pub incarnation: u8,
    /// Counts the reports of this life.
    pub number: u64,
    /// When it was measured, by the reader's clock.
    pub at: Time,
    /// What there is to know of the broker; `None` if only some links are told.
    pub figures: Option<[Option<u64>; BROKER]>,
    /// Its names, where they are told.
    pub names: Option<Names>,
    /// All its links, or those that are told.
    pub links: Vec<Link>,
}

/// What people call a broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// By configuration.
    pub name: String,
    /// Of the program.
    pub version: String,
    /// By configuration; may be empty.
    pub region: String,
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Who is at the other end, once known.
    pub peer: Option<BrokerId>,
    /// Address of the other end and the transport; both empty where they are not told.
    pub way: [String; 2],
    /// When it was measured, by the reader's clock.
    pub at: Time,
    /// What was measured.
    pub figures: [Option<u64>; LINK],
}

/// What events are made of.
#[expect(clippy::large_enum_variant, reason = "almost all are digests")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    /// Figures.
    Digest(Digest),
    /// Brokers that live, and when each was last heard of by the reader's clock.
    Beat(Vec<(BrokerId, Time)>),
}

impl Digest {
    /// A broker of which nothing is known but that it is there.
    #[must_use]
    pub const fn new(broker: BrokerId, at: Time) -> Self {
        Self {
            broker,
            incarnation: 0,
            number: 0,
            at,
            figures: Some([None; BROKER]),
            names: None,
            links: Vec::new(),
        }
    }

    /// Whether this was measured after `other` of the same broker: a later life, or a higher
    /// number of the same one.
    #[must_use]
    pub const fn is_later_than(&self, other: &Self) -> bool {
        match self.incarnation.wrapping_sub(other.incarnation) {
            0 => self.number > other.number,
            // Lives are counted modulo 256.
            ahead => ahead < 1 << 7,
        }
    }
}

impl Link {
    /// Whether both are the same end of the same link.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self.peer, other.peer) {
            (Some(one), Some(other)) => one == other,
            (None, None) => self.way == other.way,
            _ => false,
        }
    }
}
