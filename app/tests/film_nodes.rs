//! Films on several nodes of an archive, real processes each: played through any of them by
//! ordinary players, sent by all of them to a client that knows how, and one of them killed
//! meanwhile.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;
#[path = "common/rtsp.rs"]
mod rtsp;

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Running, ends_well, sangam, text};
use rtsp::{Client, DATAGRAM, in_order};
use serde_json::Value;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);
const SECONDS: &str = "12";
/// Sessions that are opened and left.
const ABANDONED: usize = 2_000;

/// A node that serves.
struct Node {
    process: Running,
    rtsp: SocketAddr,
}

/// An archive of several nodes, and a film.
struct Stage {
    folder: TempDir,
    film: Vec<u8>,
    nodes: Vec<Node>,
    addresses: Vec<String>,
}

/// A port that is free now.
fn address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

impl Stage {
    fn new(nodes: usize) -> Self {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("film.ts");
        let made = Command::new("ffmpeg")
            .args("-nostdin -y -v error -f lavfi -i testsrc2=size=640x360:rate=25".split(' '))
            .args(["-t", SECONDS])
            .args("-c:v libx264 -preset ultrafast -g 25 -b:v 8M -minrate 8M -maxrate 8M".split(' '))
            .args("-bufsize 4M -nal-hrd cbr".split(' '))
            .arg(&file)
            .output();
        ends_well(&made.unwrap());
        let film = fs::read(&file).unwrap();
        let mut stage = Self {
            folder,
            film,
            nodes: Vec::new(),
            addresses: (0..nodes).map(|_| address()).collect(),
        };
        for node in 0..nodes {
            stage.join(node);
            let serving = stage.serve(node, &[]);
            stage.nodes.push(serving);
        }
        stage
    }

    fn place(&self, node: usize) -> PathBuf {
        self.folder.path().join(format!("node{}", node + 1))
    }

    fn statistics(&self, node: usize) -> PathBuf {
        self.folder
            .path()
            .join(format!("node{}.statistics", node + 1))
    }

    fn join(&self, node: usize) {
        let address = &self.addresses[node];
        let first = &self.addresses[0];
        let key = self.place(0).join("nodes.key").display().to_string();
        let added = match node {
            0 => self.archive(node, &["node", "add", address]),
            _ => self.archive(
                node,
                &["node", "add", address, "--join", first, "--key", &key],
            ),
        };
        assert_eq!(added["node"], node + 1);
    }

    fn command(&self, node: usize, args: &[&str]) -> Command {
        let place = self.place(node).display().to_string();
        sangam(&[&["archive", "--json", "--archive", &place], args].concat())
    }

    /// A command that succeeds: its last line.
    #[track_caller]
    fn archive(&self, node: usize, args: &[&str]) -> Value {
        let done = self.command(node, args).output().unwrap();
        assert!(done.status.success(), "{args:?}: {}", text(&done.stderr));
        let said = text(&done.stdout);
        let last = said.lines().last();
        last.map_or(Value::Null, |line| serde_json::from_str(line).unwrap())
    }

    fn serve(&self, node: usize, more: &[&str]) -> Node {
        let serve = ["serve", "--listen", "127.0.0.1:0", "--no-admission"];
        let file = self.statistics(node).display().to_string();
        let serve = [&serve[..], &["--statistics", &file], more].concat();
        let mut process = Running::start(self.command(node, &serve));
        let ready = process.json_line();
        let rtsp = ready["rtsp"][0].as_str().unwrap().parse().unwrap();
        Node { process, rtsp }
    }

    /// Puts the film, through a node.
    fn add(&self, node: usize) {
        let file = self.folder.path().join("film.ts").display().to_string();
        self.archive(node, &["add", &file]);
    }

    fn url(&self, node: usize) -> String {
        format!("rtsp://{}/archive/film", self.nodes[node].rtsp)
    }

    /// A client of a front, once that reaches so many nodes.
    fn client(&self, front: usize, nodes: usize) -> Client {
        let begin = Instant::now();
        loop {
            let mut client = Client::connect(self.nodes[front].rtsp, "film");
            let answer = client.set_up(true);
            assert_eq!(answer.status, 200, "{}", answer.text);
            if client.nodes.len() == nodes {
                return client;
            }
            client.ask("TEARDOWN", ("/", ""), "");
            assert!(begin.elapsed() < PATIENCE, "{}", answer.text);
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }

    fn datagrams(&self) -> u64 {
        self.film.len().div_ceil(DATAGRAM) as u64
    }

    /// Waits until the archive's status is so.
    #[track_caller]
    fn settles(&self, is_so: impl Fn(&Value) -> bool) {
        let begin = Instant::now();
        loop {
            let status = self.archive(0, &["status"]);
            if is_so(&status) {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "{status}");
            std::thread::park_timeout(Duration::from_millis(200));
        }
    }

    /// Whether these are datagrams of the film.
    #[track_caller]
    fn is_film(&self, found: &BTreeMap<u64, &rtsp::Packet>) {
        for (number, packet) in found {
            let data = self.film.chunks(DATAGRAM).nth(*number as usize).unwrap();
            assert!(packet.data == data, "datagram {number}");
        }
    }
}

fn pieces(place: &Path) -> usize {
    let folders = fs::read_dir(place.join("blocks")).unwrap();
    let folders = folders.map(|entry| entry.unwrap().path());
    let folders = folders.filter(|path| path.is_dir());
    folders
        .map(|folder| fs::read_dir(folder).unwrap().count())
        .sum()
}

#[test]
fn a_film_is_put_through_one_node_and_played_through_any() {
    let stage = Stage::new(3);
    stage.add(1);
    let blocks = stage.archive(2, &["list"])["blocks"].as_u64().unwrap() as usize;
    let held: Vec<_> = (0..3).map(|node| pieces(&stage.place(node))).collect();
    // Two copies of each block, on two nodes.
    assert_eq!(held.iter().sum::<usize>(), 2 * blocks, "{held:?}");
    assert!(held.iter().all(|pieces| *pieces > 0), "{held:?}");
    let players: Vec<_> = [(0, "udp"), (1, "udp"), (2, "tcp")]
        .into_iter()
        .map(|(node, transport)| {
            let out = stage.folder.path().join(format!("{node}.ts"));
            let mut command = Command::new("ffmpeg");
            command.args("-nostdin -y -v error -rtsp_transport".split(' '));
            command.args([transport, "-i", &stage.url(node), "-c", "copy"]);
            (command.arg(&out).spawn().unwrap(), out)
        })
        .collect();
    let original = pictures(&stage.folder.path().join("film.ts"));
    for (mut player, out) in players {
        assert!(player.wait().unwrap().success());
        let played = pictures(&out);
        // A stream without an end leaves its last picture in the demultiplexer.
        assert!(
            played.len() + 2 >= original.len(),
            "{} pictures",
            played.len()
        );
        assert!(original.starts_with(&played));
    }
    let listed = stage.archive(0, &["node", "list"]);
    assert_eq!((&listed["node"], &listed["films"]), (&3.into(), &1.into()));
}

/// Checksums of all pictures of a file, decoded.
fn pictures(file: &Path) -> Vec<String> {
    let mut command = Command::new("ffmpeg");
    command.args("-nostdin -v error -i".split(' ')).arg(file);
    let decoded = command.args("-map 0:v -f framemd5 -".split(' ')).output();
    let said = text(&decoded.unwrap().stdout);
    let lines = said.lines().filter(|line| !line.starts_with('#'));
    let sums = lines.map(|line| line.rsplit(',').next().unwrap().trim().to_owned());
    sums.collect()
}

#[test]
fn every_node_sends_what_it_has_straight_to_the_client() {
    let stage = Stage::new(3);
    stage.add(0);
    let mut client = stage.client(2, 3);
    let pace = "Sangam-Pace: clock\r\nSpeed: 2\r\n";
    let played = client.ask("PLAY", ("/", pace), "");
    assert_eq!(played.status, 200, "{}", played.text);
    let first = played.number("Sangam-Play", "datagram");
    let sequence = played.number("Sangam-Play", "gsn") as u16;
    let mut lost_local = None;
    let packets = client.receive_all(|packet| {
        // One is asked for again as soon as it has come.
        let (node, local) = packet.local.unwrap();
        if local == 50 && lost_local.is_none() {
            let (to, source) = client.nodes[&node];
            client.report_lost(to, source, 50);
            lost_local = Some((node, packet.sequence));
        }
    });
    let (found, twice) = in_order(&packets, (first, sequence));
    stage.is_film(&found);
    assert_eq!(found.len() as u64, stage.datagrams());
    assert!(twice >= 1, "what was lost came again");
    // Several take part, and each counts its own.
    let mut locals: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
    for packet in &packets {
        let (node, local) = packet.local.unwrap();
        assert_eq!((packet.kind, packet.ssrc), (33, client.ssrc));
        locals.entry(node).or_default().push(local);
    }
    // Twelve blocks fall where chance lets them: once in forty films a node has none to send.
    let nodes: Vec<_> = locals.keys().copied().collect();
    assert!(nodes.len() >= 2 && nodes.iter().all(|node| (1..=3).contains(node)));
    for (node, mut counted) in locals {
        counted.sort_unstable();
        counted.dedup();
        let expected: Vec<_> = (0..counted.len() as u32).collect();
        assert_eq!(counted, expected, "node {node}");
    }
    // By its global number any node repeats it, and says that it did not count it.
    let (node, sequence) = lost_local.unwrap();
    let other = client.nodes.keys().find(|other| **other != node).unwrap();
    client.report_lost(
        client.nodes[other].0,
        client.ssrc,
        found.values().last().unwrap().sequence,
    );
    let last = found.values().last().unwrap();
    let again = client.again(|packet| packet.sequence == last.sequence);
    assert_eq!(again.data, last.data);
    let _ = sequence;
}

#[test]
fn when_a_node_is_killed_the_others_send_what_it_had() {
    let stage = Stage::new(3);
    stage.add(0);
    let mut client = stage.client(0, 3);
    let played = client.ask("PLAY", ("/", ""), "");
    let first = played.number("Sangam-Play", "datagram");
    let sequence = played.number("Sangam-Play", "gsn") as u16;
    // Somebody else plays by way of the same front.
    let out = stage.folder.path().join("relayed.ts");
    let mut command = Command::new("ffmpeg");
    command.args("-nostdin -y -v error -rtsp_transport tcp -i".split(' '));
    let mut relayed = command
        .args([&stage.url(0), "-c", "copy"])
        .arg(&out)
        .spawn()
        .unwrap();
    let begin = Instant::now();
    let mut killed = None;
    let packets = client.receive_all(|packet| {
        // Whoever sends then and is not the front.
        let (node, _) = packet.local.unwrap();
        if begin.elapsed() > Duration::from_secs(1) && node != 1 && killed.is_none() {
            let victim = &stage.nodes[usize::from(node) - 1];
            victim.process.signal("KILL");
            killed = Some((node, Instant::now()));
        }
    });
    let (victim, killed) = killed.unwrap();
    let (found, _) = in_order(&packets, (first, sequence));
    stage.is_film(&found);
    let is_missing = |number: &u64| !found.contains_key(number);
    let missing: Vec<_> = (0..stage.datagrams()).filter(is_missing).collect();
    assert!(missing.is_empty(), "missing: {missing:?}");
    let after = packets
        .iter()
        .filter(|packet| packet.at > killed + Duration::from_millis(100));
    let others = |packet: &rtsp::Packet| packet.local.unwrap().0 != victim;
    assert!(after.into_iter().all(others));
    // Whatever was due came within a second.
    let pairs = packets.windows(2);
    let hole = pairs.map(|pair| pair[1].at - pair[0].at).max().unwrap();
    assert!(hole < Duration::from_secs(1), "{hole:?}");
    assert!(relayed.wait().unwrap().success());
    let original = pictures(&stage.folder.path().join("film.ts"));
    let played = pictures(&out);
    assert!(
        played.len() + 2 >= original.len(),
        "{} pictures",
        played.len()
    );
    assert!(original.starts_with(&played));
}

#[test]
fn a_node_that_joins_while_a_film_is_sent_gets_its_share_and_one_that_leaves_is_emptied() {
    let mut stage = Stage::new(2);
    stage.add(0);
    stage.addresses.push(address());
    let mut client = stage.client(0, 2);
    let played = client.ask("PLAY", ("/", ""), "");
    let first = played.number("Sangam-Play", "datagram");
    let sequence = played.number("Sangam-Play", "gsn") as u16;
    let (packets, third) = std::thread::scope(|scope| {
        let third = scope.spawn(|| {
            stage.join(2);
            stage.serve(2, &[])
        });
        let packets = client.receive_all(|_| {});
        (packets, third.join().unwrap())
    });
    stage.nodes.push(third);
    let (found, _) = in_order(&packets, (first, sequence));
    stage.is_film(&found);
    assert_eq!(found.len() as u64, stage.datagrams());
    stage.settles(|status| status["settled"] == true);
    assert!(pieces(&stage.place(2)) > 0);
    let client = stage.client(1, 3);
    assert_eq!(client.nodes.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
    // It goes again, by way of another node.
    stage.archive(1, &["node", "remove", "3"]);
    stage.settles(|status| status["settled"] == true);
    assert_eq!(pieces(&stage.place(2)), 0);
    assert_eq!(stage.archive(0, &["node", "list"])["node"], 2);
}

#[test]
fn ordinary_players_get_repeats_and_a_client_sets_its_rate() {
    let stage = Stage::new(1);
    stage.add(0);
    let mut client = Client::connect(stage.nodes[0].rtsp, "film");
    let described = client.ask("DESCRIBE", ("?profile=avpf", ""), "");
    assert!(
        described.text.contains("m=video 0 RTP/AVPF 33 97"),
        "{}",
        described.text
    );
    let answer = client.set_up(false);
    let server = answer.header("Transport").unwrap();
    let port = server.split_once("server_port=").unwrap().1;
    let port: u16 = port.split(['-', ';']).nth(1).unwrap().parse().unwrap();
    let played = client.ask("PLAY", ("/", ""), "");
    assert_eq!(played.status, 200, "{}", played.text);
    let first = client.again(|packet| packet.kind == 33);
    assert_eq!(first.local, None);
    let rtcp = SocketAddr::from(([127, 0, 0, 1], port));
    client.report_lost(rtcp, client.ssrc, first.sequence);
    // RFC 4588: another source, and the number of the lost one in front.
    let again = client.again(|packet| packet.kind == 97);
    assert_eq!(again.ssrc, client.ssrc.wrapping_add(1));
    assert_eq!(again.data[..2], first.sequence.to_be_bytes());
    assert_eq!(again.data[2..], first.data);
    for (wish, rate) in [("1.25", "1.250"), ("9", "1.500"), ("0.1", "0.500")] {
        let set = client.ask("SET_PARAMETER", ("/", ""), &format!("rate: {wish}\r\n"));
        assert_eq!(set.status, 200, "{}", set.text);
        assert!(
            set.text.ends_with(&format!("rate: {rate}\r\n")),
            "{}",
            set.text
        );
    }
    for wrong in ["rate: quick\r\n", "volume: 11\r\n", "rate: NaN\r\n"] {
        assert_eq!(client.ask("SET_PARAMETER", ("/", ""), wrong).status, 451);
    }
    let asked = client.ask("GET_PARAMETER", ("/", ""), "rate\r\n");
    assert!(asked.text.ends_with("rate: 0.500\r\n"), "{}", asked.text);
}

#[test]
fn strangers_are_no_nodes_and_players_beyond_the_limit_are_refused() {
    let stage = Stage::new(1);
    stage.add(0);
    let wrong = stage.folder.path().join("wrong.key");
    fs::write(&wrong, "00".repeat(32)).unwrap();
    let (address, first) = (address(), &stage.addresses[0]);
    let key = wrong.display().to_string();
    let join = ["node", "add", &address, "--join", first, "--key", &key];
    let refused = stage.command(1, &join).output().unwrap();
    assert!(!refused.status.success());
    let said = text(&refused.stderr);
    assert!(said.contains("key"), "{said}");
    assert!(!stage.place(1).join("node.json").exists());

    let alone = TempDir::new().unwrap();
    let place = alone.path().display().to_string();
    let file = stage.folder.path().join("film.ts").display().to_string();
    let added = common::run(&["archive", "--archive", &place, "add", &file]);
    assert!(added.status.success());
    let serve = ["archive", "serve", "--json", "--listen", "127.0.0.1:0"];
    let serve = [&serve[..], &["--archive", &place, "--bandwidth", "12"]].concat();
    let mut process = Running::start(sangam(&serve));
    let ready = process.json_line();
    let rtsp = ready["rtsp"][0].as_str().unwrap().parse().unwrap();
    let mut one = Client::connect(rtsp, "film");
    assert_eq!(one.set_up(false).status, 200);
    let mut two = Client::connect(rtsp, "film");
    assert_eq!(two.set_up(false).status, 453);
    assert_eq!(process.counts("not_admitted", 1)["sessions_refused"], 1);
    assert_eq!(one.ask("TEARDOWN", ("/", ""), "").status, 200);
    assert_eq!(two.set_up(false).status, 200);
}

/// Sets up, of all nodes or of one, plays, stops and goes away: one that plays may stay a minute.
fn abandon(front: SocketAddr, is_direct: bool) -> bool {
    let mut client = Client::connect(front, "film");
    let is_set = client.set_up(is_direct).status == 200;
    is_set
        && ["PLAY", "PAUSE"]
            .iter()
            .all(|ask| client.ask(ask, ("/", ""), "").status == 200)
}

#[test]
fn thousands_of_sessions_that_are_abandoned_leave_nothing_at_any_node() {
    let stage = Stage::new(2);
    stage.add(0);
    let mut honest = stage.client(0, 2);
    let played = honest.ask("PLAY", ("/", ""), "");
    let first = played.number("Sangam-Play", "datagram");
    let sequence = played.number("Sangam-Play", "gsn") as u16;
    let front = stage.nodes[0].rtsp;
    let (packets, opened) = std::thread::scope(|scope| {
        let opened = scope.spawn(|| {
            let all = (0..ABANDONED).filter(|number| abandon(front, number % 2 == 0));
            all.count()
        });
        (honest.receive_all(|_| {}), opened.join().unwrap())
    });
    // Some came while those before them were not gone yet.
    assert!(opened > ABANDONED / 2, "{opened}");
    let (found, _) = in_order(&packets, (first, sequence));
    assert!(
        found.len() as u64 > stage.datagrams() * 99 / 100,
        "{}",
        found.len()
    );
    stage.is_film(&found);
    assert_eq!(honest.ask("TEARDOWN", ("/", ""), "").status, 200);
    let begin = Instant::now();
    for node in 0..2 {
        loop {
            let said = fs::read_to_string(stage.statistics(node)).unwrap();
            let last: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
            if (&last["film_streams"], &last["players"]) == (&0.into(), &0.into()) {
                break;
            }
            assert!(begin.elapsed() < PATIENCE, "{last}");
            std::thread::park_timeout(Duration::from_millis(200));
        }
    }
}
