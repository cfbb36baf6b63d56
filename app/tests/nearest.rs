//! Brokers that join a network also link with those that they measure to be near: at sites that the
//! emulator joins.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use common::{Running, sangam, text};
use sangam_emulator::{Emulator, Quality, Site, with_privileges};
use serde_json::Value;

/// In a circle of six each is linked with those 1 and 2 places away, and not with the one opposite.
const SITES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const OPPOSITE: usize = SITES.len() / 2;
const PATIENCE: Duration = Duration::from_secs(60);

fn serve(home: &Path, host: &str) -> Command {
    let listen = format!("{host}:0");
    let args = "serve --dev --json --log error --http 127.0.0.1:0 --listen";
    let args: Vec<_> = args.split(' ').chain([&*listen]).collect();
    let mut command = sangam(&args);
    command.env("SANGAM_BROKER_DATA_DIR", home);
    command.env("SANGAM_LINKS_ACCEPT", "10.0.0.0/8");
    command
}

fn ready(command: Command) -> (Running, Value) {
    let mut running = Running::start(command);
    let ready = running.json_line();
    (running, ready)
}

/// A folder for each broker, in the order of their ids, and the ids.
fn homes(folder: &Path) -> Vec<(String, PathBuf)> {
    let home = |name: &&str| {
        let home = folder.join(name);
        let (_broker, ready) = ready(serve(&home, "127.0.0.1"));
        (ready["id"].as_str().unwrap().to_owned(), home)
    };
    let mut homes: Vec<_> = SITES.iter().map(home).collect();
    homes.sort();
    homes
}

/// Links that are up, as both ends' ids: what the brokers tell, asked for at one of them.
fn links(site: &Site, broker: &str) -> BTreeSet<(String, String)> {
    let mut command = sangam(&["net", "--json", "--broker", broker, "brokers"]);
    site.place(&mut command);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let network: Value = serde_json::from_slice(&output.stdout).unwrap();
    let brokers = network["brokers"].as_array().unwrap().iter();
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let ends = |broker: &Value| -> Vec<(String, String)> {
        let links = broker["links"].as_array().unwrap().iter();
        let up = links.filter(|link| link["up"] == true);
        up.map(|link| (word(&broker["broker"]), word(&link["peer"])))
            .collect()
    };
    brokers.flat_map(ends).collect()
}

#[test]
fn who_joins_links_with_the_nearest_of_its_region() {
    let name = "who_joins_links_with_the_nearest_of_its_region";
    with_privileges(name, the_nearest_are_linked);
}

fn the_nearest_are_linked() {
    let folder = tempfile::tempdir().unwrap();
    let homes = homes(folder.path());
    let network = Emulator::new(&SITES, 1).unwrap();
    for a in 0..SITES.len() {
        for b in 0..a {
            let delay = Duration::from_millis(if a == b + OPPOSITE { 1 } else { 15 });
            let quality = Quality::delayed(delay);
            network.control().set_both(a, b, &quality).unwrap();
        }
    }
    let mut brokers: Vec<(Running, Value)> = Vec::new();
    for (site, (id, home)) in network.sites().iter().zip(&homes) {
        let mut command = serve(home, &site.v4().to_string());
        if let Some((_, seed)) = brokers.first() {
            command.env("SANGAM_LINKS_JOIN", seed["udp"][0].as_str().unwrap());
        }
        site.place(&mut command);
        let (broker, ready) = ready(command);
        assert_eq!(ready["id"], id.as_str());
        brokers.push((broker, ready));
    }
    let first = brokers[0].1["udp"][0].as_str().unwrap();
    let wanted = |links: &BTreeSet<(String, String)>| {
        let mut pairs = homes.iter().zip(&homes[OPPOSITE..]);
        pairs.all(|((a, _), (b, _))| links.contains(&(a.clone(), b.clone())))
    };
    let until = Instant::now() + PATIENCE;
    loop {
        let links = links(&network.sites()[0], first);
        if wanted(&links) {
            return;
        }
        assert!(
            Instant::now() < until,
            "not within {PATIENCE:?}: {links:#?}"
        );
        thread::park_timeout(Duration::from_millis(200));
    }
}
