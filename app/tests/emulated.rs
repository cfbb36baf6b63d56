//! Brokers at sites that the emulator joins.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use common::{Running, clip, sangam};
use sangam_emulator::{Emulator, Quality, Site, shift_clock, with_privileges};
use serde_json::Value;

const DAY: Duration = Duration::from_secs(86_400);

/// A broker of a site, and where it listens.
fn broker(site: &Site, more: &[&str], ahead: Duration) -> (Running, SocketAddr) {
    let listen = format!("{}:0", site.v4());
    let mut command = sangam(&["serve", "--dev", "--json", "--log", "error"]);
    command
        .args(["--listen", &listen, "--http", "127.0.0.1:0"])
        .args(more);
    command.env("SANGAM_LINKS_ACCEPT", "10.0.0.0/8");
    site.place(&mut command);
    shift_clock(&mut command, ahead);
    let mut running = Running::start(command);
    let ready = running.json_line();
    (running, ready["udp"][0].as_str().unwrap().parse().unwrap())
}

fn inside(site: &Site, args: &[&str]) -> Command {
    let mut command = sangam(args);
    site.place(&mut command);
    command
}

#[test]
fn brokers_whose_clocks_differ_by_days_carry_media_and_measure_its_latency() {
    let name = "brokers_whose_clocks_differ_by_days_carry_media_and_measure_its_latency";
    with_privileges(name, brokers_with_different_clocks);
}

fn brokers_with_different_clocks() {
    let network = match Emulator::new(&["near", "far"], 1) {
        Ok(network) => network,
        Err(error) => panic!("{error}"),
    };
    let delayed = Quality::delayed(Duration::from_millis(30));
    network.control().set_both(0, 1, &delayed).unwrap();
    let [near, far] = network.sites() else {
        panic!("two sites");
    };
    let (_first, first) = broker(near, &[], DAY);
    let (_second, second) = broker(far, &["--link", &first.to_string()], DAY * 2);
    let folder = tempfile::tempdir().unwrap();
    let file = clip(folder.path()).display().to_string();
    let (to, from) = (first.to_string(), second.to_string());
    let publish = "publish --json --loop --topic test/clip --to";
    let publish: Vec<_> = publish.split(' ').chain([&*to, "--file", &file]).collect();
    let _publisher = Running::start(inside(near, &publish));
    let play = "play --json --topic test/# --seconds 5 --from";
    let play: Vec<_> = play.split(' ').chain([&*from]).collect();
    let (code, lines) = Running::start(inside(far, &play)).end();
    assert_eq!(code, 0, "{lines}");
    let summary: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    let streams = summary["streams"].as_array().unwrap();
    assert_eq!(streams.len(), 2, "{lines}");
    for stream in streams {
        assert_eq!(
            (&stream["lost"], &stream["brokers"]),
            (&0.into(), &2.into()),
            "{stream}"
        );
        // Publisher and player share the host's clock; what the brokers add must not show.
        let latency = stream["latency_p99_ms"].as_f64().unwrap();
        assert!((30.0..DAY.as_secs_f64()).contains(&latency), "{stream}");
    }
}
