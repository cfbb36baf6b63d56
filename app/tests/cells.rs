//! Reports that are merged on their way, and clocks that are wrong.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Broker, Running, clip, run, sangam, text};
use serde_json::Value;

/// How long something that must happen may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// An aggregation node that listens through all these brokers.
struct Node {
    _process: Running,
    http: SocketAddr,
}

impl Node {
    fn start(brokers: &[&Broker], more: &[&str]) -> Self {
        let mut args = vec![
            "monitor",
            "--json",
            "--log",
            "error",
            "--http",
            "127.0.0.1:0",
        ];
        let addresses = brokers.iter().map(|broker| broker.udp.to_string());
        let addresses: Vec<_> = addresses.collect();
        args.extend(addresses.iter().flat_map(|address| ["--broker", address]));
        args.extend(more);
        let mut process = Running::start(sangam(&args));
        let ready = process.json_line();
        Self {
            http: ready["http"].as_str().unwrap().parse().unwrap(),
            _process: process,
        }
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.http).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let to = self.http;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// The brokers that are not stale, once they satisfy.
    #[track_caller]
    fn view(&self, what: &str, good: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let start = Instant::now();
        loop {
            let view: Value = serde_json::from_str(&self.get("/v1/network")).unwrap();
            let fresh = view["brokers"].as_array().unwrap().iter();
            let fresh = fresh.filter(|one| one["stale"] == false).cloned();
            let fresh: Vec<Value> = fresh.collect();
            if good(&fresh) {
                return fresh;
            }
            assert!(start.elapsed() < PATIENCE, "never: {what}; {view:#}");
            std::thread::park_timeout(Duration::from_millis(100));
        }
    }
}

/// Each linked with all before it.
fn mesh<const N: usize>(names: [&str; N]) -> Vec<Broker> {
    let mut brokers: Vec<Broker> = Vec::new();
    for name in names {
        let links: Vec<String> = brokers.iter().map(|one| one.udp.to_string()).collect();
        let mut args = vec!["--name", name];
        args.extend(links.iter().flat_map(|link| ["--link", link]));
        let broker = Broker::start(&args);
        brokers.push(broker);
    }
    brokers
}

/// A publisher of a clip and a player of it that has received something.
fn media(from: &Broker, to: &Broker, clip: &str) -> (Running, Running) {
    let (from, to) = (from.udp.to_string(), to.udp.to_string());
    let args = "publish --json --loop --topic show/one --to".split(' ');
    let args: Vec<&str> = args.chain([from.as_str(), "--file", clip]).collect();
    let mut publisher = Running::start(sangam(&args));
    assert_eq!(publisher.json_line()["event"], "second");
    let args = "play --json --topic show/# --seconds 300 --from".split(' ');
    let args: Vec<&str> = args.chain([to.as_str()]).collect();
    let mut player = Running::start(sangam(&args));
    while !is_playing(&player.json_line()) {}
    (publisher, player)
}

fn is_playing(line: &Value) -> bool {
    let streams = line["streams"].as_array().unwrap();
    streams.len() == 2 && streams.iter().all(|one| one["packets"].as_u64() > Some(0))
}

/// Whether these brokers' figures come by this one alone.
fn come_by(view: &[Value], head: &str) -> bool {
    let by = |one: &Value| one["via"] == head && one["digest"] == true;
    view.iter().all(by)
}

#[test]
fn another_broker_merges_when_the_head_of_a_cell_dies_and_media_does_not_notice() {
    let folder = tempfile::tempdir().unwrap();
    let clip = clip(folder.path()).display().to_string();
    let names = ["oslo", "paris", "rome", "cairo"];
    let mut brokers = mesh(names);
    let node = Node::start(
        &brokers.iter().collect::<Vec<_>>(),
        &["--reports", "merged"],
    );
    // The three links of each, as both their ends measure them, and no report in full.
    let whole = |view: &[Value]| {
        let links = view
            .iter()
            .map(|one| one["links"].as_array().map_or(0, Vec::len));
        view.len() == 4 && links.sum::<usize>() == 12
    };
    let view = node.view("all are merged", whole);
    let mut ids: Vec<(String, String)> = view
        .iter()
        .map(|one| ["broker", "name"].map(|field| one[field].as_str().unwrap().to_owned()))
        .map(|[id, name]| (id, name))
        .collect();
    ids.sort();
    let [(head, first), (next, _), ..] = ids.as_slice() else {
        panic!("{ids:?}")
    };
    node.view("the lowest id merges", |view| come_by(view, head));

    let head = names.iter().position(|name| name == first).unwrap();
    let killed = brokers.remove(head);
    // A busy machine measures links so that a way through the head may be the shorter one.
    let path = format!("/v1/links/{}/weight", ids[0].0);
    let json = ["Content-Type: application/json"];
    let (status, body) = brokers[0].request("PUT", &path, &json, "{\"weight\": 65535}");
    assert_eq!(status, 200, "{body}");
    let (_publisher, mut player) = media(&brokers[0], &brokers[1], &clip);
    killed.process.signal("KILL");
    node.view("the next lowest merges the others", |view| {
        view.len() == 3 && come_by(view, next)
    });
    let links = |one: &Value| one["links"].as_array().unwrap().clone();
    node.view("links to the dead one are down", |view| {
        let up = |one: &Value| links(one).iter().filter(|link| link["up"] == true).count();
        view.iter().all(|one| up(one) == 2)
    });
    let mut last = player.json_line();
    for _ in 0..2 {
        last = player.json_line();
    }
    let lost = last["streams"].as_array().unwrap().iter();
    let lost: u64 = lost.map(|one| one["lost"].as_u64().unwrap()).sum();
    assert_eq!(lost, 0, "{last:#}");
    assert!(is_playing(&last));
}

#[test]
fn full_detail_of_a_small_network_is_heard_without_asking() {
    let brokers = mesh(["oslo", "paris"]);
    let node = Node::start(&[&brokers[0]], &[]);
    node.view("reports in full", |view| {
        view.len() == 2 && view.iter().all(|one| one["digest"].is_null())
    });
}

/// A command that believes it is an hour later. By libfaketime itself: the program `faketime` is a
/// parent that leaves its child behind when it is killed.
fn an_hour_later(mut command: Command) -> Command {
    command
        // The loader puts the directory of its architecture for $LIB.
        .env("LD_PRELOAD", "/usr/$LIB/faketime/libfaketimeMT.so.1")
        .env("FAKETIME", "+1h")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        // Its name in earlier versions.
        .env("DONT_FAKE_MONOTONIC", "1");
    command
}

#[test]
fn a_broker_whose_clock_is_wrong_is_named_wherever_the_network_is_shown() {
    let mut brokers = mesh(["oslo", "paris"]);
    let links: Vec<String> = brokers.iter().map(|one| one.udp.to_string()).collect();
    let late = ["--name", "late", "--link", &links[0], "--link", &links[1]];
    brokers.push(Broker::of(an_hour_later(Broker::command(&late))));
    for reports in ["full", "merged"] {
        let node = Node::start(&[&brokers[0]], &["--reports", reports]);
        let view = node.view("the clock is noticed", |view| {
            let wrong = view.iter().filter(|one| one["clock_wrong"] == true);
            view.len() == 3 && wrong.count() == 1
        });
        let late = view.iter().find(|one| one["name"] == "late").unwrap();
        let off_s = late["clock_off_ms"].as_i64().unwrap() / 1_000;
        assert!((3_598..=3_602).contains(&off_s), "{late:#}");
        assert_eq!(late["clock_wrong"], true);
        let metrics = node.get("/metrics");
        assert!(
            metrics.contains("\nsangam_network_wrong_clocks 1\n"),
            "{metrics}"
        );
        let document = node.get("/v1/network.xml");
        assert_eq!(
            document.matches("clock_wrong=\"true\"").count(),
            1,
            "{document}"
        );
    }
    let output = run(&["net", "--broker", &links[0], "--wait", "10", "brokers"]);
    let said = text(&output.stdout);
    assert!(said.contains("the clock of late is off by +3"), "{said}");
}
