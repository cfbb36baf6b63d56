//! Recordings of real processes: killed at any moment, exported, replayed, checked.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;
#[path = "common/numbers.rs"]
mod numbers;

use std::collections::BTreeSet;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::{Broker, Running, clip, probe, run, sangam, text};
use numbers::{Numbers, latest, lines};
use sangam_archive::Archive;
use sangam_model::Random;
use tempfile::TempDir;

/// Kills in each run of `make test`; `make kills` asks for more.
const KILLS: u64 = 3;

fn record(broker: &Broker, folder: &Path, more: &[&str]) -> Running {
    let (address, folder) = (broker.udp.to_string(), folder.display().to_string());
    let args = [
        "record",
        "test/#",
        "--json",
        "--from",
        &address,
        "--archive",
        &folder,
    ];
    Running::start(sangam(&[&args[..], more].concat()))
}

fn all(folder: &Path) -> usize {
    Archive::new(folder).recordings().unwrap().len()
}

#[test]
fn a_recorder_that_is_killed_loses_nothing_that_it_called_safe() {
    let kills = std::env::var("KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let broker = Broker::start(&[]);
    let mut numbers = Numbers::new(&broker);
    let folder = TempDir::new().unwrap();
    let mut random = Random::new(kills);
    let mut most = 0;
    for kill in 0..kills {
        let before = all(folder.path());
        let mut recorder = record(&broker, folder.path(), &[]);
        assert_eq!(recorder.json_line()["event"], "begin");
        numbers.send_for(Duration::from_millis(500 + random.below(2_500) as u64));
        recorder.signal("KILL");
        let said = lines(&recorder.end().1);
        let safe = said
            .last()
            .map_or(0, |line| line["safe_packets"].as_u64().unwrap());
        // Killed within its first second, it may have left nothing.
        let (found, whole) = match all(folder.path()) > before {
            true => latest(folder.path()),
            false => (Vec::new(), false),
        };
        assert!(!whole);
        assert!(
            found.len() as u64 >= safe,
            "kill {kill}: {} of {safe}",
            found.len()
        );
        assert!(
            found.windows(2).all(|pair| pair[0] + 1 == pair[1]),
            "kill {kill}"
        );
        most = most.max(safe);
    }
    assert!(most > 100, "{most}");
    ends_in_order(&broker, &mut numbers, folder.path());
}

/// The next recorder ends what was interrupted, and its own in order.
#[track_caller]
fn ends_in_order(broker: &Broker, numbers: &mut Numbers, folder: &Path) {
    let recorder = record(broker, folder, &["--seconds", "2"]);
    numbers.send_for(Duration::from_secs(2));
    let (code, said) = recorder.end();
    assert_eq!(code, 0);
    let summary = lines(&said).pop().unwrap();
    let (found, whole) = latest(folder);
    assert!(whole && !found.is_empty());
    assert_eq!(summary["safe_packets"].as_u64(), Some(found.len() as u64));
    let place = folder.display().to_string();
    let scrub = run(&["archive", "scrub", "--json", "--archive", &place]);
    let scrub = lines(&text(&scrub.stdout)).pop().unwrap();
    assert_eq!(
        (
            scrub["repaired"].as_u64(),
            scrub["damaged"].as_array().unwrap().len()
        ),
        (Some(0), 0)
    );
}

#[test]
fn a_recording_is_exported_and_replayed() {
    let broker = Broker::start(&[]);
    let folder = TempDir::new().unwrap();
    let (place, address) = (folder.path().display().to_string(), broker.udp.to_string());
    let file = clip(folder.path()).display().to_string();
    let publish = [
        "publish",
        "--json",
        "--loop",
        "--to",
        &address,
        "--topic",
        "test/clip",
        "--file",
        &file,
    ];
    let mut publisher = Running::start(sangam(&publish));
    assert_eq!(publisher.json_line()["event"], "second");
    let recorder = record(
        &broker,
        folder.path(),
        &["--seconds", "5", "--name", "film"],
    );
    let (code, said) = recorder.end();
    assert_eq!(code, 0, "{said}");
    drop(publisher);

    for (name, codecs) in [
        ("film.mkv", &["h264", "opus"][..]),
        ("film.mp4", &["h264", "opus"]),
        ("film.webm", &["opus"]),
    ] {
        let out = folder.path().join(name);
        let output = run(&[
            "archive",
            "export",
            "film",
            "--out",
            &out.display().to_string(),
            "--archive",
            &place,
        ]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let (found, seconds) = probe(&out);
        assert_eq!(found, codecs, "{name}");
        assert!((2.0..8.0).contains(&seconds), "{name}: {seconds}");
        plays(&out);
    }

    replays(&address, &place);
}

#[test]
fn a_reliable_topic_is_recorded_and_replayed_as_one() {
    const READINGS: u64 = 400;
    let broker = Broker::start(&[]);
    let folder = TempDir::new().unwrap();
    let (place, address) = (folder.path().display().to_string(), broker.udp.to_string());
    let recorder = ["record", "--reliable", "plant/readings", "--name", "shift"];
    let rest = ["--json", "--from", &address, "--archive", &place];
    let mut recorder = Running::start(sangam(&[&recorder[..], &rest].concat()));
    assert_eq!(recorder.json_line()["event"], "begin");

    let sensor = ["publish", "--reliable", "--topic", "plant/readings"];
    let mut sensor = Running::told(sangam(&[&sensor[..], &["--to", &address]].concat()));
    let mut input = sensor.child.stdin.take().unwrap();
    for number in 1..=READINGS {
        writeln!(input, "{}", reading(number)).unwrap();
    }
    drop(input);
    assert_eq!(sensor.end().0, 0);
    recorder.counts("packets", READINGS);
    recorder.signal("INT");
    let (code, said) = recorder.end();
    assert_eq!(code, 0, "{said}");

    let replay = ["replay", "shift", "--json", "--below", "again"];
    let rest = ["--to", &address, "--archive", &place];
    let (code, said) = Running::start(sangam(&[&replay[..], &rest].concat())).end();
    assert_eq!(code, 0, "{said}");
    let summary = lines(&said).pop().unwrap();
    let counts = ["packets", "failed", "unheld"].map(|count| summary[count].as_u64());
    assert_eq!(counts, [Some(READINGS), Some(0), Some(0)]);

    // Whoever comes only now has all of it.
    let (most, count) = ("1000000", READINGS.to_string());
    let play = ["play", "--reliable", "--topic", "again/plant/readings"];
    let rest = ["--from", &address, "--replay", most, "--events", &count];
    let late = run(&[&play[..], &rest, &["--seconds", "30"]].concat());
    assert!(late.status.success(), "{}", text(&late.stderr));
    let wanted: Vec<_> = (1..=READINGS).map(reading).collect();
    assert_eq!(text(&late.stdout).lines().collect::<Vec<_>>(), wanted);
}

/// What a sensor says.
fn reading(number: u64) -> String {
    format!("reading {number}: {} mbar", 1_000 + number % 17)
}

/// What was recorded comes again, elsewhere.
#[track_caller]
fn replays(address: &str, place: &str) {
    let play = ["play", "--json", "--from", address, "--topic", "again/#"];
    let mut player = Running::start(sangam(&play));
    player.json_line();
    let replay = [
        "replay",
        "film",
        "--json",
        "--to",
        address,
        "--below",
        "again",
        "--archive",
        place,
    ];
    let (code, said) = Running::start(sangam(&replay)).end();
    assert_eq!(code, 0);
    let sent = lines(&said).pop().unwrap()["packets"].as_u64().unwrap();
    // The last packets are on their way still.
    for _ in 0..20 {
        let heard = player.json_line();
        let heard = heard["streams"].as_array().unwrap();
        let packets = heard
            .iter()
            .map(|stream| stream["packets"].as_u64().unwrap());
        // Data that is not reliable may lose some.
        if packets.sum::<u64>() >= sent * 95 / 100 {
            let topics = heard.iter().map(|stream| stream["topic"].as_str().unwrap());
            let topics: BTreeSet<_> = topics.collect();
            let again = ["again/test/clip/audio", "again/test/clip/video"];
            assert_eq!(topics, BTreeSet::from(again));
            return;
        }
    }
    panic!("of {sent} packets too few came: {}", player.json_line());
}

/// Decodes all of a file: FFmpeg finds no error.
#[track_caller]
fn plays(path: &Path) {
    let output = Command::new("ffmpeg")
        .args("-nostdin -v error -xerror -i".split(' '))
        .arg(path)
        .args("-f null -".split(' '))
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}

#[test]
fn a_flipped_bit_is_found() {
    let broker = Broker::start(&[]);
    let mut numbers = Numbers::new(&broker);
    let folder = TempDir::new().unwrap();
    let place = folder.path().display().to_string();
    let mut recorder = record(&broker, folder.path(), &[]);
    recorder.json_line();
    while recorder.json_line()["safe_packets"].as_u64() < Some(10) {
        numbers.send_for(Duration::from_millis(500));
    }
    recorder.signal("INT");
    assert_eq!(recorder.end().0, 0);
    let scrub = || run(&["archive", "scrub", "--archive", &place]);
    assert_eq!(scrub().status.code(), Some(0));

    let segment = std::fs::read_dir(folder.path().join("log"))
        .unwrap()
        .next()
        .unwrap();
    let mut options = std::fs::OpenOptions::new();
    let mut file = options
        .read(true)
        .write(true)
        .open(segment.unwrap().path())
        .unwrap();
    let mut byte = [0];
    file.seek(SeekFrom::Start(300)).unwrap();
    file.read_exact(&mut byte).unwrap();
    file.seek(SeekFrom::Start(300)).unwrap();
    file.write_all(&[byte[0] ^ 1]).unwrap();
    let output = scrub();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("checksums are wrong"));

    // Data goes into no film; the one that was there before stays.
    let film = folder.path().join("film.mkv");
    std::fs::write(&film, "another").unwrap();
    let out = film.display().to_string();
    let export = [
        "archive",
        "export",
        "test/#",
        "--out",
        &out,
        "--archive",
        &place,
    ];
    assert_eq!(run(&export).status.code(), Some(1));
    assert_eq!(std::fs::read(&film).unwrap(), b"another");
    // The log, its catalogue, and the film.
    let files = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(files, 3);
}

#[test]
fn a_name_that_does_not_fit_is_a_usage_error() {
    let name = "n".repeat(256);
    let output = run(&["record", "test/#", "--name", &name]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("255"));
}

#[test]
fn what_only_reads_makes_no_folder() {
    let folder = TempDir::new().unwrap();
    let place = folder.path().join("mistyped");
    let place = place.display().to_string();
    let out = folder.path().join("film.mkv").display().to_string();
    for what in [
        &["list"][..],
        &["export", "film", "--out", &out],
        &["scrub"],
    ] {
        run(&[&["archive"], what, &["--archive", &place]].concat());
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn what_is_not_there_is_a_usage_error() {
    let folder = TempDir::new().unwrap();
    let place = folder.path().display().to_string();
    for (recording, out, word) in [("film", "film.avi", ".mkv"), ("film", "film.mkv", "list")] {
        let args = [
            "archive",
            "export",
            recording,
            "--out",
            out,
            "--archive",
            &place,
        ];
        let output = run(&args);
        assert_eq!(output.status.code(), Some(2));
        assert!(
            text(&output.stderr).contains(word),
            "{}",
            text(&output.stderr)
        );
    }
    let output = run(&["archive", "list", "--archive", &place]);
    assert!(text(&output.stdout).contains("sangam record"));
}
