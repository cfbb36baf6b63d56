//! What a UDP socket is asked for.

use core::ffi::c_int;
use std::io;
use std::os::fd::BorrowedFd;

use crate::sys;

/// Options of a [`super::UdpSocket`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// Bytes of receive buffer; 0: the system's default. Past `net.core.rmem_max` only a
    /// privileged process gets what it asks for, others get the maximum.
    pub recv_buffer: usize,
    /// Bytes of send buffer; 0: the system's default. Bounded by `net.core.wmem_max` likewise.
    pub send_buffer: usize,
    /// Let the kernel join packets of one source; [`super::RecvBatch`] splits them again and
    /// then needs 65,535 bytes for each message.
    pub gro: bool,
    /// Report the local address each packet was sent to.
    pub pktinfo: bool,
    /// Report how many packets the receive buffer had no room for.
    pub overflow_count: bool,
    /// Let several sockets share the port (SO_REUSEPORT).
    pub reuse_port: bool,
    /// Let several sockets have the port, each getting a copy of what goes to groups
    /// (SO_REUSEADDR).
    pub reuse_address: bool,
    /// Keep an IPv6 socket to IPv6; no effect on IPv4 sockets.
    pub v6_only: bool,
    /// Never fragment: packets longer than the path fail with EMSGSIZE instead.
    pub path_mtu_discovery: bool,
}

impl Default for UdpOptions {
    /// The system's buffers, IPv6 kept to itself, nothing else.
    fn default() -> Self {
        Self {
            recv_buffer: 0,
            send_buffer: 0,
            gro: false,
            pktinfo: false,
            overflow_count: false,
            reuse_port: false,
            reuse_address: false,
            v6_only: true,
            path_mtu_discovery: false,
        }
    }
}

impl UdpOptions {
    /// Sets everything; whether GRO works.
    pub(super) fn apply(&self, fd: BorrowedFd<'_>, v6: bool) -> io::Result<bool> {
        let on = |name| sys::set_option(fd, name, 1);
        if v6 {
            let name = (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY);
            sys::set_option(fd, name, self.v6_only.into())?;
        }
        if self.reuse_port {
            on((libc::SOL_SOCKET, libc::SO_REUSEPORT))?;
        }
        if self.reuse_address {
            on((libc::SOL_SOCKET, libc::SO_REUSEADDR))?;
        }
        if self.overflow_count {
            on((libc::SOL_SOCKET, libc::SO_RXQ_OVFL))?;
        }
        if self.pktinfo {
            on(match v6 {
                true => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
                false => (libc::IPPROTO_IP, libc::IP_PKTINFO),
            })?;
        }
        if self.path_mtu_discovery {
            forbid_fragments(fd, v6)?;
        }
        grow(
            fd,
            self.recv_buffer,
            (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
        )?;
        grow(
            fd,
            self.send_buffer,
            (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
        )?;
        Ok(self.gro && on((libc::SOL_UDP, libc::UDP_GRO)).is_ok())
    }
}

/// Sets "don't fragment" on everything that leaves.
pub(super) fn forbid_fragments(fd: BorrowedFd<'_>, v6: bool) -> io::Result<()> {
    let (name, value) = if v6 {
        (
            (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
            libc::IPV6_PMTUDISC_DO,
        )
    } else {
        (
            (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
            libc::IP_PMTUDISC_DO,
        )
    };
    sys::set_option(fd, name, value)
}

/// Asks past the system's maximum first, which needs a privilege, then within it.
fn grow(fd: BorrowedFd<'_>, bytes: usize, (force, ask): (c_int, c_int)) -> io::Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    // The kernel doubles the value to pay for its own overhead.
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX / 2);
    sys::set_option(fd, (libc::SOL_SOCKET, force), bytes)
        .or_else(|_| sys::set_option(fd, (libc::SOL_SOCKET, ask), bytes))
}
