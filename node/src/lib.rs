//! The broker: relay lanes and delivery shards over `sangam-io`, decided by `sangam-broker`.
//!
//! [`Broker::start`] spawns three kinds of plain threads. The *lane* owns the public UDP port
//! and the links to neighbours; it relays before anything local happens. *Shards* own clients,
//! their ports and sockets, and deliver. *Control* owns what changes rarely: interest, streams and
//! the snapshot by which the lane looks up every event. If clients need tokens, a fourth kind
//! verifies them for the shards; see [`Authority`]. `ARCHITECTURE.md` follows one packet
//! through them.

mod addresses;
mod assembly;
mod authority;
mod broker;
mod bucket;
mod certificate;
mod command;
mod config;
mod control;
mod counters;
mod feedback;
mod guests;
mod lane;
mod network;
mod organise;
mod port;
mod reliable;
mod rules;
mod samples;
mod segment;
mod shard;
mod shedders;
mod sockets;
mod ways;
mod welcome;

pub use authority::{AuthError, Authority};
pub use broker::{Addresses, Brief, Broker, LinkInfo, Queue, StartError, StreamInfo};
pub use config::{BrokerConfig, LegReceive, LegSend, LegSpec, Network, Queuing, RtcpPort};
pub use config::{LinkWay, Neighbour, ReliableConfig, StreamWay, Transport};
pub use counters::Sample;
pub use network::{MapBroker, NetworkMap};
pub use port::leg::{LegError, LegInfo};
pub use rules::{FORBIDDEN_MAX, LinkRules, RulesInForce};
pub use sangam_broker::{PINS_MAX, PinnedBy};
pub use sangam_reliable::Limits as ReliableLimits;
pub use segment::{Multicast, holds_near_only};
