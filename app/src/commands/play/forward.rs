//! RTP and RTCP to ports.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Where the packets of one stream go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Destination {
    /// RTP; RTCP goes one port higher.
    pub(super) rtp: SocketAddr,
}

impl Destination {
    fn rtcp(self) -> SocketAddr {
        let mut rtcp = self.rtp;
        rtcp.set_port(rtcp.port().wrapping_add(1));
        rtcp
    }
}

/// Sockets to send from, opened when first needed.
#[derive(Debug, Default)]
pub(super) struct Forwarder {
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
    /// Packets the kernel did not take.
    pub(super) failed: u64,
}

impl Forwarder {
    /// Sends a packet; what the kernel does not take is counted.
    pub(super) fn send(&mut self, to: Destination, is_rtcp: bool, payload: &[u8]) {
        let address = if is_rtcp { to.rtcp() } else { to.rtp };
        let sent = self
            .socket(address.ip())
            .and_then(|socket| socket.send_to(payload, address));
        if let Err(error) = sent {
            tracing::debug!(%error, %address, "not forwarded");
            self.failed += 1;
        }
    }

    fn socket(&mut self, ip: IpAddr) -> io::Result<&UdpSocket> {
        let (slot, any): (_, IpAddr) = match ip {
            IpAddr::V4(_) => (&mut self.v4, Ipv4Addr::UNSPECIFIED.into()),
            IpAddr::V6(_) => (&mut self.v6, Ipv6Addr::UNSPECIFIED.into()),
        };
        let socket = match slot.take() {
            Some(socket) => socket,
            None => {
                let socket = UdpSocket::bind((any, 0))?;
                socket.set_nonblocking(true)?;
                socket
            }
        };
        Ok(slot.insert(socket))
    }
}
