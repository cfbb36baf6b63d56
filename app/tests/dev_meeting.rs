//! `sangam serve --dev` by itself: a meeting with two guests who come when somebody else does.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Broker, Running, sangam, session};
use serde_json::Value;

/// The clips are encoded on a machine that may be busy.
const PATIENCE: Duration = Duration::from_secs(120);
const NAP: Duration = Duration::from_millis(50);

/// A broker as `sangam serve --dev` starts it, and the link it tells. What it keeps for a while is
/// in `folder`.
fn dev(folder: &Path, more: &[&str]) -> (Broker, Value) {
    let mut command = Broker::command(more);
    command
        .env("TMPDIR", folder.join("tmp"))
        .current_dir(folder);
    fs::create_dir(folder.join("tmp")).unwrap();
    let mut process = Running::start(command);
    let ready = process.json_line();
    let address = |value: &Value| value.as_str().unwrap().parse().unwrap();
    let broker = Broker {
        udp: address(&ready["udp"][0]),
        tcp: address(&ready["tcp"][0]),
        http: address(&ready["http"]),
        process,
    };
    (broker, ready["meeting"].clone())
}

/// The programs of this name that a process has started and that run, by number.
fn children(parent: u32, name: &str) -> Vec<u32> {
    let running = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let number = entry.unwrap().file_name().to_str()?.parse().ok()?;
        // Whoever has ended meanwhile is no child any more.
        let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        let (of, rest) = stat.split_once(") ")?;
        let mut rest = rest.split(' ');
        let (state, above) = (rest.next()?, rest.next()?);
        let is_one = of.ends_with(&format!("({name}")) && state != "Z";
        (is_one && above == parent.to_string()).then_some(number)
    });
    running.collect()
}

#[track_caller]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "not within {PATIENCE:?}: {what}");
        std::thread::park_timeout(NAP);
    }
}

/// Somebody in the meeting, as long as its program runs.
fn join(broker: &Broker, identity: &str) -> Running {
    let invite = ["invite", "demo/meeting", "--identity", identity];
    let made = session(broker, &invite).unwrap();
    let server = format!("http://{}", broker.http);
    let mut command = sangam(&["session", "--server", &server, "join", "demo/meeting"]);
    command.env("SANGAM_TOKEN", made["token"].as_str().unwrap());
    command.stdin(Stdio::piped());
    let mut member = Running::start(command);
    while member.json_line()["type"] != "state" {}
    member
}

/// Plays what the members of the meeting send until camera and microphone of both guests came, and
/// how many packets did of each topic.
fn watch(broker: &Broker) -> BTreeMap<String, u64> {
    let from = broker.udp.to_string();
    let topic = "demo/meeting/main/#";
    let args = ["play", "--json", "--from", &from, "--topic", topic];
    let mut player = Running::start(sangam(&args));
    let until = Instant::now() + PATIENCE;
    loop {
        let line = player.json_line();
        let streams = line["streams"].as_array().unwrap().iter();
        let came = streams.map(|one| {
            let topic = one["topic"].as_str().unwrap().to_owned();
            (topic, one["packets"].as_u64().unwrap())
        });
        let came: BTreeMap<_, _> = came.filter(|(_, packets)| *packets > 50).collect();
        if came.len() >= 4 {
            return came;
        }
        assert!(Instant::now() < until, "{line}");
    }
}

#[test]
fn guests_are_seen_and_heard_while_somebody_is_there_and_nothing_is_left_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let (broker, link) = dev(folder.path(), &[]);
    let expected = format!("http://{}/m/demo/meeting", broker.http);
    assert_eq!(link, Value::String(expected));
    let id = broker.process.child.id();
    let show = || session(&broker, &["show", "demo/meeting"]).unwrap();
    // Nobody looks: nothing is encoded.
    assert_eq!(show()["members_total"], 0);
    assert!(children(id, "ffmpeg").is_empty());

    let anna = join(&broker, "anna");
    let came = watch(&broker);
    let kinds = |kind: &str| came.keys().filter(|topic| topic.contains(kind)).count();
    assert_eq!(
        (kinds("/main/audio/"), kinds("/main/video/")),
        (2, 2),
        "{came:?}"
    );
    let shown = show();
    let members = shown["members"].as_array().unwrap();
    let names: Vec<_> = members
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    for guest in ["Saraswati", "Yamuna"] {
        assert!(names.contains(&guest), "{names:?}");
    }
    assert_eq!(children(id, "ffmpeg").len(), 2, "one for each guest");

    // Whoever leaves last is followed.
    let mut anna = anna;
    let stdin = anna.child.stdin.as_mut().unwrap();
    writeln!(stdin, r#"{{"do": "leave"}}"#).unwrap();
    assert_eq!(anna.end().0, 0);
    eventually("the guests have left", || {
        show()["members_total"] == 0 && children(id, "ffmpeg").is_empty()
    });

    let _bert = join(&broker, "bert");
    watch(&broker);
    // One that fails is there again.
    let failed = children(id, "ffmpeg")[0];
    let killed = Command::new("kill")
        .args(["-s", "KILL", &failed.to_string()])
        .status();
    assert!(killed.unwrap().success());
    let mut encoders = Vec::new();
    eventually("both encode", || {
        encoders = children(id, "ffmpeg");
        encoders.len() == 2 && !encoders.contains(&failed)
    });
    broker.process.signal("TERM");
    assert_eq!(broker.process.end().0, 0);
    for encoder in encoders {
        let name = fs::read_to_string(format!("/proc/{encoder}/comm")).unwrap_or_default();
        assert_ne!(name.trim(), "ffmpeg", "{encoder} is left");
    }
    let left: Vec<_> = fs::read_dir(folder.path().join("tmp")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_broker_that_ends_while_the_clips_are_encoded_leaves_no_encoder() {
    let folder = tempfile::tempdir().unwrap();
    let (broker, _) = dev(folder.path(), &[]);
    let id = broker.process.child.id();
    let _anna = join(&broker, "anna");
    let mut encoders = Vec::new();
    eventually("the clips are encoded", || {
        encoders = children(id, "ffmpeg");
        !encoders.is_empty()
    });
    broker.process.signal("TERM");
    assert_eq!(broker.process.end().0, 0);
    for encoder in encoders {
        let name = fs::read_to_string(format!("/proc/{encoder}/comm")).unwrap_or_default();
        assert_ne!(name.trim(), "ffmpeg", "{encoder} is left");
    }
}

#[test]
fn there_is_no_meeting_where_none_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let (broker, link) = dev(folder.path(), &["--no-demo"]);
    assert_eq!(link, Value::Null);
    assert!(session(&broker, &["show", "demo/meeting"]).is_err());
}

#[test]
fn people_are_told_the_link_and_that_guests_need_ffmpeg() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = sangam(&[
        "serve",
        "--dev",
        "--listen",
        "127.0.0.1:0",
        "--log",
        "error",
    ]);
    command.args(["--http", "127.0.0.1:0"]);
    // Nothing is installed here.
    command
        .env("PATH", folder.path())
        .current_dir(folder.path());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut line = |word: &str| lines.find(|line| line.as_ref().unwrap().contains(word));
    assert!(
        line("http://127.0.0.1:")
            .unwrap()
            .unwrap()
            .ends_with("/m/demo/meeting")
    );
    line("FFmpeg is not installed").unwrap().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
}
