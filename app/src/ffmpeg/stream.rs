//! A file as a transport stream: FFmpeg puts what it holds into one, without encoding.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use super::{Child, Probe};
use crate::exit::{Exit, Failure};

/// Codecs that FFmpeg puts into a transport stream as players know them.
const CODECS: [&str; 15] = [
    "h264",
    "hevc",
    "vvc",
    "mpeg1video",
    "mpeg2video",
    "mpeg4",
    "aac",
    "aac_latm",
    "mp1",
    "mp2",
    "mp3",
    "ac3",
    "eac3",
    "dts",
    "opus",
];
/// How often somebody hears how far it is.
const STEP: Duration = Duration::from_millis(100);

/// FFmpeg's key for an end; what it has not written after so long is not waited for.
const GRACE: Duration = Duration::from_secs(2);

/// Writes `file` to `out` as a transport stream. `goes_on` is asked again and again, with the bytes
/// written so far.
///
/// # Errors
/// A codec does not fit, FFmpeg is missing or fails, or it is not to go on.
pub(crate) fn remux(
    (file, out): (&Path, &Path),
    found: &Probe,
    goes_on: &mut dyn FnMut(u64) -> bool,
) -> Result<(), Failure> {
    let strange = found.codecs.iter();
    let strange = strange.filter(|codec| !CODECS.contains(&codec.name.as_str()));
    let strange: Vec<_> = strange.map(|codec| codec.name.as_str()).collect();
    if !strange.is_empty() {
        let name = file.display();
        let message = format!("{name}: a transport stream has no {}", strange.join(", "));
        let hint = format!(
            "encode it: `ffmpeg -i {name} -c:v libx264 -g 50 -c:a aac OUT.ts`, and add OUT.ts"
        );
        return Err(Failure::new(Exit::Failure, message).hint(hint));
    }
    let (file, out_name) = (file.display().to_string(), out.display().to_string());
    let words = "-nostdin -y -hide_banner -loglevel warning -i".split(' ');
    let words = words.chain([file.as_str()]);
    let words = words.chain("-map 0:V? -map 0:a? -c copy -f mpegts".split(' '));
    let mut child = Child::start("ffmpeg", words.chain([out_name.as_str()]), Stdio::null())?;
    while !child.ends_within(STEP) {
        let written = out.metadata().map_or(0, |found| found.len());
        if !goes_on(written) {
            child.end(GRACE);
            return Err(Failure::new(Exit::Failure, "stopped"));
        }
    }
    child.wait()
}
