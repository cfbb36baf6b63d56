//! RTCP compounds: reading, and writing what a broker has to say (RFC 3550 section 6, RFC 4585).

mod write;

pub use write::{bye, nack, picture_loss, receiver_report, sender_report, source_name};

use crate::WireError;
use crate::codec::Reader;
use crate::feedback::Nack;

/// Bytes of a canonical name.
pub const CNAME_LEN_MAX: usize = 255;

const VERSION: u8 = 2;
const PADDING: u8 = 0x20;
const COUNT: u8 = 0x1f;
const BLOCK_LEN: usize = 24;

/// Packet types (RFC 3550 section 12.1, RFC 4585 section 6.1).
mod kind {
    pub(super) const SENDER_REPORT: u8 = 200;
    pub(super) const RECEIVER_REPORT: u8 = 201;
    pub(super) const SOURCES: u8 = 202;
    pub(super) const BYE: u8 = 203;
    pub(super) const TRANSPORT_FEEDBACK: u8 = 205;
    pub(super) const PAYLOAD_FEEDBACK: u8 = 206;
}

/// Feedback message types (RFC 4585 sections 6.2.1 and 6.3.1, RFC 5104 section 4.3.1).
mod format {
    pub(super) const NACK: u8 = 1;
    pub(super) const PICTURE_LOSS: u8 = 1;
    pub(super) const FULL_INTRA: u8 = 4;
}

/// One packet of a compound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// What a source sent, and how it receives others.
    SenderReport(SenderInfo, Blocks<'a>),
    /// How the source with this SSRC receives others.
    ReceiverReport(u32, Blocks<'a>),
    /// SSRC and canonical name of the first source described.
    SourceName(u32, &'a [u8]),
    /// These sources leave.
    Bye(Sources<'a>),
    /// Lost packets of a source.
    Nack(Target, Nacks<'a>),
    /// A picture of a source was lost.
    PictureLoss(Target),
    /// A full intra picture is demanded of the source with this SSRC.
    FullIntra(u32),
    /// Something else of this type.
    Other(u8),
}

/// The sender's part of a sender report (RFC 3550 section 6.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderInfo {
    /// The source.
    pub ssrc: u32,
    /// Wall clock when the report was made, NTP format (32.32 bits of seconds since 1900).
    pub ntp: u64,
    /// The same moment in the media clock.
    pub timestamp: u32,
    /// Packets sent, modulo 2^32.
    pub packets: u32,
    /// Payload bytes sent, modulo 2^32.
    pub bytes: u32,
}

/// A report block (RFC 3550 section 6.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// The source that is received.
    pub ssrc: u32,
    /// Packets lost since the last report, in 1/256.
    pub fraction_lost: u8,
    /// Packets lost in all, -2^23 to 2^23 - 1; duplicates count as negative.
    pub lost: i32,
    /// Extended highest sequence.
    pub highest: u32,
    /// Interarrival jitter in units of the media clock.
    pub jitter: u32,
    /// Middle 32 bits of the NTP time of the last sender report; 0 if there was none.
    pub last_report: u32,
    /// Time since that report in 1/65,536 s.
    pub delay: u32,
}

/// Whose feedback about whom (RFC 4585 section 6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// SSRC of the one who says it.
    pub sender: u32,
    /// SSRC of the media source.
    pub media: u32,
}

/// Report blocks in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks<'a>(&'a [u8]);

/// SSRCs in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources<'a>(&'a [u8]);

/// NACK items in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nacks<'a>(&'a [u8]);

/// Whether a packet on a port shared with RTP is RTCP (RFC 5761 section 4).
#[inline]
#[must_use]
pub fn is_rtcp(bytes: &[u8]) -> bool {
    matches!(*bytes, [first, 192..=223, _, _, ..] if first >> 6 == VERSION)
}

/// The packets of a compound in order; ends after the first error.
pub fn packets(compound: &[u8]) -> impl Iterator<Item = Result<Packet<'_>, WireError>> {
    let mut read = Reader::new(compound);
    core::iter::from_fn(move || {
        if read.rest().is_empty() {
            return None;
        }
        let packet = next(&mut read);
        if packet.is_err() {
            read = Reader::new(&[]);
        }
        Some(packet)
    })
}

fn next<'a>(read: &mut Reader<'a>) -> Result<Packet<'a>, WireError> {
    let [first, kind, w0, w1] = read.array()?;
    if first >> 6 != VERSION {
        return Err(WireError::Version);
    }
    let mut body = read.take(usize::from(u16::from_be_bytes([w0, w1])) * 4)?;
    if first & PADDING != 0 {
        body = without_padding(body)?;
    }
    let (count, mut fields) = (first & COUNT, Reader::new(body));
    match kind {
        kind::SENDER_REPORT => sender(fields, count),
        kind::RECEIVER_REPORT => Ok(Packet::ReceiverReport(
            fields.u32()?,
            blocks(&mut fields, count)?,
        )),
        kind::SOURCES => name(fields, count),
        kind::BYE => fields
            .take(usize::from(count) * 4)
            .map(|list| Packet::Bye(Sources(list))),
        kind::TRANSPORT_FEEDBACK if count == format::NACK => {
            Ok(Packet::Nack(target(&mut fields)?, Nacks(fields.rest())))
        }
        kind::PAYLOAD_FEEDBACK if count == format::PICTURE_LOSS => {
            target(&mut fields).map(Packet::PictureLoss)
        }
        kind::PAYLOAD_FEEDBACK if count == format::FULL_INTRA => {
            // RFC 5104 section 4.3.1.1: the media source of the common part is unused.
            target(&mut fields)?;
            fields.u32().map(Packet::FullIntra)
        }
        other => Ok(Packet::Other(other)),
    }
}

/// RFC 3550 section 6.4.1: the last byte counts the padding, itself included.
fn without_padding(body: &[u8]) -> Result<&[u8], WireError> {
    let count = *body.last().ok_or(WireError::Value)?;
    let kept = body
        .len()
        .checked_sub(usize::from(count))
        .ok_or(WireError::Value)?;
    if count == 0 {
        Err(WireError::Value)
    } else {
        Ok(&body[..kept])
    }
}

fn sender(mut fields: Reader<'_>, count: u8) -> Result<Packet<'_>, WireError> {
    let info = SenderInfo {
        ssrc: fields.u32()?,
        ntp: fields.u64()?,
        timestamp: fields.u32()?,
        packets: fields.u32()?,
        bytes: fields.u32()?,
    };
    Ok(Packet::SenderReport(info, blocks(&mut fields, count)?))
}

fn blocks<'a>(fields: &mut Reader<'a>, count: u8) -> Result<Blocks<'a>, WireError> {
    fields.take(usize::from(count) * BLOCK_LEN).map(Blocks)
}

/// RFC 3550 section 6.5: items of the first chunk until the canonical name or the end.
fn name(mut fields: Reader<'_>, chunks: u8) -> Result<Packet<'_>, WireError> {
    const END: u8 = 0;
    const CNAME: u8 = 1;
    if chunks == 0 {
        return Ok(Packet::Other(kind::SOURCES));
    }
    let ssrc = fields.u32()?;
    loop {
        let item = fields.u8()?;
        if item == END {
            return Ok(Packet::Other(kind::SOURCES));
        }
        let len = usize::from(fields.u8()?);
        let text = fields.take(len)?;
        if item == CNAME {
            return Ok(Packet::SourceName(ssrc, text));
        }
    }
}

fn target(fields: &mut Reader<'_>) -> Result<Target, WireError> {
    Ok(Target {
        sender: fields.u32()?,
        media: fields.u32()?,
    })
}

impl<'a> Blocks<'a> {
    /// The blocks in order.
    pub fn iter(self) -> impl Iterator<Item = Block> + use<'a> {
        self.0.as_chunks::<BLOCK_LEN>().0.iter().map(|block| {
            let word = |i: usize| u32::from_be_bytes(block.as_chunks().0[i]);
            Block {
                ssrc: word(0),
                fraction_lost: block[4],
                // 24 bits with a sign.
                lost: (word(1) << 8) as i32 >> 8,
                highest: word(2),
                jitter: word(3),
                last_report: word(4),
                delay: word(5),
            }
        })
    }
}

impl<'a> Sources<'a> {
    /// The SSRCs in order.
    pub fn iter(self) -> impl Iterator<Item = u32> + use<'a> {
        self.0
            .as_chunks()
            .0
            .iter()
            .map(|ssrc| u32::from_be_bytes(*ssrc))
    }
}

impl<'a> Nacks<'a> {
    /// The items in order.
    pub fn iter(self) -> impl Iterator<Item = Nack> + use<'a> {
        self.0.as_chunks().0.iter().map(|[f0, f1, a0, a1]| Nack {
            first: u16::from_be_bytes([*f0, *f1]),
            also: u16::from_be_bytes([*a0, *a1]),
        })
    }
}
