//! Packets put together to frames, as files hold them.

use std::collections::{BTreeMap, VecDeque};

use sangam_wire::Flags;
use sangam_wire::rtp::{Encoding, Packet};

use super::codec::Codec;
use super::timeline::{SOURCES_MAX, unwrap};

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
    /// What the decoder is given; H.264's units behind lengths of four bytes.
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
            Codec::H264(_) | Codec::Vp8 { .. } => {
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
        let is_h264 = matches!(self.codec, Codec::H264(_));
        if open.frame.data.is_empty() && !open.broken && open.unit.is_none() {
            // What begins with the begin of a frame misses nothing.
            lost_begin &= !begins(is_h264, packet.payload);
        }
        open.broken |= lost_begin;
        let encoding = if is_h264 {
            Encoding::H264
        } else {
            Encoding::Vp8
        };
        open.frame.key |= encoding.inspect(packet.payload).contains(Flags::KEY);
        let taken = match &self.codec {
            Codec::H264(sets) => open.h264(packet.payload, &[&sets.sequence, &sets.picture]),
            _ => open.vp8(packet.payload),
        };
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
        let data = &mut self.frame.data;
        if let [indicator, header, piece @ ..] = payload
            && indicator & 0x1f == 28
        {
            let (starts, ends) = (header & 0x80 != 0, header & 0x40 != 0);
            if starts {
                self.unit = Some(data.len());
                data.extend([0; 4]);
                data.push(indicator & 0xe0 | header & 0x1f);
            }
            let unit = self.unit?;
            data.extend(piece);
            if ends {
                let len = (data.len() - unit - 4) as u32;
                data[unit..unit + 4].copy_from_slice(&len.to_be_bytes());
                self.unit = None;
            }
            return Some(());
        }
        let whole = h264_units(payload, |unit| {
            // Delimiters, and the sets that the file's head holds, have no place in a frame.
            let is_known = known.iter().any(|known| known.as_slice() == unit);
            if !is_known && unit.first().is_some_and(|first| first & 0x1f != 9) {
                data.extend((unit.len() as u32).to_be_bytes());
                data.extend(unit);
            }
        });
        whole.then_some(())
    }

    fn vp8(&mut self, payload: &[u8]) -> Option<()> {
        let (_, piece) = vp8_payload(payload)?;
        self.frame.data.extend(piece);
        Some(())
    }
}

/// Whether a frame may begin with this payload, where packets before it are missing.
fn begins(is_h264: bool, payload: &[u8]) -> bool {
    if !is_h264 {
        return vp8_payload(payload).is_some_and(|(starts, _)| starts);
    }
    match *payload {
        // A later slice of a picture may be whole as well: first_mb_in_slice is 0 in the first
        // (a single set bit in Exp-Golomb code).
        [indicator, header, slice, ..] if indicator & 0x1f == 28 => {
            header & 0x80 != 0 && slice & 0x80 != 0
        }
        [first, slice, ..] if (1..=5).contains(&(first & 0x1f)) => slice & 0x80 != 0,
        _ => true,
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
        Some(24) => {
            let mut rest = &payload[1..];
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
        _ => false,
    }
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
