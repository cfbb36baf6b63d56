//! A session that recorders record and replay, and who speaks in it.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use sangam_client::{Client, ClientOptions, Outgoing, Publisher, Target};
use sangam_model::Topic;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{self, Broker, Running, sangam};

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
pub(crate) const PACE: Duration = Duration::from_millis(20);
/// What came is on the disk a second later.
const SAFE: Duration = Duration::from_secs(2);
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
    client.publish(&topic, common::opus(), PATIENCE).unwrap()
}

/// A session of which sound is recorded.
pub(crate) struct Take {
    pub(crate) broker: Broker,
    pub(crate) folder: TempDir,
    pub(crate) recorder: Running,
    /// Whose sound it is.
    pub(crate) member: Running,
    pub(crate) sound: Publisher,
    pub(crate) sender: Client,
}

impl Take {
    /// Begins, and goes on until it is recorded.
    #[track_caller]
    pub(crate) fn begin() -> Self {
        let broker = broker();
        session(&broker, &["create", NAME]);
        let folder = TempDir::new().unwrap();
        let member = speaker(&broker);
        let mut sender = client(&broker);
        let mut sound = publisher(&mut sender, "m1");
        ask(&broker, &json!({ "do": "record", "on": true }));
        let recorder = recorder(&broker, folder.path());
        until(&broker, &mut sound, is_recorded);
        Self {
            broker,
            folder,
            recorder,
            member,
            sound,
            sender,
        }
    }
}

/// Goes on for so long that what came before is on the disk.
#[track_caller]
pub(crate) fn until_safe(broker: &Broker, sound: &mut Publisher) {
    let begin = Instant::now();
    until(broker, sound, |_| begin.elapsed() > SAFE);
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
