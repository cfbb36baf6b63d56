//! Session servers over a real etcd, and those who meet there.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sangam_client::{Client, ClientOptions, Outgoing, Publisher, Received, Target};
use sangam_model::{Class, Filter, MediaInfo, Topic};
use serde_json::Value;
use tempfile::TempDir;

use super::common::{self, Broker, Running, run, sangam};

pub(crate) const OPERATOR: &str = "0123456789abcdef";
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const PAUSE: Duration = Duration::from_millis(10);

/// A real etcd of one member.
pub(crate) struct Etcd {
    process: Running,
    folder: TempDir,
    keys: TempDir,
    ports: [u16; 2],
}

impl Etcd {
    pub(crate) fn start() -> Self {
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

    fn run(folder: &Path, ports: [u16; 2]) -> Running {
        Running::start(etcd_command(folder, (Ipv4Addr::LOCALHOST, ports)))
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    pub(crate) fn answers(&self) {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports[0]));
        eventually("etcd is well", || is_well(address));
    }

    pub(crate) fn die(&mut self) {
        self.process.signal("KILL");
        self.process.child.wait().unwrap();
    }

    pub(crate) fn start_again(&mut self) {
        self.process = Self::run(self.folder.path(), self.ports);
        self.answers();
    }

    /// A broker with a session server over it, linked to others.
    pub(crate) fn broker(&self, name: &str, links: &[&Broker]) -> Broker {
        Broker::of(self.command(name, links))
    }

    /// What starts one.
    pub(crate) fn command(&self, name: &str, links: &[&Broker]) -> Command {
        let links: Vec<_> = links.iter().map(|broker| broker.udp.to_string()).collect();
        let mut args = vec!["--name", name];
        args.extend(links.iter().flat_map(|link| ["--link", link]));
        let mut command = Broker::command(&args);
        command.env("SANGAM_SESSIONS_ETCD", self.url());
        // All take each other's tokens.
        command.env("SANGAM_AUTH_KEYS", self.keys.path().join("tokens.pub"));
        command.env("SANGAM_SESSIONS_KEY", self.keys.path().join("tokens.key"));
        command.env("SANGAM_API_TOKEN", OPERATOR);
        command
    }
}

/// Whether the etcd at an address has a leader.
pub(crate) fn is_well(address: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else {
        return false;
    };
    let mut answer = String::new();
    let sent = stream.write_all(b"GET /health HTTP/1.0\r\n\r\n");
    let read = sent.and_then(|()| stream.read_to_string(&mut answer));
    read.is_ok() && answer.contains("\"true\"")
}

/// An etcd of one member that keeps its data in a folder, and its ports for clients and peers.
pub(crate) fn etcd_command(
    folder: &Path,
    (address, [clients, peers]): (Ipv4Addr, [u16; 2]),
) -> Command {
    let url = |port| format!("http://{address}:{port}");
    let mut command = Command::new("etcd");
    command.arg("--data-dir").arg(folder);
    command.args(["--listen-client-urls", &url(clients)]);
    command.args(["--advertise-client-urls", &url(clients)]);
    command.args(["--listen-peer-urls", &url(peers)]);
    command.args(["--initial-advertise-peer-urls", &url(peers)]);
    command.args(["--initial-cluster", &format!("default={}", url(peers))]);
    command.args(["--log-level", "error"]);
    command.stdin(Stdio::null());
    command
}

#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "not within {PATIENCE:?}: {what}");
        std::thread::park_timeout(PAUSE);
    }
}

/// `sangam session` by the operator.
pub(crate) fn session(broker: &Broker, args: &[&str]) -> Result<Value, String> {
    common::session(broker, &[args, &["--api-token", OPERATOR]].concat())
}

#[track_caller]
pub(crate) fn done(broker: &Broker, args: &[&str]) -> Value {
    session(broker, args).unwrap_or_else(|error| panic!("{args:?}: {error}"))
}

pub(crate) fn join(broker: &Broker, identity: &str, role: &str) -> Running {
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

pub(crate) fn client(broker: &Broker) -> Client {
    let mut client = Client::connect(Target::Udp(broker.udp), ClientOptions::default()).unwrap();
    client.wait_up(PATIENCE).unwrap();
    client
}

/// Somebody who speaks and somebody who hears it, at one broker.
pub(crate) struct Talk {
    _speaker: Client,
    voice: Publisher,
    listener: Client,
    sent: u16,
}

impl Talk {
    pub(crate) fn begin(broker: &Broker, member: &str) -> Self {
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

    /// Everything that was said is heard in the end, if so much was before.
    #[track_caller]
    pub(crate) fn all_is_heard(&mut self, mut heard: u16) {
        let until = Instant::now() + PATIENCE;
        while heard < self.sent {
            assert!(Instant::now() < until, "{heard} of {} heard", self.sent);
            if let Some(Received::Event(_)) = self.listener.recv(PAUSE) {
                heard += 1;
            }
        }
        assert_eq!(heard, self.sent);
    }

    /// Forgets what was said so far.
    pub(crate) fn begin_anew(&mut self) {
        while self.listener.recv(PAUSE).is_some() {}
        self.sent = 0;
    }

    /// Says one packet; how many of those said so far came since the last time.
    pub(crate) fn say(&mut self) -> u16 {
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
pub(crate) fn holds(broker: &Broker) -> bool {
    let (_, metrics) = broker.get("/metrics");
    metrics.lines().any(|line| line == "sangam_sessions 1")
}

/// How many sessions a server has.
pub(crate) fn held(broker: &Broker) -> usize {
    let (_, metrics) = broker.get("/metrics");
    let mut lines = metrics.lines();
    let count = lines.find_map(|line| line.strip_prefix("sangam_sessions "));
    count.map_or(0, |count| count.parse().unwrap())
}

/// Asks as the operator, again while the server has as much to do as it may.
#[track_caller]
pub(crate) fn call(broker: &Broker, (method, path): (&str, &str), body: &str) -> Value {
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
pub(crate) fn listed(broker: &Broker) -> Vec<(String, String)> {
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

pub(crate) fn url(broker: &Broker) -> String {
    format!("http://{}", broker.http)
}
