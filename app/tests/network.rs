//! A network that brokers join, as its operator sees it over HTTP.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::fs;
use std::time::{Duration, Instant};

use common::Broker;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(20);

/// What a broker answers, once it is so.
fn eventually(broker: &Broker, path: &str, so: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        let (status, body) = broker.get(path);
        let answer: Value = serde_json::from_str(&body).unwrap();
        if status == 200 && so(&answer) {
            return answer;
        }
        assert!(Instant::now() < until, "{path} stays {body}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

fn joined(broker: &Broker, region: &str) -> Broker {
    Broker::start(&["--join", &broker.udp.to_string(), "--region", region])
}

/// Regions of the brokers that a client should go to, best first.
fn regions(answer: &Value) -> Vec<&str> {
    let brokers = answer["brokers"].as_array().unwrap().iter();
    brokers.map(|one| one["region"].as_str().unwrap()).collect()
}

#[test]
fn brokers_that_join_are_on_every_map_and_clients_are_sent_to_the_nearest() {
    let first = Broker::start(&["--region", "asia"]);
    let second = joined(&first, "europe");
    let third = joined(&second, "america");
    let brokers = [&first, &second, &third];
    for broker in brokers {
        eventually(broker, "/v1/map", |map| {
            let known = map["brokers"].as_array().unwrap();
            // Three regions of one: each is linked with both others.
            known.len() == 3
                && known.iter().all(|one| {
                    one["reachable"] == true && one["links"].as_array().unwrap().len() == 2
                })
        });
    }
    let epoch = |broker: &Broker| eventually(broker, "/v1/map", |_| true)["epoch"].clone();
    let same = |_: &Value| epoch(&second) == epoch(&first) && epoch(&third) == epoch(&first);
    eventually(&first, "/v1/map", same);

    let wish = "/v1/locate?session=acme/weekly&region=america";
    let answer = eventually(&first, wish, |_| true);
    assert_eq!(regions(&answer)[0], "america", "{answer}");
    assert_eq!(answer["brokers"][0]["address"], third.udp.to_string());
    let own = eventually(&third, wish, |_| true);
    let ways = own["brokers"][0]["ways"].as_array().unwrap();
    let way = |scheme: &str| {
        ways.iter()
            .any(|way| way.as_str().unwrap().starts_with(scheme))
    };
    assert!(way("udp://") && way("tcp://"), "{own}");

    let (status, body) = third.request("POST", "/v1/drain", &[], "");
    assert_eq!(status, 200, "{body}");
    let gone = |answer: &Value| !regions(answer).contains(&"america");
    assert_eq!(regions(&eventually(&first, wish, gone)).len(), 2);
}

#[test]
fn a_threshold_makes_a_link_the_last_resort() {
    let first = Broker::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sangam.toml");
    let threshold = "[[threshold]]\nmeasure = \"link.rtt_us\"\nabove = 0\n\
                     action = \"invalidate\"\n";
    std::fs::write(&path, threshold).unwrap();
    let path = path.display().to_string();
    let link = first.udp.to_string();
    let _second = Broker::start(&["--link", &link, "--config", &path]);
    eventually(&first, "/v1/map", |map| {
        let brokers = map["brokers"].as_array().unwrap().iter();
        let mut links = brokers.flat_map(|one| one["links"].as_array().unwrap());
        links.any(|link| link["weight"] == 65_535)
    });
}

#[test]
fn a_session_that_is_no_topic_is_explained() {
    let broker = Broker::start(&[]);
    let (status, body) = broker.get("/v1/locate?session=a//b");
    assert_eq!(status, 400);
    assert!(body.contains("tenant"), "{body}");
}

/// What a `sangam net` command prints.
fn net(broker: &Broker, args: &[&str]) -> Value {
    let server = format!("http://{}", broker.http);
    let base = ["net", "--json"];
    let output = common::run(&[&base, args, &["--server", &server]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn an_operator_weighs_and_forbids_a_link_and_takes_it_back() {
    let first = Broker::start(&[]);
    let link = first.udp.to_string();
    let second = Broker::start(&["--name", "second", "--link", &link]);
    let id = eventually(&second, "/v1/broker", |_| true)["id"].clone();
    let peer = id.as_str().unwrap();
    let link = |so: fn(&Value) -> bool| {
        eventually(&first, "/v1/network", |network| {
            so(&network["brokers"][0]["links"][0])
        });
    };
    link(|link| link["up"] == true);

    let rules = net(&first, &["weigh", peer, "500"]);
    assert_eq!(rules["weights"][0]["by"], "command", "{rules}");
    link(|link| link["weight"] == 500 && link["pinned_by"] == "command");
    let by_name = [
        "weigh",
        "second",
        "auto",
        "--broker",
        &first.udp.to_string(),
    ];
    assert_eq!(
        net(&first, &by_name)["weights"].as_array().unwrap().len(),
        0
    );
    link(|link| link["up"] == true && link["pinned_by"].is_null());

    let rules = net(&first, &["forbid", peer]);
    assert_eq!(rules["forbidden"][0]["broker"], id);
    link(|link| link["up"] != true);
    assert_eq!(net(&first, &["rules"]), rules);
    net(&first, &["forbid", peer, "--allow"]);
    link(|link| link["up"] == true);

    let path = format!("/v1/links/{peer}/weight");
    let json = ["Content-Type: application/json"];
    let (status, body) = first.request("PUT", &path, &json, "{\"weight\": 0}");
    assert_eq!(status, 400, "{body}");
    let elsewhere = [json[0], "Host: evil.example"];
    let (status, _) = first.request("PUT", &path, &elsewhere, "{\"weight\": 5}");
    assert_eq!(status, 403);
}

#[test]
fn rules_for_links_are_read_again_and_a_broken_file_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sangam.toml");
    let write = |rules: &str| fs::write(&file, format!("[links]\n{rules}\n")).unwrap();
    write("");
    let first = Broker::start(&[]);
    let id = eventually(&first, "/v1/broker", |_| true)["id"].clone();
    let peer = id.as_str().unwrap();
    let (link, config) = (first.udp.to_string(), file.to_str().unwrap());
    let mut second = Broker::start(&["--config", config, "--link", &link]);
    let log = second.process.log();
    let link = |so: fn(&Value) -> bool| {
        eventually(&second, "/v1/network", |network| {
            so(&network["brokers"][0]["links"][0])
        });
    };
    let read_again = |rules: &str| {
        write(rules);
        second.process.signal("HUP");
    };
    let pinned = |link: &Value| link["weight"] == 500 && link["pinned_by"] == "configuration";
    link(|link| link["up"] == true && link["pinned_by"].is_null());
    read_again(&format!("weights = [\"{peer}=500\"]"));
    link(pinned);
    read_again(&format!("weights = [\"{peer}=0\"]"));
    log.says(&["the configuration stays as it was", "write ID=WEIGHT"]);
    link(pinned);
    read_again(&format!("forbid = [\"{peer}\"]"));
    link(|link| link["up"] != true);
    read_again("");
    link(|link| link["up"] == true && link["pinned_by"].is_null());
}
