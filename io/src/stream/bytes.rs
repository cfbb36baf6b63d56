//! Bytes in order, encrypted or not.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use crate::tls::{Secret, TlsStream};

/// A stream of bytes that does not block.
#[derive(Debug)]
pub enum ByteStream {
    /// As they are.
    Plain(TcpStream),
    /// Through TLS.
    Tls(Box<TlsStream>),
}

impl ByteStream {
    /// The socket beneath, for its addresses and options.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => tls.socket(),
        }
    }

    /// The descriptor, for a poller.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }

    /// Whether bytes can be read of which no poller tells.
    #[must_use]
    pub fn has_buffered(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(tls) => tls.has_plaintext(),
        }
    }

    /// Whether bytes may be written.
    #[must_use]
    pub fn is_open(&self) -> bool {
        match self {
            Self::Plain(_) => true,
            Self::Tls(tls) => !tls.is_handshaking(),
        }
    }

    /// A secret of the two ends for a purpose, if the stream is encrypted.
    #[must_use]
    pub fn secret(&self, purpose: &[u8]) -> Option<Secret> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(tls) => tls.secret(purpose),
        }
    }

    /// Reads what is there; 0 at the end of the stream.
    ///
    /// # Errors
    /// `WouldBlock`, or why the stream is of no use any more.
    #[inline]
    pub fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(bytes),
            Self::Tls(tls) => tls.read(bytes),
        }
    }

    /// Writes some of the slices.
    ///
    /// # Errors
    /// `WouldBlock`, or why the stream is of no use any more.
    #[inline]
    pub fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write_vectored(slices),
            Self::Tls(tls) => tls.write_vectored(slices),
        }
    }

    /// Hands the kernel what was written before.
    ///
    /// # Errors
    /// `WouldBlock` while some has to wait.
    #[inline]
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(tls) => tls.flush(),
        }
    }

    /// Says that nothing follows, where the stream has words for it; flush afterwards.
    pub fn send_close(&mut self) {
        if let Self::Tls(tls) = self {
            tls.send_close();
        }
    }
}
