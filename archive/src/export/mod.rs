//! Recordings as files that players open. The media stays as it was published.
//!
//! Two passes over the records: the first learns the clocks ([`Timeline`]) and what decoders must
//! be told ([`codec`]), the second puts packets in order ([`order`]), packets together to frames
//! ([`frames`]) and frames into the file.

mod av1;
mod codec;
mod frames;
mod h265;
mod matroska;
mod mp4;
mod order;
mod vp9;

use core::fmt;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

use sangam_wire::rtp;

use crate::archive::Recording;
use crate::medium::Medium;
use crate::record::{Kind, Record};
use crate::segment::Gaps;
use crate::timeline::Timeline;
use codec::{Codec, Probe};
use frames::{Assembler, Frame};
use order::Order;

/// Tracks of a file: their numbers fit one byte of Matroska.
pub const TRACKS_MAX: usize = 126;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Matroska: whatever can be exported.
    Matroska,
    /// WebM: VP8, VP9, AV1 and Opus.
    WebM,
    /// Fragmented MP4: H.264, H.265, VP9, AV1, AAC and Opus.
    Mp4,
}

/// What became of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Tracks in the file: their places in the recording, and frames of each.
    pub tracks: Vec<(usize, u64)>,
    /// Tracks left out, with the reason.
    pub left_out: Vec<(usize, String)>,
    /// Frames left out, as packets of them were missing or nothing before let them be decoded.
    pub broken: u64,
    /// What of the recording is damaged and was passed over.
    pub gaps: Gaps,
}

/// Why nothing was exported.
#[derive(Debug)]
#[non_exhaustive]
pub enum ExportError {
    /// The recording or the file.
    Disk(io::Error),
    /// No track fits the format; with what was wrong with each.
    Nothing(Vec<String>),
    /// The format's library refuses what it was given.
    Mp4(mp4_atom::Error),
}

impl Format {
    /// By the ending of a file's name: mkv, webm, mp4.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "mkv" | "mka" => Some(Self::Matroska),
            "webm" => Some(Self::WebM),
            "mp4" | "m4a" | "m4v" => Some(Self::Mp4),
            _ => None,
        }
    }

    fn takes(self, codec: &Codec) -> bool {
        match self {
            Self::Matroska => true,
            Self::WebM => matches!(
                codec,
                Codec::Vp8(_) | Codec::Vp9(_) | Codec::Av1(_) | Codec::Opus { .. }
            ),
            Self::Mp4 => !matches!(codec, Codec::Vp8(_) | Codec::G711 { .. }),
        }
    }
}

/// A track on its way into the file.
struct Lane {
    /// Its place in the recording.
    place: usize,
    is_video: bool,
    order: Order,
    assembler: Assembler,
    /// Nothing was written yet of its source that later frames refer to.
    waits_for_key: bool,
    /// SSRC of the last frame.
    source: Option<u32>,
    frames: u64,
    /// Frames left out that were put together.
    broken: u64,
}

/// The file that is written.
enum Muxer {
    Matroska(matroska::Matroska<BufWriter<File>>),
    Mp4(mp4::Mp4<BufWriter<File>>),
}

/// Writes a recording to `file`. `progress` is told the packets read, of both passes.
///
/// # Errors
/// [`ExportError`].
pub fn export(
    medium: &dyn Medium,
    recording: &Recording,
    (format, file): (Format, File),
    mut progress: impl FnMut(u64),
) -> Result<Exported, ExportError> {
    let mut exported = Exported::default();
    let mut read = 0;
    let mut progress = || {
        read += 1;
        progress(read);
    };
    let (timeline, probes) = learn(medium, recording, &mut progress)?;
    let chosen = choose(format, probes, &mut exported);
    if chosen.is_empty() {
        let reasons = exported.left_out.iter();
        let name = |place: usize| recording.tracks[place].info.topic.to_string();
        let reasons = reasons.map(|(place, reason)| format!("{}: {reason}", name(*place)));
        return Err(ExportError::Nothing(reasons.collect()));
    }
    let codecs: Vec<_> = chosen.iter().map(|(_, codec)| codec.clone()).collect();
    let mut muxer = Muxer::new(format, file, &codecs)?;
    let lanes = chosen.into_iter();
    let mut lanes: Vec<_> = lanes
        .map(|(place, codec)| Lane::new(place, codec))
        .collect();
    let mut failed = None;
    exported.gaps = recording.read(medium, |track, record| {
        progress();
        let lane = lanes.iter().position(|lane| lane.place == track);
        let Some(lane) = lane.filter(|_| record.kind == Kind::Packet) else {
            return true;
        };
        let mut write = |frame: Frame| muxer.frame(lane, &frame);
        failed = lanes[lane].packet(record, &timeline, &mut write).err();
        failed.is_none()
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    for (lane, track) in lanes.iter_mut().enumerate() {
        track.flush(&timeline, &mut |frame| muxer.frame(lane, &frame))?;
        exported.tracks.push((track.place, track.frames));
        exported.broken += track.broken + track.assembler.broken();
    }
    muxer.finish()?;
    Ok(exported)
}

/// The first pass.
fn learn(
    medium: &dyn Medium,
    recording: &Recording,
    progress: &mut dyn FnMut(),
) -> io::Result<(Timeline, Vec<Probe>)> {
    let mut timeline = Timeline::new(recording);
    let tracks = recording.tracks.iter();
    let mut probes: Vec<_> = tracks.map(|track| Probe::new(&track.info.media)).collect();
    recording.read(medium, |track, record| {
        timeline.learn(track, record);
        probes[track].learn(record);
        progress();
        true
    })?;
    timeline.settle();
    Ok((timeline, probes))
}

/// The tracks that go into the file; the others are left out with a reason.
fn choose(format: Format, probes: Vec<Probe>, exported: &mut Exported) -> Vec<(usize, Codec)> {
    let mut chosen = Vec::new();
    for (place, probe) in probes.into_iter().enumerate() {
        let reason = match probe.finish() {
            Ok(_) if chosen.len() == TRACKS_MAX => {
                format!("a file holds at most {TRACKS_MAX} tracks")
            }
            Ok(codec) if format.takes(&codec) => {
                chosen.push((place, codec));
                continue;
            }
            Ok(codec) => format!("{} does not go into this format", codec.name()),
            Err(reason) => reason,
        };
        exported.left_out.push((place, reason));
    }
    chosen
}

impl Lane {
    fn new(place: usize, codec: Codec) -> Self {
        Self {
            place,
            order: Order::default(),
            waits_for_key: false,
            is_video: codec.is_video(),
            source: None,
            assembler: Assembler::new(codec),
            frames: 0,
            broken: 0,
        }
    }

    fn packet(
        &mut self,
        record: &Record<'_>,
        timeline: &Timeline,
        write: &mut dyn FnMut(Frame) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        self.order.push(record.body);
        self.release(timeline, write)
    }

    fn flush(
        &mut self,
        timeline: &Timeline,
        write: &mut dyn FnMut(Frame) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        self.order.flush();
        self.release(timeline, write)?;
        self.assembler.flush();
        self.write(timeline, write)
    }

    fn release(
        &mut self,
        timeline: &Timeline,
        write: &mut dyn FnMut(Frame) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        while let Some((bytes, lost)) = self.order.pop() {
            if let Ok(packet) = rtp::Packet::decode(&bytes) {
                self.assembler.push(&packet, lost);
                self.write(timeline, write)?;
            }
        }
        Ok(())
    }

    fn write(
        &mut self,
        timeline: &Timeline,
        write: &mut dyn FnMut(Frame) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        while let Some(mut frame) = self.assembler.pop() {
            if self.source.replace(frame.source) != Some(frame.source) {
                self.waits_for_key = self.is_video;
            }
            self.waits_for_key &= !frame.key;
            let time = timeline.time(self.place, frame.source, frame.timestamp);
            if let Some(time) = time.filter(|_| !self.waits_for_key) {
                frame.time = time;
                self.frames += 1;
                write(frame)?;
            } else {
                self.broken += 1;
            }
        }
        Ok(())
    }
}

impl Muxer {
    fn new(format: Format, file: File, codecs: &[Codec]) -> Result<Self, ExportError> {
        let out = BufWriter::with_capacity(1 << 20, file);
        Ok(match format {
            Format::Mp4 => Self::Mp4(mp4::Mp4::new(out, codecs)?),
            format => Self::Matroska(matroska::Matroska::new(out, format, codecs)?),
        })
    }

    fn frame(&mut self, lane: usize, frame: &Frame) -> Result<(), ExportError> {
        match self {
            Self::Matroska(file) => Ok(file.frame(lane, frame)?),
            Self::Mp4(file) => file.frame(lane, frame),
        }
    }

    fn finish(self) -> Result<(), ExportError> {
        match self {
            Self::Matroska(file) => Ok(file.finish()?),
            Self::Mp4(file) => file.finish(),
        }
    }
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

impl From<mp4_atom::Error> for ExportError {
    fn from(error: mp4_atom::Error) -> Self {
        Self::Mp4(error)
    }
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk(error) => error.fmt(f),
            Self::Nothing(reasons) => {
                f.write_str("no track of the recording can be exported so")?;
                reasons
                    .iter()
                    .try_for_each(|reason| write!(f, "; {reason}"))
            }
            Self::Mp4(error) => write!(f, "the MP4 cannot be written: {error}"),
        }
    }
}

impl core::error::Error for ExportError {}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use sangam_model::{Class, MediaInfo};

    use super::*;

    const VIDEO: [&str; 5] = ["H264", "H265", "VP8", "VP9", "AV1"];

    proptest! {
        #[test]
        fn hostile_payloads_are_at_most_broken_frames(
            encoding in 0..VIDEO.len(),
            payloads in vec(vec(any::<u8>(), 0..64), 1..24),
        ) {
            let media = MediaInfo {
                class: Class::Video,
                payload_type: 96,
                channels: 0,
                clock_rate: 90_000,
                encoding: VIDEO[encoding].to_owned(),
                fmtp: String::new(),
            };
            let mut probe = Probe::new(&media);
            let packets = payloads.iter().enumerate().map(|(place, payload)| {
                let header = rtp::Header {
                    marker: place % 3 == 2,
                    payload_type: 96,
                    sequence: place as u16,
                    timestamp: place as u32 / 3,
                    ssrc: 1,
                };
                [&header.encode()[..], payload].concat()
            });
            let packets: Vec<_> = packets.collect();
            for packet in &packets {
                probe.learn(&Record::new(Kind::Packet, 0, packet));
            }
            let mut codecs = vec![Codec::Vp9(vp9::Vp9::default()), Codec::Av1(av1::Av1::default())];
            codecs.push(Codec::H265(h265::H265::default()));
            codecs.extend(probe.finish());
            for codec in codecs {
                let mut assembler = Assembler::new(codec);
                for packet in &packets {
                    assembler.push(&rtp::Packet::decode(packet).unwrap(), false);
                }
                assembler.flush();
                let frames = std::iter::from_fn(|| assembler.pop()).count() as u64;
                prop_assert!(frames + assembler.broken() <= packets.len() as u64);
            }
        }
    }
}
