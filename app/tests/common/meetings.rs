//! Session servers over a real etcd, and those who meet there.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sangam_client::{Client, ClientOptions, Outgoing, Publisher, Received, Target};
use sangam_model::{Filter, Topic};
use serde_json::Value;
use tempfile::TempDir;

use super::common::{self, Broker, Running, run, sangam};

pub(crate) const OPERATOR: &str = "0123456789abcdef";
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const PAUSE: Duration = Duration::from_millis(10);

/// A real etcd: its members, and the keys of whoever uses it.
pub(crate) struct Etcd {
    members: Vec<Member>,
    keys: TempDir,
}

struct Member {
    process: Running,
    folder: TempDir,
    ports: [u16; 2],
}

impl Member {
    fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports[0]))
    }

    fn run(&mut self, peers: &[[u16; 2]]) {
        let command = member_command(self.folder.path(), (Ipv4Addr::LOCALHOST, self.ports), peers);
        self.process = Running::start(command);
    }

    fn kill(&mut self) {
        self.process.signal("KILL");
        self.process.child.wait().unwrap();
    }

    fn leads(&self) -> bool {
        let status = asked(self.address(), "POST /v3/maintenance/status", "{}").unwrap();
        let status: Value = serde_json::from_str(&status).unwrap();
        status["leader"] == status["header"]["member_id"]
    }
}

impl Etcd {
    pub(crate) fn start() -> Self {
        Self::of(1)
    }

    /// A cluster of so many members.
    pub(crate) fn of(count: usize) -> Self {
        let free = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let held: Vec<_> = (0..count).map(|_| [free(), free()]).collect();
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
        let ports: Vec<_> = held.iter().map(|held| held.each_ref().map(port)).collect();
        drop(held);
        let keys = TempDir::new().unwrap();
        let key = keys.path().join("tokens").display().to_string();
        assert!(run(&["token", "key", "--out", &key]).status.success());
        let members = ports.iter().map(|own| {
            let folder = TempDir::new().unwrap();
            let place = (Ipv4Addr::LOCALHOST, *own);
            Member {
                process: Running::start(member_command(folder.path(), place, &ports)),
                folder,
                ports: *own,
            }
        });
        let etcd = Self {
            members: members.collect(),
            keys,
        };
        etcd.answers();
        etcd
    }

    /// Where clients find its members.
    pub(crate) fn urls(&self) -> String {
        let urls = self.members.iter();
        let urls = urls.map(|member| format!("http://{}", member.address()));
        urls.collect::<Vec<_>>().join(",")
    }

    pub(crate) fn answers(&self) {
        for member in &self.members {
            eventually("etcd is well", || is_well(member.address()));
        }
    }

    /// The only member dies.
    pub(crate) fn die(&mut self) {
        self.members[0].kill();
    }

    /// The member that leads the others dies, or one that does not.
    pub(crate) fn lose_one(&mut self, leader: bool) {
        let mut members = self.members.iter_mut();
        let member = members.find(|member| member.leads() == leader);
        member.unwrap().kill();
    }

    pub(crate) fn start_again(&mut self) {
        let ports: Vec<_> = self.members.iter().map(|member| member.ports).collect();
        self.members[0].run(&ports);
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
        command.env("SANGAM_SESSIONS_ETCD", self.urls());
        // All take each other's tokens.
        command.env("SANGAM_AUTH_KEYS", self.keys.path().join("tokens.pub"));
        command.env("SANGAM_SESSIONS_KEY", self.keys.path().join("tokens.key"));
        command.env("SANGAM_API_TOKEN", OPERATOR);
        command
    }
}

/// Whether the etcd at an address has a leader.
pub(crate) fn is_well(address: SocketAddr) -> bool {
    let answer = asked(address, "GET /health", "");
    answer.is_ok_and(|answer| answer.contains("\"true\""))
}

/// What an etcd answers.
fn asked(address: SocketAddr, what: &str, body: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    let len = body.len();
    write!(
        stream,
        "{what} HTTP/1.0\r\nContent-Length: {len}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let body = answer.split_once("\r\n\r\n");
    Ok(body.map_or(String::new(), |(_, body)| body.to_owned()))
}

/// An etcd of one member that keeps its data in a folder, and its ports for clients and peers.
pub(crate) fn etcd_command(folder: &Path, place: (Ipv4Addr, [u16; 2])) -> Command {
    member_command(folder, place, &[place.1])
}

/// A member of an etcd: its folder, its ports for clients and peers, and those of all.
fn member_command(
    folder: &Path,
    (address, own @ [clients, peers]): (Ipv4Addr, [u16; 2]),
    all: &[[u16; 2]],
) -> Command {
    let url = |port| format!("http://{address}:{port}");
    let name = |ports: &[u16; 2]| format!("member{}", ports[1]);
    let all = all
        .iter()
        .map(|ports| format!("{}={}", name(ports), url(ports[1])));
    let mut command = Command::new("etcd");
    command.arg("--data-dir").arg(folder);
    command.args(["--name", &name(&own)]);
    command.args(["--listen-client-urls", &url(clients)]);
    command.args(["--advertise-client-urls", &url(clients)]);
    command.args(["--listen-peer-urls", &url(peers)]);
    command.args(["--initial-advertise-peer-urls", &url(peers)]);
    command.args(["--initial-cluster", &all.collect::<Vec<_>>().join(",")]);
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
        let voice = speaker.publish(&topic, common::opus(), PATIENCE).unwrap();
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
