//! TCP listeners and connections that do not block.

use std::io::{self, ErrorKind};
use std::mem::offset_of;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

use crate::sys;
use crate::udp::Address;

/// Connections the kernel holds until they are accepted.
const BACKLOG: i32 = 1_024;
const CONGESTION: (i32, i32) = (libc::IPPROTO_TCP, libc::TCP_CONGESTION);
/// Bytes of the name of a congestion control, its end included (`TCP_CA_NAME_MAX`).
const NAME: usize = 16;

/// Opens a non-blocking listener whose port several threads may share (SO_REUSEPORT).
///
/// # Errors
/// With the address in the message: in use, not of this host, not permitted.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let open = || {
        let fd = bound(address, true)?;
        sys::listen(fd.as_fd(), BACKLOG)?;
        Ok(TcpListener::from(fd))
    };
    open()
        .map_err(|error: io::Error| io::Error::new(error.kind(), format!("TCP {address}: {error}")))
}

/// Whether nobody listens at `address` yet: [`listen`] alone would share the port with another
/// process of the same user.
///
/// # Errors
/// As [`listen`].
pub fn is_free(address: SocketAddr) -> io::Result<()> {
    bound(address, false).map(drop)
}

fn bound(address: SocketAddr, shared: bool) -> io::Result<OwnedFd> {
    let wanted = Address::from(address);
    let fd = sys::socket(&wanted, libc::SOCK_STREAM)?;
    sys::set_option(fd.as_fd(), (libc::SOL_SOCKET, libc::SO_REUSEADDR), 1)?;
    let shared = i32::from(shared);
    sys::set_option(fd.as_fd(), (libc::SOL_SOCKET, libc::SO_REUSEPORT), shared)?;
    if address.is_ipv6() {
        sys::set_option(fd.as_fd(), (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY), 1)?;
    }
    sys::bind(fd.as_fd(), &wanted)?;
    Ok(fd)
}

/// The next waiting connection, non-blocking and without Nagle's delay; `None` if none waits.
///
/// # Errors
/// When the process has no descriptor left, or the listener failed.
pub fn accept(listener: &TcpListener) -> io::Result<Option<(TcpStream, SocketAddr)>> {
    match listener.accept() {
        Ok((stream, peer)) => {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            Ok(Some((stream, peer)))
        }
        // A peer that left before its turn is no failure of the listener.
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted => {
                Ok(None)
            }
            _ => Err(error),
        },
    }
}

/// Keeps no more than about so many bytes in the kernel that have not left yet: what waits shall
/// wait where it can still be shed, and what is in flight is not limited.
///
/// # Errors
/// The kernel knows no such option.
pub fn limit_unsent(stream: &TcpStream, bytes: i32) -> io::Result<()> {
    let option = (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT);
    sys::set_option(stream.as_fd(), option, bytes)
}

/// The congestion control that the kernel uses for a connection, by its name there: "cubic".
///
/// # Errors
/// The socket is no TCP connection.
pub fn congestion_control(stream: &TcpStream) -> io::Result<String> {
    let mut name = [0; NAME];
    sys::option_bytes(stream.as_fd(), CONGESTION, &mut name)?;
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// Has the kernel use another one.
///
/// # Errors
/// There is none of this name, or the process may not use it: who has no CAP_NET_ADMIN may use
/// those in `net.ipv4.tcp_allowed_congestion_control`, of which "reno" always is one.
pub fn set_congestion_control(stream: &TcpStream, name: &str) -> io::Result<()> {
    let mut bytes = [0; NAME];
    let room = bytes.get_mut(..name.len());
    let room = room.filter(|_| name.len() < NAME);
    room.ok_or(ErrorKind::InvalidInput)?
        .copy_from_slice(name.as_bytes());
    sys::set_struct(stream.as_fd(), CONGESTION, &bytes)
}

/// How many segments with data have left by a connection, and how many left again; both zero where
/// the kernel does not count them (before Linux 4.6).
///
/// # Errors
/// The socket is no TCP connection.
pub fn segments(stream: &TcpStream) -> io::Result<(u32, u32)> {
    let mut info = [0; size_of::<libc::tcp_info>()];
    let option = (libc::IPPROTO_TCP, libc::TCP_INFO);
    sys::option_bytes(stream.as_fd(), option, &mut info)?;
    let number = |at: usize| {
        let bytes = info[at..].first_chunk();
        bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    };
    Ok((
        number(offset_of!(libc::tcp_info, tcpi_data_segs_out)),
        number(offset_of!(libc::tcp_info, tcpi_total_retrans)),
    ))
}

/// Starts a connection without waiting for it: once the stream is writable,
/// [`TcpStream::take_error`] tells how it went.
///
/// # Errors
/// What can be known at once: no descriptor, no route.
pub fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    connect_from(None, address)
}

/// The same from one of this host's addresses.
///
/// # Errors
/// As [`connect`]; the address is not of this host, or of another family.
pub fn connect_from(from: Option<IpAddr>, address: SocketAddr) -> io::Result<TcpStream> {
    let wanted = Address::from(address);
    let fd = sys::socket(&wanted, libc::SOCK_STREAM)?;
    if let Some(from) = from {
        sys::bind(fd.as_fd(), &Address::from(SocketAddr::new(from, 0)))?;
    }
    sys::set_option(fd.as_fd(), (libc::IPPROTO_TCP, libc::TCP_NODELAY), 1)?;
    sys::connect(fd.as_fd(), &wanted)?;
    Ok(TcpStream::from(fd))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let calls = TcpStream::connect(address).expect("a connection");
        (calls, listener.accept().expect("it comes").0)
    }

    #[test]
    fn the_congestion_control_of_a_connection_is_what_was_asked_for() {
        let (stream, _other) = pair();
        set_congestion_control(&stream, "reno").expect("every kernel has it");
        assert_eq!(congestion_control(&stream).expect("a name"), "reno");
        for wrong in [
            "",
            "none of that name",
            "a name that is longer than a kernel knows",
        ] {
            set_congestion_control(&stream, wrong).expect_err(wrong);
        }
        assert_eq!(congestion_control(&stream).expect("a name"), "reno");
    }

    #[test]
    fn a_connection_comes_from_where_it_was_told() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let from = "127.3.2.1".parse().expect("an address");
        let _calls = connect_from(Some(from), address).expect("on its way");
        let (_, peer) = listener.accept().expect("it comes");
        assert_eq!(peer.ip(), from);
    }

    #[test]
    fn segments_are_counted() {
        use std::io::{Read, Write};
        let (mut stream, mut other) = pair();
        let before = segments(&stream).expect("a count");
        stream.write_all(&[7; 100]).expect("it leaves");
        other.read_exact(&mut [0; 100]).expect("it comes");
        assert_eq!(segments(&stream).expect("a count").0, before.0 + 1);
    }
}
