//! Packets put together to frames, as files hold them.

use std::collections::{BTreeMap, VecDeque};

use sangam_wire::Flags;
use sangam_wire::rtp::{Encoding, Packet};

use super::codec::Codec;
use super::{av1, h265, vp9};
use crate::timeline::{SOURCES_MAX, unwrap};

/// Bytes of a frame; what is longer is broken.
const FRAME_LEN_MAX: usize = 16 << 20;
/// Samples of an AAC frame (ISO/IEC 14496-3, for all but the low-delay kinds).
const AAC_SAMPLES: i64 = 1_024;

/// One frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    /// SSRC.
    pub(super) source: u32,
    /// RTP timestamp, counted on beyond 32 bits.
    pub(super) timestamp: i64,
    /// When it is to be shown: nanoseconds since the first frame of the file.
    pub(super) time: i64,
    /// Whether it decodes by itself.
    pub(super) key: bool,
    /// What the decoder is given; units of H.264 and H.265 behind lengths of four bytes.
    pub(super) data: Vec<u8>,
}

/// Makes frames of the packets of one track, which come in order.
#[derive(Debug)]
pub(super) struct Assembler {
    codec: Codec,
    /// The latest timestamp of each source.
    last: BTreeMap<u32, i64>,
    open: Option<Open>,
    ready: VecDeque<Frame>,
    broken: u64,
}

/// A frame of which packets may follow.
#[derive(Debug, Default)]
struct Open {
    frame: Frame,
    broken: bool,
    /// Where the unit begins that is in pieces.
    unit: Option<usize>,
}

impl Assembler {
    pub(super) fn new(codec: Codec) -> Self {
        Self {
            codec,
            last: BTreeMap::new(),
            open: None,
            ready: VecDeque::new(),
            broken: 0,
        }
    }

    /// Takes the next packet; `lost` says that others are missing before it.
    pub(super) fn push(&mut self, packet: &Packet<'_>, lost: bool) {
        let header = packet.header;
        let last = self.last.get(&header.ssrc).copied();
        let timestamp = unwrap(last.unwrap_or(header.timestamp.into()), header.timestamp);
        // Beyond these the timeline knows no source either.
        if last.is_some() || self.last.len() < SOURCES_MAX {
            self.last.insert(header.ssrc, timestamp);
        }
        if packet.payload.is_empty() {
            return;
        }
        let frame = Frame {
            source: header.ssrc,
            timestamp,
            key: !self.codec.is_video(),
            ..Frame::default()
        };
        match &self.codec {
            Codec::Opus { .. } | Codec::G711 { .. } => self.ready.push_back(Frame {
                data: packet.payload.to_vec(),
                ..frame
            }),
            Codec::Aac { .. } => self.access_units(packet.payload, &frame),
            Codec::H264(_) | Codec::H265(_) | Codec::Vp8(_) | Codec::Vp9(_) | Codec::Av1(_) => {
                self.video(packet, frame, lost);
                if header.marker {
                    self.flush();
                }
            }
        }
    }

    pub(super) fn pop(&mut self) -> Option<Frame> {
        self.ready.pop_front()
    }

    /// Nothing more comes of the frame that is open.
    pub(super) fn flush(&mut self) {
        let Some(open) = self.open.take() else {
            return;
        };
        if open.broken || open.unit.is_some() || open.frame.data.is_empty() {
            self.broken += 1;
        } else {
            self.ready.push_back(open.frame);
        }
    }

    /// Frames that could not be put together.
    pub(super) const fn broken(&self) -> u64 {
        self.broken
    }

    fn video(&mut self, packet: &Packet<'_>, frame: Frame, lost: bool) {
        let is_next = |open: &Open| open.frame.timestamp != frame.timestamp;
        let mut lost_begin = lost;
        if self.open.as_ref().is_some_and(is_next) {
            if lost && let Some(open) = &mut self.open {
                // Its end may be among what is missing.
                open.broken = true;
            }
            self.flush();
        }
        let open = self.open.get_or_insert_with(|| Open {
            frame,
            ..Open::default()
        });
        if open.frame.data.is_empty() && !open.broken && open.unit.is_none() {
            // What begins with the begin of a frame misses nothing.
            lost_begin &= !begins(&self.codec, packet.payload);
        }
        open.broken |= lost_begin;
        let (encoding, taken) = match &self.codec {
            Codec::H264(sets) => (
                Encoding::H264,
                open.h264(packet.payload, &[&sets.sequence, &sets.picture]),
            ),
            Codec::H265(sets) => (Encoding::H265, open.h265(packet.payload, &sets.sets)),
            Codec::Vp9(_) => (Encoding::Vp9, open.vp9(packet.payload)),
            Codec::Av1(_) => (Encoding::Av1, open.av1(packet.payload)),
            _ => (Encoding::Vp8, open.vp8(packet.payload)),
        };
        open.frame.key |= encoding.inspect(packet.payload).contains(Flags::KEY);
        open.broken |= taken.is_none() || open.frame.data.len() > FRAME_LEN_MAX;
        if open.broken {
            open.frame.data.clear();
            open.unit = None;
        }
    }

    /// RFC 3640 section 3.2.1: sizes of 13 bits before all access units.
    fn access_units(&mut self, payload: &[u8], frame: &Frame) {
        let Some((bits, rest)) = payload.split_first_chunk() else {
            return;
        };
        let headers = usize::from(u16::from_be_bytes(*bits)) / 16;
        let Some((headers, mut data)) = rest.split_at_checked(headers * 2) else {
            self.broken += 1;
            return;
        };
        for (count, header) in headers.as_chunks().0.iter().enumerate() {
            let len = usize::from(u16::from_be_bytes(*header) >> 3);
            let Some((unit, tail)) = data.split_at_checked(len) else {
                self.broken += 1;
                return;
            };
            data = tail;
            self.ready.push_back(Frame {
                timestamp: frame.timestamp + count as i64 * AAC_SAMPLES,
                data: unit.to_vec(),
                ..frame.clone()
            });
        }
    }
}

impl Open {
    /// RFC 6184 section 5.8 for units in pieces, all others by [`h264_units`].
    fn h264(&mut self, payload: &[u8], known: &[&Vec<u8>]) -> Option<()> {
        if let [indicator, header, piece @ ..] = payload
            && indicator & 0x1f == 28
        {
            let head = [indicator & 0xe0 | header & 0x1f];
            return self.fragment(*header, &head, piece);
        }
        let whole = h264_units(payload, |unit| {
            // Delimiters, and the sets that the file's head holds, have no place in a frame.
            let is_known = known.iter().any(|known| known.as_slice() == unit);
            if !is_known && unit.first().is_some_and(|first| first & 0x1f != 9) {
                self.unit_of(unit);
            }
        });
        whole.then_some(())
    }

    /// RFC 7798 section 4.4.3 for units in pieces, all others by [`h265::units`].
    fn h265(&mut self, payload: &[u8], known: &[Vec<u8>]) -> Option<()> {
        if let [first, second, header, piece @ ..] = payload
            && h265::kind(*first) == h265::FRAGMENT
        {
            let head = [first & 0x81 | (header & 0x3f) << 1, *second];
            return self.fragment(*header, &head, piece);
        }
        let whole = h265::units(payload, |unit| {
            let is_known = known.iter().any(|known| known.as_slice() == unit);
            let kind = unit.first().map(|first| h265::kind(*first));
            if !is_known && kind.is_some_and(|kind| kind != h265::DELIMITER) {
                self.unit_of(unit);
            }
        });
        whole.then_some(())
    }

    /// A whole unit of H.264 or H.265.
    fn unit_of(&mut self, unit: &[u8]) {
        let len = unit.len() as u32;
        self.frame.data.extend(len.to_be_bytes());
        self.frame.data.extend(unit);
    }

    /// A piece of such a unit, whose own head is `head`; the header's first bits tell whether it is
    /// the first and the last.
    fn fragment(&mut self, header: u8, head: &[u8], piece: &[u8]) -> Option<()> {
        let data = &mut self.frame.data;
        if header & 0x80 != 0 {
            self.unit = Some(data.len());
            data.extend([0; 4]);
            data.extend(head);
        }
        let unit = self.unit?;
        data.extend(piece);
        if header & 0x40 != 0 {
            let len = (data.len() - unit - 4) as u32;
            data[unit..unit + 4].copy_from_slice(&len.to_be_bytes());
            self.unit = None;
        }
        Some(())
    }

    /// Pictures in spatial layers would need an index that tells them apart: they are left out.
    fn vp9(&mut self, payload: &[u8]) -> Option<()> {
        let payload = vp9::payload(payload).filter(|payload| payload.layer == 0)?;
        self.frame.data.extend(payload.frame);
        Some(())
    }

    fn av1(&mut self, payload: &[u8]) -> Option<()> {
        let payload = av1::payload(payload)?;
        let last = payload.units.len().checked_sub(1)?;
        let data = &mut self.frame.data;
        for (place, piece) in payload.units.iter().enumerate() {
            let begin = match (self.unit.take(), place == 0 && payload.continues) {
                (Some(begin), true) => begin,
                (None, false) => data.len(),
                _ => return None,
            };
            data.extend(*piece);
            if place == last && payload.goes_on {
                self.unit = Some(begin);
            } else {
                let unit = data.split_off(begin);
                av1::store(data, &unit)?;
            }
        }
        Some(())
    }

    fn vp8(&mut self, payload: &[u8]) -> Option<()> {
        let (_, piece) = vp8_payload(payload)?;
        self.frame.data.extend(piece);
        Some(())
    }
}

/// Whether a frame may begin with this payload, where packets before it are missing.
fn begins(codec: &Codec, payload: &[u8]) -> bool {
    match (codec, payload) {
        // A later slice of a picture may be whole as well: first_mb_in_slice is 0 in the first
        // (a single set bit in Exp-Golomb code).
        (Codec::H264(_), [indicator, header, slice, ..]) if indicator & 0x1f == 28 => {
            header & 0x80 != 0 && slice & 0x80 != 0
        }
        (Codec::H264(_), [first, slice, ..]) if (1..=5).contains(&(first & 0x1f)) => {
            slice & 0x80 != 0
        }
        // The first bit of a slice: first_slice_segment_in_pic_flag.
        (Codec::H265(_), [first, _, header, slice, ..]) if h265::kind(*first) == h265::FRAGMENT => {
            header & 0x80 != 0 && slice & 0x80 != 0
        }
        (Codec::H265(_), [first, _, slice, ..]) if h265::kind(*first) < 32 => slice & 0x80 != 0,
        (Codec::H264(_) | Codec::H265(_), _) => true,
        (Codec::Vp9(_), _) => vp9::payload(payload).is_some_and(|payload| payload.starts),
        (Codec::Av1(_), _) => av1::begins(payload),
        _ => vp8_payload(payload).is_some_and(|(starts, _)| starts),
    }
}

/// Hands on the units of a payload that holds whole ones (RFC 6184 sections 5.6 and 5.7.1: single
/// and STAP-A). False if it does not.
pub(super) fn h264_units(payload: &[u8], mut take: impl FnMut(&[u8])) -> bool {
    match payload.first().map(|first| first & 0x1f) {
        Some(1..=23) => {
            take(payload);
            true
        }
        Some(24) => aggregated(&payload[1..], take),
        _ => false,
    }
}

/// Units behind lengths of 16 bits. False if the last is cut.
pub(super) fn aggregated(mut rest: &[u8], mut take: impl FnMut(&[u8])) -> bool {
    while let Some((len, tail)) = rest.split_first_chunk() {
        let len = usize::from(u16::from_be_bytes(*len));
        let Some((unit, tail)) = tail.split_at_checked(len) else {
            return false;
        };
        take(unit);
        rest = tail;
    }
    rest.is_empty()
}

/// Whether a frame starts here, and its bytes (RFC 7741 section 4.2).
pub(super) fn vp8_payload(payload: &[u8]) -> Option<(bool, &[u8])> {
    let (first, mut rest) = payload.split_first()?;
    let starts = first & 0x1f == 0x10;
    if first & 0x80 != 0 {
        let (more, tail) = rest.split_first()?;
        rest = tail;
        if more & 0x80 != 0 {
            let long = rest.first()? & 0x80 != 0;
            rest = rest.get(if long { 2 } else { 1 }..)?;
        }
        let others = usize::from(more & 0x40 != 0) + usize::from(more & 0x30 != 0);
        rest = rest.get(others..)?;
    }
    Some((starts, rest))
}
