//! WHIP and WHEP with a peer that nobody here wrote: GStreamer's webrtcbin.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;
#[path = "common/meeting.rs"]
mod meeting;

use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{Broker, Running, clip, sangam, text};
use meeting::{Member, OPERATOR, closed, guarded, session};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);
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
    publishes(broker, topic, &["--video", video])
}

fn publishes(broker: &Broker, topic: &str, more: &[&str]) -> Running {
    connected(gstreamer("publish", &url(broker, "whip", topic), more))
}

fn connected(command: Command) -> Running {
    let mut running = Running::start(command);
    while running.json_line()["event"] != "connected" {}
    running
}

/// GStreamer plays until the end of the test, and tells what it has decoded.
struct Listener(Running);

impl Listener {
    fn start(broker: &Broker, topic: &str, token: &str) -> Self {
        let more = ["--token", token, "--frames", "1000000", "--seconds", "600"];
        let mut command = gstreamer("play", &url(broker, "whep", topic), &more);
        command.stdin(Stdio::piped());
        Self(connected(command))
    }

    /// Pictures, or sounds, that it has decoded.
    fn count(&mut self, what: &str) -> u64 {
        writeln!(self.0.child.stdin.as_mut().unwrap(), "count").unwrap();
        loop {
            let line = self.0.json_line();
            if line["event"] == "count" {
                return line[what].as_u64().unwrap();
            }
        }
    }

    #[track_caller]
    fn decodes_more(&mut self, what: &str) {
        let before = self.count(what);
        until(what, || self.count(what) >= before + 20);
    }

    /// What was on its way has come, and nothing follows, while a broker turns away what is sent.
    #[track_caller]
    fn decodes_no_more(&mut self, what: &str, at: &Broker) {
        until(what, || {
            let before = self.count(what);
            turns_away(at, 60);
            self.count(what) == before
        });
    }
}

/// Waits until a broker has turned away so many more packets for want of a floor.
#[track_caller]
fn turns_away(broker: &Broker, packets: u64) {
    let before = closed(broker);
    until("nothing is turned away", || {
        closed(broker) >= before + packets
    });
}

#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "in vain: {what}");
        thread::park_timeout(PAUSE);
    }
}

/// Plays with GStreamer until it has decoded pictures and sounds.
#[track_caller]
fn plays(broker: &Broker, topic: &str, video: &str) {
    plays_with(broker, topic, (video, &[]));
}

#[track_caller]
fn plays_with(broker: &Broker, topic: &str, (video, more): (&str, &[&str])) {
    let url = url(broker, "whep", topic);
    let more = [&["--video", video][..], more].concat();
    let output = gstreamer("play", &url, &more).output().unwrap();
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
fn gstreamer_without_udp_publishes_and_plays_by_tcp() {
    let broker = Broker::start(&[]);
    let _publisher = publishes(&broker, "test/tcp", &["--tcp"]);
    plays_with(&broker, "test/tcp", ("vp8", &["--tcp"]));
    let (_, metrics) = broker.get("/metrics");
    let counted = |name: &str| {
        let of = |line: &&str| line.starts_with(name);
        let line = metrics.lines().find(of).unwrap();
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    assert!(
        counted("sangam_webrtc_tcp_accepted_total") >= 2,
        "{metrics}"
    );
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

/// It may publish as far as its token says, and holds no floor.
#[test]
fn what_a_hostile_peer_sends_without_the_floor_reaches_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::start(&["--config", &guarded(folder.path())]);
    let as_operator = |args: &[&str]| session(&broker, &[args, &OPERATOR[..]].concat());
    as_operator(&["create", "acme/weekly"]);
    let member = |identity: &str, role: &str| {
        let who = ["--identity", identity, "--role", role];
        let made = as_operator(&[&["invite", "acme/weekly"][..], &who].concat());
        let mut member = Member::start(&broker, made["token"].as_str().unwrap());
        member.wait("state");
        member
    };
    let (mut chair, mut anna) = (member("chair", "chair"), member("anna", "participant"));
    let key = folder.path().join("tokens.key").display().to_string();
    let issued = |right: &str| {
        let who = [
            "token", "issue", "--key", &key, "--sub", "mallory", right, "acme/#",
        ];
        let output = common::run(&who);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).trim().to_owned()
    };
    let token = issued("--publish");
    let sends = |topic: &str, more: &[&str]| {
        let more = [&["--token", &token, "--seconds", "600"][..], more].concat();
        publishes(&broker, topic, &more)
    };
    let _sound = sends("acme/weekly/main/audio/m2", &["--video", "none"]);
    turns_away(&broker, 1);
    let _picture = sends("acme/weekly/main/video/m2", &["--tone", "0"]);
    let mut bert = Listener::start(&broker, "acme/weekly/main/+/m2", &issued("--subscribe"));
    turns_away(&broker, 100);
    assert_eq!((bert.count("sounds"), bert.count("frames")), (0, 0));

    anna.ask(json!({ "do": "request", "medium": "audio" }));
    bert.decodes_more("sounds");
    // Now it is pictures alone.
    turns_away(&broker, 60);
    assert_eq!(bert.count("frames"), 0, "one floor opens no other");
    anna.ask(json!({ "do": "request", "medium": "video" }));
    bert.decodes_more("frames");

    chair.ask(json!({ "do": "mute", "member": "m2", "medium": "audio", "muted": true }));
    bert.decodes_no_more("sounds", &broker);
    bert.decodes_more("frames");
    chair.ask(json!({ "do": "revoke", "member": "m2", "medium": "video" }));
    bert.decodes_no_more("frames", &broker);

    chair.ask(json!({ "do": "grant", "member": "m2", "medium": "video" }));
    bert.decodes_more("frames");
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
