//! The dashboard asks for nothing that brokers and aggregation nodes do not tell.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use common::{Broker, Running, sangam};
use serde_json::Value;

const DASHBOARD: &str = include_str!("../../docs/grafana/sangam.json");
const PATIENCE: Duration = Duration::from_secs(30);

/// Words of an expression that are metrics of ours.
fn metrics(expression: &str) -> BTreeSet<String> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let ours = words.filter(|word| word.starts_with("sangam_") || word.starts_with("process_"));
    ours.map(str::to_owned).collect()
}

/// The names of a page of metrics.
fn told(page: &str) -> BTreeSet<String> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let names = lines.filter_map(|line| line.split(['{', ' ']).next());
    names.map(str::to_owned).collect()
}

fn get(to: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(to).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn every_metric_of_the_dashboard_is_told() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap());
    let expressions = targets.map(|target| target["expr"].as_str().unwrap());
    let wanted: BTreeSet<String> = expressions.flat_map(metrics).collect();
    assert!(wanted.len() > 15, "{wanted:?}");

    let first = Broker::start(&[]);
    let second = Broker::linked(&first);
    let args = [
        "monitor",
        "--json",
        "--log",
        "error",
        "--http",
        "127.0.0.1:0",
        "--broker",
    ];
    let mut monitor = sangam(&args);
    monitor.arg(first.udp.to_string());
    let mut monitor = Running::start(monitor);
    let at = monitor.json_line()["http"].as_str().unwrap().to_owned();
    let begun = Instant::now();
    loop {
        let mut all = told(&second.get("/metrics").1);
        all.extend(told(&get(&at, "/metrics")));
        let missing: Vec<_> = wanted.difference(&all).collect();
        if missing.is_empty() {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "nobody tells {missing:?}");
        std::thread::park_timeout(Duration::from_millis(100));
    }
}
