//! Records of a log and their bytes; `docs/spec/archive.md` specifies them.

use sangam_model::limits::{ENCODING_LEN_MAX, FMTP_LEN_MAX, TOPIC_LEN_MAX};
use sangam_model::{Class, MediaInfo, Topic};

/// Bytes in front of a record's body.
pub const HEAD_LEN: usize = 24;
/// Bytes of a body: a footer with the longest index is below.
pub const BODY_LEN_MAX: usize = 1 << 24;
/// Bytes of a recording's name.
pub const NAME_LEN_MAX: usize = 255;
/// First body of every segment, with the version of the format at its end.
pub const MAGIC: [u8; 12] = *b"SANGAM LOG\x00\x01";
/// Number of the track of annotations, which others write than the recorder. Its own have low
/// numbers.
pub(crate) const ANNOTATIONS: u32 = 1 << 31;
/// Where the checksum stands; it covers what is behind it.
const CHECKED_FROM: usize = 8;

/// Of a track's declaration: its events came by a reliable topic.
const RELIABLE: u8 = 1;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// First of a segment.
    Segment = 0,
    /// A recording begins, or goes on in this segment.
    Recording = 1,
    /// What a track carries; before its packets in each segment.
    Track = 2,
    /// An RTP packet or data.
    Packet = 3,
    /// An RTCP compound about the track.
    Rtcp = 4,
    /// A part ends: what stands before was written by one commit.
    Commit = 5,
    /// A recording was ended in order.
    End = 6,
    /// The index of the segment.
    Footer = 7,
}

/// Names a recording, drawn at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordingId(pub u64);

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// What it is.
    pub kind: Kind,
    /// Of packets: the event's flags.
    pub flags: u8,
    /// Of packets: the event's layer.
    pub layer: u8,
    /// The track; 0 for what belongs to none.
    pub track: u32,
    /// When it came, in nanoseconds since 1970.
    pub time: u64,
    /// What it holds.
    pub body: &'a [u8],
}

/// Why bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// They end before the record does.
    Short,
    /// Checksum, kind or length are wrong.
    Wrong,
}

/// What a track carries, as its declaration says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackInfo {
    /// Of which recording.
    pub recording: RecordingId,
    /// Where it was published.
    pub topic: Topic,
    /// What it carries.
    pub media: MediaInfo,
    /// Whether these are events of a reliable topic, which come once and in order again.
    pub reliable: bool,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Segment,
        Self::Recording,
        Self::Track,
        Self::Packet,
        Self::Rtcp,
        Self::Commit,
        Self::End,
        Self::Footer,
    ];
}

impl<'a> Record<'a> {
    /// A record of no track.
    #[must_use]
    pub const fn new(kind: Kind, time: u64, body: &'a [u8]) -> Self {
        Self {
            kind,
            flags: 0,
            layer: 0,
            track: 0,
            time,
            body,
        }
    }

    /// Bytes it takes.
    #[must_use]
    pub const fn encoded_len(&self) -> usize {
        HEAD_LEN + self.body.len()
    }

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend((self.body.len() as u32).to_be_bytes());
        out.extend([0; 4]);
        out.extend([self.kind as u8, self.flags, self.layer, 0]);
        out.extend(self.track.to_be_bytes());
        out.extend(self.time.to_be_bytes());
        out.extend(self.body);
        let sum = crc32c::crc32c(&out[start + CHECKED_FROM..]);
        out[start + 4..start + CHECKED_FROM].copy_from_slice(&sum.to_be_bytes());
    }

    /// The first record of `bytes`.
    ///
    /// # Errors
    /// [`Damage`].
    pub fn read(bytes: &'a [u8]) -> Result<Self, Damage> {
        let (head, rest) = bytes.split_first_chunk::<HEAD_LEN>().ok_or(Damage::Short)?;
        let word = |at: usize| {
            let [a, b, c, d] = [head[at], head[at + 1], head[at + 2], head[at + 3]];
            u32::from_be_bytes([a, b, c, d])
        };
        let len = word(0) as usize;
        if len > BODY_LEN_MAX {
            return Err(Damage::Wrong);
        }
        let body = rest.get(..len).ok_or(Damage::Short)?;
        let sum = crc32c::crc32c(&bytes[CHECKED_FROM..HEAD_LEN + len]);
        let kind = Kind::ALL.get(usize::from(head[8]));
        let kind = kind.filter(|_| sum == word(4)).ok_or(Damage::Wrong)?;
        Ok(Self {
            kind: *kind,
            flags: head[9],
            layer: head[10],
            track: word(12),
            time: u64::from(word(16)) << 32 | u64::from(word(20)),
            body,
        })
    }
}

/// The body of a recording's record.
#[must_use]
pub fn recording_body(id: RecordingId, name: &str) -> Vec<u8> {
    let mut body = id.0.to_be_bytes().to_vec();
    body.extend(name.as_bytes());
    body
}

/// What a recording's record says: its id and name.
#[must_use]
pub fn read_recording(body: &[u8]) -> Option<(RecordingId, String)> {
    let (id, name) = body.split_first_chunk()?;
    let name = core::str::from_utf8(name).ok()?;
    (name.len() <= NAME_LEN_MAX).then(|| (RecordingId(u64::from_be_bytes(*id)), name.to_owned()))
}

impl TrackInfo {
    /// The body of a declaration.
    #[must_use]
    pub fn body(&self) -> Vec<u8> {
        let media = &self.media;
        let mut body = self.recording.0.to_be_bytes().to_vec();
        let bits = if self.reliable { RELIABLE } else { 0 };
        body.extend([media.class as u8, media.payload_type, media.channels, bits]);
        body.extend(media.clock_rate.to_be_bytes());
        for text in [self.topic.as_str(), &media.encoding, &media.fmtp] {
            // Their own limits lie below.
            body.extend((text.len() as u16).to_be_bytes());
            body.extend(text.as_bytes());
        }
        body
    }

    /// What a declaration says.
    #[must_use]
    pub fn read(body: &[u8]) -> Option<Self> {
        let (recording, rest) = body.split_first_chunk()?;
        let ([class, payload_type, channels, bits], rest) = rest.split_first_chunk()?;
        let (clock_rate, mut rest) = rest.split_first_chunk()?;
        let topic = text(&mut rest, TOPIC_LEN_MAX)?;
        let encoding = text(&mut rest, ENCODING_LEN_MAX)?.to_owned();
        let fmtp = text(&mut rest, FMTP_LEN_MAX)?.to_owned();
        let media = MediaInfo {
            class: Class::from_bits(*class)?,
            payload_type: *payload_type,
            channels: *channels,
            clock_rate: u32::from_be_bytes(*clock_rate),
            encoding,
            fmtp,
        };
        media.validate().ok()?;
        Some(Self {
            recording: RecordingId(u64::from_be_bytes(*recording)),
            topic: Topic::new(topic).ok()?,
            // Only data can be.
            reliable: bits & RELIABLE != 0 && media.class == Class::Data,
            media,
        })
    }
}

fn text<'a>(rest: &mut &'a [u8], max: usize) -> Option<&'a str> {
    let (len, tail) = rest.split_first_chunk()?;
    let len = usize::from(u16::from_be_bytes(*len));
    let (text, tail) = tail.split_at_checked(len).filter(|_| len <= max)?;
    *rest = tail;
    core::str::from_utf8(text).ok()
}

impl core::fmt::Display for RecordingId {
    /// 16 hexadecimal digits.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packet(body: &[u8]) -> Record<'_> {
        Record {
            kind: Kind::Packet,
            flags: 0x60,
            layer: 2,
            track: 7,
            time: 0x0102_0304_0506_0708,
            body,
        }
    }

    #[test]
    fn a_record_has_the_bytes_that_the_specification_shows() {
        let mut bytes = Vec::new();
        packet(b"abc").write(&mut bytes);
        let head = [0, 0, 0, 3, 0, 0, 0, 0, 3, 0x60, 2, 0, 0, 0, 0, 7];
        assert_eq!(bytes[..4], head[..4]);
        assert_eq!(bytes[8..16], head[8..]);
        assert_eq!(bytes[16..24], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(&bytes[24..], b"abc");
        assert_eq!(bytes[4..8], crc32c::crc32c(&bytes[8..]).to_be_bytes());
    }

    #[test]
    fn a_declaration_reads_back() {
        let info = TrackInfo {
            recording: RecordingId(9),
            topic: Topic::new("a/b").unwrap(),
            media: MediaInfo {
                class: Class::Video,
                payload_type: 96,
                channels: 0,
                clock_rate: 90_000,
                encoding: "H264".to_owned(),
                fmtp: "packetization-mode=1".to_owned(),
            },
            reliable: false,
        };
        assert_eq!(TrackInfo::read(&info.body()), Some(info.clone()));
        for end in 0..info.body().len() {
            assert_eq!(TrackInfo::read(&info.body()[..end]), None);
        }
        let reading = TrackInfo {
            media: MediaInfo::data(),
            reliable: true,
            ..info.clone()
        };
        assert_eq!(TrackInfo::read(&reading.body()), Some(reading));
        let picture = TrackInfo {
            reliable: true,
            ..info.clone()
        };
        assert_eq!(TrackInfo::read(&picture.body()), Some(info));
    }

    proptest! {
        #[test]
        fn no_flipped_bit_passes(body: Vec<u8>, place: prop::sample::Index, bit in 0..8_u32) {
            let mut bytes = Vec::new();
            packet(&body).write(&mut bytes);
            prop_assert_eq!(Record::read(&bytes), Ok(packet(&body)));
            bytes[place.index(body.len() + HEAD_LEN)] ^= 1 << bit;
            prop_assert!(Record::read(&bytes).is_err());
        }

        #[test]
        fn what_is_no_record_is_refused(bytes: Vec<u8>) {
            let _ = TrackInfo::read(&bytes);
            prop_assert!(Record::read(&bytes).is_err());
        }
    }
}
