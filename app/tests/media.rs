//! Real media through real brokers: FFmpeg on both ends, two processes between.

mod common;

use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Broker, Running, clip, probe, sangam, text};
use serde_json::Value;

fn publisher(broker: &Broker, clip: &Path, topic: &str) -> Running {
    let (to, file) = (broker.udp.to_string(), clip.display().to_string());
    let args = [
        "publish", "--json", "--loop", "--to", &to, "--topic", topic, "--file", &file,
    ];
    let mut running = Running::start(sangam(&args));
    assert_eq!(running.json_line()["event"], "second");
    running
}

/// Lines of a player until every stream it has received something, at most 30.
fn until_it_plays(player: &mut Running, streams: usize) -> Value {
    for _ in 0..30 {
        let line = player.json_line();
        let lines = line["streams"].as_array().unwrap();
        let playing = lines
            .iter()
            .filter(|stream| stream["packets"].as_u64() > Some(0))
            .count();
        if playing == streams {
            return line;
        }
    }
    panic!("nothing came");
}

#[test]
fn a_clip_crosses_two_brokers_into_a_file_that_plays() {
    let folder = tempfile::tempdir().unwrap();
    let clip = clip(folder.path());
    let first = Broker::start(&[]);
    let second = Broker::linked(&first);
    let out = folder.path().join("out.mkv");
    let (from, path) = (second.udp.to_string(), out.display().to_string());
    let args = [
        "play",
        "--json",
        "--from",
        &from,
        "--topic",
        "test/#",
        "--seconds",
        "9",
    ];
    let mut command = sangam(&args);
    command.args(["--out", &path, "--max-loss", "1", "--max-latency", "1000"]);
    let player = Running::start(command);
    let _publisher = publisher(&first, &clip, "test/clip");
    let (code, lines) = player.end();
    assert_eq!(code, 0, "{lines}");
    let summary: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    for stream in summary["streams"].as_array().unwrap() {
        assert!(stream["packets"].as_u64() > Some(50), "{stream}");
        assert_eq!(stream["brokers"], 2, "{stream}");
    }
    let (codecs, seconds) = probe(&out);
    assert_eq!(codecs, ["h264", "opus"]);
    assert!(seconds > 1.0, "{seconds} s");
}

#[test]
fn ffmpeg_and_gstreamer_play_the_running_stream_from_the_description() {
    let folder = tempfile::tempdir().unwrap();
    let clip = clip(folder.path());
    let broker = Broker::start(&[]);
    let _publisher = publisher(&broker, &clip, "test/clip");
    let sdp = folder.path().join("live.sdp").display().to_string();
    let from = broker.udp.to_string();
    let args = [
        "play", "--json", "--from", &from, "--topic", "test/#", "--sdp", &sdp,
    ];
    let mut player = Running::start(sangam(&args));
    until_it_plays(&mut player, 2);
    // One after the other, as they bind the same ports.
    let frames = Command::new("ffmpeg")
        .args("-nostdin -loglevel error -protocol_whitelist file,udp,rtp -i".split(' '))
        .args([
            &sdp,
            "-frames:v",
            "20",
            "-frames:a",
            "20",
            "-f",
            "null",
            "-",
        ])
        .output()
        .unwrap();
    assert!(frames.status.success(), "{}", text(&frames.stderr));
    let played = Command::new("timeout")
        .args([
            "30",
            "gst-launch-1.0",
            "playbin",
            "flags=video",
            &format!("uri=sdp://{sdp}"),
        ])
        .arg("video-sink=fakesink num-buffers=20")
        .stdout(Stdio::piped())
        .output()
        .unwrap();
    assert!(
        played.status.success(),
        "{}{}",
        text(&played.stdout),
        text(&played.stderr)
    );
}

#[test]
fn a_clip_crosses_by_tcp_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let clip = clip(folder.path());
    let broker = Broker::start(&[]);
    let from = broker.tcp.to_string();
    let args = [
        "play", "--json", "--tcp", "--from", &from, "--topic", "test/#",
    ];
    let mut player = Running::start(sangam(&args));
    let _publisher = publisher(&broker, &clip, "test/clip");
    let line = until_it_plays(&mut player, 2);
    assert_eq!(line["streams"].as_array().unwrap().len(), 2);
    player.signal("INT");
    assert_eq!(player.end().0, 0);
}

#[test]
fn raw_rtp_goes_in_by_one_leg_and_out_by_another() {
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    sink.set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let to = sink.local_addr().unwrap();
    let broker = Broker::start(&[
        "--leg",
        "name=in,topic=test/cam,receive=127.0.0.1:0,rtcp=mux,media=pcmu",
        "--leg",
        &format!("name=out,topic=test/#,send={to},rtcp=mux"),
    ]);
    let leg: Value = serde_json::from_str(&broker.get("/v1/legs/in").1).unwrap();
    let source = UdpSocket::bind("127.0.0.1:0").unwrap();
    source.connect(leg["receive"].as_str().unwrap()).unwrap();
    sink.set_nonblocking(false).unwrap();
    // RTP: version 2, payload type 0, sequence, timestamp, SSRC, 160 bytes of sound.
    let packet = |sequence: u8| {
        let header = [0x80, 0, 0, sequence, 0, 0, 0, sequence, 1, 2, 3, 4];
        [header.as_slice(), &[0xff; 160]].concat()
    };
    let mut buffer = [0; 2_048];
    sink.set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    // The first ones may come before the leg has its stream.
    let arrived = (0..100).find_map(|sequence| {
        source.send(&packet(sequence)).unwrap();
        sink.recv(&mut buffer).ok()
    });
    assert_eq!(arrived, Some(172));
    assert_eq!(buffer[..3], [0x80, 0, 0]);
    let (status, description) = broker.get("/v1/legs/out.sdp");
    assert_eq!(status, 200, "{description}");
    assert!(
        description.contains(&format!("m=audio {} RTP/AVP 0", to.port())),
        "{description}"
    );
}

#[test]
fn a_missed_threshold_has_an_exit_code_of_its_own() {
    let broker = Broker::start(&[]);
    let from = broker.udp.to_string();
    let args = [
        "play",
        "--from",
        &from,
        "--topic",
        "nothing/here",
        "--seconds",
        "1",
    ];
    let mut command = sangam(&args);
    let output = command.args(["--max-loss", "1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(10), "{}", text(&output.stderr));
}

#[test]
fn a_file_that_is_no_media_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    std::fs::write(&path, "no film").unwrap();
    let file = path.display().to_string();
    let output = common::run(&["publish", "--topic", "a", "--file", &file]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("notes.txt"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn the_demonstration_succeeds_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().display().to_string();
    let output = common::run(&["demo", "--json", "--seconds", "6", "--out", &out]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    let facts: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!(facts["event"], "demo");
    assert!(facts["relayed"].as_u64() > Some(100), "{facts}");
    assert_eq!(probe(&folder.path().join("demo.mkv")).0, ["h264", "opus"]);
}
