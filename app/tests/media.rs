//! Real media through real brokers: FFmpeg on both ends, two processes between.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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

/// Lines of a player until so many streams have received more packets than this, at most 60.
fn until_it_plays(player: &mut Running, streams: usize, packets: u64) -> Value {
    for _ in 0..60 {
        let line = player.json_line();
        let lines = line["streams"].as_array().unwrap();
        let playing = lines
            .iter()
            .filter(|stream| stream["packets"].as_u64() > Some(packets))
            .count();
        if playing == streams {
            return line;
        }
    }
    panic!("nothing came");
}

/// An RTP packet: version 2, payload type 0, sequence, timestamp, SSRC, 160 bytes of sound.
fn sound(sequence: u8) -> Vec<u8> {
    let header = [0x80, 0, 0, sequence, 0, 0, 0, sequence, 1, 2, 3, 4];
    [header.as_slice(), &[0xff; 160]].concat()
}

/// A port that is free together with the next one.
fn free_port() -> u16 {
    let port = |_| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        UdpSocket::bind(("127.0.0.1", port.checked_add(1)?))
            .ok()
            .map(|_| port)
    };
    (0..100).find_map(port).unwrap()
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
        "play", "--json", "--from", &from, "--topic", "test/#", "--out", &path,
    ];
    let mut player = Running::start(sangam(&args));
    let _publisher = publisher(&first, &clip, "test/clip");
    // Six seconds of sound: FFmpeg looks at two of them before it writes.
    until_it_plays(&mut player, 2, 300);
    player.signal("INT");
    let (code, lines) = player.end();
    assert_eq!(code, 0, "{lines}");
    let summary: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    for stream in summary["streams"].as_array().unwrap() {
        assert!(stream["packets"].as_u64() > Some(300), "{stream}");
        assert_eq!(stream["brokers"], 2, "{stream}");
        assert!(stream["latency_p99_ms"].is_number(), "{stream}");
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
    until_it_plays(&mut player, 2, 0);
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
    let line = until_it_plays(&mut player, 2, 0);
    assert_eq!(line["streams"].as_array().unwrap().len(), 2);
    player.signal("INT");
    assert_eq!(player.end().0, 0);
}

#[test]
fn raw_rtp_goes_in_by_one_leg_and_out_by_another() {
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
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
    let mut buffer = [0; 2_048];
    sink.set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    // The first ones may come before the leg has its stream.
    let arrived = (0..100).find_map(|sequence| {
        source.send(&sound(sequence)).unwrap();
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
fn rtp_from_a_port_comes_out_at_a_port() {
    let broker = Broker::start(&[]);
    let (broker_address, port) = (broker.udp.to_string(), free_port());
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    sink.set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let (from, to) = (
        format!("127.0.0.1:{port}"),
        sink.local_addr().unwrap().to_string(),
    );
    let mut publisher = sangam(&[
        "publish",
        "--json",
        "--to",
        &broker_address,
        "--topic",
        "a/b",
    ]);
    publisher.args(["--rtp", &from, "--media", "pcmu"]);
    let mut publisher = Running::start(publisher);
    let player = [
        "play",
        "--json",
        "--from",
        &broker_address,
        "--topic",
        "a/+",
        "--rtp",
        &to,
    ];
    let mut player = Running::start(sangam(&player));
    publisher.json_line();
    player.json_line();
    let source = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut buffer = [0; 2_048];
    let arrived = (0..100).find_map(|sequence| {
        source.send_to(&sound(sequence), &from).unwrap();
        sink.recv(&mut buffer).ok()
    });
    assert_eq!(arrived, Some(172));
    for process in [publisher, player] {
        process.signal("TERM");
        assert_eq!(process.end().0, 0);
    }
}

#[test]
fn no_encoder_outlives_a_killed_publisher() {
    let folder = tempfile::tempdir().unwrap();
    let clip = clip(folder.path());
    let broker = Broker::start(&[]);
    let publisher = publisher(&broker, &clip, "test/clip");
    let parent = publisher.child.id();
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let encoder: u32 = children.unwrap().trim().parse().unwrap();
    publisher.signal("KILL");
    publisher.end();
    // What is left of it, until somebody has collected it, has no command line any more.
    let left = || std::fs::read(format!("/proc/{encoder}/cmdline")).unwrap_or_default();
    let patience = Instant::now() + Duration::from_secs(10);
    while !left().is_empty() && Instant::now() < patience {
        std::thread::yield_now();
    }
    assert!(left().is_empty(), "process {encoder} goes on");
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
fn the_demonstrations_meeting_has_two_guests_who_are_seen_and_heard() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().display().to_string();
    let args = [
        "demo",
        "--meeting",
        "--json",
        "--seconds",
        "120",
        "--out",
        &out,
    ];
    let mut demo = Running::start(sangam(&args));
    let open = demo.json_line();
    assert_eq!(open["event"], "meeting");
    let link = open["links"][0].as_str().unwrap();
    assert!(link.ends_with("/m/demo/meeting"), "{link}");
    let from = open["udp"].as_str().unwrap();
    let topic = "demo/meeting/main/#";
    let args = ["play", "--json", "--from", from, "--topic", topic];
    let mut player = Running::start(sangam(&args));
    // A camera and a microphone of each.
    until_it_plays(&mut player, 4, 0);
    while demo.json_line()["members"] != 2 {}
    demo.signal("INT");
    let (code, lines) = demo.end();
    assert_eq!(code, 0, "{lines}");
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
    let killed = facts["killed"].as_str().unwrap_or_default();
    assert!(["demo-b", "demo-c"].contains(&killed), "{facts}");
    assert_eq!(probe(&folder.path().join("demo.mkv")).0, ["h264", "opus"]);
}
