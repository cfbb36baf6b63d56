//! The bytes of a connection: as they are, or within TLS (`rtsps://`, RFC 7826 section 19.2).

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use sangam_io::tls::TlsStream;

/// A socket that does not block, and what lies on it.
#[derive(Debug)]
pub(crate) enum Wire {
    /// Nothing.
    Plain(TcpStream),
    /// TLS; the handshake goes on as bytes come.
    Secure(Box<TlsStream>),
}

impl Wire {
    /// The socket.
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Secure(tls) => tls.socket(),
        }
    }

    /// For the poller.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }

    /// Whether nobody on the way can read it.
    pub(crate) const fn is_secure(&self) -> bool {
        matches!(self, Self::Secure(_))
    }

    /// Whether there is more to read of which the poller does not tell.
    pub(crate) fn has_more(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Secure(tls) => tls.has_plaintext(),
        }
    }

    /// Reads what came; 0 at the end.
    ///
    /// # Errors
    /// `WouldBlock`; `InvalidData` if what came is no TLS.
    pub(crate) fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(room),
            Self::Secure(tls) => tls.read(room),
        }
    }

    /// Takes what it can, to send it.
    ///
    /// # Errors
    /// `WouldBlock` if nothing was taken.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Secure(tls) => tls.write_vectored(&[IoSlice::new(bytes)]),
        }
    }

    /// Hands the kernel what was taken; whether all of it is there.
    ///
    /// # Errors
    /// It broke.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        let Self::Secure(tls) = self else {
            return Ok(true);
        };
        match tls.flush() {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Says that nothing follows, as far as the kernel takes it now.
    pub(crate) fn end(&mut self) {
        if let Self::Secure(tls) = self {
            tls.send_close();
            // Who does not read it does not miss it.
            let _ = tls.flush();
        }
    }
}
