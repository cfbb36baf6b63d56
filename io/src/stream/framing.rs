//! How units are told apart on a stream: behind a 16-bit length, or as WebSocket messages.

use sangam_model::limits::EVENT_LEN_MAX;

use super::error::FramedError;
use super::websocket::{self, Code, HEAD_SENT_MAX, Kind, Receiver, Side};
use crate::pool::Packet;

/// Bytes of the length in front of a unit.
const LENGTH: usize = 2;

#[derive(Debug)]
pub(super) enum Framing {
    /// Each unit behind its length.
    Length,
    /// Each unit a binary message.
    WebSocket(Box<Receiver>),
}

/// Something that waits to be written.
#[derive(Debug)]
pub(super) struct Unit {
    prefix: [u8; HEAD_SENT_MAX],
    prefix_len: u8,
    body: Body,
}

/// The bytes behind a prefix.
#[derive(Debug)]
pub(super) enum Body {
    Packet(Packet),
    Bytes(Vec<u8>),
}

impl Framing {
    pub(super) fn websocket(side: Side) -> Self {
        Self::WebSocket(Box::new(Receiver::new(side)))
    }

    /// Bytes of the unit at the front with all that belongs to it, once they are known.
    #[inline]
    pub(super) fn announced(&self, input: &[u8]) -> Option<usize> {
        match self {
            Self::Length => Some(LENGTH + length(input)?),
            Self::WebSocket(_) => websocket::announced(input),
        }
    }

    /// Bytes a unit of `len` takes on the stream, at most.
    #[inline]
    pub(super) fn size(&self, len: usize) -> usize {
        match self {
            Self::Length => LENGTH + len,
            Self::WebSocket(_) => HEAD_SENT_MAX + len,
        }
    }

    /// Puts a unit into its wrapping.
    pub(super) fn wrap(&self, body: Body) -> Result<Unit, FramedError> {
        match self {
            Self::Length => {
                let mut prefix = [0; HEAD_SENT_MAX];
                prefix[..LENGTH].copy_from_slice(&(body.bytes().len() as u16).to_be_bytes());
                Ok(Unit {
                    prefix,
                    prefix_len: LENGTH as u8,
                    body,
                })
            }
            Self::WebSocket(receiver) => frame(receiver.side(), Kind::Binary, body),
        }
    }

    /// The answer to a ping.
    pub(super) fn pong(&self, payload: &[u8]) -> Option<Unit> {
        self.control(Kind::Pong, payload)
    }

    /// The last frame of a WebSocket; other streams just end.
    pub(super) fn close(&self, code: Code) -> Option<Unit> {
        self.control(Kind::Close, &(code as u16).to_be_bytes())
    }

    fn control(&self, kind: Kind, payload: &[u8]) -> Option<Unit> {
        match self {
            Self::Length => None,
            Self::WebSocket(receiver) => {
                frame(receiver.side(), kind, Body::Bytes(payload.to_vec())).ok()
            }
        }
    }
}

impl Unit {
    /// Prefix and body.
    #[inline]
    pub(super) fn parts(&self) -> [&[u8]; 2] {
        [&self.prefix[..self.prefix_len.into()], self.body.bytes()]
    }

    /// Bytes of both.
    #[inline]
    pub(super) fn size(&self) -> usize {
        usize::from(self.prefix_len) + self.body.bytes().len()
    }
}

impl Body {
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Packet(packet) => packet,
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// The first unit of a stream of lengths, once it is there whole: its bytes with the prefix, and
/// where in them it begins.
#[inline]
pub(super) fn first(input: &[u8]) -> Result<Option<(usize, usize)>, FramedError> {
    let Some(len) = length(input) else {
        return Ok(None);
    };
    match len {
        0 => Err(FramedError::Empty),
        len if len > EVENT_LEN_MAX => Err(FramedError::Oversized(len)),
        len => Ok((input.len() >= LENGTH + len).then_some((LENGTH + len, LENGTH))),
    }
}

#[inline]
fn length(input: &[u8]) -> Option<usize> {
    Some(u16::from_be_bytes(*input.first_chunk()?).into())
}

fn frame(side: Side, kind: Kind, body: Body) -> Result<Unit, FramedError> {
    let (prefix, prefix_len, body) = match side {
        Side::Server => {
            let (prefix, len) = websocket::plain_head(kind, body.bytes().len());
            (prefix, len, body)
        }
        Side::Client => {
            // Others may hold the packet, too: it is masked in a copy.
            let mut bytes = match body {
                Body::Bytes(bytes) => bytes,
                Body::Packet(packet) => packet.to_vec(),
            };
            let (prefix, len) = websocket::masked_head(kind, &mut bytes)?;
            (prefix, len, Body::Bytes(bytes))
        }
    };
    Ok(Unit {
        prefix,
        prefix_len,
        body,
    })
}
