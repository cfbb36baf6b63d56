//! Reliable topics over real brokers that are killed, frozen and started again.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use common::{Broker, Running, sangam, text};

const PATIENCE: Duration = Duration::from_secs(120);
/// Longer than a silent link lives, and far shorter than records are waited for.
const OUTAGE: Duration = Duration::from_millis(900);

/// Where a broker listens that is started again at the address it had. Connections of others to
/// anything on this machine come from 127.0.0.1, so that none gets its port while it is dead.
const APART: &str = "127.0.0.2:0";

/// Also what was published before the subscription.
const ALL: [&str; 2] = ["--replay", "1000000"];

/// A player of lines: what came so far, and whether that is in order.
struct Player {
    child: Child,
    count: Arc<AtomicU64>,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Player {
    fn start(from: &[String], topic: &str, more: &[&str]) -> Self {
        let mut args = vec!["play", "--reliable", "--topic", topic];
        for address in from {
            args.extend(["--from", address]);
        }
        args.extend(more);
        let mut child = sangam(&args)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (count, lines) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(Mutex::new(Vec::new())),
        );
        let (counter, list) = (count.clone(), lines.clone());
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                list.lock().unwrap().push(line);
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self {
            child,
            count,
            lines,
        }
    }

    #[track_caller]
    fn until(&self, count: u64) {
        let end = Instant::now() + PATIENCE;
        while self.count.load(Ordering::Relaxed) < count {
            assert!(
                Instant::now() < end,
                "{} of {count} lines",
                self.count.load(Ordering::Relaxed)
            );
            thread::park_timeout(Duration::from_millis(5));
        }
    }

    /// Everything, once and in order.
    #[track_caller]
    fn has_all(&self, count: u64) {
        self.until(count);
        let lines = self.lines.lock().unwrap();
        for (line, number) in lines.iter().zip(1_u64..) {
            assert_eq!(*line, event(number));
        }
        assert_eq!(lines.len() as u64, count);
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn event(number: u64) -> String {
    format!("event {number} {}", "x".repeat(number as usize % 40))
}

/// Publishes numbered lines as fast as the network takes them; tells its exit code.
fn publisher(to: &[String], topic: &str, count: u64) -> Receiver<i32> {
    let mut args = vec!["publish", "--reliable", "--topic", topic];
    for address in to {
        args.extend(["--to", address]);
    }
    let mut child = sangam(&args)
        .stdin(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let (done, code) = channel();
    thread::spawn(move || {
        let mut stdin = child.stdin.take().unwrap();
        for number in 1..=count {
            if writeln!(stdin, "{}", event(number)).is_err() {
                break;
            }
        }
        drop(stdin);
        let status = child.wait().unwrap();
        let _ = done.send(status.code().unwrap_or(-1));
    });
    code
}

fn command(args: &[&str], settings: &[(&str, &str)]) -> Command {
    let all = "serve --dev --json --log error --http 127.0.0.1:0";
    let mut command = sangam(
        &all.split(' ')
            .chain(args.iter().copied())
            .collect::<Vec<_>>(),
    );
    command.envs(settings.iter().copied());
    command
}

fn start(args: &[&str], settings: &[(&str, &str)]) -> Broker {
    let mut process = Running::start(command(args, settings));
    let ready = process.json_line();
    let address = |value: &serde_json::Value| value.as_str().unwrap().parse().unwrap();
    Broker {
        udp: address(&ready["udp"][0]),
        tcp: address(&ready["tcp"][0]),
        http: address(&ready["http"]),
        process,
    }
}

fn tcp(broker: &Broker) -> String {
    format!("tcp://{}", broker.tcp)
}

/// Reads a sum from `/metrics`.
fn metric(broker: &Broker, name: &str) -> f64 {
    let (_, body) = broker.get("/metrics");
    let lines = body.lines().filter(|line| line.starts_with(name));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum()
}

#[track_caller]
fn until_linked(broker: &Broker, links: f64) {
    let end = Instant::now() + PATIENCE;
    while metric(broker, "sangam_links_up") < links {
        assert!(Instant::now() < end, "no link");
        thread::park_timeout(Duration::from_millis(20));
    }
}

/// A chain of three: the first, the one between and the last.
fn chain() -> [Broker; 3] {
    let first = start(&["--listen", "127.0.0.1:0"], &[]);
    let between = between(&first, None);
    let last = start(
        &[
            "--listen",
            "127.0.0.1:0",
            "--link",
            &between.udp.to_string(),
        ],
        &[],
    );
    until_linked(&between, 2.0);
    [first, between, last]
}

fn between(first: &Broker, at: Option<SocketAddr>) -> Broker {
    let listen = at.map_or(APART.to_owned(), |at| at.to_string());
    start(
        &["--listen", &listen, "--link", &first.udp.to_string()],
        &[],
    )
}

#[test]
fn nothing_is_lost_or_doubled_when_links_are_cut_and_the_broker_between_dies() {
    const EVENTS: u64 = 30_000;
    let [first, mut middle, last] = chain();
    let address = middle.udp;
    let player = Player::start(&[tcp(&last)], "acme/room/chat", &ALL);
    let published = publisher(&[tcp(&first)], "acme/room/chat", EVENTS);
    for step in 1..=6 {
        player.until(step * EVENTS / 8);
        if step % 2 == 0 {
            middle.process.signal("KILL");
            thread::park_timeout(OUTAGE);
            drop(middle);
            middle = between(&first, Some(address));
        } else {
            middle.process.signal("STOP");
            thread::park_timeout(OUTAGE);
            middle.process.signal("CONT");
        }
    }
    player.has_all(EVENTS);
    assert_eq!(published.recv_timeout(PATIENCE), Ok(0));
    assert_eq!(metric(&last, "sangam_reliable_gaps_total"), 0.0);
}

#[test]
fn clients_of_a_broker_that_dies_go_on_at_another() {
    const EVENTS: u64 = 12_000;
    let keep = [("SANGAM_RELIABLE_KEEP_EVENTS", "50000")];
    let stays = start(&["--listen", "127.0.0.1:0"], &keep);
    let link = stays.udp.to_string();
    let dies = start(&["--listen", "127.0.0.1:0", "--link", &link], &keep);
    until_linked(&stays, 1.0);
    let ways = [tcp(&dies), tcp(&stays)];
    let player = Player::start(&ways, "acme/room/board", &ALL);
    let published = publisher(&ways, "acme/room/board", EVENTS);
    player.until(EVENTS / 4);
    dies.process.signal("KILL");
    player.has_all(EVENTS);
    assert_eq!(published.recv_timeout(PATIENCE), Ok(0));
}

#[test]
fn who_comes_late_gets_what_was_asked_for() {
    let broker = start(&["--listen", "127.0.0.1:0"], &[]);
    let way = format!("udp://{}", broker.udp);
    let published = publisher(std::slice::from_ref(&way), "acme/late", 50);
    assert_eq!(published.recv_timeout(PATIENCE), Ok(0));
    let args = format!("play --reliable --topic acme/late --from {way} --replay 20 --events 20");
    let output = common::run(&args.split(' ').collect::<Vec<_>>());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let expected: Vec<String> = (31..=50).map(event).collect();
    assert_eq!(text(&output.stdout).lines().collect::<Vec<_>>(), expected);
}

#[test]
fn what_a_durable_broker_has_acknowledged_survives_its_death() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let durable = [("SANGAM_RELIABLE_DURABLE", "true")];
    let args = ["--listen", "127.0.0.1:0", "--data-dir", data];
    let broker = start(&args, &durable);
    let published = publisher(&[tcp(&broker)], "acme/minutes", 500);
    assert_eq!(published.recv_timeout(PATIENCE), Ok(0));
    broker.process.signal("KILL");
    drop(broker);
    let broker = start(&args, &durable);
    let player = Player::start(&[tcp(&broker)], "acme/minutes", &["--replay", "1000"]);
    player.has_all(500);
}
