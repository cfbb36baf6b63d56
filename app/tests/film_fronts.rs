//! Films of several nodes by our own player: the node that it asked is killed, or is not there, or
//! wants to know who plays.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::fs;
use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Running, ends_well, run, sangam, text};
use serde_json::Value;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);
/// Packets that are played when the front is killed: a second of the film.
const KILLED_AT: u64 = 750;

/// Nodes that want a password, and a film.
struct Stage {
    folder: TempDir,
    nodes: Vec<Running>,
    rtsp: Vec<String>,
}

impl Stage {
    fn new(nodes: usize) -> Self {
        let mut stage = Self {
            folder: TempDir::new().unwrap(),
            nodes: Vec::new(),
            rtsp: Vec::new(),
        };
        fs::write(stage.path("login"), "anna:secret\n").unwrap();
        fs::write(stage.path("wrong"), "anna:guess\n").unwrap();
        let first = free();
        for node in 0..nodes {
            stage.start(node, &first);
        }
        let film = stage.path("film.ts");
        let made = Command::new("ffmpeg")
            .args("-nostdin -y -v error -f lavfi -i testsrc2=size=640x360:rate=25 -t 12".split(' '))
            .args("-c:v libx264 -preset ultrafast -g 25 -b:v 8M -minrate 8M -maxrate 8M".split(' '))
            .args("-bufsize 4M -nal-hrd cbr".split(' '))
            .arg(&film)
            .output();
        ends_well(&made.unwrap());
        ends_well(&stage.command(0, &["add", &film]).output().unwrap());
        stage
    }

    fn start(&mut self, node: usize, first: &str) {
        let own = if node == 0 { first.to_owned() } else { free() };
        let key = self.path("node0/nodes.key");
        let join = ["--join", first, "--key", &key];
        let join = if node == 0 { &[][..] } else { &join };
        let add = [&["node", "add", &own], join].concat();
        ends_well(&self.command(node, &add).output().unwrap());
        let login = self.path("login");
        let serve = [
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--no-admission",
            "--credentials",
            &login,
        ];
        let mut serving = Running::start(self.command(node, &serve));
        let ready = serving.json_line();
        self.rtsp
            .push(ready["rtsp"][0].as_str().unwrap().to_owned());
        self.nodes.push(serving);
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn command(&self, node: usize, args: &[&str]) -> Command {
        let place = self.path(&format!("node{node}"));
        sangam(&[&["archive", "--json", "--archive", &place], args].concat())
    }

    /// A player of the film by way of a server.
    fn play(&self, server: &str, out: &str, more: &[&str]) -> Command {
        let (url, out) = (format!("rtsp://{server}/archive/film"), self.path(out));
        let play = ["play", "--json", "--film", &url, "--out", &out];
        sangam(&[&play[..], more].concat())
    }

    /// Whether what was played is the film.
    fn is_film(&self, out: &str) -> bool {
        fs::read(self.path(out)).unwrap() == fs::read(self.path("film.ts")).unwrap()
    }
}

/// An address that is free now.
fn free() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

#[test]
fn a_film_goes_on_by_another_node_when_its_front_is_killed() {
    let stage = Stage::new(3);
    let login = stage.path("login");
    let start = |out: &str, more: &[&str]| {
        let more = [&["--credentials", &login][..], more].concat();
        Running::start(stage.play(&stage.rtsp[0], out, &more))
    };
    // One that takes blocks from all, once the front reaches them, and one of the front alone that
    // knows others by its user.
    let begin = Instant::now();
    let direct = loop {
        let mut player = start("direct", &[]);
        if player.json_line()["nodes"] == 3 {
            break player;
        }
        assert!(begin.elapsed() < PATIENCE);
    };
    let others = ["--relay", "--front", &stage.rtsp[2]];
    let mut players = [("direct", direct), ("relay", start("relay", &others))];
    for (_, player) in &mut players {
        player.counts("played", KILLED_AT);
    }
    stage.nodes[0].signal("KILL");
    for (name, player) in players {
        let (code, said) = player.end();
        let summary: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        assert_eq!(
            (code, &summary["event"]),
            (0, &"summary".into()),
            "{name}: {summary}"
        );
        assert_eq!(
            (&summary["moves"], &summary["lost"]),
            (&1.into(), &0.into()),
            "{summary}"
        );
        assert!(stage.is_film(name), "{name}: {summary}");
    }
}

#[test]
fn a_film_whose_last_node_is_killed_breaks_off_and_says_so() {
    let stage = Stage::new(1);
    let login = stage.path("login");
    let player = stage.play(&stage.rtsp[0], "out", &["--credentials", &login]);
    let mut player = Running::start(player);
    let log = player.log();
    player.counts("played", KILLED_AT);
    stage.nodes[0].signal("KILL");
    log.says(&["the film breaks off"]);
    assert_eq!(player.end().0, 4);
    // What had come was played.
    let film = fs::read(stage.path("film.ts")).unwrap();
    let out = fs::read(stage.path("out")).unwrap();
    assert!(
        out.len() as u64 >= KILLED_AT && film.starts_with(&out),
        "{}",
        out.len()
    );
}

#[test]
fn a_server_that_wants_to_know_who_plays_is_told() {
    let stage = Stage::new(1);
    let server = &stage.rtsp[0];
    let (login, wrong) = (stage.path("login"), stage.path("wrong"));
    let played = |server: &str, more: &[&str]| {
        let more = [&["--seconds", "1"], more].concat();
        stage.play(server, "out", &more).output().unwrap()
    };
    let named = format!("anna:secret@{server}");
    for (server, more) in [
        (server, &["--credentials", &login][..]),
        (&named, &[]),
        // Where nobody answers, another one that the user named is asked.
        (&free(), &["--front", server, "--credentials", &login]),
    ] {
        let done = played(server, more);
        ends_well(&done);
        let said = text(&done.stdout);
        let summary: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        assert!(summary["bytes"].as_u64() > Some(0), "{more:?}: {summary}");
    }
    for more in [&[][..], &["--credentials", &wrong]] {
        let done = played(server, more);
        assert!(!done.status.success());
        let said = text(&done.stderr);
        assert!(
            said.contains("401") && said.contains("--credentials"),
            "{said}"
        );
        assert!(!said.contains("guess"), "{said}");
    }
    let url = format!("rtsp://{server}/archive/film");
    let done = run(&["play", "--film", &url, "--front", "nowhere"]);
    assert_eq!(done.status.code(), Some(2));
}
