//! TCP listeners and connections that do not block.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

use crate::sys;
use crate::udp::Address;

/// Connections the kernel holds until they are accepted.
const BACKLOG: i32 = 1_024;

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

/// Starts a connection without waiting for it: once the stream is writable,
/// [`TcpStream::take_error`] tells how it went.
///
/// # Errors
/// What can be known at once: no descriptor, no route.
pub fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let wanted = Address::from(address);
    let fd = sys::socket(&wanted, libc::SOCK_STREAM)?;
    sys::set_option(fd.as_fd(), (libc::IPPROTO_TCP, libc::TCP_NODELAY), 1)?;
    sys::connect(fd.as_fd(), &wanted)?;
    Ok(TcpStream::from(fd))
}
