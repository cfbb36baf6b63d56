//! TLS 1.3 by rustls and aws-lc-rs: what streams and QUIC have in common.

mod any;
mod config;
mod error;
mod identity;
mod stream;

pub use config::{Clients, Trust, client, server};
pub use error::TlsError;
pub use identity::{Identity, Roots, ed25519_key};
pub use stream::{Secret, TlsStream};

pub use rustls::pki_types::ServerName;
pub use rustls::{ClientConfig, ServerConfig};

/// What a byte stream of units is called in ALPN (RFC 7301).
pub const ALPN_UNITS: &[u8] = b"sangam";
/// What a WebSocket handshake is called in ALPN: HTTP/1.1.
pub const ALPN_HTTP: &[u8] = b"http/1.1";
