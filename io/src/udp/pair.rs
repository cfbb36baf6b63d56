//! The two ports of RTP.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};

use super::{UdpOptions, UdpSocket};

/// Pairs tried: the port beside one that is free may be taken.
const TRIES: usize = 64;

/// Sockets for RTP and RTCP on free ports: an even one and the next (RFC 3550 section 11).
///
/// # Errors
/// The address is not of this host, or no two ports beside each other are free.
pub fn bind_pair(host: IpAddr, options: &UdpOptions) -> io::Result<[UdpSocket; 2]> {
    let mut kept = Vec::new();
    for _ in 0..TRIES {
        let first = UdpSocket::bind(SocketAddr::new(host, 0), options)?;
        let port = first.local_addr().port();
        let next = match port % 2 {
            0 => port.checked_add(1),
            _ => None,
        };
        if let Some(next) = next
            && let Ok(second) = UdpSocket::bind(SocketAddr::new(host, next), options)
        {
            return Ok([first, second]);
        }
        // Held, so that the kernel chooses another.
        kept.push(first);
    }
    let message = "UDP: no two ports beside each other are free";
    Err(io::Error::new(ErrorKind::AddrInUse, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_port_is_even_and_the_second_behind_it() {
        let host = IpAddr::from([127, 0, 0, 1]);
        let [first, second] = bind_pair(host, &UdpOptions::default()).expect("two ports");
        let (first, second) = (first.local_addr().port(), second.local_addr().port());
        assert_eq!((first % 2, second), (0, first + 1));
    }
}
