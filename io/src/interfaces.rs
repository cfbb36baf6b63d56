//! The interfaces of this host and their addresses.

use core::ffi::CStr;
use core::ptr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::sys::check;

/// One interface of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// By which the kernel knows it.
    pub index: u32,
    /// Whether it is up.
    pub up: bool,
    /// Whether it takes part in multicast.
    pub multicast: bool,
    /// Its addresses, and how many of their leading bits its neighbours share.
    pub networks: Vec<(IpAddr, u8)>,
}

/// The addresses of all interfaces that are up, in the kernel's order, without those that count
/// on their own link only (fe80::/10).
///
/// # Errors
/// The kernel does not tell.
pub fn addresses() -> io::Result<Vec<IpAddr>> {
    let mut found = Vec::new();
    each(|interface| {
        let up = interface.ifa_flags & libc::IFF_UP as u32 != 0;
        if up && let Some(address) = address(interface.ifa_addr) {
            found.push(address);
        }
    })?;
    found.retain(|address| !matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local()));
    Ok(found)
}

/// The interface of this name.
///
/// # Errors
/// There is none, with the names there are in the message; or the kernel does not tell.
pub fn named(name: &str) -> io::Result<Interface> {
    let (mut found, mut names) = (None, Vec::new());
    each(|interface| {
        let other = self::name(interface);
        if other.to_bytes() == name.as_bytes() {
            let flags = interface.ifa_flags as i32;
            let found = found.get_or_insert_with(|| Interface {
                index: index(other),
                up: flags & libc::IFF_UP != 0,
                multicast: flags & libc::IFF_MULTICAST != 0,
                networks: Vec::new(),
            });
            found.networks.extend(network(interface));
        }
        names.push(other.to_string_lossy().into_owned());
    })?;
    names.sort();
    names.dedup();
    let unknown = || {
        let message = format!(
            "no interface is called {name:?}; there are {}",
            names.join(", ")
        );
        io::Error::new(io::ErrorKind::NotFound, message)
    };
    found.ok_or_else(unknown)
}

/// The interface that has this address.
///
/// # Errors
/// There is none, or the kernel does not tell.
pub fn index_of(ip: IpAddr) -> io::Result<u32> {
    let mut found = None;
    each(|interface| {
        if address(interface.ifa_addr) == Some(ip) {
            found = Some(index(name(interface)));
        }
    })?;
    let unknown = || {
        let message = format!("no interface of this host has {ip}");
        io::Error::new(io::ErrorKind::NotFound, message)
    };
    found.ok_or_else(unknown)
}

/// Shows every address of every interface; interfaces without one come once.
fn each(mut show: impl FnMut(&libc::ifaddrs)) -> io::Result<()> {
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: `first` is a writable pointer; the list it leads to afterwards is freed below.
    check(unsafe { libc::getifaddrs(&mut first) })?;
    let mut next = first;
    while !next.is_null() {
        // SAFETY: a node of the list that getifaddrs has made, which is not freed yet.
        let interface = unsafe { &*next };
        show(interface);
        next = interface.ifa_next;
    }
    // SAFETY: the head of the list, freed once; nothing points into it any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(())
}

fn name(interface: &libc::ifaddrs) -> &CStr {
    // SAFETY: getifaddrs gives every node a name that ends with a zero and lives as long.
    unsafe { CStr::from_ptr(interface.ifa_name) }
}

/// 0 if the interface has gone meanwhile.
fn index(name: &CStr) -> u32 {
    // SAFETY: a text that ends with a zero, which the call only reads.
    unsafe { libc::if_nametoindex(name.as_ptr()) }
}

/// The address and the length of its prefix.
fn network(interface: &libc::ifaddrs) -> Option<(IpAddr, u8)> {
    let bits = match address(interface.ifa_netmask)? {
        IpAddr::V4(mask) => mask.to_bits().leading_ones(),
        IpAddr::V6(mask) => mask.to_bits().leading_ones(),
    };
    Some((address(interface.ifa_addr)?, bits as u8))
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

    #[test]
    fn an_interface_is_found_by_its_name_and_by_its_address() {
        let lo = named("lo").unwrap();
        assert!(lo.up && lo.networks.contains(&(Ipv4Addr::LOCALHOST.into(), 8)));
        assert_eq!(index_of(Ipv4Addr::LOCALHOST.into()).unwrap(), lo.index);
    }

    #[test]
    fn who_misspells_an_interface_is_told_those_there_are() {
        let error = named("l0").unwrap_err().to_string();
        assert!(error.contains("\"l0\"") && error.contains("lo"), "{error}");
    }
}
