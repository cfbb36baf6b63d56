//! Ports for programs that take RTP and RTCP on neighbouring ports.

use std::io;
use std::net::{IpAddr, UdpSocket};

/// How often a port is asked for; each time the odds are better than one half.
const ATTEMPTS: usize = 64;

/// An even UDP port that is free together with the next one (RFC 3550 section 11).
///
/// Both are let go again for the program that will bind them; in between they could be taken, so
/// a caller must check that the program starts.
///
/// # Errors
/// The system has no such pair.
pub(crate) fn port_pair(ip: IpAddr) -> io::Result<u16> {
    for _ in 0..ATTEMPTS {
        let first = UdpSocket::bind((ip, 0))?;
        let port = first.local_addr()?.port();
        if port.is_multiple_of(2) && UdpSocket::bind((ip, port + 1)).is_ok() {
            return Ok(port);
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AddrInUse,
        "no two neighbouring UDP ports are free",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_starts_with_an_even_port_and_is_free() {
        for ip in ["127.0.0.1", "::1"] {
            let ip: IpAddr = ip.parse().unwrap();
            let port = port_pair(ip).unwrap();
            assert!(port.is_multiple_of(2));
            let _rtp = UdpSocket::bind((ip, port)).unwrap();
            let _rtcp = UdpSocket::bind((ip, port + 1)).unwrap();
        }
    }
}
