//! The broker: relay lanes and delivery shards over `sangam-io`, decided by `sangam-broker`.
//!
//! [`Broker::start`] spawns three kinds of plain threads. The *lane* owns the public UDP port
//! and the links to neighbours; it relays before anything local happens. *Shards* own clients,
//! their ports and sockets, and deliver. *Control* owns what changes rarely: interest, streams and
//! the snapshot by which the lane looks up every event. `ARCHITECTURE.md` follows one packet
//! through them.

mod assembly;
mod broker;
mod certificate;
mod command;
mod config;
mod control;
mod counters;
mod feedback;
mod lane;
mod organise;
mod port;
mod samples;
mod shard;
mod shedders;
mod sockets;
mod welcome;

pub use broker::{Addresses, Broker, LinkInfo, StartError, StreamInfo};
pub use config::Transport;
pub use config::{BrokerConfig, LegReceive, LegSend, LegSpec, Network, Queuing, RtcpPort};
pub use config::{QuicLinks, QuicNeighbour};
pub use counters::Sample;
pub use port::leg::{LegError, LegInfo};
