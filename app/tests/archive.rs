//! Recordings of real processes: killed at any moment, exported, replayed, checked.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Broker, Running, clip, probe, run, sangam, text};
use sangam_archive::Archive;
use sangam_client::{Client, ClientOptions, Outgoing, Publisher, Target};
use sangam_model::{MediaInfo, Random, Topic};
use serde_json::Value;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);
/// Kills in each run of `make test`; `make kills` asks for more.
const KILLS: u64 = 3;
/// Data comes so fast at most.
const PACE: Duration = Duration::from_millis(2);

fn lines(said: &str) -> Vec<Value> {
    let whole = said.lines().filter(|line| line.ends_with('}'));
    whole
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

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

/// Numbers on a topic, one event each.
struct Numbers {
    client: Client,
    publisher: Publisher,
    next: u64,
}

impl Numbers {
    fn new(broker: &Broker) -> Self {
        let target = Target::Udp(broker.udp);
        let mut client = Client::connect(target, ClientOptions::default()).unwrap();
        let topic = Topic::new("test/numbers").unwrap();
        let publisher = client.publish(&topic, MediaInfo::data(), PATIENCE).unwrap();
        Self {
            client,
            publisher,
            next: 0,
        }
    }

    fn send_for(&mut self, time: Duration) {
        let begin = Instant::now();
        while begin.elapsed() < time {
            let number = self.next.to_be_bytes();
            self.publisher.send(Outgoing::new(&number)).unwrap();
            self.next += 1;
            self.client.recv(PACE);
        }
    }
}

fn all(folder: &Path) -> usize {
    Archive::new(folder).recordings().unwrap().len()
}

/// The numbers of the latest recording, which follow each other, and whether it was ended in
/// order.
fn latest(folder: &Path) -> (Vec<u64>, bool) {
    let archive = Archive::new(folder);
    let recording = archive.recordings().unwrap().pop().unwrap();
    let mut numbers = Vec::new();
    recording
        .read(&archive.medium().unwrap(), |_, record| {
            numbers.push(u64::from_be_bytes(record.body.try_into().unwrap()));
            true
        })
        .unwrap();
    (numbers, recording.whole)
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

/// A recorder with a disk of its own that holds little; `$1` is the sangam binary, `$2` the broker.
const LITTLE_ROOM: &str = r#"
set -eu
mount -t tmpfs -o size=8m tmpfs /mnt
exec "$1" record 'test/#' --json --from "$2" --archive /mnt/archive
"#;

/// A recorder whose disk is full: the recorder, its disk, and packets of it that are safe.
fn recorder_without_room(broker: &Broker, numbers: &mut Numbers) -> (Running, File, u64) {
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "--mount"])
        .args(["sh", "-c", LITTLE_ROOM, "sh", env!("CARGO_BIN_EXE_sangam")])
        .arg(broker.udp.to_string());
    let mut recorder = Running::start(command);
    assert_eq!(recorder.json_line()["refused"], false);
    while recorder.json_line()["safe_packets"].as_u64() < Some(100) {
        numbers.send_for(Duration::from_millis(500));
    }
    // The recorder is the process that was started. What is open stays when that has ended.
    let disk = File::open(format!("/proc/{}/root/mnt", recorder.child.id())).unwrap();
    let mut ballast = File::create(on(&disk).join("ballast")).unwrap();
    while ballast.write_all(&[0; 4_096]).is_ok() {}
    let begin = Instant::now();
    loop {
        numbers.send_for(Duration::from_millis(500));
        let line = recorder.json_line();
        if line["refused"] == true {
            assert_eq!(line["dropped"], 0);
            let safe = line["safe_packets"].as_u64().unwrap();
            return (recorder, disk, safe);
        }
        assert!(begin.elapsed() < PATIENCE, "{line}");
    }
}

/// Where a folder is that is open here.
fn on(disk: &File) -> PathBuf {
    format!("/proc/self/fd/{}", disk.as_raw_fd()).into()
}

#[track_caller]
fn follow_each_other(numbers: &[u64]) {
    assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]));
}

#[test]
fn a_recorder_whose_disk_is_full_says_so_and_goes_on_when_there_is_room() {
    let broker = Broker::start(&[]);
    let mut numbers = Numbers::new(&broker);
    let (mut recorder, disk, safe) = recorder_without_room(&broker, &mut numbers);
    let log = recorder.log();
    log.says(&["/mnt/archive/log", "No space left", "make room"]);
    // What was safe is whole, and read while the disk is full.
    let (found, whole) = latest(&on(&disk).join("archive"));
    assert!(!whole && found.len() as u64 >= safe, "{}", found.len());
    follow_each_other(&found);

    std::fs::remove_file(on(&disk).join("ballast")).unwrap();
    let wanted = numbers.next - found[0];
    let begin = Instant::now();
    loop {
        let line = recorder.json_line();
        if line["refused"] == false && line["safe_packets"].as_u64() >= Some(wanted) {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "{line}, {wanted}");
    }
    recorder.signal("INT");
    let (code, said) = recorder.end();
    let summary = lines(&said).pop().unwrap();
    assert_eq!((code, &summary["dropped"]), (0, &0.into()), "{summary}");
    let (found, whole) = latest(&on(&disk).join("archive"));
    assert!(whole && found.len() as u64 >= wanted, "{}", found.len());
    follow_each_other(&found);
}

#[test]
fn a_recorder_that_is_ended_while_its_disk_is_full_says_what_is_lost() {
    let broker = Broker::start(&[]);
    let mut numbers = Numbers::new(&broker);
    let (mut recorder, disk, safe) = recorder_without_room(&broker, &mut numbers);
    let log = recorder.log();
    recorder.signal("INT");
    log.says(&["the disk refused the last", "is it full?"]);
    assert_eq!(recorder.end().0, 1);
    let (found, whole) = latest(&on(&disk).join("archive"));
    assert!(!whole && found.len() as u64 >= safe, "{}", found.len());
    follow_each_other(&found);
    // With room its recording is ended like that of one that was killed.
    let place = on(&disk).join("archive");
    std::fs::remove_file(on(&disk).join("ballast")).unwrap();
    assert_eq!(Archive::new(&place).repair(1).unwrap(), 1);
    assert_eq!(latest(&place).0, found);
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
