//! What a broker says about itself and its links, once a second.

use sangam_model::BrokerId;
use sangam_model::limits::BROKERS_PLANNED;
use serde::{Deserialize, Serialize};

/// Version of the report. Fields may be added under the same number: readers ignore what they do
/// not know and take the default for what is missing.
pub const SCHEMA: u32 = 1;

/// Links one report lists: as many as a broker may have.
pub const LINKS_MAX: usize = sangam_model::limits::LINKS_PER_BROKER;
/// Filters one report lists; `filters` counts the others.
pub const INTEREST_MAX: usize = 64;
/// Streams one report lists; `streams` counts the others.
pub const ORIGINS_MAX: usize = 64;
/// Reasons one report lists.
const DROPS_MAX: usize = 128;
/// Bytes of a name, address or reason.
const WORD_MAX: usize = 64;

/// One broker at one moment. What a broker does not measure is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BrokerReport {
    /// [`SCHEMA`] of the writer.
    pub schema: u32,
    /// Who.
    #[serde(with = "hex")]
    pub broker: BrokerId,
    /// Which of its lives, modulo 256.
    pub incarnation: u8,
    /// Counts the reports of this life, from 1.
    pub number: u64,
    /// Name by configuration; not necessarily unique.
    pub name: String,
    /// Version of the program.
    pub version: String,
    /// Region by configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// When it was measured.
    pub at: At,
    /// How old it is, in milliseconds, by the clock of whoever passes it on; 0 from the broker
    /// itself.
    #[serde(skip_serializing_if = "is_zero")]
    pub age_ms: u64,
    /// How far the broker's clock is ahead of the median of all, in milliseconds, as whoever merges
    /// reports finds it; absent from the broker itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_off_ms: Option<i64>,
    /// Seconds since the start of the broker.
    pub uptime_s: u64,
    /// Whether the broker sends its clients elsewhere.
    pub draining: bool,
    /// Clients, legs and doors.
    pub clients: u64,
    /// Streams the broker knows.
    pub streams: u64,
    /// Different filters of local subscribers.
    pub filters: u64,
    /// What the process uses.
    pub load: Load,
    /// Events in and out.
    pub traffic: Traffic,
    /// What went no further, by reason; reasons that never came up are absent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drops: Vec<Drops>,
    /// What the broker knows of the others.
    pub map: BrokerMap,
    /// Its links.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkReport>,
    /// Filters of local subscribers, at most 64.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interest: Vec<String>,
    /// Streams that enter the network here, at most 64.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<StreamReport>,
    /// By which scheduler's plans it goes, `vcroute` or `via`; absent if by none's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing: Option<String>,
    /// Ways that are as planned now, at most 48; all others follow from the map.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub planned: Vec<PlannedWay>,
}

/// By which neighbour a broker gets what enters the network at another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlannedWay {
    /// Where it enters.
    #[serde(with = "hex")]
    pub origin: BrokerId,
    /// The neighbour.
    #[serde(with = "hex")]
    pub parent: BrokerId,
}

/// A moment, by two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct At {
    /// Milliseconds since 1970 by the broker's clock, right or wrong.
    pub unix_ms: u64,
    /// Microseconds of the broker's monotonic clock.
    pub clock_us: u64,
    /// Names that clock: times of equal domains may be subtracted.
    pub clock_domain: u32,
}

/// What the process uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Load {
    /// Processor cores in use over the last second: 1.0 is one whole core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_cores: Option<f64>,
    /// The same as a share of the cores there are, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_share: Option<f64>,
    /// Resident memory in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

/// Events of a broker since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Traffic {
    /// Taken from clients, legs and neighbours.
    pub received_packets: u64,
    /// Their bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received_bytes: Option<u64>,
    /// Sent to neighbours.
    pub relayed_packets: u64,
    /// Their bytes.
    pub relayed_bytes: u64,
    /// Sent to local subscribers.
    pub delivered_packets: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Dropped, for all reasons together.
    pub dropped_packets: u64,
    /// Dropped over the last second.
    pub dropped_per_s: u64,
}

/// Events dropped for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Drops {
    /// As in `sangam_dropped_total`.
    pub reason: String,
    /// Since the start.
    pub packets: u64,
    /// Over the last second.
    pub per_s: u64,
}

/// What a broker knows of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BrokerMap {
    /// Changes whenever the map does; equal on brokers that agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// Brokers known, itself included.
    pub brokers: u64,
}

/// One link, as the broker at this end measures it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkReport {
    /// Who is at the other end, once known.
    #[serde(with = "hex_option", skip_serializing_if = "Option::is_none")]
    pub peer: Option<BrokerId>,
    /// Address of the other end.
    pub address: String,
    /// `udp`, `tcp`, `quic`, ...
    pub transport: String,
    /// How old the figures are, in milliseconds; as `age_ms` of the broker, but links may be told
    /// by themselves.
    #[serde(skip_serializing_if = "is_zero")]
    pub age_ms: u64,
    /// Whether events flow.
    pub up: bool,
    /// Whether the other end was silent for too long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspect: Option<bool>,
    /// Cost in the broker network map.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Who fixed that, if it is not measured: `threshold`, `configuration` or `command`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned_by: Option<String>,
    /// Smoothed round trip in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_us: Option<u64>,
    /// Jitter of what arrives, in microseconds (RFC 3550 section 6.4.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_us: Option<u64>,
    /// Events lost on the way here, in millionths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_ppm: Option<u32>,
    /// What the link could carry from here, estimated, in bits per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth_bps: Option<u64>,
    /// Bits per second that arrive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_bps: Option<u64>,
    /// Bits per second that leave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_bps: Option<u64>,
    /// Events that wait to be sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_packets: Option<u64>,
    /// Their bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_bytes: Option<u64>,
    /// How long the oldest waits, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_us: Option<u64>,
    /// Events dropped at this link since it came up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_packets: Option<u64>,
}

/// One stream at the broker where it enters the network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamReport {
    /// As `1f2e3d4c.7.12`.
    pub id: String,
    /// Where it is published.
    pub topic: String,
    /// Neighbours it is sent to.
    pub links: u64,
}

impl BrokerReport {
    /// Whether every list and text keeps to its bound, as those of an honest broker do.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        let word = |text: &str| text.len() <= WORD_MAX && !text.chars().any(char::is_control);
        let topic = |text: &str| {
            text.len() <= sangam_model::limits::TOPIC_LEN_MAX && !text.chars().any(char::is_control)
        };
        word(&self.name)
            && word(&self.version)
            && self.region.as_deref().is_none_or(word)
            && self.drops.len() <= DROPS_MAX
            && self.drops.iter().all(|drops| word(&drops.reason))
            && self.links.len() <= LINKS_MAX
            && self.links.iter().all(|link| {
                let pinned_by = link.pinned_by.as_deref().is_none_or(word);
                word(&link.address) && word(&link.transport) && pinned_by
            })
            && self.interest.len() <= INTEREST_MAX
            && self.interest.iter().all(|filter| topic(filter))
            && self.origins.len() <= ORIGINS_MAX
            && self
                .origins
                .iter()
                .all(|one| word(&one.id) && topic(&one.topic))
            && self.routing.as_deref().is_none_or(word)
            && self.planned.len() <= BROKERS_PLANNED
    }

    /// Whether this report is later than `other` of the same broker: a later life, or a higher
    /// number of the same one. Clocks have no say, as a broker's may be wrong.
    #[must_use]
    pub fn is_later_than(&self, other: &Self) -> bool {
        match self.incarnation.wrapping_sub(other.incarnation) {
            0 => self.number > other.number,
            // Lives are counted modulo 256.
            ahead => ahead < 1 << 7,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// Broker ids as eight hexadecimal digits, as everywhere people see them.
mod hex {
    use sangam_model::BrokerId;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(id: &BrokerId, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(id)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BrokerId, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(from)?;
        parse(&text).ok_or_else(|| D::Error::custom("a broker id has 8 hexadecimal digits"))
    }

    pub(super) fn parse(text: &str) -> Option<BrokerId> {
        let plain = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = u32::from_str_radix(text, 16).ok().filter(|_| plain)?;
        Some(BrokerId(id))
    }
}

mod hex_option {
    use sangam_model::BrokerId;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(
        id: &Option<BrokerId>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match id {
            Some(id) => to.collect_str(id),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<BrokerId>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        let wrong = || D::Error::custom("a broker id has 8 hexadecimal digits");
        text.map(|text| super::hex::parse(&text).ok_or_else(wrong))
            .transpose()
    }
}

/// A broker id from its eight hexadecimal digits.
#[must_use]
pub fn parse_id(text: &str) -> Option<BrokerId> {
    hex::parse(text)
}
