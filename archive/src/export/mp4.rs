//! Fragmented MP4 (ISO/IEC 14496-12 section 8.8): what was written plays, wherever it ends.

use std::io::Write;

use mp4_atom::{
    Audio, Av01, Avc1, Avcc, Dinf, Dops, Dref, Encode, Esds, FourCC, Ftyp, Hdlr, Hvc1, Mdhd, Mdia,
    Mfhd, Minf, Moof, Moov, Mp4a, Mvex, Mvhd, Opus, Smhd, Stbl, Stco, Stsd, Tfdt, Tfhd, Tkhd, Traf,
    Trak, Trex, Trun, TrunEntry, Url, Visual, Vmhd, Vp09, esds,
};

use super::ExportError;
use super::codec::Codec;
use super::frames::Frame;

/// A fragment holds so much of each track, in nanoseconds.
const FRAGMENT: i64 = 1_000_000_000;
/// Bytes of a fragment.
const FRAGMENT_LEN_MAX: usize = 64 << 20;
const SECOND: i128 = 1_000_000_000;
/// ISO/IEC 14496-12 section 8.8.3.1: a sample that depends on no other, and one that does.
const KEY: u32 = 0x0200_0000;
const DEPENDS: u32 = 0x0101_0000;
/// The film's own clock.
const MOVIE_RATE: u32 = 1_000;

/// A file that is written.
#[derive(Debug)]
pub(super) struct Mp4<W> {
    out: W,
    tracks: Vec<Track>,
    sequence: u32,
    /// When the fragment began.
    began: Option<i64>,
}

#[derive(Debug)]
struct Track {
    rate: u32,
    /// The frame whose length the next one tells.
    open: Option<Sample>,
    samples: Vec<TrunEntry>,
    data: Vec<u8>,
    /// When the first sample is decoded.
    begin: u64,
    /// The length of the last sample, for the very last.
    length: u32,
}

#[derive(Debug)]
struct Sample {
    decode: u64,
    shown: u64,
    key: bool,
    data: Vec<u8>,
}

impl<W: Write> Mp4<W> {
    pub(super) fn new(mut out: W, codecs: &[Codec]) -> Result<Self, ExportError> {
        let mut head = Vec::new();
        let brands = [b"iso6", b"mp41"].map(FourCC::new);
        let brand = Ftyp {
            major_brand: FourCC::new(b"iso6"),
            minor_version: 0,
            compatible_brands: brands.to_vec(),
        };
        brand.encode(&mut head)?;
        movie(codecs)?.encode(&mut head)?;
        out.write_all(&head)?;
        let track = |codec: &Codec| Track {
            rate: codec.rate(),
            open: None,
            samples: Vec::new(),
            data: Vec::new(),
            begin: 0,
            length: codec.rate() / 50,
        };
        Ok(Self {
            out,
            tracks: codecs.iter().map(track).collect(),
            sequence: 0,
            began: None,
        })
    }

    pub(super) fn frame(&mut self, lane: usize, frame: &Frame) -> Result<(), ExportError> {
        let began = *self.began.get_or_insert(frame.time);
        let waiting: usize = self.tracks.iter().map(|track| track.data.len()).sum();
        if frame.time - began >= FRAGMENT || waiting > FRAGMENT_LEN_MAX {
            self.fragment()?;
            self.began = Some(frame.time);
        }
        self.tracks[lane].take(frame);
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<(), ExportError> {
        self.tracks.iter_mut().for_each(Track::end);
        self.fragment()?;
        Ok(self.out.flush()?)
    }

    /// Writes what is there of all tracks: `moof` and `mdat`.
    fn fragment(&mut self) -> Result<(), ExportError> {
        let full = |track: &&mut Track| !track.samples.is_empty();
        let mut data = Vec::new();
        let mut runs = Vec::new();
        for (id, track) in (1..).zip(&mut self.tracks).filter(|(_, track)| full(track)) {
            runs.push((
                id,
                track.begin,
                std::mem::take(&mut track.samples),
                data.len(),
            ));
            data.append(&mut track.data);
        }
        if runs.is_empty() {
            return Ok(());
        }
        self.sequence += 1;
        let mut moof = moof(self.sequence, runs);
        let mut bytes = Vec::new();
        moof.encode(&mut bytes)?;
        // Places are counted from the `moof`; its length does not depend on them.
        let offset = bytes.len() + 8;
        for run in moof.traf.iter_mut().flat_map(|traf| &mut traf.trun) {
            run.data_offset = run.data_offset.map(|place| place + offset as i32);
        }
        bytes.clear();
        moof.encode(&mut bytes)?;
        self.out.write_all(&bytes)?;
        self.out.write_all(&(data.len() as u32 + 8).to_be_bytes())?;
        self.out.write_all(b"mdat")?;
        Ok(self.out.write_all(&data)?)
    }
}

impl Track {
    fn take(&mut self, frame: &Frame) {
        let shown = i128::from(frame.time.max(0)) * i128::from(self.rate) / SECOND;
        let shown = shown as u64;
        // What is shown out of order is decoded in order all the same.
        let before = self.open.as_ref().map(|open| open.decode + 1);
        let decode = shown.max(before.unwrap_or(0));
        self.close(decode);
        self.open = Some(Sample {
            decode,
            shown,
            key: frame.key,
            data: frame.data.clone(),
        });
    }

    /// Ends the open frame where the next begins.
    fn close(&mut self, next: u64) {
        let Some(open) = self.open.take() else {
            return;
        };
        if self.samples.is_empty() {
            self.begin = open.decode;
        }
        self.length = u32::try_from(next - open.decode).unwrap_or(u32::MAX);
        self.samples.push(TrunEntry {
            duration: Some(self.length),
            size: Some(open.data.len() as u32),
            flags: Some(if open.key { KEY } else { DEPENDS }),
            cts: Some(open.shown as i64 - open.decode as i64),
        });
        self.data.extend(open.data);
    }

    fn end(&mut self) {
        if let Some(open) = &self.open {
            self.close(open.decode + u64::from(self.length));
        }
    }
}

/// Runs: track, begin, samples and the place of their data.
type Run = (u32, u64, Vec<TrunEntry>, usize);

fn moof(sequence_number: u32, runs: Vec<Run>) -> Moof {
    let traf = |(track_id, begin, entries, place): Run| Traf {
        tfhd: Tfhd {
            track_id,
            default_base_is_moof: true,
            ..Tfhd::default()
        },
        tfdt: Some(Tfdt {
            base_media_decode_time: begin,
        }),
        trun: vec![Trun {
            data_offset: Some(place as i32),
            samples: entries.into(),
        }],
        ..Traf::default()
    };
    Moof {
        mfhd: Mfhd { sequence_number },
        traf: runs.into_iter().map(traf).collect(),
    }
}

fn movie(codecs: &[Codec]) -> Result<Moov, ExportError> {
    let tracks: Result<Vec<_>, ExportError> = (1..)
        .zip(codecs)
        .map(|(id, codec)| track(id, codec))
        .collect();
    let default = |track_id| Trex {
        track_id,
        default_sample_description_index: 1,
        ..Trex::default()
    };
    let count = codecs.len() as u32;
    Ok(Moov {
        mvhd: Mvhd {
            timescale: MOVIE_RATE,
            rate: 1.into(),
            volume: 1.into(),
            next_track_id: count + 1,
            ..Mvhd::default()
        },
        mvex: Some(Mvex {
            trex: (1..=count).map(default).collect(),
            ..Mvex::default()
        }),
        trak: tracks?,
        ..Moov::default()
    })
}

fn track(track_id: u32, codec: &Codec) -> Result<Trak, ExportError> {
    let is_video = codec.is_video();
    let (width, height) = codec.size().unwrap_or_default();
    let handler = if is_video { b"vide" } else { b"soun" };
    let here = Url {
        location: String::new(),
    };
    Ok(Trak {
        tkhd: Tkhd {
            track_id,
            enabled: true,
            in_movie: true,
            volume: u8::from(!is_video).into(),
            width: width.into(),
            height: height.into(),
            ..Tkhd::default()
        },
        mdia: Mdia {
            mdhd: Mdhd {
                timescale: codec.rate(),
                language: "und".to_owned(),
                ..Mdhd::default()
            },
            hdlr: Hdlr {
                handler: FourCC::new(handler),
                name: "sangam".to_owned(),
            },
            minf: Minf {
                vmhd: is_video.then(Vmhd::default),
                smhd: (!is_video).then(Smhd::default),
                dinf: Dinf {
                    dref: Dref {
                        entries: vec![here.into()],
                    },
                },
                stbl: Stbl {
                    stsd: Stsd {
                        codecs: vec![entry(codec)?],
                    },
                    stco: Some(Stco::default()),
                    ..Stbl::default()
                },
                ..Minf::default()
            },
        },
        ..Trak::default()
    })
}

fn entry(codec: &Codec) -> Result<mp4_atom::Codec, ExportError> {
    let audio = |channels: u8| Audio {
        data_reference_index: 1,
        channel_count: channels.into(),
        sample_size: 16,
        // ISO/IEC 14496-12 section 12.2.3 has 16 bits; the decoder reads more in its own config.
        sample_rate: u16::try_from(codec.rate()).unwrap_or(0).into(),
    };
    let (width, height) = codec.size().unwrap_or_default();
    let visual = Visual {
        data_reference_index: 1,
        width,
        height,
        ..Visual::default()
    };
    Ok(match codec {
        Codec::H265(sets) => Hvc1 {
            visual,
            hvcc: sets.config(),
            ..Hvc1::default()
        }
        .into(),
        Codec::Vp9(found) => Vp09 {
            visual,
            vpcc: found.config.clone(),
            ..Vp09::default()
        }
        .into(),
        Codec::Av1(found) => Av01 {
            visual,
            av1c: found.config.clone(),
            ..Av01::default()
        }
        .into(),
        Codec::H264(sets) => Avc1 {
            visual,
            avcc: Avcc::new(&sets.sequence, &sets.picture)?,
            btrt: None,
            colr: None,
            pasp: None,
            taic: None,
            fiel: None,
            spatial: None,
        }
        .into(),
        Codec::Aac {
            config, channels, ..
        } => Mp4a {
            audio: audio(*channels),
            esds: aac_descriptor(config, *channels),
            btrt: None,
            taic: None,
        }
        .into(),
        Codec::Opus { channels } => Opus {
            audio: audio(*channels),
            dops: Dops {
                output_channel_count: *channels,
                pre_skip: 0,
                input_sample_rate: 48_000,
                output_gain: 0,
                channel_mapping: None,
            },
            btrt: None,
        }
        .into(),
        // No track of these was chosen.
        Codec::Vp8(_) | Codec::G711 { .. } => return Err(ExportError::Nothing(Vec::new())),
    })
}

/// ISO/IEC 14496-1 section 7.2.6.6: audio of 14496-3, an audio stream.
fn aac_descriptor(config: &[u8], channels: u8) -> Esds {
    let first = u16::from_be_bytes([config[0], config[1]]);
    Esds {
        es_desc: esds::EsDescriptor {
            es_id: 1,
            dec_config: esds::DecoderConfig {
                object_type_indication: 0x40,
                stream_type: 5,
                dec_specific: Some(esds::DecoderSpecific {
                    profile: (first >> 11) as u8,
                    freq_index: (first >> 7 & 0x0f) as u8,
                    chan_conf: channels,
                    raw: config.to_vec(),
                }),
                ..esds::DecoderConfig::default()
            },
            ..esds::EsDescriptor::default()
        },
    }
}
