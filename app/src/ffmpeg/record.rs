//! Live RTP into a file: FFmpeg receives from us, described by an SDP of ours.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use sangam_model::MediaInfo;
use tempfile::NamedTempFile;

use super::{Child, port_pair};
use crate::config::Rtcp;
use crate::exit::{Exit, Failure, io};
use crate::sdp;

/// How long FFmpeg may take to write the end of a file.
const GRACE: Duration = Duration::from_secs(10);
/// FFmpeg looks at so much of the streams before it writes: microseconds and bytes. Its own five
/// seconds would leave short recordings empty.
const LOOK: &str = "-analyzeduration 2000000 -probesize 1000000";

/// FFmpeg at work on a recording.
#[derive(Debug)]
pub(crate) struct Recorder {
    child: Child,
    path: PathBuf,
    ports: Vec<SocketAddr>,
    _sdp: NamedTempFile,
}

impl Recorder {
    /// Starts a recording of streams that carry this; the file is replaced if it exists.
    ///
    /// # Errors
    /// FFmpeg is missing, or there are no ports.
    pub(crate) fn start(path: &Path, media: &[MediaInfo]) -> Result<Self, Failure> {
        let mut described = Vec::new();
        for info in media {
            let ip = [127, 0, 0, 1].into();
            let port = port_pair(ip).map_err(io("no ports for the recorder"))?;
            let to = SocketAddr::new(ip, port);
            described.push(sdp::Media {
                info: info.clone(),
                to,
                rtcp: Rtcp::NextPort,
            });
        }
        let mut file = NamedTempFile::with_suffix(".sdp").map_err(io("cannot write an SDP"))?;
        let text = sdp::write("recording", &described);
        file.write_all(text.as_bytes())
            .map_err(io("cannot write an SDP"))?;
        let input = file.path().display().to_string();
        let output = path.display().to_string();
        let words = "-y -hide_banner -loglevel warning"
            .split(' ')
            .chain(LOOK.split(' '));
        let words = words
            .chain("-protocol_whitelist file,udp,rtp -i".split(' '))
            .chain([input.as_str(), "-map", "0", "-c", "copy", output.as_str()]);
        let child = Child::start("ffmpeg", words, Stdio::null())?;
        let ports = described.iter().map(|media| media.to).collect();
        Ok(Self {
            child,
            path: path.to_owned(),
            ports,
            _sdp: file,
        })
    }

    /// Where RTP of each stream is to be sent, in order; RTCP goes one port higher.
    pub(crate) fn ports(&self) -> &[SocketAddr] {
        &self.ports
    }

    /// Whether FFmpeg has given up.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.ends_within(Duration::ZERO)
    }

    /// Ends the recording and waits until the file is whole.
    ///
    /// # Errors
    /// FFmpeg failed.
    pub(crate) fn finish(mut self) -> Result<PathBuf, Failure> {
        // FFmpeg's own key for "write the end and quit". It heeds it only between two packets, so
        // whoever feeds it says goodbye by RTCP first.
        self.child.tell("q");
        if !self.child.ends_within(GRACE) {
            return Err(
                Failure::new(Exit::Failure, "FFmpeg did not finish the recording")
                    .hint(self.child.last_words()),
            );
        }
        self.child.wait()?;
        Ok(self.path)
    }
}
