//! The one or two UDP sockets of a leg.

use std::io;
use std::net::SocketAddr;

use sangam_io::udp::{UdpOptions, UdpSocket};

use super::LegError;
use crate::config::{LegSpec, RtcpPort};

/// How often a pair of neighbouring ports is looked for.
const PAIRS: usize = 32;
const BUFFER: usize = 1 << 20;

/// RTP, and RTCP if it has a port of its own.
pub(super) struct Sockets {
    pub(super) rtp: UdpSocket,
    pub(super) rtcp: Option<UdpSocket>,
}

impl Sockets {
    pub(super) fn open(spec: &LegSpec) -> Result<Self, LegError> {
        let local = match (&spec.receive, &spec.send) {
            (Some(receive), _) => receive.listen,
            (None, Some(send)) if send.to.is_ipv6() => SocketAddr::from(([0_u16; 8], 0)),
            (None, Some(_)) => SocketAddr::from(([0_u8; 4], 0)),
            (None, None) => return Err(LegError::Nothing),
        };
        let failed = |error| LegError::Bind(local, error);
        match spec.rtcp {
            RtcpPort::Mux => Ok(Self {
                rtp: bind(local).map_err(failed)?,
                rtcp: None,
            }),
            RtcpPort::Next => Self::pair(local).map_err(failed),
        }
    }

    fn pair(local: SocketAddr) -> io::Result<Self> {
        let mut last = io::Error::from(io::ErrorKind::AddrInUse);
        for _ in 0..PAIRS {
            let rtp = bind(local)?;
            let mut next = rtp.local_addr();
            next.set_port(next.port().saturating_add(1));
            match bind(next) {
                Ok(rtcp) => {
                    return Ok(Self {
                        rtp,
                        rtcp: Some(rtcp),
                    });
                }
                Err(error) => last = error,
            }
            if local.port() != 0 {
                break;
            }
        }
        Err(last)
    }
}

fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    // Raw RTP cannot be split by us: IP may.
    let options = UdpOptions {
        recv_buffer: BUFFER,
        send_buffer: BUFFER,
        gro: true,
        path_mtu_discovery: false,
        ..UdpOptions::default()
    };
    UdpSocket::bind(address, &options)
}
