//! What the front asks of nodes that send, itself among them.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// One order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case")]
pub(crate) enum Order {
    /// Send, or go on with other nodes.
    Play(Box<Play>),
    /// Send faster or slower.
    Rate {
        /// The session, by the front's number.
        session: u64,
        /// From where on.
        now: Moment,
        /// How much faster than the curve says.
        rate: f64,
    },
    /// Stop, and stay ready to repeat.
    Pause {
        /// The session.
        session: u64,
    },
    /// Forget it.
    Stop {
        /// The session.
        session: u64,
    },
}

/// A place on a curve and when it is due: nodes need no common clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Moment {
    /// Nanoseconds on the curve.
    pub(crate) at: u64,
    /// Microseconds from when this is read until then; below 0: it was before.
    pub(crate) ahead: i64,
}

/// By which curve a film is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Pace {
    /// Its own clock.
    Clock,
    /// Its average rate.
    Average,
    /// Bytes in a second.
    Constant(u32),
    /// The smoothest for a buffer of so many bytes.
    Smooth(u64),
}

/// A film to be sent to a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Play {
    /// By the front's number.
    pub(crate) session: u64,
    /// The film's number.
    pub(crate) film: u64,
    /// The client's port for RTP.
    pub(crate) to: SocketAddr,
    /// And that for RTCP.
    pub(crate) rtcp: u16,
    pub(crate) ssrc: u32,
    /// The global sequence number of the film's first datagram, modulo 2^32.
    pub(crate) gsn: u32,
    pub(crate) pace: Pace,
    pub(crate) rate: f64,
    /// The first datagram, and the one behind the last.
    pub(crate) first: u64,
    pub(crate) until: u64,
    pub(crate) now: Moment,
    /// The nodes that send, each what it has; none: whoever gets this sends all.
    pub(crate) nodes: Vec<u32>,
    /// After how many changes of the disks that was so.
    pub(crate) changes: u64,
    /// From this datagram on others send what a failed node did not.
    pub(crate) since: Option<u64>,
    /// Repeats go by RFC 4588.
    pub(crate) by_rtx: bool,
    /// Whoever gets this tells the client of the end, and reports.
    pub(crate) leads: bool,
}

impl Play {
    /// Whether each node sends what it has.
    pub(crate) const fn is_direct(&self) -> bool {
        !self.nodes.is_empty()
    }
}

/// The source whose sequence are the local numbers of a node.
pub(crate) const fn local_source(ssrc: u32, node: u32) -> u32 {
    // One more is that of RFC 4588.
    ssrc.wrapping_add(1 + node)
}

/// The source of repeats by RFC 4588.
pub(crate) const fn rtx_source(ssrc: u32) -> u32 {
    ssrc.wrapping_add(1)
}
