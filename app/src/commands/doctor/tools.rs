//! Programs that some commands need.

use std::fs::OpenOptions;
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
        .chain([emulated_networks()])
        .collect()
}

/// What the bench's emulated networks need: namespaces, and TUN devices to join them.
fn emulated_networks() -> Check {
    const NAME: &str = "emulated networks";
    const ADVICE: &str = "only for `sangam bench` between sites: run it as root or through \
                          `unshare --user --map-root-user`; containers need NET_ADMIN, SYS_ADMIN \
                          and /dev/net/tun";
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/net/tun");
    if let Err(error) = device {
        return Check::poor(NAME, format!("/dev/net/tun: {error}"), ADVICE);
    }
    let namespace = Command::new("unshare").args(["--net", "true"]).output();
    match namespace {
        Ok(output) if output.status.success() => Check::good(NAME, "namespaces and TUN devices"),
        Ok(output) => {
            let words = String::from_utf8_lossy(&output.stderr);
            Check::poor(NAME, words.trim().to_owned(), ADVICE)
        }
        Err(error) => Check::poor(NAME, format!("unshare: {error}"), ADVICE),
    }
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
