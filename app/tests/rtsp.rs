//! A real recording, served by RTSP and played by players that know nothing of Sangam.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Broker, Running, clip, ends_well, probe, rtspsrc_ends, run, sangam, text, times};
use serde_json::Value;
use tempfile::TempDir;

const WIND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/gstreamer/wind.py");
/// Seconds that are recorded.
const SECONDS: &str = "6";

/// An archive with one film, and its server.
struct Stage {
    folder: TempDir,
    server: Running,
    url: String,
    /// As `sangam archive list` has it.
    film: Value,
}

impl Stage {
    fn new() -> Self {
        let broker = Broker::start(&[]);
        let folder = TempDir::new().unwrap();
        let (place, address) = (folder.path().display().to_string(), broker.udp.to_string());
        let file = clip(folder.path()).display().to_string();
        let publish = ["publish", "--json", "--loop", "--to", &address];
        let what = ["--topic", "test/clip", "--file", &file];
        let mut publisher = Running::start(sangam(&[&publish[..], &what].concat()));
        assert_eq!(publisher.json_line()["event"], "second");
        let record = ["record", "test/#", "--name", "film", "--seconds", SECONDS];
        let place_of = ["--from", &address, "--archive", &place];
        let recorded = run(&[&record[..], &place_of].concat());
        assert!(recorded.status.success(), "{}", text(&recorded.stderr));
        let listed = run(&["archive", "list", "--json", "--archive", &place]);
        let film = serde_json::from_slice(&listed.stdout).unwrap();
        let serve = ["archive", "serve", "--json", "--listen", "127.0.0.1:0"];
        let serve = [&serve[..], &["--archive", &place]].concat();
        let mut server = Running::start(sangam(&serve));
        let ready = server.json_line();
        let address: SocketAddr = ready["rtsp"][0].as_str().unwrap().parse().unwrap();
        Self {
            folder,
            server,
            url: format!("rtsp://{address}/archive/film"),
            film,
        }
    }

    /// Packets that were recorded of a class.
    fn packets(&self, class: &str) -> u64 {
        let mut tracks = self.film["tracks"].as_array().unwrap().iter();
        let track = tracks.find(|track| track["class"] == class);
        track.unwrap()["packets"].as_u64().unwrap()
    }

    /// Seconds of the film.
    fn length(&self) -> f64 {
        let tracks = self.film["tracks"].as_array().unwrap().iter();
        let moments = |name: &str| {
            let tracks = tracks.clone();
            let moments: Vec<_> = tracks.map(|track| track[name].as_u64().unwrap()).collect();
            moments
        };
        let (first, last) = (moments("first_ns"), moments("last_ns"));
        (last.iter().max().unwrap() - first.iter().min().unwrap()) as f64 / 1e9
    }
}

/// Copies what FFmpeg receives into a file.
#[track_caller]
fn copy(url: &str, (transport, seek): (&str, Option<&str>), out: &Path) {
    let mut command = Command::new("ffmpeg");
    command.args("-nostdin -y -v error -rtsp_transport".split(' '));
    command.arg(transport);
    if let Some(seek) = seek {
        command.args(["-ss", seek]);
    }
    command.args(["-i", url, "-c", "copy"]).arg(out);
    ends_well(&command.output().unwrap());
}

#[test]
fn a_recording_is_played_by_ffmpeg_gstreamer_and_mpv() {
    let mut stage = Stage::new();
    let length = stage.length();
    probes(&stage, length);
    let (video, audio) = (stage.packets("video"), stage.packets("audio"));
    for transport in ["tcp", "udp"] {
        let out = stage.folder.path().join(format!("{transport}.mkv"));
        let begin = Instant::now();
        copy(&stage.url, (transport, None), &out);
        // It comes at its pace; FFmpeg reads nothing faster.
        assert!(begin.elapsed() >= Duration::from_secs_f64(length - 1.0));
        let (codecs, seconds) = probe(&out);
        assert_eq!(codecs, ["h264", "opus"]);
        assert!(
            (seconds - length).abs() < 0.5,
            "{transport}: {seconds} of {length}"
        );
        // 25 pictures and 50 packets of sound a second.
        let (pictures, sounds) = (times(&out, "v"), times(&out, "a"));
        assert!(
            sounds.len() as u64 >= audio - 2,
            "{} of {audio}",
            sounds.len()
        );
        assert!(
            pictures.len() as f64 >= (length - 1.2) * 25.0,
            "{}",
            pictures.len()
        );
        let apart = pictures[0] - sounds[0];
        assert!(apart.abs() < 1.1, "{transport}: {apart}");
    }
    in_step(&stage);
    assert!(video > 0);
    seeks(&stage, length);
    decodes(&stage);
    winds(&stage, length);
    gstreamer(&stage);
    mpv(&stage);
    passwords(&stage);
    let counts = stage.server.counts("ended", 6);
    for none in [
        "malformed",
        "unsent_failed",
        "unreadable",
        "late",
        "stalled",
        "failed",
    ] {
        assert_eq!(counts[none], 0, "{none}: {counts}");
    }
}

/// Picture and sound stand to each other as their senders' reports have it, which exports go by.
#[track_caller]
fn in_step(stage: &Stage) {
    let film = |name: &str| stage.folder.path().join(name);
    let (export, copied) = (film("export.mkv"), film("tcp.mkv"));
    let place = stage.folder.path().display().to_string();
    let out = export.display().to_string();
    let exported = run(&[
        "archive",
        "export",
        "film",
        "--out",
        &out,
        "--archive",
        &place,
    ]);
    assert!(exported.status.success(), "{}", text(&exported.stderr));
    let [exported, copied] = [export, copied].map(|file| {
        let [pictures, sounds] = ["v", "a"].map(|kind| times(&file, kind));
        pictures.last().unwrap() - sounds.last().unwrap()
    });
    let apart = exported - copied;
    assert!(
        apart.abs() < 0.005,
        "{exported} in the file, {copied} by RTSP"
    );
}

#[track_caller]
fn probes(stage: &Stage, length: f64) {
    let output = Command::new("ffprobe")
        .args("-v error -rtsp_transport tcp -show_streams -show_format -of json".split(' '))
        .arg(&stage.url)
        .output()
        .unwrap();
    ends_well(&output);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let said = found["format"]["duration"].as_str().unwrap();
    let said: f64 = said.parse().unwrap();
    assert!((said - length).abs() < 0.01, "{said} of {length}");
}

#[track_caller]
fn seeks(stage: &Stage, length: f64) {
    let out = stage.folder.path().join("end.mkv");
    copy(&stage.url, ("tcp", Some("4")), &out);
    let pictures = times(&out, "v");
    let seconds = pictures.last().unwrap() - pictures.first().unwrap();
    // From a key frame at most a second before.
    let left = length - 4.0;
    assert!(
        (left - 0.5..left + 1.5).contains(&seconds),
        "{seconds} of {left}"
    );
}

/// Every picture decodes, and no word is said.
#[track_caller]
fn decodes(stage: &Stage) {
    let output = Command::new("ffmpeg")
        .args("-nostdin -v error -xerror -rtsp_transport tcp -i".split(' '))
        .arg(&stage.url)
        .args("-f null -".split(' '))
        .output()
        .unwrap();
    let said = ends_well(&output);
    assert!(said.is_empty(), "{said}");
}

/// Checksums of the pictures that FFmpeg shows of a file.
#[track_caller]
fn pictures(how: &[&str], file: &Path) -> Vec<String> {
    let mut command = Command::new("ffmpeg");
    command.args("-nostdin -v error".split(' ')).args(how);
    command.arg("-i").arg(file);
    let shown = command.args("-map 0:v -fps_mode passthrough -f framemd5 -".split(' '));
    let shown = shown.output().unwrap();
    ends_well(&shown);
    let said = text(&shown.stdout);
    let lines = said.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.rsplit(',').next().unwrap().trim().to_owned())
        .collect()
}

/// Backwards GStreamer gets the key frames that FFmpeg got, the last one first.
#[track_caller]
fn winds(stage: &Stage, length: f64) {
    let out = stage.folder.path().join("back.h264");
    let take = "application/x-rtp,media=video ! rtph264depay \
                ! video/x-h264,stream-format=byte-stream,alignment=au";
    let from = format!("{:.3}", length - 0.001);
    let wind = ["--rate", "-2", "--from", &from, "--take", take, "--out"];
    let mut command = Command::new("/usr/bin/python3");
    command.args([WIND, &stage.url]).args(wind).arg(&out);
    ends_well(&command.output().unwrap());
    let back = pictures(&[], &out);
    let played = stage.folder.path().join("tcp.mkv");
    let mut on = pictures(&["-skip_frame", "nokey"], &played);
    on.reverse();
    assert!(back.len() > 3, "{back:?}");
    assert_eq!(back, on);
}

/// One track each: `gst-launch-1.0` may link two that come at the same moment the wrong way round.
/// It leaves in the middle of the film, FFmpeg and mpv stay.
#[track_caller]
fn gstreamer(stage: &Stage) {
    let video = "rtph264depay ! h264parse ! avdec_h264 ! video/x-raw,format=I420";
    let audio = "rtpopusdepay ! opusdec ! audio/x-raw,channels=2";
    let runs = [
        ("udp", "video", video),
        ("tcp", "video", video),
        ("udp", "audio", audio),
    ];
    let runs = runs.map(|(protocols, media, decoder)| {
        let out = stage.folder.path().join(format!("{protocols}-{media}.raw"));
        // Pictures, or 20 ms of sound each.
        let buffers = if media == "video" { 110 } else { 220 };
        let pipeline = format!(
            "rtspsrc location={} protocols={protocols} latency=200 \
             ! application/x-rtp,media={media} ! {decoder} ! identity eos-after={buffers} \
             ! filesink sync=false location={}",
            stage.url,
            out.display()
        );
        let mut command = Command::new("gst-launch-1.0");
        command.arg("-q").args(pipeline.split_whitespace());
        (command.stderr(Stdio::piped()).spawn().unwrap(), out, media)
    });
    for (player, out, media) in runs {
        rtspsrc_ends(&player.wait_with_output().unwrap());
        let len = std::fs::metadata(&out).unwrap().len();
        let (least, unit) = match media {
            "video" => (100, 320 * 180 * 3 / 2),
            // A second of 16-bit stereo.
            _ => (4, 48_000 * 4),
        };
        assert!(len / unit >= least, "{}: {len}", out.display());
    }
}

/// FFmpeg and GStreamer answer challenges.
#[track_caller]
fn passwords(stage: &Stage) {
    let file = stage.folder.path().join("credentials");
    std::fs::write(&file, "someone:secret\n").unwrap();
    let (file, place) = (
        file.display().to_string(),
        stage.folder.path().display().to_string(),
    );
    let serve = ["archive", "serve", "--json", "--listen", "127.0.0.1:0"];
    let more = ["--archive", &place, "--credentials", &file];
    let mut server = Running::start(sangam(&[&serve[..], &more].concat()));
    let ready = server.json_line();
    let address = ready["rtsp"][0].as_str().unwrap();
    for (password, is_right) in [("secret", true), ("guess", false)] {
        let url = format!("rtsp://someone:{password}@{address}/archive/film");
        let output = Command::new("ffprobe")
            .args(["-v", "error", "-rtsp_transport", "tcp", &url])
            .output()
            .unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.success(), is_right, "{said}");
        assert_eq!(said.contains("401"), !is_right, "{said}");
    }
    let pipeline = format!(
        "rtspsrc location=rtsp://{address}/archive/film protocols=tcp \
         user-id=someone user-pw=secret ! application/x-rtp,media=video ! fakesink num-buffers=50"
    );
    let mut command = Command::new("gst-launch-1.0");
    command.arg("-q").args(pipeline.split_whitespace());
    ends_well(&command.output().unwrap());
}

#[track_caller]
fn mpv(stage: &Stage) {
    let output = Command::new("mpv")
        .args("--no-config --vo=null --ao=null --rtsp-transport=udp".split(' '))
        .arg(&stage.url)
        .output()
        .unwrap();
    ends_well(&output);
    let said = text(&output.stdout);
    assert!(
        said.contains("h264 320x180") && said.contains("opus 2ch"),
        "{said}"
    );
    assert!(said.contains("End of file"), "{said}");
}
