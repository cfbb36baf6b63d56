//! The meeting page as a broker serves it: what browsers are told to do with it, and by whom the
//! broker lets itself be called. What happens in a browser is tested in `web/test`.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use common::{Broker, Running, sangam};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, HandshakeError};

/// A broker that serves the page of a folder, and knows the page of another broker.
fn serving(folder: &std::path::Path) -> (Running, String) {
    let mut command = sangam(
        &"serve --dev --json --log error --listen 127.0.0.1:0 --http 127.0.0.1:0"
            .split(' ')
            .collect::<Vec<_>>(),
    );
    command.env("SANGAM_PAGE_FOLDER", folder);
    command.env("SANGAM_PAGE_BROKERS", "https://b.example.org");
    let mut process = Running::start(command);
    let http = process.json_line()["http"].as_str().unwrap().to_owned();
    (process, http)
}

/// Head and body of the answer. A path is sent as it is written.
fn ask(http: &str, method: &str, path: &str, headers: &[&str]) -> String {
    let mut stream = TcpStream::connect(http).unwrap();
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {http}\r\nConnection: close\r\n");
    for header in headers {
        head += &format!("{header}\r\n");
    }
    stream.write_all((head + "\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn get(http: &str, path: &str) -> String {
    ask(http, "GET", path, &[])
}

fn page() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("assets")).unwrap();
    fs::write(folder.path().join("index.html"), "<p>the page</p>").unwrap();
    fs::write(folder.path().join("assets/a-1.js"), "let a;").unwrap();
    fs::write(folder.path().join("secret.txt"), "secret").unwrap();
    folder
}

#[test]
fn a_link_to_a_meeting_is_answered_by_the_page_under_a_strict_policy() {
    let folder = page();
    let (_broker, http) = serving(folder.path());
    let answer = get(&http, "/m/meet/weekly");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("<p>the page</p>"), "{answer}");
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'",
        "connect-src 'self' https://b.example.org wss://b.example.org",
        "referrer-policy: no-referrer",
        "x-content-type-options: nosniff",
        "content-type: text/html; charset=utf-8",
    ] {
        assert!(answer.contains(header), "{header}: {answer}");
    }
    let script = get(&http, "/assets/a-1.js");
    assert!(script.contains("content-type: text/javascript"), "{script}");
    assert!(script.contains("immutable") && script.ends_with("let a;"));
}

#[test]
fn nothing_beside_the_page_is_served() {
    let folder = page();
    let (_broker, http) = serving(folder.path());
    for path in [
        "assets/../secret.txt",
        "assets/..%2fsecret.txt",
        "assets/%2e%2e%2fsecret.txt",
        "secret.txt",
        "assets/",
    ] {
        let answer = get(&http, &format!("/{path}"));
        assert!(answer.starts_with("HTTP/1.1 404"), "{path}: {answer}");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(!body.contains("secret"), "{path}");
    }
}

#[test]
fn only_pages_of_known_brokers_may_call() {
    let folder = page();
    let (_broker, http) = serving(folder.path());
    let asks = |origin: &str| {
        let origin = format!("Origin: {origin}");
        let method = "Access-Control-Request-Method: POST";
        ask(&http, "OPTIONS", "/v1/whip/meet/weekly", &[&origin, method])
    };
    let known = asks("https://b.example.org");
    let allowed = "access-control-allow-origin: https://b.example.org";
    assert!(known.contains(allowed), "{known}");
    assert!(known.contains("authorization, content-type"), "{known}");
    let strange = asks("https://evil.example");
    assert!(
        !strange.contains("access-control-allow-origin"),
        "{strange}"
    );
    // Neither is kept for the other by a cache.
    assert!(known.contains("vary: origin"), "{known}");
    assert!(strange.contains("vary: origin"), "{strange}");
    let facts = get(&http, "/v1/page");
    assert!(
        facts.contains("\"brokers\":[\"https://b.example.org\"]"),
        "{facts}"
    );
}

#[test]
fn signalling_is_opened_by_pages_of_known_brokers_and_by_programs_alone() {
    let folder = page();
    let (_broker, http) = serving(folder.path());
    let opens = |origin: Option<String>| {
        let url = format!("ws://{http}/v1/sessions/acme/weekly/signal");
        let mut request = url.into_client_request().unwrap();
        if let Some(origin) = origin {
            let headers = request.headers_mut();
            headers.insert("Origin", origin.parse().unwrap());
        }
        match tungstenite::client(request, TcpStream::connect(&http).unwrap()) {
            Ok(_) => 101,
            Err(HandshakeError::Failure(tungstenite::Error::Http(answer))) => {
                answer.status().as_u16()
            }
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(opens(None), 101);
    assert_eq!(opens(Some(format!("http://{http}"))), 101);
    assert_eq!(opens(Some("https://b.example.org".to_owned())), 101);
    assert_eq!(opens(Some("https://evil.example".to_owned())), 403);
    assert_eq!(opens(Some("null".to_owned())), 403);
}

#[test]
fn without_a_page_the_broker_says_how_to_build_one() {
    let empty = tempfile::tempdir().unwrap();
    let (_broker, http) = serving(empty.path());
    let answer = get(&http, "/m/meet/weekly");
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    assert!(answer.contains("scripts/web.sh page"), "{answer}");
    // Everything else works all the same.
    let other = Broker::start(&[]);
    assert_eq!(other.get("/healthz").0, 200);
}
