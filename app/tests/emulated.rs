//! Brokers at sites that the emulator joins.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::{Running, clip, sangam, text};
use sangam_emulator::{Emulator, Quality, Site, shift_clock, with_privileges};
use serde_json::Value;

/// Between the sites of a network that is recorded, in ms.
const RECORDED: [(usize, usize, u64); 3] = [(0, 1, 10), (1, 2, 20), (0, 2, 70)];
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

#[test]
fn a_live_network_is_recorded_and_replayed() {
    let name = "a_live_network_is_recorded_and_replayed";
    with_privileges(name, record_and_replay);
}

fn record_and_replay() {
    let network = match Emulator::new(&["oslo", "lima", "rome"], 1) {
        Ok(network) => network,
        Err(error) => panic!("{error}"),
    };
    for (from, to, ms) in RECORDED {
        let delayed = Quality::delayed(Duration::from_millis(ms));
        network.control().set_both(from, to, &delayed).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("watched"), watched(network.sites())).unwrap();

    let (lines, delays, trace, out) = (path("watched"), path("delays"), path("trace"), path("out"));
    let record = ["trace", "record", &lines, "--session", "oslo:rome:lima"];
    sim(&[&record[..], &["--out", &delays]].concat());
    sim(&[
        "trace", "import", &delays, "--gaps", "hold", "--out", &trace,
    ]);
    sim(&["trace", "export", &trace, "--sessions", "1", "--out", &out]);
    let least = least_delays(folder.path().join("out").as_path());
    assert!(least.len() >= RECORDED.len(), "{least:?}");
    for (from, to, measured) in least {
        let mut all = RECORDED.iter();
        let (_, _, set) = all.find(|(a, b, _)| (*a, *b) == (from, to)).unwrap();
        let set = *set as f64;
        assert!(
            (set..set * 1.5).contains(&measured),
            "{from} to {to}: {measured} ms of {set}"
        );
    }

    let replay = ["run", "replay", "--trace", &trace, "--packets", "3000"];
    let replayed = sim(&[&replay[..], &["--json", "--out", &path("replayed")]].concat());
    let replayed: Value = serde_json::from_str(&replayed).unwrap();
    let transit = |method: &str| {
        let table = &replayed["tables"][0];
        let columns = table["columns"].as_array().unwrap();
        let column = columns.iter().position(|name| name == "transit ms");
        let mut rows = table["rows"].as_array().unwrap().iter();
        let row = rows.find(|row| row[0] == method).unwrap();
        row[column.unwrap()]
            .as_str()
            .unwrap()
            .parse::<f64>()
            .unwrap()
    };
    let (direct, ours) = (transit("direct"), transit("ours"));
    assert!((70.0..105.0).contains(&direct), "{direct}");
    assert!((30.0..45.0).contains(&ours), "by Lima: {ours}");
}

/// What ten seconds of `net watch` say of three brokers, each linked with the others.
fn watched(sites: &[Site]) -> Vec<u8> {
    let [oslo, lima, rome] = sites else {
        panic!("three sites");
    };
    let at = |site, name, links: &[SocketAddr]| {
        let links: Vec<_> = links.iter().map(ToString::to_string).collect();
        let links = links.iter().flat_map(|link| ["--link", link]);
        let args: Vec<_> = ["--name", name].into_iter().chain(links).collect();
        broker(site, &args, Duration::ZERO)
    };
    let (_first, first) = at(oslo, "oslo", &[]);
    let (_second, second) = at(lima, "lima", &[first]);
    let (_third, third) = at(rome, "rome", &[first, second]);
    let watch = ["net", "watch", "--json", "--seconds", "10", "--broker"];
    let done = inside(rome, &[&watch[..], &[&third.to_string()]].concat()).output();
    let done = done.unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    done.stdout
}

fn sim(args: &[&str]) -> String {
    let done = sangam(&[&["sim"], args].concat()).output().unwrap();
    assert!(done.status.success(), "{args:?}: {}", text(&done.stderr));
    text(&done.stdout)
}

/// Of each link of an exported trace: its ends, the lesser first, and its least delay in ms.
fn least_delays(folder: &Path) -> Vec<(usize, usize, f64)> {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let described: Value = serde_json::from_str(&read("network.json")).unwrap();
    let links = described["links"].as_array().unwrap().iter();
    let of = |link: &Value| {
        let end = |end: &str| {
            let name = &described["nodes"][link[end].as_u64().unwrap() as usize];
            let mut names = ["oslo", "lima", "rome"].iter();
            names.position(|known| name == known).unwrap()
        };
        let (from, to) = (end("from"), end("to"));
        let table = read(link["delays"].as_str().unwrap());
        let delays = table.lines().filter_map(|line| line.split(',').nth(1));
        let delays = delays.filter_map(|ms| ms.parse().ok());
        (from.min(to), from.max(to), delays.fold(f64::MAX, f64::min))
    };
    links.map(of).collect()
}
