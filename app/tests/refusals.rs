//! What comes from callers who mean no good: refused in words, counted, and no burden.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Broker, run, sdp_offer, text};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio_tungstenite::client_async;

const PATIENCE: Duration = Duration::from_secs(30);
const OPERATOR: &str = "Authorization: Bearer 0123456789abcdef";
const JSON: &str = "Content-Type: application/json";
const XML: &str = "Content-Type: application/xml";
const NAMESPACE: &str = "urn:sangam:xgsp:1";
const COMMANDS: &str = "/v1/sessions/acme/weekly/commands";
/// Bytes that are taken of a command, and of what a recorder says.
const COMMAND_LEN_MAX: usize = 16_384;
const BEAT_LEN_MAX: usize = 262_144;
/// What so many bombs may cost at their peak, in KiB: none of them grows when it is read.
const GROWTH_MAX: u64 = 65_536;

/// A broker that asks for tokens and has a session; and the key of its tokens.
fn guarded(folder: &Path) -> (Broker, String) {
    let at = |name: &str| folder.join(name).display().to_string();
    let made = run(&["token", "key", "--out", &at("tokens")]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let config = format!(
        "[auth]\nrequired = true\nkeys = [\"{}\"]\nleeway_s = 0\n\
         [api]\ntoken = \"0123456789abcdef\"\n[sessions]\nenabled = true\nkey = \"{}\"\n",
        at("tokens.pub"),
        at("tokens.key"),
    );
    fs::write(at("sangam.toml"), config).unwrap();
    let broker = Broker::start(&["--config", &at("sangam.toml")]);
    let wanted = json!({ "tenant": "acme", "name": "weekly", "title": "Weekly" }).to_string();
    let (status, made) = broker.request("POST", "/v1/sessions", &[OPERATOR, JSON], &wanted);
    assert_eq!(status, 201, "{made}");
    (broker, at("tokens.key"))
}

/// How much was refused for a reason.
fn refused(broker: &Broker, reason: &str) -> u64 {
    let (_, metrics) = broker.get("/metrics");
    let name = format!("sangam_api_refused_total{{reason=\"{reason}\"}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
    line.unwrap_or_else(|| panic!("no {name}: {metrics}"))
        .parse()
        .unwrap()
}

/// Says one thing at a door for WebSockets; the answer.
fn greet(broker: &Broker, path: &str, greeting: &str) -> Value {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let answer = runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(broker.http).await.unwrap();
        let url = format!("ws://{}{path}", broker.http);
        let (mut socket, _) = client_async(url, stream).await.unwrap();
        socket.send(greeting.into()).await.unwrap();
        tokio::time::timeout(PATIENCE, socket.next()).await.unwrap()
    });
    let answer = answer.unwrap().unwrap().into_text().unwrap();
    serde_json::from_str(&answer).unwrap()
}

/// An invitation as its guest has it.
fn invited(broker: &Broker, ttl_s: u64) -> String {
    let wanted = json!({ "identity": "anna", "ttl_s": ttl_s }).to_string();
    let path = "/v1/sessions/acme/weekly/tokens";
    let (status, made) = broker.request("POST", path, &[OPERATOR, JSON], &wanted);
    assert_eq!(status, 201, "{made}");
    let made: Value = serde_json::from_str(&made).unwrap();
    made["token"].as_str().unwrap().to_owned()
}

#[test]
fn whatever_is_refused_is_counted_by_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let (broker, _) = guarded(folder.path());
    let post = |headers: &[&str], body: &str| broker.request("POST", COMMANDS, headers, body);
    let bearer = |token: &str| format!("Authorization: Bearer {token}");
    let token = invited(&broker, 600);
    let (head, signature) = token.rsplit_once('.').unwrap();
    let flipped: String = signature.chars().rev().collect();
    let changed = bearer(&format!("{head}.{flipped}"));
    let lock = r#"{"do": "lock", "locked": true}"#;
    let doctype = "<!DOCTYPE lock [<!ENTITY a 'b'>]><lock/>";
    let many: String = (0..200).map(|n| format!(" a{n}=''")).collect();
    let crowded = format!("<lock xmlns='{NAMESPACE}'{many}/>");
    let wrong = "Content-Type: text/plain";
    for (reason, status, headers, body) in [
        ("no_token", 401, vec![JSON], lock),
        ("invalid_token", 401, vec![JSON, &changed], lock),
        ("forbidden", 403, vec![JSON, &bearer(&token)], lock),
        ("malformed", 400, vec![JSON, OPERATOR], "{\"do\": \"lo"),
        ("malformed", 400, vec![XML, OPERATOR], "<lock"),
        ("document_type", 400, vec![XML, OPERATOR], doctype),
        ("crowded", 400, vec![XML, OPERATOR], &crowded),
        ("media_type", 415, vec![wrong, OPERATOR], lock),
        ("too_large", 413, vec![JSON, OPERATOR], &"x".repeat(20_000)),
    ] {
        let before = refused(&broker, reason);
        let (found, answer) = post(&headers, body);
        assert_eq!(found, status, "{reason}: {answer}");
        let problem: Value = serde_json::from_str(&answer).unwrap();
        assert!(problem["error"].is_string(), "{reason}: {answer}");
        assert_eq!(refused(&broker, reason), before + 1, "{reason}: {answer}");
    }

    let signal = "/v1/sessions/acme/weekly/signal";
    let join = |token: &str| json!({ "type": "join", "token": token }).to_string();
    for (reason, greeting) in [
        ("malformed", "{\"type\": \"jo"),
        ("invalid_token", &*join("e30.e30.e30")),
    ] {
        let before = refused(&broker, reason);
        let answer = greet(&broker, signal, greeting);
        assert_eq!(
            (&answer["type"], &answer["code"]),
            (&json!("refused"), &json!(reason))
        );
        assert_eq!(refused(&broker, reason), before + 1, "{answer}");
    }
    // Good for a second, which passes.
    let (short, until) = (invited(&broker, 1), Instant::now() + PATIENCE);
    while broker.request("GET", "/v1/ice", &[&bearer(&short)], "").0 != 401 {
        assert!(Instant::now() < until, "the token does not end");
    }
    let before = refused(&broker, "expired");
    let answer = greet(&broker, signal, &join(&short));
    assert_eq!(answer["code"], "expired", "{answer}");
    assert_eq!(post(&[JSON, &bearer(&short)], lock).0, 401);
    assert_eq!(refused(&broker, "expired"), before + 2);
}

#[test]
fn clients_of_the_broker_are_refused_with_the_same_codes() {
    let folder = tempfile::tempdir().unwrap();
    let (broker, _) = guarded(folder.path());
    let member = format!("Authorization: Bearer {}", invited(&broker, 600));
    for (code, headers) in [
        ("no_token", &[][..]),
        ("invalid_token", &["Authorization: Bearer e30.e30.e30"]),
    ] {
        let before = refused(&broker, code);
        let (status, answer) = broker.request("GET", "/v1/ice", headers, "");
        let problem: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!((status, &problem["code"]), (401, &json!(code)), "{answer}");
        assert_eq!(refused(&broker, code), before + 1);
    }
    // A member's invitation makes nobody an operator.
    let (status, answer) = broker.request("POST", "/v1/drain", &[&member], "");
    assert_eq!(status, 403, "{answer}");
    let board = "/v1/boards/acme/weekly/main/m1";
    let answer = greet(
        &broker,
        board,
        r#"{"type": "open", "token": "e30.e30.e30"}"#,
    );
    assert_eq!(answer["code"], "invalid_token", "{answer}");
}

/// The most memory that a process has had, in KiB.
fn peak(broker: &Broker) -> u64 {
    let path = format!("/proc/{}/status", broker.process.child.id());
    let status = fs::read_to_string(path).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap().trim_end_matches("kB").trim().parse().unwrap()
}

/// Documents that are small on their way and would be large, or slow, once they are read.
fn bombs(name: &str, len: usize) -> Vec<(&'static str, String)> {
    let lol = (1..10).map(|n| {
        let twice = format!("&l{};", n - 1).repeat(10);
        format!("<!ENTITY l{n} \"{twice}\">")
    });
    let entities: String = lol.collect();
    let document = format!("<!DOCTYPE x [<!ENTITY l0 \"lol\">{entities}]><x>&l9;</x>");
    let fill = |head: String, part: &dyn Fn(usize) -> String| {
        let mut text = head;
        for number in 0.. {
            let next = part(number);
            if text.len() + next.len() > len {
                break;
            }
            text += &next;
        }
        text
    };
    let root = format!("<{name} xmlns='{NAMESPACE}' ");
    let deep = |head: &str| fill(head.to_owned(), &|_| "<a>".to_owned());
    let wide = fill(root.clone(), &|n| format!("a{n}='' "));
    vec![
        ("document type", document),
        ("is not taken here", deep("")),
        ("has no <a>", deep(&(root + ">"))),
        ("up to 64 attributes", wide + "/>"),
        ("no XML", fill("<![CDATA[".to_owned(), &|_| "x".to_owned())),
    ]
}

#[test]
fn bombs_are_refused_at_once_and_cost_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let (broker, _) = guarded(folder.path());
    let headers = [OPERATOR, XML];
    let send = |target: (&str, &str), body: &str| {
        let (status, answer) = broker.request(target.0, target.1, &headers, body);
        assert!(answer.len() < 2_048, "an answer is short: {answer}");
        (status, answer)
    };
    let command = ("POST", COMMANDS);
    let beat = ("PUT", "/v1/recorders/archive-1");
    let before = peak(&broker);
    // Fewer requests than one address may send at once.
    for _ in 0..8 {
        let doors = [
            (command, "lock", COMMAND_LEN_MAX),
            (beat, "beat", BEAT_LEN_MAX),
        ];
        for (door, name, len_max) in doors {
            for (word, bomb) in bombs(name, len_max - 16) {
                let (status, answer) = send(door, &bomb);
                assert_eq!(status, 400, "{word}: {answer}");
                assert!(answer.contains(word), "{word}: {answer}");
            }
        }
    }
    // As much as is taken, and one byte more.
    let lock = format!("<lock xmlns='{NAMESPACE}' locked='false'/>");
    let padded = |len: usize| lock.clone() + &" ".repeat(len - lock.len());
    assert_eq!(send(command, &padded(COMMAND_LEN_MAX)).0, 200);
    assert_eq!(send(command, &padded(COMMAND_LEN_MAX + 1)).0, 413);
    let deep = "[".repeat(COMMAND_LEN_MAX);
    let (status, answer) = broker.request("POST", COMMANDS, &[OPERATOR, JSON], &deep);
    assert_eq!(status, 400, "{answer}");
    let growth = peak(&broker) - before;
    assert!(growth < GROWTH_MAX, "{growth} KiB");
    assert!(refused(&broker, "document_type") >= 16);
    assert!(refused(&broker, "crowded") >= 16);
}

/// 100,000 levels and 100,000 attributes have more bytes than are taken.
#[test]
fn what_is_longer_than_is_taken_is_not_read_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let (broker, _) = guarded(folder.path());
    let root = |name: &str| format!("<{name} xmlns='{NAMESPACE}' ");
    let (levels, attributes) = ("<a>".repeat(100_000), "a00001='' ".repeat(100_000));
    for (target, len_max) in [
        ("POST /v1/sessions", COMMAND_LEN_MAX),
        ("PUT /v1/recorders/archive-1", BEAT_LEN_MAX),
    ] {
        for body in [root("create") + ">" + &levels, root("beat") + &attributes] {
            let mut stream = TcpStream::connect(broker.http).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let len = body.len();
            let head = format!(
                "{target} HTTP/1.1\r\nHost: x\r\n{OPERATOR}\r\n{XML}\r\n\
                 Content-Length: {len}\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).unwrap();
            // What is behind the bound need not come to be refused.
            stream.write_all(&body.as_bytes()[..len_max + 1]).unwrap();
            let mut some = [0; 12];
            stream.read_exact(&mut some).unwrap();
            assert_eq!(&some, b"HTTP/1.1 413", "{target}, {len} bytes");
        }
    }
    assert_eq!(refused(&broker, "too_large"), 4);
}

/// A client's token for everything of a topic.
fn issued(key: &str, subject: &str) -> String {
    let who = [
        "token", "issue", "--key", key, "--tenant", "demo", "--sub", subject,
    ];
    let rights = ["--publish", "demo/#", "--subscribe", "demo/#"];
    let made = run(&[&who[..], &rights].concat());
    assert!(made.status.success(), "{}", text(&made.stderr));
    format!("Authorization: Bearer {}", text(&made.stdout).trim())
}

#[test]
fn what_is_no_fragment_is_refused_in_words_and_the_peer_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (broker, key) = guarded(folder.path());
    let (anna, bert) = (issued(&key, "anna"), issued(&key, "bert"));
    let again = issued(&key, "anna");
    let sdp = "Content-Type: application/sdp";
    let joined = broker.ask(("POST", "/v1/whip/demo/anna"), &[&anna, sdp], &sdp_offer());
    assert_eq!(joined.status, 201, "{joined:?}");
    let peer = joined.header("location").unwrap();
    let etag = joined.header("etag").unwrap();
    let patch = |at: &str, headers: &[&str], body: &str| broker.ask(("PATCH", at), headers, body);
    let shown = || broker.ask(("GET", peer), &[&anna], "");
    let before = shown();
    assert_eq!(before.status, 200, "{before:?}");

    let fragment = "Content-Type: application/trickle-ice-sdpfrag";
    let good = "a=candidate:1 1 udp 2122260223 192.0.2.1 61764 typ host\r\n";
    let nobody = format!("/v1/webrtc/{}", "00".repeat(17));
    let long = good.repeat(300);
    let older = "If-Match: \"another\"";
    for (status, at, headers, body) in [
        (400, peer, &[fragment, &*anna][..], "rubbish"),
        (400, peer, &[fragment, &anna], ""),
        (
            400,
            peer,
            &[fragment, &anna],
            "a=candidate:1 1 udp 1 nowhere 99999 typ host",
        ),
        (
            400,
            peer,
            &[fragment, &anna],
            "a=ice-ufrag:abcd\r\na=ice-pwd:short\r\n",
        ),
        (413, peer, &[fragment, &anna], &long),
        (413, peer, &[fragment, &anna], &"x".repeat(70_000)),
        (415, peer, &[sdp, &anna], good),
        (415, peer, &[&anna], good),
        (412, peer, &[fragment, &anna, older], good),
        (401, peer, &[fragment], good),
        (403, peer, &[fragment, &bert], good),
        (404, &nobody, &[fragment, &anna], good),
        (404, "/v1/webrtc/rubbish", &[fragment, &anna], good),
    ] {
        let answer = patch(at, headers, body);
        assert_eq!(answer.status, status, "{at} {body:.40}: {answer:?}");
        let problem: Value = serde_json::from_str(&answer.body).unwrap();
        assert!(problem["error"].is_string(), "{answer:?}");
    }
    for (method, below) in [("GET", ""), ("PUT", "/token"), ("DELETE", "")] {
        let answer = broker.ask((method, &format!("{peer}{below}")), &[&bert], "");
        assert_eq!(answer.status, 403, "{method}: {answer:?}");
    }
    let told = format!("{peer}/shown");
    assert_eq!(broker.ask(("PUT", &told), &[&bert, JSON], "[]").status, 403);
    let after = shown();
    assert_eq!((after.status, after.body), (200, before.body));

    // What is well made is taken, also with another token of the same subject.
    let known = format!("If-Match: {etag}");
    assert_eq!(patch(peer, &[fragment, &again, &known], good).status, 204);
    let creds = "a=ice-ufrag:EsAw\r\na=ice-pwd:P2uYro0UCOQ4zxjKXaWCBui1\r\n";
    let restarted = patch(peer, &[fragment, &anna, "If-Match: *"], creds);
    assert_eq!(restarted.status, 200, "{restarted:?}");
    assert_ne!(restarted.header("etag"), Some(etag));
    assert_eq!(patch(peer, &[fragment, &anna, &known], good).status, 412);
    assert_eq!(broker.ask(("DELETE", peer), &[&anna], "").status, 200);
    assert_eq!(shown().status, 404);
}
