//! Neighbours to dial, and the ways to them.

use std::net::SocketAddr;

use sangam_io::stream::{Proxy, WebSocket};

use super::Transport;

/// A neighbour broker: the first of the ways that works is used, and a better one as soon as it
/// works again, without losing an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Best first; at least one.
    pub ways: Vec<LinkWay>,
}

/// One way to a neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkWay {
    /// Datagrams at its public port; nobody proves who he is.
    Udp(SocketAddr),
    /// QUIC.
    Quic {
        /// Its port for neighbours.
        address: SocketAddr,
        /// What its certificate must be for: a host name or an address.
        name: String,
    },
    /// A stream to a port at which clients come in, too.
    Stream(StreamWay),
}

/// A way by a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamWay {
    /// What is spoken there.
    pub transport: Transport,
    /// Of the neighbour, or of the proxy.
    pub address: SocketAddr,
    /// Through which it is reached.
    pub proxy: Option<Proxy>,
    /// What its certificate must be for, if it shows one.
    pub name: String,
    /// Where the WebSocket is opened, if it is one.
    pub websocket: Option<WebSocket>,
}

impl Neighbour {
    /// By which address others know the neighbour: that of its best way.
    pub(crate) fn home(&self) -> Option<SocketAddr> {
        self.ways.first().map(LinkWay::address)
    }
}

impl LinkWay {
    /// What is dialled.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        match self {
            Self::Udp(address) | Self::Quic { address, .. } => *address,
            Self::Stream(way) => way.address,
        }
    }

    /// What the certificate must be for, if one is shown or could be.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Udp(_) => None,
            Self::Quic { name, .. } => Some(name),
            Self::Stream(way) => Some(&way.name),
        }
    }

    /// Whether both ends show certificates.
    #[must_use]
    pub const fn is_encrypted(&self) -> bool {
        match self {
            Self::Udp(_) => false,
            Self::Quic { .. } => true,
            Self::Stream(way) => way.transport.is_encrypted(),
        }
    }
}

impl From<SocketAddr> for Neighbour {
    /// By datagrams alone.
    fn from(address: SocketAddr) -> Self {
        Self {
            ways: vec![LinkWay::Udp(address)],
        }
    }
}
