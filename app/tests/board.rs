//! Whiteboards as pages reach them: a WebSocket at any broker, a reliable topic behind it, and
//! nobody draws without the floor.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;
#[path = "common/drawing.rs"]
mod drawing;

use std::io::Write;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Broker, Running, run, sangam, text};
use drawing::Page;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes of an event at most.
const EVENT_LEN_MAX: usize = 65_536;

/// How often a broker refused something for a reason.
fn refused(broker: &Broker, reason: &str) -> u64 {
    let (_, metrics) = broker.get("/metrics");
    let name = format!("sangam_board_refused_total{{reason=\"{reason}\"}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
    line.unwrap().parse().unwrap()
}

#[test]
fn what_one_draws_comes_to_those_at_other_brokers_and_to_those_who_come_late() {
    let first = Broker::start(&[]);
    let second = Broker::linked(&first);
    let mut anna = Page::open(&first, "m1");
    let mut bert = Page::open(&second, "m2");
    assert!(anna.live().is_empty() && bert.live().is_empty());
    let large = vec![7; EVENT_LEN_MAX];
    for event in [&b"one"[..], b"two", &large] {
        anna.draw(event);
    }
    for page in [&mut anna, &mut bert] {
        assert_eq!(page.event(), b"one");
        assert_eq!(page.event(), b"two");
        assert_eq!(page.event(), large);
    }
    bert.draw(b"three");
    assert_eq!(anna.event(), b"three");
    let mut late = Page::open(&second, "m3");
    let mut kept = late.live();
    kept.sort();
    let all = [large, b"one".to_vec(), b"three".to_vec(), b"two".to_vec()];
    assert!(kept == all, "{} events", kept.len());
}

/// A member on the command line, joined.
fn member(broker: &Broker) -> Running {
    let server = format!("http://{}", broker.http);
    let create = ["session", "--server", &server, "create", "acme/weekly"];
    assert!(run(&create).status.success());
    let invite = run(&[
        "session",
        "--json",
        "--server",
        &server,
        "invite",
        "acme/weekly",
        "--identity",
        "anna",
    ]);
    let invited: Value = serde_json::from_str(&text(&invite.stdout)).unwrap();
    let mut command = sangam(&["session", "--server", &server, "join", "acme/weekly"]);
    command.env("SANGAM_TOKEN", invited["token"].as_str().unwrap());
    command.stdin(Stdio::piped());
    let mut member = Running::start(command);
    while member.json_line()["type"] != "state" {}
    member
}

#[test]
fn whoever_holds_no_floor_draws_nothing() {
    let broker = Broker::start(&[]);
    let mut member = member(&broker);
    let mut anna = Page::open(&broker, "m1");
    let mut other = Page::open(&broker, "m2");
    anna.live();
    other.live();
    anna.draw(b"too early");
    assert_eq!(anna.word()["code"], "floor");
    assert_eq!(refused(&broker, "floor"), 1);
    let stdin = member.child.stdin.as_mut().unwrap();
    let ask = json!({ "id": 7, "do": "request", "medium": "board" });
    writeln!(stdin, "{ask}").unwrap();
    while member.json_line()["id"] != 7 {}
    // The broker hears of the floor a moment after the member.
    let until = Instant::now() + PATIENCE;
    loop {
        anna.draw(b"now");
        match anna.next() {
            Message::Binary(event) => break assert_eq!(*event, *b"now"),
            message => assert!(Instant::now() < until, "{message:?}"),
        }
    }
    // Of all that nothing else came through.
    assert_eq!(other.event(), b"now");
}

#[test]
fn strangers_and_nonsense_are_refused_in_words() {
    let broker = Broker::start(&[]);
    let at = "acme/weekly/main/m1";
    let own = format!("http://{}", broker.http);
    let dial = |at: &str, origin| Page::dial(broker.http, at, origin).map(drop);
    assert_eq!(dial(at, Some("https://evil.example")), Err(403));
    assert_eq!(dial(at, Some("null")), Err(403));
    assert_eq!(dial(at, Some(&own)), Ok(()));
    assert_eq!(dial("acme/weekly/main/%2B", None), Err(400));
    assert_eq!(dial("acme/week%2Fly/main/m1", None), Err(400));
    for greeting in [Message::text("{}"), Message::binary(vec![1])] {
        let mut page = Page::dial(broker.http, at, None).unwrap();
        page.0.send(greeting).unwrap();
        assert_eq!(page.word()["code"], "malformed");
    }
    let mut page = Page::open(&broker, "m1");
    page.live();
    page.say(&json!({ "type": "nonsense" }));
    assert_eq!(page.word()["code"], "malformed");
    page.say(&json!({ "type": "full" }));
    // More than an event may have ends the line.
    page.draw(&vec![0; EVENT_LEN_MAX + 1]);
    while page.0.read().is_ok() {}
    assert_eq!(refused(&broker, "full"), 1);
    assert_eq!(refused(&broker, "origin"), 2);
    assert_eq!(refused(&broker, "malformed"), 6);
}

#[test]
fn who_has_not_come_in_takes_no_room_and_a_member_has_four_boards() {
    let broker = Broker::start(&[]);
    let at = "acme/weekly/main/m1";
    let dial = || Page::dial(broker.http, at, None).unwrap();
    let _silent: Vec<_> = (0..8).map(|_| dial()).collect();
    let mut boards: Vec<_> = (0..4).map(|_| Page::open(&broker, "m1")).collect();
    let greeted = || {
        let mut page = dial();
        page.say(&json!({ "type": "open" }));
        page.word()
    };
    assert_eq!(greeted()["code"], "busy");
    assert_eq!(refused(&broker, "busy"), 1);
    let _other = Page::open(&broker, "m2");
    boards.pop();
    let until = Instant::now() + PATIENCE;
    while greeted()["type"] != "open" {
        assert!(Instant::now() < until);
    }
}

#[test]
fn a_token_opens_its_own_room_and_draws_for_its_own_member() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let said = |args: &[&str]| {
        let output = run(args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).trim().to_owned()
    };
    said(&["token", "key", "--out", &path("tokens")]);
    let token = said(&[
        "token",
        "issue",
        "--key",
        &path("tokens.key"),
        "--sub",
        "anna",
        "--publish",
        "acme/weekly/main/+/m1/#",
        "--subscribe",
        "acme/weekly/main/#",
    ]);
    let config = format!("[auth]\nkeys = [\"{}\"]\n", path("tokens.pub"));
    std::fs::write(path("config.toml"), config).unwrap();
    let mut command = sangam(&["serve", "--json", "--log", "error"]);
    command.args(["--config", &path("config.toml"), "--listen", "127.0.0.1:0"]);
    command.args(["--http", "127.0.0.1:0"]);
    let mut process = Running::start(command);
    let http: SocketAddr = process.json_line()["http"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let open = |at: &str, token: Option<&str>| {
        let mut page = Page::dial(http, at, None).unwrap();
        page.say(&json!({ "type": "open", "token": token }));
        let word = page.word();
        (page, word)
    };
    let code = |at: &str, token| open(at, token).1["code"].clone();
    assert_eq!(code("acme/weekly/main/m1", None), "no_token");
    assert_eq!(
        code("acme/weekly/main/m1", Some("e30.e30.e30")),
        "invalid_token"
    );
    assert_eq!(code("acme/weekly/side/m1", Some(&token)), "forbidden");
    assert_eq!(open("acme/weekly/main/m2", Some(&token)).1["draws"], false);
    let (mut page, word) = open("acme/weekly/main/m1", Some(&token));
    assert_eq!(word["draws"], true);
    page.live();
    page.draw(b"mine");
    assert_eq!(page.event(), b"mine");
    page.say(&json!({ "type": "open", "token": "e30.e30.e30" }));
    assert_eq!(page.word()["code"], "invalid_token");
}
