//! What comes before units: TLS, HTTP, a proxy.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};

use super::error::FramedError;
use super::http;

/// How a listener speaks to those who come.
#[derive(Clone, Debug, Default)]
pub struct Accept {
    /// With TLS.
    pub tls: Option<Arc<ServerConfig>>,
    /// Units are messages of a WebSocket, opened at `/v1/connect`.
    pub websocket: bool,
    /// Whose pages may open one, as browsers name them (RFC 6454 section 7); everybody's if there
    /// are none. Who is no browser names no origin and may come in any case.
    pub origins: Arc<[String]>,
}

/// How a listener is spoken to.
#[derive(Clone, Debug, Default)]
pub struct Dial {
    /// With TLS, by a server of this name.
    pub tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// Units are messages of a WebSocket.
    pub websocket: Option<WebSocket>,
}

/// Where a WebSocket is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSocket {
    /// `host` or `host:port`, as the URL has it.
    pub authority: String,
    /// Path and query; begins with `/`.
    pub path: String,
}

/// What a proxy is asked for.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// `host:port` of the broker; the proxy resolves the name.
    pub authority: String,
    /// `user:password`, if the proxy wants them.
    pub credentials: Option<String>,
}

impl core::fmt::Debug for Proxy {
    /// Without the password.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Proxy")
            .field("authority", &self.authority)
            .finish_non_exhaustive()
    }
}

/// A connection to a proxy on its way to become one to the broker (CONNECT).
#[derive(Debug)]
pub struct Tunnel {
    socket: TcpStream,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Tunnel {
    /// Takes over a socket that does not block.
    #[must_use]
    pub fn new(socket: TcpStream, proxy: &Proxy) -> Self {
        Self {
            socket,
            request: http::connect(&proxy.authority, proxy.credentials.as_deref()),
            answer: Vec::new(),
        }
    }

    /// The socket beneath.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Whether the request has not left yet.
    #[must_use]
    pub fn is_asking(&self) -> bool {
        !self.request.is_empty()
    }

    /// The socket itself, once the tunnel is open.
    #[must_use]
    pub fn into_socket(self) -> TcpStream {
        self.socket
    }

    /// Goes on as far as the socket allows; whether the tunnel is open.
    ///
    /// # Errors
    /// The proxy refuses, speaks no HTTP or is gone.
    pub fn advance(&mut self) -> Result<bool, FramedError> {
        if !write_some(&mut self.socket, &mut self.request)? {
            return Ok(false);
        }
        // Byte by byte would be exact; but a broker says nothing before it is spoken to, so that
        // nothing can follow the answer.
        let mut bytes = [0; 1_024];
        loop {
            match self.socket.read(&mut bytes) {
                Ok(0) => return Err(FramedError::Http("the proxy closed the connection".into())),
                Ok(count) => self.answer.extend_from_slice(&bytes[..count]),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(false),
                    ErrorKind::Interrupted => {}
                    _ => return Err(FramedError::Io(error)),
                },
            }
            if let Some(end) = http::end(&self.answer, 0) {
                http::check_tunnel(&self.answer[..end])?;
                return Ok(true);
            }
            if self.answer.len() > http::HEAD_MAX {
                return Err(FramedError::Http("the proxy's answer is too long".into()));
            }
        }
    }
}

/// Writes what the kernel takes; whether that was all.
fn write_some(socket: &mut TcpStream, bytes: &mut Vec<u8>) -> io::Result<bool> {
    while !bytes.is_empty() {
        match socket.write(bytes) {
            Ok(count) => drop(bytes.drain(..count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
