//! The addresses of this host.

use core::ptr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::sys::check;

/// The addresses of all interfaces that are up, in the kernel's order, without those that count
/// on their own link only (fe80::/10).
///
/// # Errors
/// The kernel does not tell.
pub fn addresses() -> io::Result<Vec<IpAddr>> {
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: `first` is a writable pointer; the list it leads to afterwards is freed below.
    check(unsafe { libc::getifaddrs(&mut first) })?;
    let mut found = Vec::new();
    let mut next = first;
    while !next.is_null() {
        // SAFETY: a node of the list that getifaddrs has made, which is not freed yet.
        let interface = unsafe { &*next };
        let up = interface.ifa_flags & libc::IFF_UP as u32 != 0;
        if up && let Some(address) = address(interface.ifa_addr) {
            found.push(address);
        }
        next = interface.ifa_next;
    }
    // SAFETY: the head of the list, freed once; nothing points into it any more.
    unsafe { libc::freeifaddrs(first) };
    found.retain(|address| !matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local()));
    Ok(found)
}

fn address(name: *const libc::sockaddr) -> Option<IpAddr> {
    if name.is_null() {
        return None;
    }
    // SAFETY: not null, so a socket address whose family says how long it is.
    match i32::from(unsafe { (*name).sa_family }) {
        libc::AF_INET => {
            // SAFETY: of this family.
            let name = unsafe { &*name.cast::<libc::sockaddr_in>() };
            let octets = name.sin_addr.s_addr.to_ne_bytes();
            Some(IpAddr::V4(Ipv4Addr::from(octets)))
        }
        libc::AF_INET6 => {
            // SAFETY: of this family.
            let name = unsafe { &*name.cast::<libc::sockaddr_in6>() };
            Some(IpAddr::V6(Ipv6Addr::from(name.sin6_addr.s6_addr)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_a_loopback_address() {
        let found = addresses().unwrap();
        assert!(
            found.contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)),
            "{found:?}"
        );
    }
}
