//! What is published now, served by RTSP and played by players that know nothing of Sangam.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{Broker, Running, clip, ends_well, probe, rtspsrc_ends, run, sangam, text, times};
use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A broker, its RTSP server, and a clip to publish.
struct Stage {
    broker: Broker,
    server: Running,
    folder: TempDir,
    clip: PathBuf,
    address: SocketAddr,
}

impl Stage {
    fn new() -> Self {
        Self::with(Broker::start(&[]), &[])
    }

    /// The server has more options.
    fn with(broker: Broker, more: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let clip = clip(folder.path());
        let (place, of) = (folder.path().display().to_string(), broker.udp.to_string());
        let serve = ["archive", "serve", "--json", "--listen", "127.0.0.1:0"];
        let serve = [&serve[..], &["--archive", &place, "--broker", &of], more].concat();
        let mut server = Running::start(sangam(&serve));
        let ready = server.json_line();
        assert_eq!(ready["live"], true);
        let address = ready["rtsp"][0].as_str().unwrap().parse().unwrap();
        Self {
            broker,
            server,
            folder,
            clip,
            address,
        }
    }

    /// A publisher of the clip, over and over, that has begun.
    fn publisher(&self) -> Running {
        let (address, file) = (self.broker.udp.to_string(), self.clip.display().to_string());
        let publish = ["publish", "--json", "--loop", "--to", &address];
        let what = ["--topic", "test/clip", "--file", &file];
        let mut publisher = Running::start(sangam(&[&publish[..], &what].concat()));
        assert_eq!(publisher.json_line()["event"], "second");
        publisher
    }

    fn url(&self, topic: &str) -> String {
        format!("rtsp://{}/live/{topic}", self.address)
    }

    /// The status of the answer to who asks what there is on a topic.
    fn status(&self, topic: &str) -> u16 {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let url = self.url(topic);
        write!(stream, "DESCRIBE {url} RTSP/1.0\r\nCSeq: 1\r\n\r\n").unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line.split(' ').nth(1).unwrap().parse().unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// FFmpeg that copies what it receives into a file, for so many seconds of it.
    fn copy(&self, transport: &str, seconds: Option<&str>, out: &Path) -> Child {
        let mut command = Command::new("ffmpeg");
        command.args("-nostdin -y -v error -rtsp_transport".split(' '));
        command.args([transport, "-i", &self.url("test/clip")]);
        if let Some(seconds) = seconds {
            command.args(["-t", seconds]);
        }
        command.args(["-c", "copy"]).arg(out);
        command.stderr(Stdio::piped()).spawn().unwrap()
    }
}

/// Waits for the end of a player.
#[track_caller]
fn end(mut player: Child) -> Output {
    let until = Instant::now() + PATIENCE;
    while player.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            player.kill().unwrap();
            let output = player.wait_with_output().unwrap();
            panic!("it plays on: {}", text(&output.stderr));
        }
        thread::park_timeout(Duration::from_millis(20));
    }
    player.wait_with_output().unwrap()
}

#[test]
fn a_topic_is_played_by_ffmpeg_gstreamer_and_mpv() {
    let mut stage = Stage::new();
    let _publisher = stage.publisher();
    // Two at once, by different ways.
    let players = ["tcp", "udp"].map(|transport| {
        let out = stage.file(&format!("{transport}.mkv"));
        (stage.copy(transport, Some("5"), &out), out)
    });
    for (player, out) in players {
        rtspsrc_ends(&end(player));
        let (codecs, seconds) = probe(&out);
        assert_eq!(codecs, ["h264", "opus"]);
        assert!(
            (4.0..6.5).contains(&seconds),
            "{}: {seconds}",
            out.display()
        );
        // 25 pictures and 50 packets of sound a second.
        let (pictures, sounds) = (times(&out, "v"), times(&out, "a"));
        assert!(pictures.len() >= 80, "{}", pictures.len());
        assert!(sounds.len() >= 160, "{}", sounds.len());
        let apart = pictures[0] - sounds[0];
        assert!(apart.abs() < 1.2, "{}: {apart}", out.display());
    }
    // The broker sent it once.
    let counts = stage.server.counts("packets", 2 * (80 + 160));
    assert_eq!(counts["live_topics"], 1, "{counts}");
    let (sent, received) = (counts["packets"].as_u64(), counts["live_events"].as_u64());
    assert!(sent > received, "{counts}");
    probes(&stage);
    gstreamer(&stage);
    mpv(&stage);
    let counts = stage.server.counts("not_found", 1);
    for none in [
        "malformed",
        "unsent_failed",
        "live_malformed",
        "live_unread",
        "live_ended",
        "busy",
    ] {
        assert_eq!(counts[none], 0, "{none}: {counts}");
    }
}

/// What is there has no length, and what is not there is not found.
#[track_caller]
fn probes(stage: &Stage) {
    let ask = |topic: &str| {
        Command::new("ffprobe")
            .args("-v error -rtsp_transport tcp -show_streams -show_format -of json".split(' '))
            .arg(stage.url(topic))
            .output()
            .unwrap()
    };
    let output = ask("test/clip");
    ends_well(&output);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let streams = found["streams"].as_array().unwrap();
    assert_eq!(streams.len(), 2, "{found}");
    assert_eq!(found["format"]["duration"], Value::Null, "{found}");
    // One of the two has a topic of its own.
    let output = ask("test/clip/video");
    ends_well(&output);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["streams"][0]["codec_name"], "h264");
    assert_eq!(found["streams"][1], Value::Null);
    let output = ask("test/nothing");
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("404"), "{said}");
}

/// One track each, as `gst-launch-1.0` may link two that come at the same moment the wrong way
/// round.
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
        let out = stage.file(&format!("{protocols}-{media}.raw"));
        // Pictures, or 20 ms of sound each.
        let buffers = if media == "video" { 60 } else { 120 };
        let pipeline = format!(
            "rtspsrc location={} protocols={protocols} latency=200 \
             ! application/x-rtp,media={media} ! {decoder} ! identity eos-after={buffers} \
             ! filesink sync=false location={}",
            stage.url("test/clip"),
            out.display()
        );
        let mut command = Command::new("gst-launch-1.0");
        command.arg("-q").args(pipeline.split_whitespace());
        (command.stderr(Stdio::piped()).spawn().unwrap(), out, media)
    });
    for (player, out, media) in runs {
        rtspsrc_ends(&end(player));
        let len = std::fs::metadata(&out).unwrap().len();
        let (least, unit) = match media {
            "video" => (50, 320 * 180 * 3 / 2),
            // A second of 16-bit stereo.
            _ => (2, 48_000 * 4),
        };
        assert!(len / unit >= least, "{}: {len}", out.display());
    }
}

#[track_caller]
fn mpv(stage: &Stage) {
    let player = Command::new("mpv")
        .args("--no-config --vo=null --ao=null --frames=50 --rtsp-transport=udp".split(' '))
        .arg(stage.url("test/clip"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = end(player);
    ends_well(&output);
    let said = text(&output.stdout);
    assert!(
        said.contains("h264 320x180") && said.contains("opus 2ch"),
        "{said}"
    );
}

#[test]
fn players_end_with_their_publisher_unless_it_comes_back() {
    let mut stage = Stage::new();
    let publisher = stage.publisher();
    let out = stage.file("ended.mkv");
    let player = stage.copy("tcp", None, &out);
    stage.server.counts("packets", 150);
    publisher.signal("TERM");
    assert_eq!(publisher.end().0, 0);
    // It hears a goodbye for each track.
    ends_well(&end(player));
    assert_eq!(probe(&out).0, ["h264", "opus"]);
    let counts = stage.server.counts("live_ended", 2);
    let before = counts["packets"].as_u64().unwrap();

    // One that is killed says nothing, and another takes its place.
    let publisher = stage.publisher();
    let out = stage.file("returned.mkv");
    let player = stage.copy("udp", Some("15"), &out);
    stage.server.counts("packets", before + 150);
    drop(publisher);
    let _publisher = stage.publisher();
    stage.server.counts("live_returned", 2);
    ends_well(&end(player));
    let (codecs, seconds) = probe(&out);
    assert_eq!(codecs, ["h264", "opus"]);
    assert!((13.0..17.0).contains(&seconds), "{seconds}");
    let pictures = times(&out, "v");
    // All but the seconds between the two, and those in which the second one began.
    assert!(pictures.len() >= 150, "{}", pictures.len());
    let counts = stage.server.counts("plays", 2);
    assert_eq!(counts["live_ended"], 2, "{counts}");
}

#[test]
fn a_token_says_which_topics_are_played_and_a_newer_one_says_others() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (keys, key, token) = (at("tokens"), at("tokens.key"), at("token"));
    ends_well(&run(&["token", "key", "--out", &keys]));
    let public = at("tokens.pub");
    let config = format!("[auth]\nrequired = true\nkeys = [\"{public}\"]\n");
    fs::write(at("sangam.toml"), config).unwrap();
    let grant = |filter: &str| {
        let issue = ["token", "issue", "--key", &key, "--sub", "server"];
        let output = run(&[&issue[..], &["--subscribe", filter]].concat());
        ends_well(&output);
        fs::write(&token, &output.stdout).unwrap();
    };
    grant("test/one/#");
    let broker = Broker::start(&["--config", &at("sangam.toml")]);
    let stage = Stage::with(broker, &["--token-file", &token]);
    // Nothing is published there, but it would be played.
    assert_eq!(stage.status("test/one"), 404);
    assert_eq!(stage.status("test/other"), 403);
    grant("test/other/#");
    let until = Instant::now() + PATIENCE;
    while stage.status("test/other") != 404 {
        assert!(Instant::now() < until, "the newer token is not shown");
    }
    assert_eq!(stage.status("test/one"), 403);
}
