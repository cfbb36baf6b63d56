//! What peers are told of relays. That coturn takes it, a browser shows: web/test/relay.test.ts.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use common::{Broker, Running, sangam, text};
use serde_json::Value;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/gstreamer/webrtc.py");
const SECRET: &str = "north 0123456789abcdef0123456789abcdef";
const URLS: [&str; 2] = ["turn:relay.test:3478", "turns:relay.test:443?transport=tcp"];
const SERVE: &str = "serve --json --log error --listen 127.0.0.1:0 --http 127.0.0.1:0";

fn broker(more: &[&str]) -> Broker {
    let args: Vec<&str> = SERVE.split(' ').chain(more.iter().copied()).collect();
    let mut command = sangam(&args);
    command
        .env("SANGAM_WEBRTC_TURN", URLS.join(","))
        .env("SANGAM_WEBRTC_TURN_SECRET", SECRET)
        .env("SANGAM_WEBRTC_TURN_SECONDS", "600");
    Broker::of(command)
}

/// What OpenSSL makes of a name.
fn password(username: &str) -> String {
    let script = "printf %s \"$1\" | openssl dgst -sha1 -hmac \"$2\" -binary | openssl base64 -A";
    let output = Command::new("sh")
        .args(["-c", script, "sh", username, SECRET])
        .output()
        .unwrap();
    text(&output.stdout)
}

#[track_caller]
fn assert_good(username: &str, credential: &str) {
    assert_eq!(credential, password(username), "{username}");
    let ends: u64 = username.split_once(':').unwrap().0.parse().unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let left = ends - now.as_secs();
    assert!((500..=600).contains(&left), "{left} s are left");
}

#[test]
fn peers_are_told_relays_with_the_passwords_that_openssl_makes() {
    let broker = broker(&["--dev"]);
    let (status, body) = broker.get("/v1/ice");
    assert_eq!(status, 200, "{body}");
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(answer["ttl_s"], 600);
    let server = &answer["ice_servers"][0];
    assert_eq!(server["urls"], serde_json::json!(URLS));
    let field = |name: &str| server[name].as_str().unwrap().to_owned();
    assert_good(&field("username"), &field("credential"));
}

#[test]
fn an_answer_to_whip_has_a_link_for_each_relay() {
    let broker = broker(&["--dev"]);
    let url = format!("http://{}/v1/whip/test/gst", broker.http);
    let mut command = Command::new("/usr/bin/python3");
    command.args([SCRIPT, "publish", &url, "--video", "none"]);
    command.stdin(Stdio::null());
    let mut running = Running::start(command);
    let answered = loop {
        let line = running.json_line();
        if line["event"] == "answered" {
            break line;
        }
    };
    let links = answered["links"].as_array().unwrap();
    assert_eq!(links.len(), URLS.len(), "{answered}");
    for (link, url) in links.iter().zip(URLS) {
        let link = link.as_str().unwrap();
        assert!(
            link.starts_with(&format!("<{url}>; rel=\"ice-server\";")),
            "{link}"
        );
        let value = |name: &str| {
            let (_, rest) = link.split_once(&format!(" {name}=\"")).unwrap();
            rest.split_once('"').unwrap().0.to_owned()
        };
        assert_eq!(value("credential-type"), "password");
        assert_good(&value("username"), &value("credential"));
    }
}

#[test]
fn relays_are_for_those_who_may_be_clients() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sangam.toml");
    let key = "[auth]\nkeys = [{ secret = \"of thirty-two characters or more\" }]\n";
    std::fs::write(&path, key).unwrap();
    let broker = broker(&["--config", &path.display().to_string()]);
    let (status, body) = broker.get("/v1/ice");
    assert_eq!(status, 401, "{body}");
    assert!(!body.contains("relay.test"), "{body}");
    let wrong = ["Authorization: Bearer e30.e30.e30"];
    assert_eq!(broker.request("GET", "/v1/ice", &wrong, "").0, 401);
}

#[test]
fn without_relays_nobody_is_told_any() {
    let broker = Broker::start(&[]);
    let (status, body) = broker.get("/v1/ice");
    assert_eq!(status, 200, "{body}");
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(answer["ice_servers"], serde_json::json!([]));
}
