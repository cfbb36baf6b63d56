//! A broker process as its operator sees it.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use common::{Broker, Running, run, sangam, text};
use serde_json::{Value, json};

const JSON: &str = "Content-Type: application/json";

fn leg(name: &str, send: &str) -> String {
    json!({ "name": name, "topic": "demo/#", "send": send, "rtcp": "mux" }).to_string()
}

#[test]
fn health_readiness_and_metrics_answer() {
    let broker = Broker::start(&["--name", "ops"]);
    assert_eq!(broker.get("/healthz").0, 200);
    let (status, body) = broker.get("/readyz");
    assert_eq!(status, 200, "{body}");
    let (status, metrics) = broker.get("/metrics");
    assert_eq!(status, 200);
    for name in [
        "sangam_build_info{version=",
        "sangam_delivered_packets_total",
        "process_open_fds",
    ] {
        assert!(metrics.contains(name), "{name} is missing");
    }
    let facts: Value = serde_json::from_str(&broker.get("/v1/broker").1).unwrap();
    assert_eq!(facts["name"], "ops");
    assert_eq!(facts["udp"][0], broker.udp.to_string());
}

#[test]
fn a_port_in_use_is_a_configuration_error_that_names_it() {
    let broker = Broker::start(&[]);
    for (option, address) in [("--listen", broker.udp), ("--http", broker.http)] {
        let mut args = vec!["serve", "--dev", "--log", "error"];
        let address = address.to_string();
        let free = "127.0.0.1:0";
        let (listen, http) = match option {
            "--listen" => (address.as_str(), free),
            _ => (free, address.as_str()),
        };
        args.extend(["--listen", listen, "--http", http]);
        let output = run(&args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains(&address) && said.contains("in use"), "{said}");
    }
}

#[test]
fn a_broker_ends_in_good_order_when_asked_to() {
    for signal in ["TERM", "INT"] {
        let broker = Broker::start(&[]);
        broker.process.signal(signal);
        assert_eq!(broker.process.end().0, 0, "SIG{signal}");
    }
}

#[test]
fn a_broker_can_end_with_its_parent() {
    let args = "serve --dev --json --log error --listen 127.0.0.1:0 --http 127.0.0.1:0";
    let mut command = sangam(&args.split(' ').collect::<Vec<_>>());
    command
        .arg("--until-stdin-closes")
        .stdin(std::process::Stdio::piped());
    let mut process = Running::start(command);
    assert_eq!(process.json_line()["event"], "ready");
    drop(process.child.stdin.take());
    assert_eq!(process.end().0, 0);
}

#[test]
fn a_broker_keeps_its_identity_in_its_folder_and_shares_it_with_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    let id = |broker: &Broker| -> Value {
        let facts: Value = serde_json::from_str(&broker.get("/v1/broker").1).unwrap();
        json!([facts["id"], facts["incarnation"]])
    };
    let first = Broker::start(&["--data-dir", &path]);
    let before = id(&first);
    let output = run(&["serve", "--dev", "--log", "error", "--data-dir", &path]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    first.process.signal("TERM");
    assert_eq!(first.process.end().0, 0);
    let after = id(&Broker::start(&["--data-dir", &path]));
    assert_eq!(before[0], after[0]);
    assert_ne!(before[1], after[1]);
}

#[test]
fn legs_are_made_listed_and_ended_by_api() {
    let broker = Broker::start(&[]);
    let (status, body) = broker.request("POST", "/v1/legs", &[JSON], &leg("a", "127.0.0.1:9000"));
    assert_eq!(status, 201, "{body}");
    let (status, body) = broker.request("POST", "/v1/legs", &[JSON], &leg("a", "127.0.0.1:9000"));
    assert_eq!(status, 409, "{body}");
    let legs: Value = serde_json::from_str(&broker.get("/v1/legs").1).unwrap();
    assert_eq!(legs["legs"][0]["send"], "127.0.0.1:9000");
    assert_eq!(
        broker.get("/v1/legs/a.sdp").0,
        404,
        "nothing is published yet"
    );
    assert_eq!(broker.request("DELETE", "/v1/legs/a", &[], "").0, 204);
    assert_eq!(broker.get("/v1/legs/a").0, 404);
}

#[test]
fn a_leg_may_not_turn_the_broker_against_others() {
    let broker = Broker::start(&[]);
    let post = |headers: &[&str], body: &str| broker.request("POST", "/v1/legs", headers, body);
    let (status, body) = post(&[JSON], &leg("a", "192.0.2.1:9000"));
    assert_eq!(status, 403, "{body}");
    assert!(body.contains("api.legs_allow"), "{body}");
    let (status, _) = post(&[JSON, "Host: evil.example"], &leg("a", "127.0.0.1:9000"));
    assert_eq!(status, 403, "a page under a strange name");
    assert_eq!(
        post(&[], &leg("a", "127.0.0.1:9000")).0,
        400,
        "not JSON by its header"
    );
    let (status, body) = post(&[JSON], "{\"name\": \"a\", \"tpoic\": \"x\"}");
    assert_eq!(status, 400, "{body}");
    let (status, _) = post(&[JSON], &"x".repeat(100_000));
    assert_eq!(status, 413);
}

#[test]
fn a_configured_token_is_needed_for_changes_only() {
    let mut command = sangam(&["serve", "--dev", "--json", "--log", "error"]);
    command.args(["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
    command.env("SANGAM_API_TOKEN", "0123456789abcdef");
    let mut process = Running::start(command);
    let ready = process.json_line();
    let address = |value: &Value| value.as_str().unwrap().parse().unwrap();
    let broker = Broker {
        udp: address(&ready["udp"][0]),
        tcp: address(&ready["tcp"][0]),
        http: address(&ready["http"]),
        process,
    };
    let body = leg("a", "127.0.0.1:9000");
    assert_eq!(broker.request("POST", "/v1/legs", &[JSON], &body).0, 401);
    let token = "Authorization: Bearer 0123456789abcdef";
    assert_eq!(
        broker.request("POST", "/v1/legs", &[JSON, token], &body).0,
        201
    );
    assert_eq!(broker.get("/v1/legs").0, 200);
}

#[test]
fn what_is_not_there_is_answered_with_what_is() {
    let broker = Broker::start(&[]);
    let (status, body) = broker.get("/v2/nothing");
    assert_eq!(status, 404);
    assert!(body.contains("/v1/broker"), "{body}");
    assert_eq!(broker.request("PUT", "/v1/legs", &[], "").0, 405);
}
