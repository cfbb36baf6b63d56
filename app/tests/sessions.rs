//! Meetings from the command line to the packet: who holds no floor is heard by nobody.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;
#[path = "common/flood.rs"]
mod flood;
#[path = "common/meeting.rs"]
mod meeting;

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use common::{Broker, Running, opus, run, sangam, text};
use flood::Flood;
use meeting::{Member, OPERATOR, closed, guarded, session};
use sangam_client::{
    Client, ClientError, ClientOptions, Outgoing, Publisher, Received, Target, Token,
};
use sangam_model::{Filter, Topic};
use sangam_wire::Event;
use serde_json::json;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(20);

fn client(udp: SocketAddr, token: Option<&str>) -> Client {
    let options = ClientOptions {
        token: token.map(|token| Token::new(token).unwrap()),
        ..ClientOptions::default()
    };
    let mut client = Client::connect(Target::Udp(udp), options).unwrap();
    client.wait_up(PATIENCE).unwrap();
    client
}

#[test]
fn a_session_knows_whether_it_is_recorded() {
    let broker = Broker::start(&[]);
    session(&broker, &["create", "acme/kept", "--needs", "recorder"]);
    let state = || session(&broker, &["show", "acme/kept"])["state"].clone();
    assert_eq!(state(), "created");
    let folder = TempDir::new().unwrap();
    let (place, from) = (folder.path().display().to_string(), broker.udp.to_string());
    let server = format!("http://{}", broker.http);
    let record = |name| {
        let what = ["record", "--json", "--session", name, "--server", &server];
        sangam(&[&what[..], &["--from", &from, "--archive", &place]].concat())
    };
    let mut recorder = Running::start(record("acme/kept"));
    let begun = recorder.json_line();
    assert_eq!(begun["name"], "acme/kept/#", "{begun}");
    assert_eq!(state(), "activated");
    recorder.signal("INT");
    assert_eq!(recorder.end().0, 0);
    let shown = session(&broker, &["show", "acme/kept"]);
    assert_eq!(shown["services"][0]["ready"], false, "{shown}");
    let refused = record("acme/other").output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
}

fn speaker(client: &mut Client, member: &str) -> Publisher {
    let topic = Topic::new(&format!("acme/weekly/main/audio/{member}")).unwrap();
    client.publish(&topic, opus(), PATIENCE).unwrap()
}

fn listener(udp: SocketAddr) -> Client {
    let client = client(udp, None);
    client
        .subscribe(&Filter::new("acme/weekly/#").unwrap())
        .unwrap();
    client
}

/// A packet of RTP.
fn packet(sequence: u16) -> [u8; 16] {
    let mut bytes = [0x80, 111, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 1, 2, 3, 4];
    bytes[2..4].copy_from_slice(&sequence.to_be_bytes());
    bytes
}

/// A publisher, and how many packets it has sent.
struct Voice(Publisher, u16);

impl Voice {
    /// The number of the event that it sends.
    fn speak(&mut self) -> u16 {
        self.1 += 1;
        self.0.send(Outgoing::new(&packet(self.1))).unwrap()
    }

    /// Speaks until it is heard.
    #[track_caller]
    fn is_heard(&mut self, by: &mut Client) {
        let until = Instant::now() + PATIENCE;
        while !heard(by) {
            assert!(Instant::now() < until, "nobody hears it");
            self.speak();
        }
    }

    /// Speaks until a broker has turned it away, and hears that nobody has heard it since.
    #[track_caller]
    fn is_not_heard(&mut self, (by, at): (&mut Client, &Broker)) {
        let until = Instant::now() + PATIENCE;
        let before = closed(at);
        while closed(at) == before {
            assert!(Instant::now() < until, "nobody turns it away");
            self.speak();
            heard(by);
        }
        for _ in 0..5 {
            self.speak();
        }
        assert!(!heard(by), "it is heard without the floor");
    }
}

/// Whether any audio came.
fn heard(by: &mut Client) -> bool {
    let mut heard = false;
    while let Some(one) = by.recv(SHORT) {
        heard |= matches!(one, Received::Event(_));
    }
    heard
}

#[test]
fn a_client_without_the_floor_is_heard_by_nobody_and_with_it_by_all() {
    let broker = Broker::start(&[]);
    session(&broker, &["create", "acme/weekly", "--title", "Weekly"]);
    let mut chair = Member::joined(&broker, "chair", "chair");
    let mut anna = Member::joined(&broker, "anna", "participant");
    let mut hostile = client(broker.udp, None);
    let mut listener = listener(broker.udp);
    let mut voice = Voice(speaker(&mut hostile, "m2"), 0);
    voice.is_not_heard((&mut listener, &broker));

    anna.ask(json!({ "do": "request", "medium": "audio" }));
    let granted = |frame: &serde_json::Value| frame["events"][0]["event"] == "granted";
    assert_eq!(chair.until(granted)["events"][0]["member"], "m2");
    voice.is_heard(&mut listener);

    chair.ask(json!({ "do": "mute", "member": "m2", "medium": "audio", "muted": true }));
    voice.is_not_heard((&mut listener, &broker));
    let shown = session(&broker, &["show", "acme/weekly"]);
    assert_eq!(shown["members"][1]["muted"], json!(["audio"]));
}

#[test]
fn floors_stand_at_other_brokers_and_outlive_the_session_server() {
    let server = Broker::start(&[]);
    let mut command = vec!["--link".to_owned(), server.udp.to_string()];
    command.push("--name=second".to_owned());
    let args: Vec<_> = command.iter().map(String::as_str).collect();
    let other = Broker::start(&args);
    session(&server, &["create", "acme/weekly"]);
    let _chair = Member::joined(&server, "chair", "chair");
    let mut anna = Member::joined(&server, "anna", "participant");
    let (mut good, mut hostile) = (client(other.udp, None), client(other.udp, None));
    let mut listener = listener(other.udp);
    let mut with = Voice(speaker(&mut good, "m2"), 0);
    let mut without = Voice(speaker(&mut hostile, "m1"), 0);
    without.is_not_heard((&mut listener, &other));
    anna.ask(json!({ "do": "request", "medium": "audio" }));
    with.is_heard(&mut listener);

    // No goodbye: the process is gone from one moment to the next.
    server.process.signal("KILL");
    drop(server);
    without.is_not_heard((&mut listener, &other));
    with.is_heard(&mut listener);
}

#[test]
fn a_broker_that_heard_nothing_of_a_session_lets_no_member_be_heard() {
    let folder = tempfile::tempdir().unwrap();
    let config = guarded(folder.path());
    let server = Broker::start(&["--config", &config]);
    let as_operator = |args: &[&str]| session(&server, &[args, &OPERATOR[..]].concat());
    as_operator(&["create", "acme/weekly"]);
    let made = as_operator(&["invite", "acme/weekly", "--identity", "anna"]);
    let mut anna = Member::start(&server, made["token"].as_str().unwrap());
    let media = anna.wait("media");
    anna.ask(json!({ "do": "request", "medium": "audio" }));
    server.process.signal("KILL");
    drop(server);

    let at = |name: &str| folder.path().join(name).display().to_string();
    let asks = format!(
        "[auth]\nrequired = true\nkeys = [\"{}\"]\nleeway_s = 0\n[sessions]\nenabled = false\n",
        at("tokens.pub")
    );
    fs::write(at("late.toml"), asks).unwrap();
    let late = Broker::start(&["--name", "late", "--config", &at("late.toml")]);
    let key = at("tokens.key");
    let issue = |right: &str| {
        let who = ["token", "issue", "--key", &key, "--sub", "radio"];
        let output = run(&[&who[..], &[right, "acme/#"]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).trim().to_owned()
    };
    let mut listener = client(late.udp, Some(&issue("--subscribe")));
    listener.subscribe(&Filter::new("acme/#").unwrap()).unwrap();
    let mut member = client(late.udp, media["token"].as_str());
    let mut voice = Voice(speaker(&mut member, "m1"), 0);
    voice.is_not_heard((&mut listener, &late));
    // What is no session's does not wait for session servers.
    let mut station = client(late.udp, Some(&issue("--publish")));
    let topic = Topic::new("acme/radio/one").unwrap();
    let mut radio = Voice(station.publish(&topic, opus(), PATIENCE).unwrap(), 0);
    radio.is_heard(&mut listener);
    while heard(&mut listener) {}

    // The floor was anna's, and still is when its server is back.
    let link = late.udp.to_string();
    let _server = Broker::start(&["--config", &config, "--link", &link]);
    voice.is_heard(&mut listener);
}

#[test]
fn a_token_lets_a_member_reach_its_own_topics_and_a_changed_one_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::start(&["--config", &guarded(folder.path())]);
    let as_operator = |args: &[&str]| session(&broker, &[args, &OPERATOR[..]].concat());
    as_operator(&["create", "acme/weekly"]);
    let made = as_operator(&["invite", "acme/weekly", "--identity", "anna"]);
    let token = made["token"].as_str().unwrap();
    let mut anna = Member::start(&broker, token);
    let media = anna.wait("media");
    anna.ask(json!({ "do": "request", "medium": "audio" }));

    let pass = media["token"].as_str().unwrap();
    let mut good = client(broker.udp, Some(pass));
    let foreign = Topic::new("acme/weekly/main/audio/m9").unwrap();
    let refused = good.publish(&foreign, opus(), PATIENCE);
    assert!(
        matches!(refused, Err(ClientError::Publication { .. })),
        "{refused:?}"
    );
    let bert = as_operator(&["invite", "acme/weekly", "--identity", "bert"]);
    let mut bert = Member::start(&broker, bert["token"].as_str().unwrap());
    let media = bert.wait("media");
    let mut listener = client(broker.udp, media["token"].as_str());
    let reach = media["subscribe"][0].as_str().unwrap();
    listener.subscribe(&Filter::new(reach).unwrap()).unwrap();
    let mut voice = Voice(speaker(&mut good, "m1"), 0);
    voice.is_heard(&mut listener);

    let (head, signature) = token.rsplit_once('.').unwrap();
    let flipped: String = signature.chars().rev().collect();
    let expired = as_operator(&[
        "invite",
        "acme/weekly",
        "--identity",
        "x",
        "--expires",
        "1s",
    ]);
    let expired = expired["token"].as_str().unwrap().to_owned();
    let other = as_operator(&["create", "acme/daily"]);
    assert_eq!(other["state"], "activated");
    let elsewhere = as_operator(&["invite", "acme/daily", "--identity", "x"]);
    let elsewhere = elsewhere["token"].as_str().unwrap().to_owned();
    // Its second has passed by the time the others were asked.
    let outcomes = [
        (format!("{head}.{flipped}"), "invalid_token"),
        (elsewhere, "other_session"),
        (pass.to_owned(), "other_session"),
    ];
    for (token, code) in outcomes {
        let refused = Member::start(&broker, &token).wait("refused");
        assert!(
            refused["code"] == code || refused["code"] == "forbidden",
            "{code}: {refused}"
        );
    }
    let until = Instant::now() + PATIENCE;
    loop {
        let mut member = Member::start(&broker, &expired);
        let first = member.0.json_line();
        if first["code"] == "expired" {
            break;
        }
        assert!(Instant::now() < until, "{first}");
    }
}

#[test]
fn a_meeting_survives_the_sudden_end_of_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let config = guarded(folder.path());
    let broker = Broker::start(&["--config", &config]);
    let as_operator =
        |broker: &Broker, args: &[&str]| session(broker, &[args, &OPERATOR[..]].concat());
    as_operator(&broker, &["create", "acme/weekly", "--title", "Weekly"]);
    let made = as_operator(&broker, &["invite", "acme/weekly", "--identity", "anna"]);
    let mut anna = Member::start(&broker, made["token"].as_str().unwrap());
    anna.wait("state");
    anna.ask(json!({ "do": "request", "medium": "screen" }));
    broker.process.signal("KILL");
    drop(broker);

    let broker = Broker::start(&["--config", &config]);
    let shown = as_operator(&broker, &["show", "acme/weekly"]);
    let screen = &shown["rooms"][0]["floors"][2];
    assert_eq!(screen["holders"][0]["member"], "m1", "{shown}");
    assert!(shown["members"][0]["away_ms"].is_u64(), "{shown}");
    assert!(shown["epoch"].as_u64() > Some(1), "{shown}");
    // The same person comes back with a link, if not with a key.
    let mut again = Member::start(&broker, made["token"].as_str().unwrap());
    let state = again.wait("state");
    assert_eq!(state["session"]["members_total"], 1, "{state}");
}

/// What the API has refused for want of patience.
fn held_up(broker: &Broker) -> u64 {
    let (_, metrics) = broker.get("/metrics");
    let name = "sangam_api_refused_total{reason=\"rate\"} ";
    let line = metrics.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap().parse().unwrap()
}

#[test]
fn a_caller_that_asks_too_much_is_held_up_and_costs_no_change_and_no_packet() {
    let broker = Broker::start(&[]);
    session(&broker, &["create", "acme/weekly", "--title", "Weekly"]);
    let mut chair = Member::joined(&broker, "chair", "chair");
    let mut anna = Member::joined(&broker, "anna", "participant");
    anna.ask(json!({ "do": "request", "medium": "audio" }));
    let mut speaking = client(broker.udp, None);
    let mut listener = listener(broker.udp);
    let mut voice = Voice(speaker(&mut speaking, "m2"), 0);
    voice.is_heard(&mut listener);
    while heard(&mut listener) {}

    let flood = Flood::start(broker.http);
    let (mut rounds, mut raised) = (0, false);
    // What waits on its way never fills a queue: a packet that is missing was lost to the flood.
    while rounds < 100 || flood.held_up() < 2_000 {
        let mut missing: BTreeSet<u16> = (0..10).map(|_| voice.speak()).collect();
        let until = Instant::now() + PATIENCE;
        while !missing.is_empty() {
            assert!(Instant::now() < until, "these are lost: {missing:?}");
            if let Some(Received::Event(packet)) = listener.recv(SHORT) {
                let event = Event::decode(&packet).unwrap();
                missing.remove(&event.header.sequence);
            }
        }
        if rounds % 20 == 0 {
            raised = !raised;
            anna.ask(json!({ "do": "hand", "raised": raised }));
            chair.until(|frame| frame["events"][0]["raised"] == raised);
        }
        rounds += 1;
    }
    let counted = flood.end();
    assert_eq!(held_up(&broker), counted);
    // Whoever stays within its share was served all the time, and is.
    let shown = session(&broker, &["show", "acme/weekly"]);
    assert_eq!(shown["members_total"], 2, "{shown}");
}
