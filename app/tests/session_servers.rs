//! Several session servers over one etcd: a session moves when its server dies or falls silent.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Broker, Running, run, sangam, text};
use sangam_client::{Client, ClientOptions, Outgoing, Publisher, Received, Target};
use sangam_model::{Class, Filter, MediaInfo, Topic};
use serde_json::Value;
use tempfile::TempDir;

const OPERATOR: &str = "0123456789abcdef";
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(10);
/// Sessions of a server that dies; `make takeover` asks for more.
const SESSIONS: usize = 50;

/// A real etcd of one member.
struct Etcd {
    process: Running,
    folder: TempDir,
    keys: TempDir,
    ports: [u16; 2],
}

impl Etcd {
    fn start() -> Self {
        let free = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let held = [free(), free()];
        let ports = held.map(|listener| listener.local_addr().unwrap().port());
        let (folder, keys) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let key = keys.path().join("tokens").display().to_string();
        assert!(run(&["token", "key", "--out", &key]).status.success());
        let process = Self::run(folder.path(), ports);
        let etcd = Self {
            process,
            folder,
            keys,
            ports,
        };
        etcd.answers();
        etcd
    }

    fn run(folder: &Path, [clients, peers]: [u16; 2]) -> Running {
        let url = |port| format!("http://127.0.0.1:{port}");
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(folder);
        command.args(["--listen-client-urls", &url(clients)]);
        command.args(["--advertise-client-urls", &url(clients)]);
        command.args(["--listen-peer-urls", &url(peers)]);
        command.args(["--initial-advertise-peer-urls", &url(peers)]);
        command.args(["--initial-cluster", &format!("default={}", url(peers))]);
        command.args(["--log-level", "error"]);
        command.stdin(Stdio::null());
        Running::start(command)
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    fn answers(&self) {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports[0]));
        eventually("etcd is well", || {
            let Ok(mut stream) = TcpStream::connect(address) else {
                return false;
            };
            let asked = b"GET /health HTTP/1.0\r\n\r\n";
            let mut answer = String::new();
            let sent = stream.write_all(asked);
            sent.and_then(|()| stream.read_to_string(&mut answer))
                .is_ok()
                && answer.contains("\"true\"")
        });
    }

    fn die(&mut self) {
        self.process.signal("KILL");
        self.process.child.wait().unwrap();
    }

    fn start_again(&mut self) {
        self.process = Self::run(self.folder.path(), self.ports);
        self.answers();
    }

    /// A broker with a session server over it, linked to others.
    fn broker(&self, name: &str, links: &[&Broker]) -> Broker {
        let links: Vec<_> = links.iter().map(|broker| broker.udp.to_string()).collect();
        let mut args = vec!["--name", name];
        args.extend(links.iter().flat_map(|link| ["--link", link]));
        let mut command = Broker::command(&args);
        command.env("SANGAM_SESSIONS_ETCD", self.url());
        // All take each other's tokens.
        command.env("SANGAM_AUTH_KEYS", self.keys.path().join("tokens.pub"));
        command.env("SANGAM_SESSIONS_KEY", self.keys.path().join("tokens.key"));
        command.env("SANGAM_API_TOKEN", OPERATOR);
        Broker::of(command)
    }
}

#[track_caller]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "not within {PATIENCE:?}: {what}");
        std::thread::park_timeout(PAUSE);
    }
}

/// `sangam session` by the operator.
fn session(broker: &Broker, args: &[&str]) -> Result<Value, String> {
    common::session(broker, &[args, &["--api-token", OPERATOR]].concat())
}

#[track_caller]
fn done(broker: &Broker, args: &[&str]) -> Value {
    session(broker, args).unwrap_or_else(|error| panic!("{args:?}: {error}"))
}

fn join(broker: &Broker, identity: &str, role: &str) -> Running {
    let invite = [
        "invite",
        "acme/weekly",
        "--identity",
        identity,
        "--role",
        role,
    ];
    let token = done(broker, &invite)["token"].as_str().unwrap().to_owned();
    let server = format!("http://{}", broker.http);
    let mut command = sangam(&["session", "--server", &server, "join", "acme/weekly"]);
    command.env("SANGAM_TOKEN", token).stdin(Stdio::piped());
    let mut member = Running::start(command);
    while member.json_line()["type"] != "state" {}
    member
}

fn client(broker: &Broker) -> Client {
    let mut client = Client::connect(Target::Udp(broker.udp), ClientOptions::default()).unwrap();
    client.wait_up(PATIENCE).unwrap();
    client
}

/// Somebody who speaks and somebody who hears it, at one broker.
struct Talk {
    _speaker: Client,
    voice: Publisher,
    listener: Client,
    sent: u16,
}

impl Talk {
    fn begin(broker: &Broker, member: &str) -> Self {
        let mut speaker = client(broker);
        let topic = Topic::new(&format!("acme/weekly/main/audio/{member}")).unwrap();
        let media = MediaInfo {
            class: Class::Audio,
            payload_type: 111,
            channels: 2,
            clock_rate: 48_000,
            encoding: "opus".to_owned(),
            fmtp: String::new(),
        };
        let voice = speaker.publish(&topic, media, PATIENCE).unwrap();
        let listener = client(broker);
        let filter = Filter::new("acme/weekly/#").unwrap();
        listener.subscribe(&filter).unwrap();
        Self {
            _speaker: speaker,
            voice,
            listener,
            sent: 0,
        }
    }

    /// Says one packet; how many of those said so far came since the last time.
    fn say(&mut self) -> u16 {
        self.sent += 1;
        let mut packet = [0x80, 111, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 1, 2, 3, 4];
        packet[2..4].copy_from_slice(&self.sent.to_be_bytes());
        self.voice.send(Outgoing::new(&packet)).unwrap();
        let mut heard = 0;
        while let Some(received) = self.listener.recv(PAUSE) {
            heard += u16::from(matches!(received, Received::Event(_)));
        }
        heard
    }
}

/// Whether a server has the session.
fn holds(broker: &Broker) -> bool {
    let (_, metrics) = broker.get("/metrics");
    metrics.lines().any(|line| line == "sangam_sessions 1")
}

/// How many sessions a server has.
fn held(broker: &Broker) -> usize {
    let (_, metrics) = broker.get("/metrics");
    let mut lines = metrics.lines();
    let count = lines.find_map(|line| line.strip_prefix("sangam_sessions "));
    count.map_or(0, |count| count.parse().unwrap())
}

/// Asks as the operator, again while the server has as much to do as it may.
#[track_caller]
fn call(broker: &Broker, (method, path): (&str, &str), body: &str) -> Value {
    let token = format!("Authorization: Bearer {OPERATOR}");
    let headers = [token.as_str(), "Content-Type: application/json"];
    let mut answer = (0, String::new());
    eventually(path, || {
        answer = broker.request(method, path, &headers, body);
        !matches!(answer.0, 429 | 503)
    });
    let (status, text) = answer;
    assert!(matches!(status, 200..300), "{path}: {status} {text}");
    serde_json::from_str(&text).unwrap()
}

/// All sessions as a server lists them, and the server that has each.
fn listed(broker: &Broker) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    loop {
        let after = all.last().map_or("", |(name, _)| name);
        let path = format!("/v1/sessions?limit=400&after={after}");
        let page = call(broker, ("GET", &path), "");
        let page = page["sessions"].as_array().unwrap();
        if page.is_empty() {
            return all;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        all.extend(page.iter().map(|one| {
            let name = format!("{}/{}", text(&one["tenant"]), text(&one["name"]));
            (name, text(&one["server"]))
        }));
    }
}

fn url(broker: &Broker) -> String {
    format!("http://{}", broker.http)
}

#[test]
fn all_sessions_of_a_dead_server_are_taken_over_and_none_twice() {
    let count = std::env::var("SESSIONS").map_or(SESSIONS, |count| count.parse().unwrap());
    let etcd = Etcd::start();
    let first = etcd.broker("first", &[]);
    for n in 0..count {
        let body = format!(r#"{{"tenant": "acme", "name": "s{n}", "title": "{n}"}}"#);
        call(&first, ("POST", "/v1/sessions"), &body);
    }
    let second = etcd.broker("second", &[&first]);
    let third = etcd.broker("third", &[&first, &second]);
    for broker in [&first, &second, &third] {
        eventually("every server lists all of them", || {
            let all = listed(broker);
            all.len() == count && all.iter().all(|(_, at)| *at == url(&first))
        });
    }
    eventually("the last of them knows the others", || {
        let servers = call(&third, ("GET", "/v1/sessions/servers"), "");
        servers["servers"].as_array().unwrap().len() == 3
    });

    first.process.signal("KILL");
    let died = Instant::now();
    eventually("all are taken over", || {
        held(&second) + held(&third) == count
    });
    let took = died.elapsed();
    let shares = (held(&second), held(&third));
    println!("{count} sessions taken over after {took:?}, shared {shares:?}");
    let mut all = Vec::new();
    eventually("they are listed where they are", || {
        all = listed(&second);
        let at = |broker: &Broker| all.iter().filter(|(_, at)| *at == url(broker)).count();
        (at(&second), at(&third)) == shares
    });
    assert!(all.is_sorted() && all.len() == count, "{all:?}");
    for (name, at) in &all {
        let broker = if *at == url(&second) { &second } else { &third };
        let path = format!("/v1/sessions/{name}/events");
        let events = call(broker, ("GET", &path), "");
        let events = events["events"].as_array().unwrap();
        let taken = events.iter().filter(|event| event["event"] == "fenced");
        assert_eq!(taken.count(), 1, "{name}: {events:?}");
    }
    assert_eq!((held(&second), held(&third)), shares);
}

#[test]
fn a_session_goes_on_at_another_server_when_its_own_dies() {
    let etcd = Etcd::start();
    let first = etcd.broker("first", &[]);
    let second = etcd.broker("second", &[&first]);
    let third = etcd.broker("third", &[&first, &second]);
    done(&first, &["create", "acme/weekly"]);
    assert!(holds(&first));
    // Asked by way of any server.
    eventually("all know where it is", || {
        session(&third, &["show", "acme/weekly"]).is_ok()
    });
    assert!(!holds(&third));
    let again = session(&second, &["create", "acme/weekly"]).unwrap_err();
    assert!(again.contains("already"), "{again}");
    let _chair = join(&third, "chair", "chair");
    let _anna = join(&second, "anna", "participant");
    let mut talk = Talk::begin(&third, "m2");
    let audio = r#"{"do": "grant", "medium": "audio", "member": "m2"}"#;
    done(&second, &["do", "acme/weekly", audio]);
    eventually("the word is given", || talk.say() > 0);

    first.process.signal("KILL");
    drop(first);
    let (mut said, mut heard) = (0, 0);
    let began = Instant::now();
    eventually("another server has it", || {
        said += 1;
        heard += talk.say();
        holds(&second) || holds(&third)
    });
    println!("taken over after {:?}", began.elapsed());
    assert!(heard >= said - 1, "{heard} of {said} heard meanwhile");
    let shown = done(&third, &["show", "acme/weekly"]);
    let identities: Vec<_> = shown["members"].as_array().unwrap().iter().collect();
    assert_eq!(identities.len(), 2, "{shown}");
    let _bert = join(&second, "bert", "participant");
    // Brokers believe the new one.
    let mute = r#"{"do": "mute", "member": "m2", "medium": "audio", "muted": true}"#;
    done(&third, &["do", "acme/weekly", mute]);
    eventually("the word is taken", || (0..5).all(|_| talk.say() == 0));
}

#[test]
fn a_server_that_slept_holds_no_session_that_another_has() {
    let etcd = Etcd::start();
    let first = etcd.broker("first", &[]);
    let second = etcd.broker("second", &[&first]);
    done(&first, &["create", "acme/weekly"]);
    first.process.signal("STOP");
    eventually("another server has it", || holds(&second));
    done(
        &second,
        &["do", "acme/weekly", r#"{"do": "lock", "locked": true}"#],
    );
    first.process.signal("CONT");
    eventually("the first sends people on", || {
        session(&first, &["show", "acme/weekly"]).is_ok_and(|shown| shown["locked"] == true)
            && !holds(&first)
    });
    let unlock = r#"{"do": "lock", "locked": false}"#;
    done(&first, &["do", "acme/weekly", unlock]);
    let server = format!("http://{}", second.http);
    let mut command = sangam(&["session", "--server", &server, "events", "acme/weekly"]);
    let events = command.env("SANGAM_API_TOKEN", OPERATOR).output().unwrap();
    let events = text(&events.stdout);
    let events = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let order: Vec<_> = events
        .map(|event| {
            (
                event["seq"].as_u64().unwrap(),
                event["epoch"].as_u64().unwrap(),
            )
        })
        .collect();
    assert!(
        order.iter().map(|(seq, _)| *seq).eq(1..=order.len() as u64),
        "{order:?}"
    );
    assert!(order.is_sorted_by_key(|(_, epoch)| *epoch), "{order:?}");
}

#[test]
fn a_name_may_be_used_again_at_once() {
    let etcd = Etcd::start();
    let first = etcd.broker("first", &[]);
    let second = etcd.broker("second", &[&first]);
    for round in 0..10 {
        done(&first, &["create", "acme/weekly"]);
        done(&first, &["do", "acme/weekly", r#"{"do": "finish"}"#]);
        // By way of a server that has it not.
        eventually("it is forgotten", || {
            session(&second, &["forget", "acme/weekly"]).is_ok()
        });
        let shown = done(&first, &["create", "acme/weekly"]);
        assert_eq!(shown["state"], "activated", "round {round}");
        done(&first, &["do", "acme/weekly", r#"{"do": "finish"}"#]);
        done(&first, &["forget", "acme/weekly"]);
    }
}

#[test]
fn sessions_wait_for_etcd_and_media_does_not() {
    let mut etcd = Etcd::start();
    let broker = etcd.broker("first", &[]);
    done(&broker, &["create", "acme/weekly"]);
    let _anna = join(&broker, "anna", "participant");
    let mut talk = Talk::begin(&broker, "m1");
    let grant = r#"{"do": "grant", "medium": "audio", "member": "m1"}"#;
    done(&broker, &["do", "acme/weekly", grant]);
    eventually("the word is given", || talk.say() > 0);
    etcd.die();
    let lock = ["do", "acme/weekly", r#"{"do": "lock", "locked": true}"#];
    eventually("nothing is promised", || session(&broker, &lock).is_err());
    let (said, mut heard) = (20, 0);
    for _ in 0..said {
        heard += talk.say();
    }
    assert!(heard >= said - 1, "{heard} of {said} heard meanwhile");
    etcd.start_again();
    eventually("it goes on", || session(&broker, &lock).is_ok());
    assert_eq!(done(&broker, &["show", "acme/weekly"])["locked"], true);
}
