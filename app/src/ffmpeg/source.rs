//! A file as live RTP: FFmpeg reads it in real time and sends each stream to a socket of ours.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use sangam_model::{Class, MediaInfo};
use tempfile::TempDir;

use super::{Child, Probe};
use crate::cli::PublishArgs;
use crate::exit::{Exit, Failure, io};
use crate::sdp;

/// Bytes of an RTP packet: with an event's header and a trace it still fits the smallest datagram
/// every path carries.
const PACKET_LEN: usize = 1_000;
/// How long FFmpeg may take to open a file and its encoders.
const START_MAX: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(20);

/// Low delay before quality; a key frame each second or so even at 60 frames/s.
const VIDEO: &str = "-c:v libx264 -preset veryfast -tune zerolatency -profile:v baseline \
    -pix_fmt yuv420p -g 30 -b:v 1M -maxrate 1M -bufsize 500k";
/// Parameter sets in the description for players, and before each key frame for those who come
/// late.
const PARAMETER_SETS: &str = "-flags:v +global_header -bsf:v dump_extra";
const AUDIO: &str = "-c:a libopus -b:a 64k -ac 2 -ar 48000 -application lowdelay";

/// Where FFmpeg sends one stream of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    /// Which stream of the file.
    pub(crate) class: Class,
    /// Our socket for RTP.
    pub(crate) rtp: SocketAddr,
    /// Our socket for RTCP.
    pub(crate) rtcp: SocketAddr,
}

/// FFmpeg at work on a file.
#[derive(Debug)]
pub(crate) struct FileSource {
    child: Child,
    sdp: PathBuf,
    _folder: TempDir,
}

impl FileSource {
    /// Starts FFmpeg on a file that was probed before.
    ///
    /// # Errors
    /// FFmpeg is missing.
    pub(crate) fn start(
        args: &PublishArgs,
        file: &Path,
        found: &Probe,
        outputs: &[Output],
    ) -> Result<Self, Failure> {
        let folder = tempfile::tempdir().map_err(io("cannot make a temporary folder"))?;
        let sdp = folder.path().join("source.sdp");
        let mut words = split("-nostdin -hide_banner -loglevel warning -re");
        if args.repeat {
            words.extend(split("-stream_loop -1"));
        }
        words.extend(["-i".to_owned(), file.display().to_string()]);
        for output in outputs {
            words.extend(output_words(output, args.copy, found));
        }
        words.extend(["-sdp_file".to_owned(), sdp.display().to_string()]);
        let child = Child::start("ffmpeg", &words, Stdio::null())?;
        Ok(Self {
            child,
            sdp,
            _folder: folder,
        })
    }

    /// What the streams carry, in the order of the outputs; waits until FFmpeg knows.
    ///
    /// # Errors
    /// FFmpeg fails on the file, or takes too long.
    pub(crate) fn media(&mut self, outputs: usize) -> Result<Vec<MediaInfo>, Failure> {
        let start = Instant::now();
        loop {
            let ended = self.child.ends_within(STEP);
            let text = std::fs::read_to_string(&self.sdp).unwrap_or_default();
            let media = sdp::read(&text);
            if media.len() == outputs {
                return Ok(media);
            }
            if ended || start.elapsed() > START_MAX {
                let words = self.child.last_words();
                return Err(
                    Failure::new(Exit::Failure, format!("FFmpeg gives no RTP: {words}"))
                        .hint("without --copy every file that FFmpeg can open can be published"),
                );
            }
        }
    }

    /// Whether the file has come to its end, or FFmpeg failed.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.ends_within(Duration::ZERO)
    }

    /// Ends FFmpeg.
    ///
    /// # Errors
    /// It had failed by itself before.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        if self.has_ended() {
            self.child.wait()
        } else {
            Ok(())
        }
    }
}

fn output_words(output: &Output, copy: bool, found: &Probe) -> Vec<String> {
    let codec = found
        .first(output.class)
        .map_or("", |codec| codec.name.as_str());
    let (map, payload_type) = match output.class {
        Class::Audio => ("0:a:0", 111),
        _ => ("0:v:0", 96),
    };
    let encode = match (copy, output.class) {
        (true, _) => copying(codec).to_owned(),
        (false, Class::Audio) => AUDIO.to_owned(),
        (false, _) => format!("{VIDEO} {PARAMETER_SETS}"),
    };
    let (rtp, rtcp) = (output.rtp, output.rtcp.port());
    split(&format!(
        "-map {map} {encode} -f rtp -payload_type {payload_type} \
         rtp://{rtp}?rtcpport={rtcp}&pkt_size={PACKET_LEN}"
    ))
}

/// How to copy a codec so that its parameter sets stand before each key frame.
fn copying(codec: &str) -> &'static str {
    match codec {
        "h264" => "-c copy -bsf:v h264_mp4toannexb,dump_extra",
        "hevc" => "-c copy -bsf:v hevc_mp4toannexb,dump_extra",
        _ => "-c copy",
    }
}

fn split(words: &str) -> Vec<String> {
    words.split(' ').map(str::to_owned).collect()
}
