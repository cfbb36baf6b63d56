//! What a media file holds.

use std::path::Path;
use std::process::{Command, Stdio};

use sangam_model::Class;
use serde::Deserialize;

use crate::exit::{Exit, Failure};

/// One stream of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Codec {
    /// Audio or video.
    pub(crate) class: Class,
    /// FFmpeg's name of the codec, such as `h264`.
    pub(crate) name: String,
    /// Packets read, if they were counted.
    pub(crate) packets: u64,
}

/// The streams of a file and how long it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Probe {
    /// Audio and video streams in order.
    pub(crate) codecs: Vec<Codec>,
    /// Seconds; 0 if unknown.
    pub(crate) seconds: f64,
}

/// Reads a file with ffprobe; `count` reads all its packets.
///
/// # Errors
/// ffprobe is missing or does not understand the file.
pub(crate) fn probe(file: &Path, count: bool) -> Result<Probe, Failure> {
    let mut command = Command::new("ffprobe");
    command.args([
        "-v",
        "error",
        "-show_streams",
        "-show_format",
        "-of",
        "json",
    ]);
    if count {
        command.arg("-count_packets");
    }
    // An option-like name must not become an option.
    command.arg("-i").arg(file).stdin(Stdio::null());
    let output = command.output().map_err(|error| {
        Failure::new(Exit::Failure, format!("cannot start ffprobe: {error}"))
            .hint("install it: `apt-get install ffmpeg`")
    })?;
    let unreadable = |why: &str| {
        Failure::new(Exit::Failure, format!("{}: {}", file.display(), why.trim()))
            .hint("give a media file that FFmpeg can open")
    };
    if !output.status.success() {
        return Err(unreadable(&String::from_utf8_lossy(&output.stderr)));
    }
    let found: Found =
        serde_json::from_slice(&output.stdout).map_err(|error| unreadable(&error.to_string()))?;
    let codecs: Vec<_> = found
        .streams
        .into_iter()
        .filter_map(Stream::codec)
        .collect();
    if codecs.is_empty() {
        return Err(unreadable("holds neither audio nor video"));
    }
    let seconds = found
        .format
        .duration
        .and_then(|text| text.parse().ok())
        .unwrap_or(0.0);
    Ok(Probe { codecs, seconds })
}

#[derive(Deserialize)]
struct Found {
    #[serde(default)]
    streams: Vec<Stream>,
    #[serde(default)]
    format: Format,
}

#[derive(Default, Deserialize)]
struct Format {
    duration: Option<String>,
}

#[derive(Deserialize)]
struct Stream {
    codec_type: Option<String>,
    codec_name: Option<String>,
    nb_read_packets: Option<String>,
}

impl Stream {
    fn codec(self) -> Option<Codec> {
        let class = match self.codec_type.as_deref()? {
            "audio" => Class::Audio,
            "video" => Class::Video,
            _ => return None,
        };
        let packets = self
            .nb_read_packets
            .and_then(|text| text.parse().ok())
            .unwrap_or(0);
        Some(Codec {
            class,
            name: self.codec_name?,
            packets,
        })
    }
}

impl Probe {
    /// The first stream of a class.
    pub(crate) fn first(&self, class: Class) -> Option<&Codec> {
        self.codecs.iter().find(|codec| codec.class == class)
    }
}
