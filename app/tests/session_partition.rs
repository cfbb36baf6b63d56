//! A network that falls apart between two session servers that live: who is heard afterwards.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;
#[path = "common/meetings.rs"]
mod meetings;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Running, clip, run, sangam, text};
use meetings::{OPERATOR, PATIENCE, etcd_command, eventually, is_well};
use sangam_emulator::{Emulator, Quality, Site, State, with_privileges};
use serde_json::Value;
use tempfile::TempDir;

/// The sites of the network.
const LEFT: usize = 0;
const RIGHT: usize = 1;
const STORE: usize = 2;
/// Between any two of them.
const DELAY: Duration = Duration::from_millis(5);
/// Seconds in which one member is heard and the other is not, so that it is no chance.
const HEARD: usize = 3;

/// A broker with a session server at a site.
struct Side<'a> {
    site: &'a Site,
    _process: Running,
    udp: SocketAddr,
    url: String,
}

impl<'a> Side<'a> {
    fn start(site: &'a Site, (etcd, keys): (&str, &Path), link: Option<SocketAddr>) -> Self {
        let own = site.v4().to_string();
        let (listen, http) = (format!("{own}:0"), format!("{own}:0"));
        let mut command = sangam(&["serve", "--dev", "--json", "--log", "error"]);
        command.args(["--name", site.name(), "--listen", &listen, "--http", &http]);
        command.args(
            link.iter()
                .flat_map(|to| ["--link".to_owned(), to.to_string()]),
        );
        command.env("SANGAM_LINKS_ACCEPT", "10.0.0.0/8");
        command.env("SANGAM_SESSIONS_ETCD", etcd);
        command.env("SANGAM_AUTH_KEYS", keys.join("tokens.pub"));
        command.env("SANGAM_SESSIONS_KEY", keys.join("tokens.key"));
        command.env("SANGAM_API_TOKEN", OPERATOR);
        site.place(&mut command);
        let mut process = Running::start(command);
        let ready = process.json_line();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Self {
            site,
            _process: process,
            udp: text(&ready["udp"][0]).parse().unwrap(),
            url: format!("http://{}", text(&ready["http"])),
        }
    }

    /// A program at this side.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = sangam(args);
        self.site.place(&mut command);
        command
    }

    /// `sangam session` by the operator, from here.
    fn ask(&self, args: &[&str]) -> Result<Value, String> {
        let first = ["session", "--json", "--server", &self.url];
        let operator = ["--api-token", OPERATOR];
        let output = self
            .command(&[&first, args, &operator].concat())
            .output()
            .unwrap();
        match output.status.success() {
            true => {
                let said = text(&output.stdout);
                Ok(serde_json::from_str(said.lines().next().unwrap_or("null")).unwrap())
            }
            false => Err(text(&output.stderr)),
        }
    }

    #[track_caller]
    fn done(&self, args: &[&str]) -> Value {
        self.ask(args)
            .unwrap_or_else(|error| panic!("{args:?}: {error}"))
    }

    fn command_to(&self, command: &str) -> Result<Value, String> {
        self.ask(&["do", "acme/weekly", command])
    }

    /// A member who stays as long as its server does, and its number.
    fn join(&self, identity: &str) -> (Running, String) {
        let made = self.done(&["invite", "acme/weekly", "--identity", identity]);
        let mut command = self.command(&["session", "--server", &self.url, "join", "acme/weekly"]);
        command.env("SANGAM_TOKEN", made["token"].as_str().unwrap());
        let mut running = Running::start(command);
        let mut number = String::new();
        loop {
            let frame = running.json_line();
            match frame["type"].as_str().unwrap() {
                "welcome" => number = frame["member"].as_str().unwrap().to_owned(),
                "state" => return (running, number),
                _ => {}
            }
        }
    }

    /// Lets one member speak instead of another, who may have left.
    #[track_caller]
    fn pass_the_word(&self, from: &str, to: &str) {
        let audio = |what, member| {
            let command = format!(r#"{{"do": "{what}", "medium": "audio", "member": "{member}"}}"#);
            self.command_to(&command)
        };
        let _ = audio("revoke", from);
        audio("grant", to).unwrap();
    }

    /// Sends a clip as what a member says, whether it may or not.
    fn speak(&self, member: &str, clip: &Path) -> Running {
        let (to, topic) = (
            self.udp.to_string(),
            format!("acme/weekly/main/audio/{member}"),
        );
        let file = clip.display().to_string();
        let args = [
            "publish", "--json", "--loop", "--to", &to, "--topic", &topic, "--file", &file,
        ];
        Running::start(self.command(&args))
    }

    /// Waits until one member is heard here, and nobody else, for some seconds.
    #[track_caller]
    fn hears_only(&self, member: &str) {
        let from = self.udp.to_string();
        let topic = "acme/weekly/main/audio/#";
        let args = ["play", "--json", "--from", &from, "--topic", topic];
        // A new one each time: what it tells is how it is now.
        let mut player = Running::start(self.command(&args));
        let mut counts = BTreeMap::new();
        let until = Instant::now() + 2 * PATIENCE;
        let (mut seconds, mut last) = (0, Vec::new());
        while seconds < HEARD {
            assert!(
                Instant::now() < until,
                "not {member} alone is heard, but {last:?}"
            );
            last = heard(&player.json_line(), &mut counts);
            seconds = if last == [member] { seconds + 1 } else { 0 };
        }
    }
}

/// The members of whom more has come than was counted before.
fn heard(line: &Value, counts: &mut BTreeMap<String, u64>) -> Vec<String> {
    let mut members = Vec::new();
    for stream in line["streams"].as_array().unwrap() {
        let topic = stream["topic"].as_str().unwrap().to_owned();
        let packets = stream["packets"].as_u64().unwrap();
        let member = topic.split('/').nth(4).unwrap().to_owned();
        if counts.insert(topic, packets).unwrap_or(0) < packets {
            members.push(member);
        }
    }
    members.sort();
    members.dedup();
    members
}

fn three_sites() -> Emulator {
    let network = Emulator::new(&["left", "right", "store"], 1).unwrap();
    for (a, b) in [(LEFT, RIGHT), (LEFT, STORE), (RIGHT, STORE)] {
        network
            .control()
            .set_both(a, b, &Quality::delayed(DELAY))
            .unwrap();
    }
    network
}

/// Both sides say the same of the session, in which nothing was changed by who was cut off.
#[track_caller]
fn show_the_same(sides: [&Side<'_>; 2]) {
    let epochs = sides.map(|side| {
        let mut shown = Err(String::new());
        eventually("both show it", || {
            shown = side.ask(&["show", "acme/weekly"]);
            shown.is_ok()
        });
        let shown = shown.unwrap();
        assert_eq!(shown["locked"], false, "{shown}");
        shown["epoch"].as_u64().unwrap()
    });
    assert_eq!(epochs[0], epochs[1]);
}

fn cut(network: &Emulator, state: State) {
    for other in [RIGHT, STORE] {
        network.control().set_state(LEFT, other, state).unwrap();
    }
}

#[test]
fn after_a_partition_exactly_one_member_holds_the_floor() {
    let name = "after_a_partition_exactly_one_member_holds_the_floor";
    with_privileges(name, a_partition);
}

fn a_partition() {
    let network = three_sites();
    let folder = TempDir::new().unwrap();
    let (clip, key) = (clip(folder.path()), folder.path().join("tokens"));
    assert!(
        run(&["token", "key", "--out", &key.display().to_string()])
            .status
            .success()
    );
    let store = &network.sites()[STORE];
    let mut etcd = etcd_command(&folder.path().join("etcd"), (store.v4(), [2379, 2380]));
    store.place(&mut etcd);
    let _etcd = Running::start(etcd);
    let address = SocketAddr::from((store.v4(), 2379));
    eventually("etcd is well", || {
        store.enter(|| Ok(is_well(address))).unwrap()
    });
    let shared = (&*format!("http://{}:2379", store.v4()), folder.path());
    let left = Side::start(&network.sites()[LEFT], shared, None);
    let right = Side::start(&network.sites()[RIGHT], shared, Some(left.udp));

    left.done(&["create", "acme/weekly"]);
    eventually("both know where it is", || {
        right.ask(&["show", "acme/weekly"]).is_ok()
    });
    let rules = r#"{"do": "floor", "room": "main", "medium": "audio", "mode": "moderated",
        "limit": 1}"#;
    left.command_to(rules).unwrap();
    let (_anna, anna) = left.join("anna");
    left.pass_the_word("m9", &anna);
    let _voice = left.speak(&anna, &clip);
    left.hears_only(&anna);
    right.hears_only(&anna);

    cut(&network, State::Blackhole);
    let lock = r#"{"do": "lock", "locked": true}"#;
    eventually("the server that is cut off decides nothing", || {
        left.command_to(lock).is_err()
    });
    eventually("the other has taken over", || {
        right.ask(&["show", "acme/weekly"]).is_ok()
    });
    let (_bert, bert) = right.join("bert");
    right.pass_the_word(&anna, &bert);
    let _voice = right.speak(&bert, &clip);
    // What the one side was told before still holds there: media goes on.
    right.hears_only(&bert);
    left.hears_only(&anna);
    assert!(left.command_to(lock).is_err());

    cut(&network, State::Open);
    left.hears_only(&bert);
    right.hears_only(&bert);
    show_the_same([&left, &right]);
    // And the floor is passed on as before.
    let (_dora, dora) = left.join("dora");
    left.pass_the_word(&bert, &dora);
    let _voice = left.speak(&dora, &clip);
    left.hears_only(&dora);
    right.hears_only(&dora);
}
