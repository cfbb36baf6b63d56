//! Streams of units: over TCP or TLS, behind a length or as WebSocket messages.

mod bytes;
pub mod check;
mod connection;
mod error;
mod framed;
mod framing;
mod http;
mod opening;
mod websocket;

pub use bytes::ByteStream;
pub use connection::{Connection, Way};
pub use error::FramedError;
pub use framed::{Framed, OutLimits, Progress};
pub use opening::{Accept, Dial, Proxy, Tunnel, WebSocket};
