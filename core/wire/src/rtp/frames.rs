//! Where video frames start, and which can be decoded by themselves: one function per encoding.

use super::Packet;
use crate::Flags;

/// A video encoding whose RTP payload shows its key frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// RFC 6184.
    H264,
    /// RFC 7798.
    H265,
    /// RFC 7741.
    Vp8,
    /// RFC 9628.
    Vp9,
    /// AOMedia, "RTP Payload Format For AV1".
    Av1,
    /// RFC 2190.
    H263,
    /// RFC 4629: H263-1998 and H263-2000.
    H263Plus,
    /// RFC 2435: every frame decodes by itself.
    Jpeg,
    /// Frames have bounds but no visible kind.
    Other,
}

/// SDP encoding names, which do not distinguish case (RFC 8866 section 6.6).
const NAMES: [(&str, Encoding); 9] = [
    ("H264", Encoding::H264),
    ("H265", Encoding::H265),
    ("VP8", Encoding::Vp8),
    ("VP9", Encoding::Vp9),
    ("AV1", Encoding::Av1),
    ("H263", Encoding::H263),
    ("H263-1998", Encoding::H263Plus),
    ("H263-2000", Encoding::H263Plus),
    ("JPEG", Encoding::Jpeg),
];

impl Encoding {
    /// Every encoding.
    pub const ALL: [Self; 9] = [
        Self::H264,
        Self::H265,
        Self::Vp8,
        Self::Vp9,
        Self::Av1,
        Self::H263,
        Self::H263Plus,
        Self::Jpeg,
        Self::Other,
    ];

    /// The encoding with this SDP name.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        let known = NAMES
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        known.map_or(Self::Other, |&(_, encoding)| encoding)
    }

    /// What one payload shows of its frame: [`Flags::KEY`] and [`Flags::DISCARDABLE`], where the
    /// encoding says so in this very packet.
    #[must_use]
    pub fn inspect(self, payload: &[u8]) -> Flags {
        match self {
            Self::H264 => h264(payload),
            Self::H265 => key_if(h265_key(payload)),
            Self::Vp8 => vp8(payload),
            Self::Vp9 => key_if(vp9_key(payload)),
            Self::Av1 => key_if(av1_key(payload)),
            Self::H263 => key_if(h263_key(payload)),
            Self::H263Plus => key_if(h263_plus_key(payload)),
            Self::Jpeg => Flags::KEY,
            Self::Other => Flags::NONE,
        }
    }
}

/// Turns the packets of one video stream into the flags of its events.
///
/// A frame is what has one timestamp (RFC 3550 section 5.1). Once a packet shows the frame to be
/// a key frame, the packets of the frame that follow are marked as well.
#[derive(Clone, Debug)]
pub struct FrameMarker {
    encoding: Encoding,
    last: Option<Last>,
}

/// The newest packet by sequence.
#[derive(Clone, Copy, Debug)]
struct Last {
    sequence: u16,
    timestamp: u32,
    key: bool,
}

impl FrameMarker {
    /// For a stream of this encoding.
    #[must_use]
    pub const fn new(encoding: Encoding) -> Self {
        Self {
            encoding,
            last: None,
        }
    }

    /// The flags of the next packet. A packet that comes late starts no frame, but is marked
    /// like the rest of the newest frame if it belongs to it.
    pub fn flags(&mut self, packet: &Packet<'_>) -> Flags {
        let header = &packet.header;
        let shown = self.encoding.inspect(packet.payload);
        let end = if header.marker {
            Flags::FRAME_END
        } else {
            Flags::NONE
        };
        let same = self.last.filter(|last| last.timestamp == header.timestamp);
        let key = shown.contains(Flags::KEY) || same.is_some_and(|last| last.key);
        let late = self.last.is_some_and(|last| {
            // RFC 1982 section 3.2, for 16 bits.
            header.sequence.wrapping_sub(last.sequence) >= 0x8000
        });
        if !late {
            let (sequence, timestamp) = (header.sequence, header.timestamp);
            self.last = Some(Last {
                sequence,
                timestamp,
                key,
            });
        }
        let start = if same.is_none() && !late {
            Flags::FRAME_START
        } else {
            Flags::NONE
        };
        shown.with(key_if(key)).with(start).with(end)
    }
}

const fn key_if(key: bool) -> Flags {
    if key { Flags::KEY } else { Flags::NONE }
}

/// RFC 6184 sections 5.3 (NAL unit header), 5.7.1 (STAP-A) and 5.8 (FU-A, FU-B). A parameter set
/// (7) stands before an IDR slice (5) in the same access unit.
fn h264(payload: &[u8]) -> Flags {
    const KIND: u8 = 0x1f;
    let is_key = |unit: u8| matches!(unit & KIND, 5 | 7);
    let &[first, ref rest @ ..] = payload else {
        return Flags::NONE;
    };
    let unit = match first & KIND {
        24 => return key_if(aggregated(rest, is_key)),
        // Type of the split unit behind the reference bits of the indicator.
        28 | 29 => (first & !KIND) | (rest.first().unwrap_or(&0) & KIND),
        _ => first,
    };
    // Section 5.3: NRI 00 tells that no other picture refers to this slice.
    let discardable = unit & 0x60 == 0 && (1..=4).contains(&(unit & KIND));
    let flags = key_if(is_key(unit));
    if discardable {
        flags.with(Flags::DISCARDABLE)
    } else {
        flags
    }
}

/// RFC 7798 sections 1.1.4 (NAL unit header), 4.4.2 (aggregation) and 4.4.3 (fragmentation).
/// Random access pictures are types 16 to 21, parameter sets before them 32 and 33.
fn h265_key(payload: &[u8]) -> bool {
    let is_key = |kind: u8| matches!(kind, 16..=21 | 32 | 33);
    match *payload {
        [first, _, ref rest @ ..] => match (first >> 1) & 0x3f {
            48 => aggregated(rest, |unit| is_key((unit >> 1) & 0x3f)),
            49 => rest.first().is_some_and(|unit| is_key(unit & 0x3f)),
            kind => is_key(kind),
        },
        _ => false,
    }
}

/// Whether the first byte of any aggregated unit, each behind a 16-bit length, is a key one.
fn aggregated(mut units: &[u8], is_key: impl Fn(u8) -> bool) -> bool {
    while let [l0, l1, rest @ ..] = units {
        let len = usize::from(u16::from_be_bytes([*l0, *l1]));
        match rest.split_at_checked(len) {
            Some(([first, ..], _)) if is_key(*first) => return true,
            Some((_, tail)) => units = tail,
            None => return false,
        }
    }
    false
}

/// RFC 7741 sections 4.2 (descriptor) and 4.3 (payload header).
fn vp8(payload: &[u8]) -> Flags {
    const EXTENDED: u8 = 0x80;
    const NON_REFERENCE: u8 = 0x20;
    const START_OF_FIRST_PARTITION: u8 = 0x10;
    let &[first, ref rest @ ..] = payload else {
        return Flags::NONE;
    };
    let mut at = 0;
    if first & EXTENDED != 0 {
        let Some(&control) = rest.first() else {
            return Flags::NONE;
        };
        at = 1;
        if control & 0x80 != 0 {
            let long = rest.get(at).is_some_and(|id| id & 0x80 != 0);
            at += if long { 2 } else { 1 };
        }
        at += usize::from(control & 0x40 != 0) + usize::from(control & 0x30 != 0);
    }
    let starts = first & (START_OF_FIRST_PARTITION | 0x07) == START_OF_FIRST_PARTITION;
    // Section 4.3: the inverse key frame bit.
    let key = starts && rest.get(at).is_some_and(|header| header & 0x01 == 0);
    if first & NON_REFERENCE != 0 && !key {
        Flags::DISCARDABLE
    } else {
        key_if(key)
    }
}

/// RFC 9628 section 4.2: no inter-picture prediction in the lowest spatial layer.
fn vp9_key(payload: &[u8]) -> bool {
    const PICTURE_ID: u8 = 0x80;
    const INTER: u8 = 0x40;
    const LAYERS: u8 = 0x20;
    const START: u8 = 0x08;
    /// I, L, F and V: more fields follow the first byte.
    const MORE: u8 = 0xb2;
    let &[first, ref rest @ ..] = payload else {
        return false;
    };
    if first & INTER != 0 {
        return false;
    }
    if first & MORE == 0 {
        // FFmpeg 5.1 writes this one-byte descriptor and never sets P, so the frame's own header
        // has to tell.
        return first & START != 0 && rest.first().is_some_and(|header| vp9_intra(*header));
    }
    let id_len = match rest.first() {
        Some(id) if first & PICTURE_ID != 0 => 1 + usize::from(id >> 7),
        _ => 0,
    };
    // TID (3 bits), U, SID (3 bits), D.
    let lowest = rest.get(id_len).is_some_and(|layer| layer & 0x0e == 0);
    first & LAYERS == 0 || lowest
}

/// VP9 bitstream specification section 6.2: frame_marker, profile (a reserved bit behind profile
/// 3), show_existing_frame, frame_type.
const fn vp9_intra(header: u8) -> bool {
    let bits = if header & 0x30 == 0x30 {
        header << 1
    } else {
        header
    };
    header & 0xc0 == 0x80 && bits & 0x0c == 0
}

/// AV1 RTP payload, section 4.4: N marks the first packet of a coded video sequence, Z one that
/// continues an OBU.
fn av1_key(payload: &[u8]) -> bool {
    payload.first().is_some_and(|header| header & 0x88 == 0x08)
}

/// RFC 2190 sections 5.1 (mode A) and 5.2 (modes B and C): the I bit is 0 for an intra frame.
fn h263_key(payload: &[u8]) -> bool {
    match *payload {
        [first, second, _, _, ..] if first & 0x80 == 0 => second & 0x10 == 0,
        [_, _, _, _, fifth, ..] => fifth & 0x80 == 0,
        _ => false,
    }
}

/// RFC 4629 section 5.1 (header) and ITU-T H.263 sections 5.1.3 and 5.1.4 (PTYPE, PLUSPTYPE). Only
/// the packet with the picture start code tells.
fn h263_plus_key(payload: &[u8]) -> bool {
    let &[first, second, ref rest @ ..] = payload else {
        return false;
    };
    let redundancy = usize::from(first & 0x02 != 0);
    let picture_header = usize::from((first & 0x01) << 5 | second >> 3);
    let Some(bits) = rest.get(redundancy + picture_header..) else {
        return false;
    };
    // P stands for the first two bytes of the start code; 1000 00 ends it.
    if first & 0x04 == 0 || bits.first().is_none_or(|byte| byte & 0xfc != 0x80) {
        return false;
    }
    let byte = |at: usize| bits.get(at).copied().unwrap_or(0xff);
    let extended = byte(2) & 0x1c == 0x1c;
    // UFEP, three bits: 001 means that 18 bits of OPPTYPE stand before MPPTYPE.
    let whole = (byte(2) & 0x03) << 1 | byte(3) >> 7;
    match (extended, whole) {
        (false, _) => byte(2) & 0x02 == 0,
        (true, 0) => byte(3) & 0x70 == 0,
        (true, 1) => byte(5) & 0x1c == 0,
        (true, _) => false,
    }
}
