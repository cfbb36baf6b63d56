//! Feedback: payloads of [`sangam_model::Class::Feedback`] events, which travel towards the
//! origin of the stream they name.

use crate::WireError;
use crate::codec::{Put, Reader};

const KEY_FRAME: u8 = 1;
const NACK: u8 = 2;
const REPORT: u8 = 3;

/// One piece of feedback about the stream and layer in the event's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Feedback {
    /// A receiver needs a key frame.
    KeyFrame,
    /// Packets that did not arrive.
    Nack(Nack),
    /// How a receiver, or the worst of many, fares.
    Report(Report),
}

/// Up to 17 lost packets, as in RFC 4585 section 6.2.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nack {
    /// The first lost event's sequence.
    pub first: u16,
    /// Bit i set: `first + i + 1` is lost, too.
    pub also: u16,
}

/// A receiver report, as in RFC 3550 section 6.4.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Packets lost since the last report, in 1/256.
    pub fraction_lost: u8,
    /// Extended highest sequence received.
    pub highest: u32,
    /// Interarrival jitter in microseconds.
    pub jitter_us: u32,
    /// What the receiver's way carries, in kbit/s; 0 if unknown.
    pub capacity_kbps: u32,
}

impl Feedback {
    /// Reads the payload of a feedback event. Bytes behind the known fields are ignored.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::Kind`].
    pub fn decode(payload: &[u8]) -> Result<Self, WireError> {
        let mut read = Reader::new(payload);
        Ok(match read.u8()? {
            KEY_FRAME => Self::KeyFrame,
            NACK => Self::Nack(Nack {
                first: read.u16()?,
                also: read.u16()?,
            }),
            REPORT => Self::Report(Report {
                fraction_lost: read.u8()?,
                highest: read.u32()?,
                jitter_us: read.u32()?,
                capacity_kbps: read.u32()?,
            }),
            _ => return Err(WireError::Kind),
        })
    }

    /// Appends the payload, at most 14 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::KeyFrame => out.put_u8(KEY_FRAME),
            Self::Nack(nack) => {
                out.put_u8(NACK);
                out.put_u16(nack.first);
                out.put_u16(nack.also);
            }
            Self::Report(report) => {
                out.put_u8(REPORT);
                out.put_u8(report.fraction_lost);
                out.put_u32(report.highest);
                out.put_u32(report.jitter_us);
                out.put_u32(report.capacity_kbps);
            }
        }
    }
}

impl Nack {
    /// The lost sequences, in order.
    pub fn sequences(self) -> impl Iterator<Item = u16> {
        let also = (0..16).filter(move |i| self.also >> i & 1 == 1);
        core::iter::once(self.first).chain(also.map(move |i| self.first.wrapping_add(i + 1)))
    }
}
