//! The bounds every part keeps to. Past a bound there is a counted, documented behaviour.

use core::time::Duration;

/// Bytes of a topic or filter, separators included.
pub const TOPIC_LEN_MAX: usize = 255;
/// Levels of a topic or filter.
pub const TOPIC_LEVELS_MAX: usize = 16;
/// Bytes of an SDP encoding name.
pub const ENCODING_LEN_MAX: usize = 32;
/// Bytes of SDP format parameters.
pub const FMTP_LEN_MAX: usize = 512;
/// Bytes of a whole event: header, extensions and payload.
pub const EVENT_LEN_MAX: usize = 16_384;
/// Bytes of a whole event that fits a small pool buffer; every packet of an ordinary path does.
pub const EVENT_LEN_SMALL: usize = 2_048;
/// Brokers an event may cross. Fifteen is three times the diameter of the largest tree tested.
pub const HOP_LIMIT: u8 = 15;
/// Events of one stream that leave in one UDP_SEGMENT send: larger bursts cost loss downstream.
pub const BURST_MAX: usize = 16;
/// Filters one client may hold.
pub const FILTERS_PER_CLIENT: usize = 256;
/// Streams one client may publish.
pub const STREAMS_PER_CLIENT: usize = 64;
/// Bytes of a client's token: with its request it fits one control message.
pub const TOKEN_LEN_MAX: usize = 1_000;
/// Streams one broker knows.
pub const STREAMS_PER_BROKER: usize = 65_536;
/// Different filters one broker asks its neighbours for.
pub const FILTERS_PER_BROKER: usize = 65_536;
/// Neighbour brokers of one broker.
pub const LINKS_PER_BROKER: usize = 64;
/// Brokers of a network that a central scheduler plans for: as many as are heard in full.
pub const BROKERS_PLANNED: usize = 48;
/// Groups a client is asked to join at a time: Linux lets a socket have 20
/// (`net.ipv4.igmp_max_memberships`).
pub const GROUPS_PER_CLIENT: usize = 16;
/// Native clients of one broker.
pub const CLIENTS_PER_BROKER: usize = 262_144;
/// Native clients from one IP address: a large office behind one translator.
pub const CLIENTS_PER_ADDRESS: usize = 4_096;
/// WebRTC peers of one broker.
pub const WEBRTC_PEERS_PER_BROKER: usize = 16_384;
/// Tokens from one IP address that may be wrong each second before the next is not looked at.
pub const WRONG_TOKENS_PER_ADDRESS: u32 = 10;
/// Packets of one publisher each second before the rest is dropped as a flood.
pub const PUBLISHER_PACKETS_PER_S: u32 = 20_000;
/// Control messages a peer may leave unacknowledged before it is closed.
pub const CONTROL_QUEUE_MAX: usize = 1_024;
/// Bytes of a datagram every path carries: IPv6's 1,280 less 40 of IPv6 and 8 of UDP.
pub const DATAGRAM_LEN_SAFE: usize = 1_232;
/// A video frame that waited longer when its turn comes is left out, and all that depend on it.
/// Users count 100 ms as late; half as much again keeps a short stall from costing a whole group
/// of pictures.
pub const VIDEO_AGE_MAX: Duration = Duration::from_millis(150);
/// Age at which a queued audio event is of no use. Above video's, which goes first.
pub const AUDIO_AGE_MAX: Duration = Duration::from_millis(250);
