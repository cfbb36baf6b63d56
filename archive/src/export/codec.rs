//! What decoders must be told before the first frame.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use h264_reader::nal::sps::SeqParameterSet;
use h264_reader::rbsp::{BitReader, ByteReader};
use sangam_model::{Class, MediaInfo};
use sangam_wire::rtp;

use super::av1::{self, Av1};
use super::frames::{h264_units, vp8_payload};
use super::h265::{self, H265};
use super::vp9::{self, Vp9};
use crate::record::{Kind, Record};

/// Width and height of a picture, in samples; 0 is not known.
pub(super) type Size = (u16, u16);

/// A codec that can be exported, with what its decoder needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    H264(H264),
    H265(H265),
    Vp8(Size),
    Vp9(Vp9),
    Av1(Av1),
    Opus {
        channels: u8,
    },
    Aac {
        config: Vec<u8>,
        rate: u32,
        channels: u8,
    },
    /// G.711 by its format tag (RFC 2361 appendix A).
    G711 {
        tag: u16,
        channels: u8,
    },
}

/// Parameter sets and what they say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct H264 {
    pub(super) sequence: Vec<u8>,
    pub(super) picture: Vec<u8>,
    pub(super) size: Size,
}

/// Looks for what a track's codec needs.
#[derive(Debug)]
pub(super) struct Probe {
    found: Result<Codec, String>,
    /// Video tells within its packets.
    looks: bool,
}

impl Codec {
    /// Of the picture, if it is video.
    pub(super) const fn size(&self) -> Option<Size> {
        match self {
            Self::H264(sets) => Some(sets.size),
            Self::H265(sets) => Some(sets.size),
            Self::Vp8(size) => Some(*size),
            Self::Vp9(found) => Some(found.size),
            Self::Av1(found) => Some(found.size),
            Self::Opus { .. } | Self::Aac { .. } | Self::G711 { .. } => None,
        }
    }

    pub(super) const fn is_video(&self) -> bool {
        self.size().is_some()
    }

    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::H264(_) => "H.264",
            Self::H265(_) => "H.265",
            Self::Vp8(_) => "VP8",
            Self::Vp9(_) => "VP9",
            Self::Av1(_) => "AV1",
            Self::Opus { .. } => "Opus",
            Self::Aac { .. } => "AAC",
            Self::G711 { .. } => "G.711",
        }
    }

    /// Samples a second of sound; of video the clock of RTP.
    pub(super) const fn rate(&self) -> u32 {
        match self {
            Self::H264(_) | Self::H265(_) | Self::Vp8(_) | Self::Vp9(_) | Self::Av1(_) => 90_000,
            Self::Opus { .. } => 48_000,
            Self::Aac { rate, .. } => *rate,
            Self::G711 { .. } => 8_000,
        }
    }
}

impl Probe {
    pub(super) fn new(media: &MediaInfo) -> Self {
        let channels = media.channels.max(1);
        let name = media.encoding.to_ascii_uppercase();
        let found = match (media.class, name.as_str()) {
            (Class::Video, "H264") => Ok(Codec::H264(from_fmtp(&media.fmtp))),
            (Class::Video, "H265") => Ok(Codec::H265(H265::from_fmtp(&media.fmtp))),
            (Class::Video, "VP8") => Ok(Codec::Vp8((0, 0))),
            (Class::Video, "VP9") => Ok(Codec::Vp9(Vp9::default())),
            (Class::Video, "AV1") => Ok(Codec::Av1(Av1::default())),
            (Class::Audio, "OPUS") => Ok(Codec::Opus { channels }),
            (Class::Audio, "MPEG4-GENERIC") => aac(media),
            (Class::Audio, "PCMU") => Ok(Codec::G711 { tag: 7, channels }),
            (Class::Audio, "PCMA") => Ok(Codec::G711 { tag: 6, channels }),
            (Class::Data, _) => Err("data has no place in a media file".to_owned()),
            _ => Err(format!("{} cannot be exported", media.encoding)),
        };
        Self {
            looks: found.as_ref().is_ok_and(|codec| !is_complete(codec)),
            found,
        }
    }

    /// Takes a record of the first pass.
    pub(super) fn learn(&mut self, record: &Record<'_>) {
        if !self.looks || record.kind != Kind::Packet {
            return;
        }
        let (Ok(codec), Ok(packet)) = (&mut self.found, rtp::Packet::decode(record.body)) else {
            return;
        };
        match codec {
            Codec::H264(sets) => {
                h264_units(packet.payload, |unit| sets.learn(unit));
            }
            Codec::H265(sets) => {
                h265::units(packet.payload, |unit| sets.learn(unit));
            }
            Codec::Vp8(size) => *size = vp8_size(packet.payload).unwrap_or(*size),
            Codec::Vp9(found) => {
                let starts = vp9::payload(packet.payload).filter(|payload| payload.starts);
                if let Some(key) = starts.and_then(|payload| vp9::key_frame(payload.frame)) {
                    *found = key;
                }
            }
            Codec::Av1(found) => {
                let payload = av1::payload(packet.payload);
                let mut units = payload.iter().flat_map(|payload| &payload.units);
                if let Some(header) = units.find_map(|unit| av1::sequence_header(unit)) {
                    *found = header;
                }
            }
            Codec::Opus { .. } | Codec::Aac { .. } | Codec::G711 { .. } => {}
        }
        self.looks = !is_complete(codec);
    }

    /// What was found, or why the track cannot be exported.
    pub(super) fn finish(self) -> Result<Codec, String> {
        let codec = self.found?;
        if is_complete(&codec) {
            Ok(codec)
        } else {
            Err(format!("no key frame of {} was recorded", codec.name()))
        }
    }
}

fn is_complete(codec: &Codec) -> bool {
    match codec {
        Codec::H264(sets) => sets.size.0 > 0 && !sets.picture.is_empty(),
        Codec::H265(sets) => sets.is_complete(),
        _ => codec.size().is_none_or(|size| size.0 > 0 && size.1 > 0),
    }
}

impl H264 {
    /// Takes a unit if it is a parameter set (RFC 6184 section 1.3: types 7 and 8).
    fn learn(&mut self, unit: &[u8]) {
        match unit.first().map(|first| first & 0x1f) {
            Some(7) if self.size.0 == 0 => {
                if let Some(size) = h264_size(unit) {
                    self.size = size;
                    self.sequence = unit.to_vec();
                }
            }
            Some(8) if self.picture.is_empty() => self.picture = unit.to_vec(),
            _ => {}
        }
    }
}

fn h264_size(unit: &[u8]) -> Option<Size> {
    let bits = BitReader::new(ByteReader::skipping_h264_header(unit));
    let (width, height) = SeqParameterSet::from_bits(bits)
        .ok()?
        .pixel_dimensions()
        .ok()?;
    let size = (u16::try_from(width).ok()?, u16::try_from(height).ok()?);
    (unit.len() >= 4 && size.0 > 0 && size.1 > 0).then_some(size)
}

/// RFC 6184 section 8.1: `sprop-parameter-sets`.
fn from_fmtp(fmtp: &str) -> H264 {
    let mut sets = H264::default();
    decoded(fmtp, "sprop-parameter-sets", |unit| sets.learn(unit));
    sets
}

/// The units of a parameter: Base64 with commas between.
pub(super) fn decoded(fmtp: &str, name: &str, mut take: impl FnMut(&[u8])) {
    for unit in parameter(fmtp, name).unwrap_or_default().split(',') {
        // Some senders leave the padding out.
        if let Ok(unit) = STANDARD_NO_PAD.decode(unit.trim_end_matches('=')) {
            take(&unit);
        }
    }
}

/// RFC 3640 section 4.1: only what `AAC-hbr` has, sizes of 13 bits and indices of 3.
fn aac(media: &MediaInfo) -> Result<Codec, String> {
    let is = |name, wanted| parameter(&media.fmtp, name).is_some_and(|value| value == wanted);
    let config = parameter(&media.fmtp, "config").and_then(hex);
    match config.filter(|_| is("sizelength", "13") && is("indexlength", "3")) {
        Some(config) if config.len() >= 2 => Ok(Codec::Aac {
            config,
            rate: media.clock_rate,
            channels: media.channels.max(1),
        }),
        _ => Err("AAC is exported as AAC-hbr with its config only".to_owned()),
    }
}

fn parameter<'a>(fmtp: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = fmtp
        .split(';')
        .filter_map(|pair| pair.trim().split_once('='));
    let found = pairs.find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value)
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<_>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let pairs = digits?;
    let pairs = pairs.chunks_exact(2);
    Some(pairs.map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
}

/// RFC 6386 section 9.1: start code and size stand in a key frame's first ten bytes.
fn vp8_size(payload: &[u8]) -> Option<Size> {
    let (starts, frame) = vp8_payload(payload)?;
    match *frame {
        [first, _, _, 0x9d, 0x01, 0x2a, w0, w1, h0, h1, ..] if starts && first & 1 == 0 => {
            let size = |low, high| u16::from_le_bytes([low, high]) & 0x3fff;
            Some((size(w0, w1), size(h0, h1)))
        }
        _ => None,
    }
}
