//! Socket addresses in the kernel's form, so that a send need not build them.

use core::ffi::c_int;
use core::fmt;
use core::mem::{self, offset_of};
use core::ptr;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use libc::{sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

const V4_LEN: usize = size_of::<sockaddr_in>();
const V6_LEN: usize = size_of::<sockaddr_in6>();

/// A `sockaddr_in` or `sockaddr_in6` and its length; 32 bytes, so two fit a cache line.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C, align(4))]
pub struct Address {
    bytes: [u8; V6_LEN],
    len: socklen_t,
}

// The bytes are placed by hand, at the offsets the kernel knows.
const _: () = {
    assert!(offset_of!(sockaddr_in, sin_family) == 0 && offset_of!(sockaddr_in6, sin6_family) == 0);
    assert!(offset_of!(sockaddr_in, sin_port) == 2 && offset_of!(sockaddr_in6, sin6_port) == 2);
    assert!(offset_of!(sockaddr_in, sin_addr) == 4);
    assert!(offset_of!(sockaddr_in6, sin6_flowinfo) == 4);
    assert!(offset_of!(sockaddr_in6, sin6_addr) == 8);
    assert!(offset_of!(sockaddr_in6, sin6_scope_id) == 24);
    assert!(size_of::<libc::sockaddr_storage>() >= V6_LEN);
    assert!(V4_LEN == 16 && V6_LEN == 28 && size_of::<Address>() == 32);
};

impl Address {
    /// An empty address with room for either family, for the kernel to fill.
    pub(crate) const fn room() -> Self {
        Self {
            bytes: [0; V6_LEN],
            len: V6_LEN as socklen_t,
        }
    }

    pub(crate) fn as_ptr(&self) -> *const sockaddr {
        (&raw const *self).cast()
    }

    /// Room for [`Address::room`]'s length.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut sockaddr {
        (&raw mut *self).cast()
    }

    pub(crate) const fn len(&self) -> socklen_t {
        self.len
    }

    pub(crate) fn set_len(&mut self, len: socklen_t) {
        self.len = len.min(V6_LEN as socklen_t);
    }

    /// The port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        u16::from_be_bytes([self.bytes[2], self.bytes[3]])
    }

    pub(crate) fn family(&self) -> c_int {
        u16::from_ne_bytes([self.bytes[0], self.bytes[1]]).into()
    }

    /// The same in the room that some options want.
    pub(crate) fn storage(&self) -> libc::sockaddr_storage {
        // SAFETY: numbers and bytes only, for which zeros are values.
        let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
        // SAFETY: both are plain bytes, the room is larger, and they do not overlap.
        unsafe {
            ptr::copy_nonoverlapping(
                self.bytes.as_ptr(),
                (&raw mut storage).cast::<u8>(),
                self.bytes.len(),
            );
        }
        storage
    }

    fn u32_at(&self, at: usize) -> u32 {
        self.bytes[at..]
            .first_chunk()
            .map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        let mut bytes = [0; V6_LEN];
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        let (family, len) = match address {
            SocketAddr::V4(v4) => {
                bytes[4..8].copy_from_slice(&v4.ip().octets());
                (libc::AF_INET, V4_LEN)
            }
            SocketAddr::V6(v6) => {
                bytes[4..8].copy_from_slice(&v6.flowinfo().to_ne_bytes());
                bytes[8..24].copy_from_slice(&v6.ip().octets());
                bytes[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
                (libc::AF_INET6, V6_LEN)
            }
        };
        bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
        let len = len as socklen_t;
        Self { bytes, len }
    }
}

impl From<Address> for SocketAddr {
    #[inline]
    fn from(address: Address) -> Self {
        let bytes = &address.bytes;
        let port = u16::from_be_bytes([bytes[2], bytes[3]]);
        if address.family() == libc::AF_INET6 {
            let ip: [u8; 16] = bytes[8..].first_chunk().copied().unwrap_or_default();
            let (flow, scope) = (address.u32_at(4), address.u32_at(24));
            SocketAddrV6::new(Ipv6Addr::from(ip), port, flow, scope).into()
        } else {
            let ip = Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7]);
            SocketAddrV4::new(ip, port).into()
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&SocketAddr::from(*self), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_the_kernels_form() {
        for text in [
            "127.0.0.1:9",
            "255.254.253.252:65535",
            "[::1]:1",
            "[fe80::1:2:3%7]:40000",
        ] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(SocketAddr::from(Address::from(address)), address);
        }
    }

    #[test]
    fn equal_addresses_have_equal_bytes() {
        let one = Address::from(SocketAddr::from(([10, 0, 0, 1], 5_000)));
        let same = Address::from(SocketAddr::from(([10, 0, 0, 1], 5_000)));
        let other = Address::from(SocketAddr::from(([10, 0, 0, 1], 5_001)));
        assert_eq!(one, same);
        assert_ne!(one, other);
    }
}
