//! UDP in batches: many packets for one system call, many segments for one packet's cost.

mod address;
mod batch;
mod control;
mod fanout;
mod multicast;
mod options;
mod pair;
mod recv;
mod send;
#[cfg(test)]
mod tests;

pub use address::Address;
pub use batch::{Outgoing, SendBatch};
pub use fanout::Fanout;
pub use multicast::{is_near, source_towards};
pub use options::UdpOptions;
pub use pair::bind_pair;
pub use recv::{Datagram, RecvBatch};
pub use send::SendReport;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use crate::sys;

/// A non-blocking, unconnected UDP socket.
#[derive(Debug)]
pub struct UdpSocket {
    fd: OwnedFd,
    local: SocketAddr,
    gro: bool,
}

impl UdpSocket {
    /// Opens a socket and binds it; port 0 lets the kernel choose.
    ///
    /// # Errors
    /// With the address in the message: in use, not of this host, not permitted; or an option
    /// that this kernel refuses. A kernel without UDP_GRO is no error, see [`UdpSocket::gro`].
    pub fn bind(address: SocketAddr, options: &UdpOptions) -> io::Result<Self> {
        Self::open(address, options).map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::AddrInUse => "; stop the process that has it or choose another port",
                io::ErrorKind::AddrNotAvailable => "; the address is not one of this host",
                _ => "",
            };
            io::Error::new(error.kind(), format!("UDP {address}: {error}{hint}"))
        })
    }

    fn open(address: SocketAddr, options: &UdpOptions) -> io::Result<Self> {
        let wanted = Address::from(address);
        let fd = sys::socket(&wanted, libc::SOCK_DGRAM)?;
        let gro = options.apply(fd.as_fd(), address.is_ipv6())?;
        sys::bind(fd.as_fd(), &wanted)?;
        let local = sys::local_address(fd.as_fd())?.into();
        Ok(Self { fd, local, gro })
    }

    /// The address it is bound to, with the port that the kernel chose.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The descriptor, for a poller.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Whether the kernel joins arriving packets of one source (UDP_GRO).
    #[must_use]
    pub fn gro(&self) -> bool {
        self.gro
    }

    /// Bytes of the receive buffer the kernel granted, its own overhead included.
    ///
    /// # Errors
    /// Only what the kernel reports as a mistake of ours.
    pub fn recv_buffer(&self) -> io::Result<usize> {
        self.size_of_buffer(libc::SO_RCVBUF)
    }

    /// Bytes of the send buffer the kernel granted, its own overhead included.
    ///
    /// # Errors
    /// Only what the kernel reports as a mistake of ours.
    pub fn send_buffer(&self) -> io::Result<usize> {
        self.size_of_buffer(libc::SO_SNDBUF)
    }

    fn size_of_buffer(&self, name: i32) -> io::Result<usize> {
        let bytes = sys::option(self.fd(), (libc::SOL_SOCKET, name))?;
        Ok(usize::try_from(bytes).unwrap_or_default())
    }

    fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Largest UDP payload in bytes that leaves for `destination` in one piece, by the kernel's
/// present knowledge of the path. `None` if there is no route.
#[must_use]
pub fn path_mtu(destination: SocketAddr) -> Option<u16> {
    // RFC 791, RFC 8200, RFC 768: bytes of the headers without options.
    let (option, headers) = if destination.is_ipv6() {
        ((libc::IPPROTO_IPV6, libc::IPV6_MTU), 40 + 8)
    } else {
        ((libc::IPPROTO_IP, libc::IP_MTU), 20 + 8)
    };
    let address = Address::from(destination);
    let fd = sys::socket(&address, libc::SOCK_DGRAM).ok()?;
    options::forbid_fragments(fd.as_fd(), destination.is_ipv6()).ok()?;
    sys::connect(fd.as_fd(), &address).ok()?;
    let mtu = sys::option(fd.as_fd(), option).ok()?;
    // RFC 791: the total length of an IPv4 packet has 16 bits.
    let payload = mtu.min(65_535).checked_sub(headers)?;
    u16::try_from(payload).ok()
}
