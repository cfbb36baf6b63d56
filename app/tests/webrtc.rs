//! WHIP and WHEP with a peer that nobody here wrote: GStreamer's webrtcbin.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::process::{Command, Stdio};

use common::{Broker, Running, clip, sangam, text};
use serde_json::Value;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/gstreamer/webrtc.py");

fn gstreamer(what: &str, url: &str, more: &[&str]) -> Command {
    let mut command = Command::new("/usr/bin/python3");
    command
        .args([SCRIPT, what, url, "--seconds", "60"])
        .args(more)
        .stdin(Stdio::null());
    command
}

fn url(broker: &Broker, verb: &str, topic: &str) -> String {
    format!("http://{}/v1/{verb}/{topic}", broker.http)
}

/// Publishes with GStreamer until the end of the test; connected when this returns.
fn publisher(broker: &Broker, topic: &str, video: &str) -> Running {
    let url = url(broker, "whip", topic);
    let mut running = Running::start(gstreamer("publish", &url, &["--video", video]));
    while running.json_line()["event"] != "connected" {}
    running
}

/// Plays with GStreamer until it has decoded pictures and sounds.
#[track_caller]
fn plays(broker: &Broker, topic: &str, video: &str) {
    let url = url(broker, "whep", topic);
    let output = gstreamer("play", &url, &["--video", video])
        .output()
        .unwrap();
    let lines = text(&output.stdout);
    assert!(output.status.success(), "{lines}\n{}", text(&output.stderr));
    if video != "none" {
        let all = lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let end = all.into_iter().find(|line| line["event"] == "end").unwrap();
        assert_eq!(end["width"], 320, "{lines}");
    }
}

#[test]
fn gstreamer_publishes_and_plays_across_two_brokers() {
    let first = Broker::start(&[]);
    let second = Broker::linked(&first);
    let _vp8 = publisher(&first, "test/vp8", "vp8");
    plays(&second, "test/vp8", "vp8");
    let _h264 = publisher(&second, "test/h264", "h264");
    plays(&second, "test/h264", "h264");
}

#[test]
fn what_sangam_publishes_gstreamer_plays_by_whep() {
    let folder = tempfile::tempdir().unwrap();
    let clip = clip(folder.path()).display().to_string();
    let broker = Broker::start(&[]);
    let to = broker.udp.to_string();
    let args = [
        "publish",
        "--json",
        "--loop",
        "--to",
        &to,
        "--topic",
        "test/clip",
    ];
    let mut command = sangam(&args);
    command.args(["--file", &clip]);
    let mut publisher = Running::start(command);
    publisher.json_line();
    plays(&broker, "test/clip", "h264");
}

#[test]
fn what_gstreamer_publishes_sangam_plays() {
    let broker = Broker::start(&[]);
    let _publisher = publisher(&broker, "test/gst", "vp8");
    let from = broker.udp.to_string();
    let args = [
        "play",
        "--json",
        "--from",
        &from,
        "--topic",
        "test/gst/#",
        "--seconds",
        "4",
    ];
    let output = common::run(&args);
    let lines = text(&output.stdout);
    let summary: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    let streams = summary["streams"].as_array().unwrap();
    assert_eq!(streams.len(), 2, "{summary}");
    for stream in streams {
        assert!(stream["packets"].as_u64() > Some(20), "{stream}");
    }
}

#[test]
fn a_token_grants_its_own_topics_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let run = |args: &[&str]| {
        let output = common::run(args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    run(&["token", "key", "--out", &path("tokens")]);
    let issued = run(&[
        "token",
        "issue",
        "--key",
        &path("tokens.key"),
        "--sub",
        "anna",
        "--publish",
        "test/anna/#",
        "--subscribe",
        "test/#",
    ]);
    let token = issued.trim();
    let config = format!("[auth]\nkeys = [\"{}\"]\n", path("tokens.pub"));
    std::fs::write(path("config.toml"), config).unwrap();
    let mut command = sangam(&[
        "serve",
        "--json",
        "--log",
        "error",
        "--config",
        &path("config.toml"),
    ]);
    command.args([
        "--listen",
        "127.0.0.1:0",
        "--webrtc",
        "127.0.0.1:0",
        "--http",
        "127.0.0.1:0",
    ]);
    let mut process = Running::start(command);
    let ready = process.json_line();
    let http = ready["http"].as_str().unwrap().to_owned();
    let refused = |verb: &str, topic: &str, token: Option<&str>| {
        let url = format!("http://{http}/v1/{verb}/{topic}");
        let mut command = gstreamer("publish", &url, &["--video", "none"]);
        command.args(token.map(|token| ["--token", token]).into_iter().flatten());
        let mut running = Running::start(command);
        loop {
            let line = running.json_line();
            match line["event"].as_str() {
                Some("connected") => return None,
                Some("refused") => return line["status"].as_u64(),
                _ => {}
            }
        }
    };
    assert_eq!(refused("whip", "test/anna", None), Some(401));
    assert_eq!(refused("whip", "test/anna", Some("e30.e30.e30")), Some(401));
    assert_eq!(refused("whip", "test/bert", Some(token)), Some(403));
    assert_eq!(refused("whip", "other/anna", Some(token)), Some(403));
    assert_eq!(refused("whip", "test/anna", Some(token)), None);
}

#[test]
fn what_is_no_offer_is_refused_in_words() {
    let broker = Broker::start(&[]);
    let sdp = ["Content-Type: application/sdp"];
    let post =
        |path: &str, headers: &[&str], body: &str| broker.request("POST", path, headers, body);
    for (status, path, headers, body) in [
        (400, "/v1/whip/a", &sdp[..], "v=0"),
        (400, "/v1/whip/a", &sdp[..], ""),
        (400, "/v1/whip/a/%23", &sdp[..], "v=0"),
        (
            415,
            "/v1/whip/a",
            &["Content-Type: application/json"][..],
            "{}",
        ),
        (413, "/v1/whep/a", &sdp[..], &"x".repeat(70_000)),
    ] {
        let (found, answer) = post(path, headers, body);
        assert_eq!(found, status, "{path}: {answer}");
    }
    for method in ["DELETE", "GET"] {
        let id = "00".repeat(17);
        let (status, _) = broker.request(method, &format!("/v1/webrtc/{id}"), &[], "");
        assert_eq!(status, 404, "{method}");
    }
    let json = ["Content-Type: application/json"];
    let nobody = format!("/v1/webrtc/{}/shown", "00".repeat(17));
    for (status, path, headers, body) in [
        (404, &*nobody, &json[..], r#"[{"mid": "0", "height": 360}]"#),
        (404, &nobody, &json[..], r#"[{"mid": "0", "height": 4321}]"#),
        (
            400,
            &nobody,
            &json[..],
            r#"[{"mid": "0", "height": 1, "width": 1}]"#,
        ),
        (400, &nobody, &json[..], r#"{"mid": "0""#),
        (413, &nobody, &json[..], &"x".repeat(70_000)),
        (400, &nobody, &sdp[..], "[]"),
        (404, "/v1/webrtc/no-such-peer/shown", &json[..], "[]"),
    ] {
        let (found, answer) = broker.request("PUT", path, headers, body);
        assert_eq!(found, status, "{path} {body:.40}: {answer}");
    }
    let (_, facts) = broker.get("/v1/broker");
    let facts: Value = serde_json::from_str(&facts).unwrap();
    assert_eq!(facts["webrtc"].as_array().unwrap().len(), 1, "{facts}");
}
