//! RTP packets, read and changed where they lie (RFC 3550 section 5.1).

mod frames;
mod sampler;

pub use frames::{Encoding, FrameMarker};
pub use sampler::Sampler;

use crate::WireError;

/// Bytes of an RTP header without CSRCs and extension.
pub const HEADER_LEN: usize = 12;

const VERSION: u8 = 2;
const PADDING: u8 = 0x20;
const EXTENSION: u8 = 0x10;
const CSRC_COUNT: u8 = 0x0f;
const MARKER: u8 = 0x80;
const PAYLOAD_TYPE: u8 = 0x7f;

/// The fields of an RTP header that a packetiser sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// For video the last packet of a frame, for audio the first after silence (RFC 3551).
    pub marker: bool,
    /// `0..=127`.
    pub payload_type: u8,
    /// Number of the packet, modulo 2^16.
    pub sequence: u16,
    /// Sampling time in units of the media clock, modulo 2^32.
    pub timestamp: u32,
    /// Synchronisation source.
    pub ssrc: u32,
}

/// An RTP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The fixed fields.
    pub header: Header,
    /// Contributing sources.
    pub csrc_count: u8,
    /// The header extension's profile and content, if there is one.
    pub extension: Option<(u16, &'a [u8])>,
    /// Bytes before the payload.
    pub payload_offset: usize,
    /// The payload without padding.
    pub payload: &'a [u8],
    /// Bytes of padding behind the payload, its count byte included.
    pub padding_len: u8,
}

impl<'a> Packet<'a> {
    /// Reads and checks a packet.
    ///
    /// # Errors
    /// [`WireError::Version`]; [`WireError::Truncated`] if CSRCs or extension end too early;
    /// [`WireError::Value`] if the padding is 0 or longer than what there is.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, WireError> {
        let fixed: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or(WireError::Truncated)?;
        let [first, second, q0, q1, t0, t1, t2, t3, s0, s1, s2, s3] = *fixed;
        if first >> 6 != VERSION {
            return Err(WireError::Version);
        }
        let csrc_count = first & CSRC_COUNT;
        let mut payload_offset = HEADER_LEN + usize::from(csrc_count) * 4;
        let mut extension = None;
        if first & EXTENSION != 0 {
            let (profile, content) = extension_at(bytes, payload_offset)?;
            payload_offset += 4 + content.len();
            extension = Some((profile, content));
        }
        let body = bytes.get(payload_offset..).ok_or(WireError::Truncated)?;
        let padding_len = if first & PADDING == 0 {
            0
        } else {
            padding(body)?
        };
        Ok(Self {
            header: Header {
                marker: second & MARKER != 0,
                payload_type: second & PAYLOAD_TYPE,
                sequence: u16::from_be_bytes([q0, q1]),
                timestamp: u32::from_be_bytes([t0, t1, t2, t3]),
                ssrc: u32::from_be_bytes([s0, s1, s2, s3]),
            },
            csrc_count,
            extension,
            payload_offset,
            payload: &body[..body.len() - usize::from(padding_len)],
            padding_len,
        })
    }
}

impl Header {
    /// The twelve bytes in front of a payload without CSRCs, extension and padding. The payload
    /// type's eighth bit is ignored.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[0] = VERSION << 6;
        let mut fields = HeaderMut(&mut out);
        fields.set_marker(self.marker);
        fields.set_payload_type(self.payload_type);
        fields.set_sequence(self.sequence);
        fields.set_timestamp(self.timestamp);
        fields.set_ssrc(self.ssrc);
        out
    }

    /// Writes header and payload to the head of `out` and tells how many bytes they took.
    ///
    /// # Errors
    /// [`WireError::Oversized`] if they exceed `out`.
    pub fn write(&self, payload: &[u8], out: &mut [u8]) -> Result<usize, WireError> {
        let len = HEADER_LEN + payload.len();
        let out = out.get_mut(..len).ok_or(WireError::Oversized)?;
        out[..HEADER_LEN].copy_from_slice(&self.encode());
        out[HEADER_LEN..].copy_from_slice(payload);
        Ok(len)
    }
}

/// The fixed header of a packet, to be changed in place.
#[derive(Debug)]
pub struct HeaderMut<'a>(&'a mut [u8; HEADER_LEN]);

impl<'a> HeaderMut<'a> {
    /// The header of a packet that was checked before; `None` if it is too short.
    #[must_use]
    pub fn of(packet: &'a mut [u8]) -> Option<Self> {
        packet.first_chunk_mut().map(Self)
    }

    /// Replaces the marker.
    pub fn set_marker(&mut self, marker: bool) {
        self.0[1] = (self.0[1] & PAYLOAD_TYPE) | if marker { MARKER } else { 0 };
    }

    /// Replaces the payload type; its eighth bit is ignored.
    pub fn set_payload_type(&mut self, payload_type: u8) {
        self.0[1] = (self.0[1] & MARKER) | (payload_type & PAYLOAD_TYPE);
    }

    /// Replaces the sequence.
    pub fn set_sequence(&mut self, sequence: u16) {
        self.0[2..4].copy_from_slice(&sequence.to_be_bytes());
    }

    /// Replaces the timestamp.
    pub fn set_timestamp(&mut self, timestamp: u32) {
        self.0[4..8].copy_from_slice(&timestamp.to_be_bytes());
    }

    /// Replaces the synchronisation source.
    pub fn set_ssrc(&mut self, ssrc: u32) {
        self.0[8..12].copy_from_slice(&ssrc.to_be_bytes());
    }
}

/// Profile and content of the header extension (RFC 3550 section 5.3.1).
fn extension_at(bytes: &[u8], at: usize) -> Result<(u16, &[u8]), WireError> {
    let rest = bytes.get(at..).ok_or(WireError::Truncated)?;
    let ([p0, p1, w0, w1], content) = rest.split_first_chunk().ok_or(WireError::Truncated)?;
    let len = usize::from(u16::from_be_bytes([*w0, *w1])) * 4;
    let content = content.get(..len).ok_or(WireError::Truncated)?;
    Ok((u16::from_be_bytes([*p0, *p1]), content))
}

/// RFC 3550 section 5.1: the last byte counts the padding, itself included.
fn padding(body: &[u8]) -> Result<u8, WireError> {
    let count = *body.last().ok_or(WireError::Truncated)?;
    let fits = count != 0 && usize::from(count) <= body.len();
    if fits {
        Ok(count)
    } else {
        Err(WireError::Value)
    }
}
