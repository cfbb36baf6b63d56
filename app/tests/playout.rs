//! Receivers of `sangam play` behind a path that delays unevenly and changes the order.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use common::{Running, clip, sangam};
use sangam_emulator::{Emulator, Quality, Reordering, Site, with_privileges};
use serde_json::Value;

const RECEIVERS: [&str; 4] = ["ours", "wmjitter", "neteq", "fixed"];

#[test]
fn every_receiver_plays_in_order_what_a_path_has_mixed_up() {
    let name = "every_receiver_plays_in_order_what_a_path_has_mixed_up";
    with_privileges(name, mixed_up);
}

fn inside(site: &Site, args: &str) -> Command {
    let mut command = sangam(&args.split(' ').collect::<Vec<_>>());
    site.place(&mut command);
    command
}

fn broker(site: &Site, more: &str) -> (Running, SocketAddr) {
    let listen = site.v4();
    let args =
        format!("serve --dev --json --log error --http 127.0.0.1:0 --listen {listen}:0{more}");
    let mut command = inside(site, &args);
    command.env("SANGAM_LINKS_ACCEPT", "10.0.0.0/8");
    let mut running = Running::start(command);
    let ready = running.json_line();
    (running, ready["udp"][0].as_str().unwrap().parse().unwrap())
}

fn mixed_up() {
    let network = Emulator::new(&["near", "far"], 1).unwrap();
    let path = Quality {
        reordering: Some(Reordering {
            share: 0.3,
            by: Duration::from_millis(30),
        }),
        ..Quality::delayed(Duration::from_millis(40))
    };
    network.control().set_both(0, 1, &path).unwrap();
    let [near, far] = network.sites() else {
        panic!("two sites");
    };
    let (_first, first) = broker(near, "");
    let (_second, second) = broker(far, &format!(" --link {first}"));
    let folder = tempfile::tempdir().unwrap();
    let file = clip(folder.path()).display().to_string();
    let publish = format!("publish --json --loop --topic test/clip --to {first} --file {file}");
    let _publisher = Running::start(inside(near, &publish));
    let players = RECEIVERS.map(|receiver| {
        let play = "play --json --topic test/clip/audio --seconds 8";
        let play = format!("{play} --from {second} --jitter {receiver}");
        Running::start(inside(far, &play))
    });
    for (receiver, player) in RECEIVERS.into_iter().zip(players) {
        let (code, lines) = player.end();
        assert_eq!(code, 0, "{lines}");
        let summary: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
        assert_eq!(summary["receiver"], receiver);
        check(receiver, &summary["streams"][0]);
    }
}

fn check(receiver: &str, stream: &Value) {
    let number = |name: &str| stream[name].as_f64().unwrap();
    assert!(number("packets") > 200.0, "{receiver}: {stream}");
    assert!(number("reordered") > 5.0, "{receiver}: {stream}");
    // The machine may be busy: what still waits for its time at the end is some tenths of a second.
    assert!(
        number("played") * 2.0 > number("packets"),
        "{receiver}: {stream}"
    );
    assert!(
        number("late") * 4.0 < number("packets"),
        "{receiver}: {stream}"
    );
    let (release, playout) = (number("release_delay_ms"), number("playout_delay_ms"));
    assert!(
        release <= playout && playout < 3_000.0,
        "{receiver}: {stream}"
    );
}
