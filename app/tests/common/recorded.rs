//! A session that recorders record and replay, and who speaks in it.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use sangam_client::{Client, ClientOptions, Outgoing, Publisher, Target};
use sangam_model::{Class, MediaInfo, Topic};
use serde_json::{Value, json};

use crate::common::{self, Broker, Running, sangam};

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
pub(crate) const PACE: Duration = Duration::from_millis(20);
pub(crate) const NAME: &str = "acme/weekly";

/// A broker with a session, and no recorder in its process.
pub(crate) fn broker() -> Broker {
    let mut command = Broker::command(&[]);
    command.env("SANGAM_SESSIONS_ARCHIVE", "");
    Broker::of(command)
}

#[track_caller]
pub(crate) fn session(broker: &Broker, args: &[&str]) -> Value {
    common::session(broker, args).unwrap_or_else(|wrong| panic!("{args:?}: {wrong}"))
}

#[track_caller]
pub(crate) fn ask(broker: &Broker, command: &Value) {
    session(broker, &["do", NAME, &command.to_string()]);
}

pub(crate) fn recorder(broker: &Broker, archive: &Path) -> Running {
    let (server, from) = (format!("http://{}", broker.http), broker.udp.to_string());
    let archive = archive.display().to_string();
    let args = [
        "archive",
        "recorder",
        "--archive",
        &archive,
        "--server",
        &server,
    ];
    Running::start(sangam(&[&args[..], &["--from", &from]].concat()))
}

/// A member that holds the floor for sound.
pub(crate) fn speaker(broker: &Broker) -> Running {
    let invited = session(
        broker,
        &["invite", NAME, "--identity", "anna", "--role", "presenter"],
    );
    let server = format!("http://{}", broker.http);
    let mut command = sangam(&["session", "--server", &server, "join", NAME]);
    command.env("SANGAM_TOKEN", invited["token"].as_str().unwrap());
    command.stdin(Stdio::piped());
    let mut member = Running::start(command);
    say(&mut member, json!({ "do": "request", "medium": "audio" }));
    member
}

pub(crate) fn say(member: &mut Running, mut command: Value) {
    command["id"] = json!(7);
    writeln!(member.child.stdin.as_mut().unwrap(), "{command}").unwrap();
    while member.json_line()["id"] != 7 {}
}

pub(crate) fn client(broker: &Broker) -> Client {
    let mut client = Client::connect(Target::Udp(broker.udp), ClientOptions::default()).unwrap();
    client.wait_up(PATIENCE).unwrap();
    client
}

pub(crate) fn publisher(client: &mut Client, member: &str) -> Publisher {
    let topic = Topic::new(&format!("{NAME}/main/audio/{member}")).unwrap();
    let opus = MediaInfo {
        class: Class::Audio,
        payload_type: 111,
        channels: 2,
        clock_rate: 48_000,
        encoding: "opus".to_owned(),
        fmtp: String::new(),
    };
    client.publish(&topic, opus, PATIENCE).unwrap()
}

/// Sends a packet again and again until the session looks as wanted.
#[track_caller]
pub(crate) fn until(
    broker: &Broker,
    sound: &mut Publisher,
    wanted: impl Fn(&Value) -> bool,
) -> Value {
    let begin = Instant::now();
    loop {
        sound.send(Outgoing::new(b"a packet of sound")).unwrap();
        let shown = session(broker, &["show", NAME]);
        if wanted(&shown) {
            return shown;
        }
        assert!(begin.elapsed() < PATIENCE, "{shown}");
        std::thread::park_timeout(PACE);
    }
}

pub(crate) fn is_recorded(shown: &Value) -> bool {
    shown["services"][0]["ready"] == true
}

/// So many recordings of the session, once they are there.
#[track_caller]
pub(crate) fn recordings(broker: &Broker, wanted: usize) -> Vec<Value> {
    let begin = Instant::now();
    loop {
        let (_, text) = broker.get(&format!("/v1/sessions/{NAME}/recordings"));
        let list: Value = serde_json::from_str(&text).unwrap();
        let list = list["recordings"].as_array().unwrap().clone();
        if list.len() >= wanted {
            return list;
        }
        assert!(begin.elapsed() < PATIENCE, "{text}");
        std::thread::park_timeout(PACE);
    }
}
