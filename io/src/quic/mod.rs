//! QUIC (RFC 9000) on a thread of the media plane: quinn-proto for the protocol, our sockets, our
//! queue, no async runtime.
//!
//! An [`Endpoint`] owns a UDP socket and its connections, each known by a [`Key`]. What goes to a
//! peer is either a link frame ([`Endpoint::send_frame`]) or an event ([`Endpoint::send_event`]):
//!
//! - frames travel on one bidirectional stream that the dialer opens, but pings and pongs as
//!   datagrams, as signs of life must not wait behind repetitions;
//! - data events travel on a stream of their own in each direction;
//! - all other events travel as datagrams, in pieces if they are too long for one.
//!
//! What waits is in queues of ours: signs of life, the control stream, audio and feedback, data,
//! video. quinn-proto is given no more than it can send at once, so nothing urgent waits in it.
//!
//! The owner calls [`Endpoint::receive`] when the socket is readable and [`Endpoint::timeout`]
//! when [`Endpoint::deadline`] has come, takes every [`Event`] from [`Endpoint::poll`], and then
//! calls [`Endpoint::flush`].

mod accept;
mod config;
mod congestion;
mod connection;
mod endpoint;
mod identity;
mod outgoing;
mod sender;
mod timers;
mod units;

pub use config::{Config, ConfigError};
pub use endpoint::{Counters, Endpoint};
pub use identity::broker_of;

use bytes::Bytes;

/// A connection's number within its endpoint; reused some time after [`Event::Lost`].
pub type Key = u32;

/// What happens to a connection.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The handshake is done: the peer has proved what its certificate says.
    Connected,
    /// One unit, an event or a link frame.
    Unit(Bytes),
    /// The connection is over, and why; its last event. Not said of those closed here.
    Lost {
        /// What happened.
        cause: String,
        /// One side does not believe the other's certificate.
        certificate: bool,
    },
}

/// Bytes that wait for a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Frames on the control stream.
    pub control: usize,
    /// Audio, RTCP, feedback.
    pub urgent: usize,
    /// Data events.
    pub data: usize,
    /// Video.
    pub video: usize,
}

impl Waiting {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> usize {
        self.control + self.urgent + self.data + self.video
    }
}

/// The peer does not take what is sent to it: the queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;
