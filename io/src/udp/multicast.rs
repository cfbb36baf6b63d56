//! IP multicast: one datagram to everybody on a segment who wants it.

use core::ffi::c_int;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

use super::{Address, UdpOptions, UdpSocket};
use crate::sys;

/// Whether groups with this address may be used at all: those that no router carries beyond an
/// organisation (RFC 2365: 239.192.0.0/14 and, for the site, 239.255.0.0/16; RFC 4291 section
/// 2.7: not permanently assigned, of link, admin, site or organisation scope).
#[must_use]
pub fn is_near(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(v4) => {
            let [first, second, ..] = v4.octets();
            first == 239 && (second & 0xfc == 192 || second == 255)
        }
        IpAddr::V6(v6) => {
            let [first, second, ..] = v6.octets();
            let (transient, scope) = (second & 0x10 != 0, second & 0x0f);
            first == 0xff && transient && matches!(scope, 2 | 4 | 5 | 8)
        }
    }
}

/// The address of this host from which datagrams to `destination` leave.
///
/// # Errors
/// There is no route.
pub fn source_towards(destination: SocketAddr) -> io::Result<IpAddr> {
    let address = Address::from(destination);
    let fd = sys::socket(&address, libc::SOCK_DGRAM)?;
    sys::connect(fd.as_fd(), &address)?;
    Ok(SocketAddr::from(sys::local_address(fd.as_fd())?).ip())
}

impl UdpSocket {
    /// Lets datagrams to groups leave by this interface and cross `hops` networks at most: with 1
    /// no router passes them on.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn send_groups_by(&self, interface: u32, hops: u8) -> io::Result<()> {
        let fd = self.fd.as_fd();
        let hops = hops.into();
        if self.local.is_ipv6() {
            let index = c_int::try_from(interface).map_err(io::Error::other)?;
            sys::set_option(fd, (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF), index)?;
            return sys::set_option(fd, (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS), hops);
        }
        let any = libc::in_addr { s_addr: 0 };
        let request = libc::ip_mreqn {
            imr_multiaddr: any,
            imr_address: any,
            imr_ifindex: c_int::try_from(interface).map_err(io::Error::other)?,
        };
        sys::set_struct(fd, (libc::IPPROTO_IP, libc::IP_MULTICAST_IF), &request)?;
        sys::set_option(fd, (libc::IPPROTO_IP, libc::IP_MULTICAST_TTL), hops)
    }

    /// The address from which datagrams to a group leave, if [`UdpSocket::send_groups_by`] has
    /// set this interface.
    ///
    /// # Errors
    /// The kernel knows no way there, for instance as the interface has no address of the family.
    pub fn group_source(&self, group: SocketAddr, interface: u32) -> io::Result<IpAddr> {
        if !self.local.ip().is_unspecified() {
            return Ok(self.local.ip());
        }
        // Asked with a socket of its own: connecting this one would bind it to the group.
        let other = Self::bind(SocketAddr::new(self.local.ip(), 0), &UdpOptions::default())?;
        other.send_groups_by(interface, 1)?;
        sys::connect(other.fd(), &Address::from(group))?;
        Ok(SocketAddr::from(sys::local_address(other.fd())?).ip())
    }

    /// A socket for datagrams to groups at this port, joined by nobody yet. Several of one host
    /// may have the port, and each gets a copy of what it joined and of nothing else.
    ///
    /// # Errors
    /// As [`UdpSocket::bind`].
    pub fn for_groups(port: u16, v6: bool, recv_buffer: usize) -> io::Result<Self> {
        let any: IpAddr = match v6 {
            true => Ipv6Addr::UNSPECIFIED.into(),
            false => Ipv4Addr::UNSPECIFIED.into(),
        };
        let options = UdpOptions {
            recv_buffer,
            reuse_address: true,
            ..UdpOptions::default()
        };
        let socket = Self::bind(SocketAddr::new(any, port), &options)?;
        // ip(7): without, a socket gets what any other on this host has joined.
        let only_own = match v6 {
            true => (libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL),
            false => (libc::IPPROTO_IP, libc::IP_MULTICAST_ALL),
        };
        // IPv6 has it since Linux 4.20; before, what is not expected is dropped by the reader.
        let _ = sys::set_option(socket.fd(), only_own, 0);
        Ok(socket)
    }

    /// Takes what `source` sends to `group` by this interface (RFC 3678): the kernel tells the
    /// network, and drops what others send there.
    ///
    /// # Errors
    /// The socket has joined as many as the kernel allows (`net.ipv4.igmp_max_memberships`), or
    /// the interface takes no part in multicast.
    pub fn join(&self, group: IpAddr, source: IpAddr, interface: u32) -> io::Result<()> {
        self.membership((group, source), interface, libc::MCAST_JOIN_SOURCE_GROUP)
    }

    /// Takes it no longer.
    ///
    /// # Errors
    /// It was not joined.
    pub fn leave(&self, group: IpAddr, source: IpAddr, interface: u32) -> io::Result<()> {
        self.membership((group, source), interface, libc::MCAST_LEAVE_SOURCE_GROUP)
    }

    fn membership(
        &self,
        (group, source): (IpAddr, IpAddr),
        interface: u32,
        what: c_int,
    ) -> io::Result<()> {
        let level = match self.local.is_ipv6() {
            true => libc::IPPROTO_IPV6,
            false => libc::IPPROTO_IP,
        };
        let storage = |ip| Address::from(SocketAddr::new(ip, 0)).storage();
        let request = libc::group_source_req {
            gsr_interface: interface,
            gsr_group: storage(group),
            gsr_source: storage(source),
        };
        sys::set_struct(self.fd(), (level, what), &request)
    }
}

/// linux/in6.h; libc has it for some targets only.
const IPV6_MULTICAST_ALL: c_int = 29;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_leave_an_organisation_or_belong_to_others_are_not_used() {
        let near = [
            "239.192.0.1",
            "239.195.255.255",
            "239.255.1.1",
            "ff12::1",
            "ff15::1",
            "ff18::4600",
            "ff35::8000:1",
        ];
        let not = [
            "224.0.0.1",
            "224.0.1.1",
            "232.1.1.1",
            "239.0.0.1",
            "239.196.0.1",
            "10.0.0.1",
            "ff02::1",
            "ff05::2",
            "ff1e::1",
            "ff11::1",
            "::1",
        ];
        assert!(near.iter().all(|group| is_near(group.parse().unwrap())));
        assert!(not.iter().all(|group| !is_near(group.parse().unwrap())));
    }
}
