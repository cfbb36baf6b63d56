//! TLS over a socket that does not block.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

/// Bytes of records that wait for the kernel; no more is encrypted before they have left.
const RECORDS_MAX: usize = 64 << 10;
/// Bytes a peer may send before its handshake is over; rustls bounds each message to 64 KiB.
const HANDSHAKE_MAX: usize = 192 << 10;

/// What the two ends of an encrypted connection can derive, and nobody else.
pub type Secret = [u8; 64];

/// A TLS connection and its socket. Reading and writing both drive the handshake.
#[derive(Debug)]
pub struct TlsStream {
    socket: TcpStream,
    tls: Connection,
    /// Bytes that are decrypted and not yet read.
    plaintext: usize,
    /// The peer has said that nothing follows.
    ended: bool,
    /// Bytes that came before the handshake was over.
    shaken: usize,
}

impl TlsStream {
    /// The end that was called.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub fn accept(socket: TcpStream, config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        Ok(Self::new(socket, ServerConnection::new(config)?.into()))
    }

    /// The end that calls a server of this name.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub fn connect(
        socket: TcpStream,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Self, rustls::Error> {
        let tls = ClientConnection::new(config, name)?;
        Ok(Self::new(socket, tls.into()))
    }

    /// The socket beneath.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Whether decrypted bytes, or the end, can be read without the socket: no poller tells of
    /// them.
    #[must_use]
    pub fn has_plaintext(&self) -> bool {
        self.plaintext > 0 || self.ended
    }

    /// Whether the handshake is not over yet.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// The certificate the peer has shown, if any.
    #[must_use]
    pub fn peer_certificate(&self) -> Option<&rustls::pki_types::CertificateDer<'static>> {
        self.tls.peer_certificates()?.first()
    }

    /// A secret of the two ends for a purpose (RFC 8446 section 7.5); `None` during the handshake.
    #[must_use]
    pub fn secret(&self, purpose: &[u8]) -> Option<Secret> {
        let secret = [0; size_of::<Secret>()];
        self.tls.export_keying_material(secret, purpose, None).ok()
    }

    /// Reads decrypted bytes; 0 at the end of the stream.
    ///
    /// # Errors
    /// `WouldBlock`; a [`rustls::Error`] within if the peer misbehaves or is not who it should be.
    pub fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(bytes) {
                Ok(count) => {
                    self.plaintext = self.plaintext.saturating_sub(count);
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // Ended without a farewell. Units are delimited and may not be cut off unseen, so
                // this is an end like any other.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                Err(error) => return Err(error),
            }
            self.receive()?;
        }
    }

    /// Encrypts what fits, once everything encrypted before has left.
    ///
    /// # Errors
    /// `WouldBlock` if nothing was taken.
    pub fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.flush()?;
        if self.is_handshaking() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let count = self.tls.writer().write_vectored(slices)?;
        match self.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(count),
        }
    }

    /// Hands the kernel every record.
    ///
    /// # Errors
    /// `WouldBlock` while some have to wait.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Says that nothing follows.
    pub fn send_close(&mut self) {
        self.tls.send_close_notify();
    }

    fn new(socket: TcpStream, mut tls: Connection) -> Self {
        tls.set_buffer_limit(Some(RECORDS_MAX));
        Self {
            socket,
            tls,
            plaintext: 0,
            ended: false,
            shaken: 0,
        }
    }

    /// Takes what the socket has, and answers it where the handshake wants an answer.
    fn receive(&mut self) -> io::Result<()> {
        let count = self.tls.read_tls(&mut self.socket)?;
        if self.is_handshaking() {
            self.shaken += count;
            if self.shaken > HANDSHAKE_MAX {
                return Err(io::Error::new(
                    ErrorKind::InvalidData,
                    "the TLS handshake is too long",
                ));
            }
        }
        let processed = self.tls.process_new_packets();
        // Answers, or the alert that says why not.
        let flushed = self.flush();
        let state = processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        self.plaintext = state.plaintext_bytes_to_read();
        self.ended = state.peer_has_closed();
        match flushed {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }
}
