//! The sockets for RTP and RTCP: one pair for each family, shared by all sessions.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use sangam_io::udp::{Address, Outgoing, RecvBatch, SendBatch, SendReport, UdpOptions, UdpSocket};
use sangam_wire::rtcp;

use crate::deliver::Sockets;
use crate::session::Sent;

/// Pairs tried: RTP has an even port, and the next one may be taken.
const TRIES: usize = 64;
const RECV_MESSAGES: usize = 32;
/// Lost packets of one report.
const LOST_MAX: usize = 512;
/// The longest packet that fits an event.
const RECV_LEN: usize = 16_000;
/// What a burst of many films fills; the kernel gives what it has.
const SEND_BUFFER: usize = 4 << 20;
/// What comes of publishers while the thread does something else: key frames.
const RECV_BUFFER: usize = 4 << 20;

/// All sockets.
pub(crate) struct Datagrams {
    pairs: Vec<Pair>,
    batch: SendBatch,
    room: RecvBatch,
}

struct Pair {
    rtp: Arc<UdpSocket>,
    rtcp: Arc<UdpSocket>,
}

impl Datagrams {
    /// Pairs for the families of these addresses.
    pub(crate) fn open(hosts: impl Iterator<Item = IpAddr>) -> io::Result<Self> {
        let mut hosts: Vec<_> = hosts.collect();
        // What is bound to loopback reaches nobody else.
        hosts.sort_by_key(IpAddr::is_loopback);
        let mut pairs: Vec<Pair> = Vec::new();
        for host in hosts {
            if !pairs.iter().any(|pair| pair.carries(host)) {
                pairs.push(Pair::open(host)?);
            }
        }
        Ok(Self {
            pairs,
            batch: SendBatch::new(),
            room: RecvBatch::new(RECV_MESSAGES, RECV_LEN),
        })
    }

    /// For the poller.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let pairs = self.pairs.iter();
        pairs.flat_map(|pair| [pair.rtp.fd(), pair.rtcp.fd()])
    }

    /// The sockets, for another thread that sends.
    pub(crate) fn sockets(&self) -> Vec<Sockets> {
        let pairs = self.pairs.iter();
        let pairs = pairs.map(|pair| Sockets {
            rtp: pair.rtp.clone(),
            rtcp: pair.rtcp.clone(),
        });
        pairs.collect()
    }

    /// Our ports for packets to an address.
    pub(crate) fn ports(&self, peer: IpAddr) -> Option<(u16, u16)> {
        let pair = self.pair(peer)?;
        Some((pair.rtp.local_addr().port(), pair.rtcp.local_addr().port()))
    }

    /// Sends to an address, from the one that it knows.
    pub(crate) fn send(&mut self, (to, from): (IpAddr, IpAddr), out: &[Sent]) -> SendReport {
        let mut report = SendReport::default();
        let mut pairs = self.pairs.iter();
        let Some(pair) = pairs.find(|pair| pair.carries(to)) else {
            report.errors = out.len() as u64;
            return report;
        };
        for (socket, is_rtcp) in [(&*pair.rtcp, true), (&*pair.rtp, false)] {
            let packets = out.iter().filter(|sent| sent.is_rtcp == is_rtcp);
            let packets = packets.map(|sent| Outgoing {
                to: Address::from(SocketAddr::new(to, sent.to)),
                from: Some(from),
                bytes: &sent.bytes,
            });
            self.batch.send(socket, packets, &mut report);
        }
        report
    }

    /// Hands over what came, and from where.
    pub(crate) fn heard(&mut self, mut take: impl FnMut(SocketAddr, &[u8])) {
        for pair in &self.pairs {
            for socket in [&pair.rtp, &pair.rtcp] {
                if let Err(error) = socket.recv(&mut self.room) {
                    tracing::debug!(%error, "no reports");
                }
                for one in self.room.datagrams() {
                    take(one.source, one.bytes);
                }
            }
        }
    }

    fn pair(&self, peer: IpAddr) -> Option<&Pair> {
        self.pairs.iter().find(|pair| pair.carries(peer))
    }
}

/// Whether a player asks for a picture that needs no other (RFC 4585 section 6.3.1, RFC 5104
/// section 4.3.1): what comes from its port or by its channel is about the one track there.
pub(crate) fn is_picture_lost(compound: &[u8]) -> bool {
    let mut packets = rtcp::packets(compound).map_while(Result::ok);
    packets.any(|packet| {
        matches!(
            packet,
            rtcp::Packet::PictureLoss(_) | rtcp::Packet::FullIntra(_)
        )
    })
}

/// What a client says that it did not get (RFC 4585 section 6.2.1): source and numbers, at most
/// [`LOST_MAX`].
pub(crate) fn lost(compound: &[u8]) -> Option<(u32, Vec<u16>)> {
    let mut packets = rtcp::packets(compound).map_while(Result::ok);
    packets.find_map(|packet| {
        let rtcp::Packet::Nack(target, nacks) = packet else {
            return None;
        };
        let numbers = nacks.iter().flat_map(|nack| {
            let also = (0..16).filter(move |bit| nack.also & (1 << bit) != 0);
            let also = also.map(move |bit| nack.first.wrapping_add(bit + 1));
            std::iter::once(nack.first).chain(also)
        });
        Some((target.media, numbers.take(LOST_MAX).collect()))
    })
}

impl Pair {
    fn carries(&self, ip: IpAddr) -> bool {
        self.rtp.local_addr().is_ipv6() == ip.is_ipv6()
    }

    /// RFC 3550 section 11: an even port for RTP, the next for RTCP.
    fn open(host: IpAddr) -> io::Result<Self> {
        let options = UdpOptions {
            send_buffer: SEND_BUFFER,
            recv_buffer: RECV_BUFFER,
            ..UdpOptions::default()
        };
        let any = match host {
            IpAddr::V4(host) if host.is_loopback() => host.into(),
            IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(host) if host.is_loopback() => host.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let mut kept = Vec::new();
        for _ in 0..TRIES {
            let first = UdpSocket::bind(SocketAddr::new(any, 0), &options)?;
            let port = first.local_addr().port();
            let next = match port % 2 {
                0 => port.checked_add(1),
                _ => None,
            };
            if let Some(next) = next
                && let Ok(rtcp) = UdpSocket::bind(SocketAddr::new(any, next), &options)
            {
                let (rtp, rtcp) = (Arc::new(first), Arc::new(rtcp));
                return Ok(Self { rtp, rtcp });
            }
            // Held, so that the kernel chooses another.
            kept.push(first);
        }
        let message = "UDP: no two ports beside each other are free";
        Err(io::Error::new(io::ErrorKind::AddrInUse, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_among_the_addresses_keeps_nobody_away() {
        for (hosts, bound) in [
            (&["127.0.0.1"][..], "127.0.0.1"),
            (&["127.0.0.1", "192.0.2.1"], "0.0.0.0"),
            (&["192.0.2.1", "127.0.0.1"], "0.0.0.0"),
        ] {
            let hosts = hosts.iter().map(|host| host.parse().unwrap());
            let datagrams = Datagrams::open(hosts).unwrap();
            let found = datagrams
                .pairs
                .iter()
                .map(|pair| pair.rtp.local_addr().ip());
            let bound: IpAddr = bound.parse().unwrap();
            assert_eq!(found.collect::<Vec<_>>(), [bound]);
        }
    }
}
