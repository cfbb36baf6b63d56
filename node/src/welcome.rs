//! What a broker says to those who come in.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sangam_io::clock;
use sangam_io::udp::path_mtu;
use sangam_model::limits::DATAGRAM_LEN_SAFE;
use sangam_model::{BrokerId, Incarnation};
use sangam_wire::{Capabilities, Hello, VERSION, Welcome};

/// The parts of a welcome that are the same for everybody.
#[derive(Clone, Debug)]
pub(crate) struct Greeting {
    pub(crate) broker: BrokerId,
    pub(crate) incarnation: Incarnation,
    /// The lane's port, for what clients publish.
    pub(crate) media_port: u16,
    pub(crate) datagram_max: u16,
    pub(crate) keepalive_ms: u16,
    pub(crate) sessions: Arc<AtomicU32>,
}

impl Greeting {
    pub(crate) fn keepalive(&self) -> Duration {
        Duration::from_millis(self.keepalive_ms.into())
    }

    /// A number no other session of this broker has, until 2^32 have come.
    pub(crate) fn next_session(&self) -> u32 {
        self.sessions.fetch_add(1, Ordering::Relaxed)
    }

    /// The largest datagram for this peer: the least of its wish, our limit and the path's.
    pub(crate) fn datagram_for(&self, hello: &Hello, peer: SocketAddr) -> u16 {
        let path = path_mtu(peer).unwrap_or(DATAGRAM_LEN_SAFE as u16);
        hello
            .datagram_max
            .min(self.datagram_max)
            .min(path)
            .max(DATAGRAM_LEN_SAFE as u16)
    }

    /// The welcome, but for session, datagram size and control port.
    pub(crate) fn welcome(&self, hello: &Hello) -> Welcome {
        Welcome {
            nonce: hello.nonce,
            version: VERSION,
            capabilities: Capabilities::OURS,
            session: 0,
            control_port: 0,
            media_port: self.media_port,
            datagram_max: 0,
            keepalive_ms: self.keepalive_ms,
            clock_domain: clock::clock_domain(),
            broker: self.broker,
            incarnation: self.incarnation,
        }
    }
}
