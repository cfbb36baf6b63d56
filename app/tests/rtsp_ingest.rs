//! Cameras and encoders publish by RTSP; players that know nothing of them see it.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{Broker, Running, clip, ends_well, probe, run, sangam, text, times};
use tempfile::TempDir;

/// A broker, and an RTSP server that lets publish who knows the password.
struct Stage {
    broker: Broker,
    server: Running,
    folder: TempDir,
    address: String,
}

/// An encoder that is ended with its test.
struct Encoder(Child);

impl Drop for Encoder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Stage {
    fn new() -> Self {
        let (broker, folder) = (Broker::start(&[]), TempDir::new().unwrap());
        let at = |name: &str| folder.path().join(name).display().to_string();
        fs::write(at("cameras"), "camera:secret\n").unwrap();
        let (of, place, file) = (broker.udp.to_string(), at("archive"), at("cameras"));
        let serve = ["archive", "serve", "--json", "--listen", "127.0.0.1:0"];
        let more = ["--archive", &place, "--broker", &of, "--ingest"];
        let known = ["--ingest-credentials", &file];
        let mut server = Running::start(sangam(&[&serve[..], &more, &known].concat()));
        let address = server.json_line()["rtsp"][0].as_str().unwrap().to_owned();
        let mut stage = Self {
            broker,
            server,
            folder,
            address,
        };
        stage.server.counts("ingest_links", 1);
        stage
    }

    fn url(&self, topic: &str) -> String {
        format!("rtsp://{}/live/{topic}", self.address)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// FFmpeg that publishes a clip over and over, as it is.
    fn publish(&self, clip: &Path, (transport, topic): (&str, &str), password: &str) -> Command {
        let url = self.url(topic);
        let url = url.replace("rtsp://", &format!("rtsp://camera:{password}@"));
        let mut command = Command::new("ffmpeg");
        command.args("-nostdin -v error -re -stream_loop -1 -i".split(' '));
        command
            .arg(clip)
            .args("-c copy -f rtsp -rtsp_transport".split(' '));
        command.args([transport, &url]).stderr(Stdio::piped());
        command
    }

    /// The same, running.
    fn encoder(&self, clip: &Path, how: (&str, &str)) -> Encoder {
        Encoder(self.publish(clip, how, "secret").spawn().unwrap())
    }

    /// A pipeline of GStreamer that publishes; it begins behind the encoder.
    fn pipeline(&self, begin: &str, (transport, topic): (&str, &str)) -> Encoder {
        let pipeline = format!(
            "{begin} ! rtspclientsink location={} protocols={transport} user-id=camera \
             user-pw=secret",
            self.url(topic)
        );
        let mut command = Command::new("gst-launch-1.0");
        command.arg("-q").args(pipeline.split_whitespace());
        Encoder(command.stderr(Stdio::piped()).spawn().unwrap())
    }

    /// FFmpeg plays a topic for four seconds: what it says is there, pictures and sounds.
    #[track_caller]
    fn play(&self, topic: &str, transport: &str) -> (Vec<String>, usize, usize) {
        let out = self.file("played.mkv");
        let output = Command::new("ffmpeg")
            .args("-nostdin -y -v error -rtsp_transport".split(' '))
            .args([transport, "-i", &self.url(topic)])
            .args("-t 4 -c copy".split(' '))
            .arg(&out)
            .output()
            .unwrap();
        ends_well(&output);
        (
            probe(&out).0,
            times(&out, "v").len(),
            times(&out, "a").len(),
        )
    }
}

#[test]
fn what_ffmpeg_publishes_another_ffmpeg_plays() {
    let mut stage = Stage::new();
    let clip = clip(stage.folder.path());
    for (number, transport, player) in [(1, "tcp", "udp"), (2, "udp", "tcp")] {
        let topic = format!("test/{transport}");
        let _encoder = stage.encoder(&clip, (transport, &topic));
        stage.server.counts("ingest_published", number);
        let (codecs, pictures, sounds) = stage.play(&topic, player);
        assert_eq!(codecs, ["h264", "opus"]);
        // 25 pictures and 50 packets of sound a second.
        assert!(pictures >= 65, "{transport}: {pictures}");
        assert!(sounds >= 130, "{transport}: {sounds}");
    }
    // A client of the network hears it as well.
    let _encoder = stage.encoder(&clip, ("tcp", "test/again"));
    stage.server.counts("ingest_published", 3);
    let (from, out) = (stage.broker.udp.to_string(), stage.file("heard.mkv"));
    let out = out.display().to_string();
    let play = [
        "play",
        "--from",
        &from,
        "--topic",
        "test/again/#",
        "--seconds",
        "4",
    ];
    ends_well(&run(&[&play[..], &["--out", &out]].concat()));
    assert_eq!(probe(Path::new(&out)).0, ["h264", "opus"]);
    let counts = stage.server.counts("ingest_reports", 2);
    for none in [
        "ingest_malformed",
        "ingest_dropped",
        "malformed",
        "live_malformed",
    ] {
        assert_eq!(counts[none], 0, "{none}: {counts}");
    }
    // Players asked for key frames, and so was the publisher.
    assert!(counts["ingest_key_frames"].as_u64() > Some(0), "{counts}");
}

#[test]
fn other_encodings_come_as_they_are_announced() {
    let mut stage = Stage::new();
    let clip = stage.file("other.mkv");
    let made = Command::new("ffmpeg")
        .args("-y -nostdin -loglevel error -f lavfi -i testsrc2=size=320x180:rate=25".split(' '))
        .args("-f lavfi -i sine=frequency=440:sample_rate=44100 -t 3".split(' '))
        .args("-c:v libx265 -preset ultrafast -tune zerolatency -x265-params".split(' '))
        .args("keyint=25:log-level=none -pix_fmt yuv420p -c:a aac".split(' '))
        .arg(&clip)
        .output()
        .unwrap();
    ends_well(&made);
    let _encoder = stage.encoder(&clip, ("tcp", "test/hevc"));
    stage.server.counts("ingest_published", 1);
    let (codecs, pictures, sounds) = stage.play("test/hevc", "tcp");
    assert_eq!(codecs, ["aac", "hevc"]);
    // 43 packets of sound a second.
    assert!(pictures >= 60 && sounds >= 100, "{pictures} {sounds}");

    let source = "videotestsrc is-live=true ! video/x-raw,width=320,height=180,framerate=25/1 \
                  ! x264enc tune=zerolatency speed-preset=ultrafast key-int-max=25";
    let _udp = stage.pipeline(source, ("udp", "test/gst"));
    stage.server.counts("ingest_published", 2);
    let (codecs, pictures, _) = stage.play("test/gst", "tcp");
    assert_eq!(codecs, ["h264"]);
    assert!(pictures >= 60, "{pictures}");

    let _ts = stage.pipeline(&format!("{source} ! mpegtsmux"), ("tcp", "test/ts"));
    stage.server.counts("ingest_published", 3);
    let (codecs, pictures, _) = stage.play("test/ts", "tcp");
    assert_eq!(codecs, ["h264"]);
    assert!(pictures >= 50, "{pictures}");
    let counts = stage.server.counts("ingest_reports", 1);
    assert_eq!(counts["ingest_malformed"], 0, "{counts}");
}

#[test]
fn who_does_not_know_the_password_publishes_nothing() {
    let mut stage = Stage::new();
    let clip = clip(stage.folder.path());
    let output = stage.publish(&clip, ("tcp", "test/a"), "guess").output();
    let output = output.unwrap();
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("401"), "{said}");
    let counts = stage.server.counts("unauthorized", 1);
    assert_eq!(counts["ingest_published"], 0, "{counts}");
}
