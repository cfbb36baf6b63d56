//! What a session's webhook brings to its receiver: signed, and again where it was not taken.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use aws_lc_rs::hmac;
use common::{Broker, session, text};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);
const SECRET: &str = "a secret of thirty-two letters, or more";

/// What was posted.
struct Letter {
    signature: String,
    body: String,
}

impl Letter {
    /// Whether whoever knows this secret wrote it: docs/spec/xgsp.md, webhooks.
    fn is_of(&self, secret: &str) -> bool {
        let (at, tag) = self.signature.split_once(',').unwrap();
        let (at, tag) = (
            at.strip_prefix("t=").unwrap(),
            tag.strip_prefix("v1=").unwrap(),
        );
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let bytes = tag.as_bytes().chunks(2);
        let bytes = bytes.map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap());
        let tag: Vec<u8> = bytes.collect();
        hmac::verify(&key, format!("{at}.{}", self.body).as_bytes(), &tag).is_ok()
    }

    fn event(&self) -> Value {
        let body: Value = serde_json::from_str(&self.body).unwrap();
        assert_eq!(
            body["session"],
            json!({ "tenant": "acme", "name": "weekly" })
        );
        body["record"]["event"].clone()
    }
}

/// Takes one letter, and answers it.
fn take(receiver: &TcpListener, status: &str) -> Letter {
    let (mut stream, _) = receiver.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut request = Vec::new();
    let mut some = [0; 4_096];
    let (head, len) = loop {
        let len = stream.read(&mut some).unwrap();
        assert!(len > 0, "{}", text(&request));
        request.extend_from_slice(&some[..len]);
        let said = text(&request);
        let Some((head, body)) = said.split_once("\r\n\r\n") else {
            continue;
        };
        let wanted: usize = header(head, "content-length").parse().unwrap();
        if body.len() >= wanted {
            break (head.to_owned(), wanted);
        }
    };
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).unwrap();
    assert!(
        head.starts_with("POST /hook?of=sangam HTTP/1.1\r\n"),
        "{head}"
    );
    assert_eq!(header(&head, "content-type"), "application/json");
    let body = request.split_off(request.len() - len);
    Letter {
        signature: header(&head, "sangam-signature").to_owned(),
        body: text(&body),
    }
}

fn header<'a>(head: &'a str, name: &str) -> &'a str {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    let found = lines.find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.unwrap_or_else(|| panic!("no {name}: {head}")).1
}

#[test]
fn a_webhook_is_signed_and_comes_again_until_it_is_taken() {
    let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sangam.toml");
    let url = format!("http://{}/hook?of=sangam", receiver.local_addr().unwrap());
    let config = format!("[sessions]\nwebhooks = [\"{url}\"]\nwebhook_secret = \"{SECRET}\"\n");
    fs::write(&path, config).unwrap();
    // The meeting of --dev would be told of as well.
    let broker = Broker::start(&["--no-demo", "--config", &path.display().to_string()]);
    session(&broker, &["create", "acme/weekly", "--title", "Weekly"]).unwrap();

    // The receiver is not well at first: it is told the same again, byte by byte.
    let first = take(&receiver, "500 Internal Server Error");
    assert!(first.is_of(SECRET), "{} of {}", first.signature, first.body);
    assert!(!first.is_of("another secret, as long"));
    assert_eq!(first.event(), "created", "{}", first.body);
    let changed = Letter {
        body: first.body.replace("weekly", "weekli"),
        signature: first.signature.clone(),
    };
    assert!(!changed.is_of(SECRET), "a signature covers every byte");
    let again = take(&receiver, "503 Service Unavailable");
    assert_eq!(
        (&again.signature, &again.body),
        (&first.signature, &first.body)
    );
    let again = take(&receiver, "200 OK");
    assert_eq!(
        (&again.signature, &again.body),
        (&first.signature, &first.body)
    );

    // Then what happened meanwhile, in order, and each once.
    let lock = ["do", "acme/weekly", r#"{"do": "lock", "locked": true}"#];
    session(&broker, &lock).unwrap();
    let mut last = 0;
    loop {
        let letter = take(&receiver, "204 No Content");
        assert!(letter.is_of(SECRET), "{}", letter.body);
        let record: Value = serde_json::from_str(&letter.body).unwrap();
        let seq = record["record"]["seq"].as_u64().unwrap();
        assert!(seq > last, "{}", letter.body);
        last = seq;
        if letter.event() == "locked" {
            break;
        }
    }
}
