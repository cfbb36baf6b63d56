//! Matroska (RFC 9559) and its subset WebM, on EBML (RFC 8794).
//!
//! The head is written again at the end, when duration and index are known; a file that was cut
//! short still plays, as every cluster stands for itself.

use std::io::{self, Seek, SeekFrom, Write};

use mp4_atom::Atom;

use super::codec::Codec;
use super::frames::Frame;
use super::{ExportError, Format};

/// Element ids (RFC 9559 section 5.1, RFC 8794 section 11.2).
mod id {
    pub(super) const EBML: u32 = 0x1a45_dfa3;
    pub(super) const EBML_READ_VERSION: u32 = 0x42f7;
    pub(super) const DOC_TYPE: u32 = 0x4282;
    pub(super) const DOC_TYPE_VERSION: u32 = 0x4287;
    pub(super) const DOC_TYPE_READ_VERSION: u32 = 0x4285;
    pub(super) const VOID: u32 = 0xec;
    pub(super) const SEGMENT: u32 = 0x1853_8067;
    pub(super) const SEEK_HEAD: u32 = 0x114d_9b74;
    pub(super) const SEEK: u32 = 0x4dbb;
    pub(super) const SEEK_ID: u32 = 0x53ab;
    pub(super) const SEEK_POSITION: u32 = 0x53ac;
    pub(super) const INFO: u32 = 0x1549_a966;
    pub(super) const TIMESTAMP_SCALE: u32 = 0x002a_d7b1;
    pub(super) const DURATION: u32 = 0x4489;
    pub(super) const MUXING_APP: u32 = 0x4d80;
    pub(super) const WRITING_APP: u32 = 0x5741;
    pub(super) const TRACKS: u32 = 0x1654_ae6b;
    pub(super) const TRACK_ENTRY: u32 = 0xae;
    pub(super) const TRACK_NUMBER: u32 = 0xd7;
    pub(super) const TRACK_UID: u32 = 0x73c5;
    pub(super) const TRACK_TYPE: u32 = 0x83;
    pub(super) const FLAG_LACING: u32 = 0x9c;
    pub(super) const CODEC_ID: u32 = 0x86;
    pub(super) const CODEC_PRIVATE: u32 = 0x63a2;
    pub(super) const SEEK_PRE_ROLL: u32 = 0x56bb;
    pub(super) const VIDEO: u32 = 0xe0;
    pub(super) const PIXEL_WIDTH: u32 = 0xb0;
    pub(super) const PIXEL_HEIGHT: u32 = 0xba;
    pub(super) const AUDIO: u32 = 0xe1;
    pub(super) const SAMPLING_FREQUENCY: u32 = 0xb5;
    pub(super) const CHANNELS: u32 = 0x9f;
    pub(super) const CLUSTER: u32 = 0x1f43_b675;
    pub(super) const TIMESTAMP: u32 = 0xe7;
    pub(super) const SIMPLE_BLOCK: u32 = 0xa3;
    pub(super) const CUES: u32 = 0x1c53_bb6b;
    pub(super) const CUE_POINT: u32 = 0xbb;
    pub(super) const CUE_TIME: u32 = 0xb3;
    pub(super) const CUE_TRACK_POSITIONS: u32 = 0xb7;
    pub(super) const CUE_TRACK: u32 = 0xf7;
    pub(super) const CUE_CLUSTER_POSITION: u32 = 0xf1;
}

/// A tick: one millisecond, in nanoseconds.
const TICK: i64 = 1_000_000;
/// A cluster ends with the first key frame after so many ticks, or after twice as many.
const CLUSTER: i64 = 2_500;
/// Bytes of a cluster.
const CLUSTER_LEN_MAX: usize = 8 << 20;
/// Bytes kept at the head for the place of the index and the duration.
const HEAD_LEN: usize = 160;
/// What Opus needs to settle after a seek (RFC 7845 section 4.6): 80 ms.
const OPUS_PRE_ROLL: u64 = 80_000_000;

/// A file that is written.
#[derive(Debug)]
pub(super) struct Matroska<W> {
    out: W,
    /// Bytes written.
    len: u64,
    /// Where the segment's content begins.
    segment: u64,
    video: Vec<bool>,
    cluster: Option<Cluster>,
    /// Ticks, track and place of clusters that begin with a key frame.
    cues: Vec<(u64, u64, u64)>,
    end: i64,
}

#[derive(Debug)]
struct Cluster {
    time: i64,
    blocks: Vec<u8>,
    /// Number of the track whose key frame begins it.
    cue: Option<u64>,
}

impl<W: Write + Seek> Matroska<W> {
    pub(super) fn new(mut out: W, format: Format, codecs: &[Codec]) -> Result<Self, ExportError> {
        let described: Result<Vec<_>, _> = codecs.iter().map(description).collect();
        let doc_type = if format == Format::WebM {
            "webm"
        } else {
            "matroska"
        };
        let described = described?;
        let mut head = Vec::new();
        element(&mut head, id::EBML, |out| {
            unsigned(out, id::EBML_READ_VERSION, 1);
            element(out, id::DOC_TYPE, |out| out.extend(doc_type.bytes()));
            unsigned(out, id::DOC_TYPE_VERSION, 4);
            unsigned(out, id::DOC_TYPE_READ_VERSION, 2);
        });
        head.extend(id_bytes(id::SEGMENT));
        // Unknown length (RFC 8794 section 6.2) until the end is known.
        head.extend([0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        let segment = head.len() as u64;
        head.extend(first_elements(0.0, None));
        element(&mut head, id::TRACKS, |out| {
            for (number, (codec, description)) in (1..).zip(codecs.iter().zip(&described)) {
                element(out, id::TRACK_ENTRY, |out| {
                    track(out, number, (codec, description));
                });
            }
        });
        out.write_all(&head)?;
        Ok(Self {
            out,
            len: head.len() as u64,
            segment,
            video: codecs.iter().map(Codec::is_video).collect(),
            cluster: None,
            cues: Vec::new(),
            end: 0,
        })
    }

    pub(super) fn frame(&mut self, lane: usize, frame: &Frame) -> io::Result<()> {
        let ticks = (frame.time + TICK / 2) / TICK;
        self.end = self.end.max(ticks);
        let is_cue = frame.key && self.video[lane];
        let is_over = self.cluster.as_ref().is_some_and(|cluster| {
            let age = ticks - cluster.time;
            let full = cluster.blocks.len() > CLUSTER_LEN_MAX;
            // A block's time is 16 bits beside that of its cluster.
            age > 2 * CLUSTER || age > CLUSTER && is_cue || age < -CLUSTER || full
        });
        if is_over {
            self.end_cluster()?;
        }
        let number = lane as u64 + 1;
        let cluster = self.cluster.get_or_insert_with(|| Cluster {
            time: ticks,
            blocks: Vec::new(),
            cue: is_cue.then_some(number),
        });
        let relative = (ticks - cluster.time) as i16;
        cluster.blocks.extend(id_bytes(id::SIMPLE_BLOCK));
        cluster.blocks.extend(size(frame.data.len() as u64 + 4));
        // Fewer than 127 tracks fit one byte; more are refused before.
        cluster.blocks.push(0x80 | number as u8);
        cluster.blocks.extend(relative.to_be_bytes());
        cluster.blocks.push(if frame.key { 0x80 } else { 0 });
        cluster.blocks.extend(&frame.data);
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.end_cluster()?;
        let index = self.len - self.segment;
        let mut cues = Vec::new();
        element(&mut cues, id::CUES, |out| {
            for (time, track, place) in &self.cues {
                element(out, id::CUE_POINT, |out| {
                    unsigned(out, id::CUE_TIME, *time);
                    element(out, id::CUE_TRACK_POSITIONS, |out| {
                        unsigned(out, id::CUE_TRACK, *track);
                        unsigned(out, id::CUE_CLUSTER_POSITION, *place);
                    });
                });
            }
        });
        let has_cues = !self.cues.is_empty();
        if has_cues {
            self.write(&cues)?;
        }
        let len = self.len - self.segment;
        self.out.seek(SeekFrom::Start(self.segment - 8))?;
        self.out.write_all(&long_size(len))?;
        let head = first_elements(self.end as f64, has_cues.then_some(index));
        self.out.write_all(&head)?;
        self.out.flush()
    }

    fn end_cluster(&mut self) -> io::Result<()> {
        let Some(cluster) = self.cluster.take() else {
            return Ok(());
        };
        let time = cluster.time.max(0) as u64;
        if let Some(track) = cluster.cue {
            self.cues.push((time, track, self.len - self.segment));
        }
        let mut out = Vec::with_capacity(cluster.blocks.len() + 32);
        element(&mut out, id::CLUSTER, |out| {
            unsigned(out, id::TIMESTAMP, time);
            out.extend(&cluster.blocks);
        });
        self.write(&out)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.len += bytes.len() as u64;
        self.out.write_all(bytes)
    }
}

/// The segment's first elements, always [`HEAD_LEN`] bytes: where the index is, and how long the
/// film.
fn first_elements(duration: f64, cues: Option<u64>) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD_LEN);
    if let Some(place) = cues {
        element(&mut out, id::SEEK_HEAD, |out| {
            element(out, id::SEEK, |out| {
                element(out, id::SEEK_ID, |out| out.extend(id_bytes(id::CUES)));
                unsigned(out, id::SEEK_POSITION, place);
            });
        });
    }
    element(&mut out, id::INFO, |out| {
        unsigned(out, id::TIMESTAMP_SCALE, TICK as u64);
        element(out, id::DURATION, |out| out.extend(duration.to_be_bytes()));
        for id in [id::MUXING_APP, id::WRITING_APP] {
            element(out, id, |out| out.extend("sangam".bytes()));
        }
    });
    // RFC 8794 section 11.3.1: void, whose own id and length take two bytes.
    out.extend(id_bytes(id::VOID));
    out.push(0x80 | (HEAD_LEN - out.len() - 1) as u8);
    out.resize(HEAD_LEN, 0);
    out
}

/// Codec id and private data.
type Description = (&'static str, Vec<u8>);

fn track(out: &mut Vec<u8>, number: u64, (codec, (name, private)): (&Codec, &Description)) {
    unsigned(out, id::TRACK_NUMBER, number);
    unsigned(out, id::TRACK_UID, number);
    unsigned(out, id::TRACK_TYPE, if codec.is_video() { 1 } else { 2 });
    unsigned(out, id::FLAG_LACING, 0);
    element(out, id::CODEC_ID, |out| out.extend(name.bytes()));
    if !private.is_empty() {
        element(out, id::CODEC_PRIVATE, |out| out.extend(private));
    }
    if let Some((width, height)) = codec.size() {
        element(out, id::VIDEO, |out| {
            unsigned(out, id::PIXEL_WIDTH, width.into());
            unsigned(out, id::PIXEL_HEIGHT, height.into());
        });
    }
    if let Codec::Opus { .. } = codec {
        unsigned(out, id::SEEK_PRE_ROLL, OPUS_PRE_ROLL);
    }
    if let Codec::Opus { channels } | Codec::Aac { channels, .. } | Codec::G711 { channels, .. } =
        codec
    {
        audio(out, codec.rate(), *channels);
    }
}

/// RFC 9559's codec registry, draft-ietf-cellar-codec.
fn description(codec: &Codec) -> Result<Description, mp4_atom::Error> {
    let mut private = Vec::new();
    let name = match codec {
        Codec::H264(sets) => {
            private = avc_config(&sets.sequence, &sets.picture);
            "V_MPEG4/ISO/AVC"
        }
        Codec::H265(sets) => {
            sets.config().encode_body(&mut private)?;
            "V_MPEGH/ISO/HEVC"
        }
        Codec::Vp8(_) => "V_VP8",
        Codec::Vp9(_) => "V_VP9",
        Codec::Av1(found) => {
            found.config.encode_body(&mut private)?;
            "V_AV1"
        }
        Codec::Opus { channels } => {
            private = opus_head(*channels);
            "A_OPUS"
        }
        Codec::Aac { config, .. } => {
            private = config.clone();
            "A_AAC"
        }
        Codec::G711 { tag, channels } => {
            private = wave_format(*tag, *channels);
            "A_MS/ACM"
        }
    };
    Ok((name, private))
}

/// ISO/IEC 14496-15 section 5.3.3.1, with lengths of four bytes.
fn avc_config(sequence: &[u8], picture: &[u8]) -> Vec<u8> {
    let mut out = vec![1];
    out.extend(&sequence[1..4]);
    out.extend([0xff, 0xe1]);
    out.extend((sequence.len() as u16).to_be_bytes());
    out.extend(sequence);
    out.push(1);
    out.extend((picture.len() as u16).to_be_bytes());
    out.extend(picture);
    out
}

/// RFC 7845 section 5.1. A stream that is joined has no samples to skip.
fn opus_head(channels: u8) -> Vec<u8> {
    let mut out = b"OpusHead\x01".to_vec();
    out.extend([channels, 0, 0]);
    out.extend(48_000_u32.to_le_bytes());
    out.extend([0, 0, 0]);
    out
}

/// RFC 2361 section 2, WAVEFORMATEX: eight bits a sample.
fn wave_format(tag: u16, channels: u8) -> Vec<u8> {
    let (rate, channels) = (8_000_u32, u16::from(channels));
    let mut out = tag.to_le_bytes().to_vec();
    out.extend(channels.to_le_bytes());
    out.extend(rate.to_le_bytes());
    out.extend((rate * u32::from(channels)).to_le_bytes());
    for word in [channels, 8, 0] {
        out.extend(word.to_le_bytes());
    }
    out
}

fn audio(out: &mut Vec<u8>, rate: u32, channels: u8) {
    element(out, id::AUDIO, |out| {
        element(out, id::SAMPLING_FREQUENCY, |out| {
            out.extend(f64::from(rate).to_be_bytes());
        });
        unsigned(out, id::CHANNELS, channels.into());
    });
}

fn element(out: &mut Vec<u8>, id: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    body(&mut inner);
    out.extend(id_bytes(id));
    out.extend(size(inner.len() as u64));
    out.extend(inner);
}

fn unsigned(out: &mut Vec<u8>, id: u32, value: u64) {
    let zeros = (value.leading_zeros() / 8).min(7) as usize;
    element(out, id, |out| out.extend(&value.to_be_bytes()[zeros..]));
}

/// RFC 8794 section 5: an id says its own length.
fn id_bytes(id: u32) -> impl Iterator<Item = u8> {
    let zeros = (id.leading_zeros() / 8) as usize;
    id.to_be_bytes().into_iter().skip(zeros)
}

/// RFC 8794 section 4: one byte for what is below 127, eight for the rest.
fn size(len: u64) -> Vec<u8> {
    if len < 0x7f {
        vec![0x80 | len as u8]
    } else {
        long_size(len).to_vec()
    }
}

fn long_size(len: u64) -> [u8; 8] {
    (len | 1 << 56).to_be_bytes()
}
