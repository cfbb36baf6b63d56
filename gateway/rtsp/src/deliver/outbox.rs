//! What leaves in one system call.

use core::ops::Range;
use std::net::{IpAddr, SocketAddr};

use sangam_io::udp::{Address, Outgoing, SendBatch, SendReport, UdpSocket};

use super::packet::{Numbers, write, write_rtx};

/// Packets in a row; those to one client go as one message if they have one length.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    packets: Vec<(Destination, Range<usize>)>,
}

/// A client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination {
    to: Address,
    is_v6: bool,
    /// By which of our addresses it knows us, if that is known.
    from: Option<IpAddr>,
}

impl Destination {
    /// A client's port.
    pub(crate) fn new(to: SocketAddr, from: Option<IpAddr>) -> Self {
        Self {
            to: Address::from(to),
            is_v6: to.is_ipv6(),
            from,
        }
    }
}

impl Outbox {
    /// A datagram of a film.
    pub(crate) fn packet(&mut self, to: Destination, numbers: &Numbers, data: &[u8]) {
        let start = self.bytes.len();
        write(&mut self.bytes, numbers, data);
        self.packets.push((to, start..self.bytes.len()));
    }

    /// One that is repeated by RFC 4588.
    pub(crate) fn rtx(&mut self, to: Destination, numbers: &Numbers, (own, data): (u16, &[u8])) {
        let start = self.bytes.len();
        write_rtx(&mut self.bytes, numbers, (own, data));
        self.packets.push((to, start..self.bytes.len()));
    }

    /// Something that is whole.
    pub(crate) fn raw(&mut self, to: Destination, bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend(bytes);
        self.packets.push((to, start..self.bytes.len()));
    }

    /// Bytes of the packets that wait.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Packets that wait.
    pub(crate) const fn len(&self) -> usize {
        self.packets.len()
    }

    /// Sends all by the socket of each family.
    pub(crate) fn send(&mut self, sockets: &[&UdpSocket], batch: &mut SendBatch) -> SendReport {
        let mut report = SendReport::default();
        for socket in sockets {
            let v6 = socket.local_addr().is_ipv6();
            let packets = self.packets.iter();
            let packets = packets.filter(|(to, _)| to.is_v6 == v6);
            let packets = packets.map(|(to, range)| Outgoing {
                to: to.to,
                from: to.from,
                bytes: &self.bytes[range.clone()],
            });
            batch.send(socket, packets, &mut report);
        }
        self.bytes.clear();
        self.packets.clear();
        report
    }
}
