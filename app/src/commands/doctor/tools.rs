//! Programs that some commands need.

use std::process::{Command, Stdio};

use super::Check;

/// Program, option that shows its version, and who needs it.
const TOOLS: [(&str, &str, &str); 4] = [
    (
        "ffmpeg",
        "-version",
        "publishing and recording files needs it: `apt-get install ffmpeg`",
    ),
    (
        "ffprobe",
        "-version",
        "publishing and checking files needs it: `apt-get install ffmpeg`",
    ),
    (
        "gst-launch-1.0",
        "--version",
        "only for watching with GStreamer: `apt-get install gstreamer1.0-tools`",
    ),
    (
        "ss",
        "-V",
        "only for finding who has a port: `apt-get install iproute2`",
    ),
];

pub(super) fn checks() -> Vec<Check> {
    TOOLS
        .iter()
        .map(|(program, option, advice)| tool(program, option, advice))
        .collect()
}

fn tool(program: &'static str, option: &str, advice: &'static str) -> Check {
    match Command::new(program)
        .arg(option)
        .stdin(Stdio::null())
        .output()
    {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            Check::good(program, text.lines().next().unwrap_or_default())
        }
        Ok(output) => Check::poor(program, format!("fails ({})", output.status), advice),
        Err(error) => Check::poor(program, error.to_string(), advice),
    }
}
