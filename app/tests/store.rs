//! Films and recordings in an S3-compatible store that is not ours, and what becomes of those who
//! play them when it is busy.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;
#[path = "../../archive/tests/store/mod.rs"]
mod store;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Instant;

use common::{Running, ends_well, probe, sangam, text};
use sangam_archive::record::{Kind, Record, TrackInfo};
use sangam_archive::{Archive, Log, RecordingId};
use sangam_model::{Class, MediaInfo, Topic};
use sangam_wire::rtp::Header;
use serde_json::Value;
use store::{Mood, Store, place};
use tempfile::TempDir;

const SECONDS: u64 = 5;
const MS: u64 = 1_000_000;

/// An archive, a film for it, and a store.
struct Stage {
    folder: TempDir,
    store: Store,
}

impl Stage {
    fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
            store: Store::start(),
        }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn command(&self, args: &[&str]) -> Command {
        let archive = self.path("archive");
        let mut command = sangam(&[&["archive", "--json", "--archive", &archive], args].concat());
        command.envs(self.store.settings());
        command
    }

    /// A command that succeeds: its last line.
    #[track_caller]
    fn archive(&self, args: &[&str]) -> Value {
        let done = self.command(args).output().unwrap();
        assert!(done.status.success(), "{args:?}: {}", text(&done.stderr));
        let said = text(&done.stdout);
        let last = said.lines().last();
        last.map_or(Value::Null, |line| serde_json::from_str(line).unwrap())
    }

    /// A command that fails: what it says.
    #[track_caller]
    fn refused(&self, args: &[&str]) -> String {
        let done = self.command(args).output().unwrap();
        assert!(!done.status.success(), "{args:?}: {}", text(&done.stdout));
        let said = text(&done.stderr);
        assert!(!said.contains("nobody-shall-see-this"), "{said}");
        said
    }

    fn film(&self) -> String {
        let path = self.path("film.ts");
        let made = Command::new("ffmpeg")
            .args("-nostdin -y -v error -f lavfi -i testsrc2=size=640x360:rate=25 -t".split(' '))
            .arg(SECONDS.to_string())
            .args("-c:v libx264 -preset ultrafast -g 25 -b:v 8M".split(' '))
            .arg(&path)
            .output();
        ends_well(&made.unwrap());
        path
    }

    /// A recording of a tone in so many segments, as a recorder writes it.
    fn record(&self, name: &str) {
        let archive = Archive::new(&self.folder.path().join("archive"));
        let mut log = Log::new(archive.medium().unwrap(), (1, 1)).unwrap();
        let recording = RecordingId(7);
        log.begin(recording, name, 0).unwrap();
        let track = log.track(TrackInfo {
            reliable: false,
            recording,
            topic: Topic::new("test/tone").unwrap(),
            media: MediaInfo {
                class: Class::Audio,
                payload_type: 0,
                channels: 1,
                clock_rate: 8_000,
                encoding: "PCMU".to_owned(),
                fmtp: String::new(),
            },
        });
        for number in 0..SECONDS * 50 {
            let header = Header {
                marker: false,
                payload_type: 0,
                sequence: number as u16,
                timestamp: number as u32 * 160,
                ssrc: 7,
            };
            let body = [&header.encode()[..], &[number as u8; 160]].concat();
            let record = Record::new(Kind::Packet, number * 20 * MS, &body);
            log.packet(&Record { track, ..record });
        }
        log.end(recording, SECONDS * 1_000 * MS);
        log.close(SECONDS * 1_000 * MS);
    }

    fn serve(&self) -> Server {
        let mut process = Running::start(self.command(&["serve", "--listen", "127.0.0.1:0"]));
        let ready = process.json_line();
        Server {
            address: ready["rtsp"][0].as_str().unwrap().parse().unwrap(),
            _process: process,
        }
    }
}

struct Server {
    address: SocketAddr,
    _process: Running,
}

impl Server {
    fn copy(&self, name: &str, out: &str) -> Output {
        let url = format!("rtsp://{}/archive/{name}", self.address);
        Command::new("ffmpeg")
            .args("-nostdin -y -v error -rtsp_transport tcp -i".split(' '))
            .args([&url, "-map", "0", "-c", "copy", out])
            .output()
            .unwrap()
    }
}

#[test]
fn a_film_in_a_store_is_played_and_others_do_not_suffer_when_it_is_busy() {
    let stage = Stage::new();
    let disk = stage.archive(&["disk", "add", &place("disk")]);
    assert_eq!(disk["place"], place("disk"));
    let said = stage.refused(&["disk", "add", &place("disk")]);
    assert!(said.contains("already"), "{said}");
    stage.archive(&["add", &stage.film()]);
    assert!(fs::read_dir(stage.store.files("disk")).unwrap().count() > 1);
    stage.record("tone");

    let server = stage.serve();
    let out = stage.path("film.mkv");
    ends_well(&server.copy("film", &out));
    assert!(probe(Path::new(&out)).1 > SECONDS as f64 - 1.5);

    // Another one, which has nothing in memory.
    let server = stage.serve();
    stage.store.set(Mood::Busy);
    std::thread::scope(|scope| {
        let films = [(); 6].map(|()| scope.spawn(|| server.copy("film", &stage.path("none.mkv"))));
        // The recording is on the local disk: it comes at its pace.
        let begin = Instant::now();
        let out = stage.path("tone.mkv");
        ends_well(&server.copy("tone", &out));
        let took = begin.elapsed().as_secs();
        assert!((SECONDS - 1..SECONDS + 3).contains(&took), "{took}");
        for film in films {
            let said = text(&film.join().unwrap().stderr);
            assert!(said.contains("503"), "{said}");
        }
    });
    let said = stage.refused(&["disk", "add", &place("other")]);
    assert!(said.contains("SlowDown"), "{said}");
    let away = stage.archive(&["disk", "list"]);
    assert!(
        away["away"].as_str().unwrap().contains("SlowDown"),
        "{away}"
    );

    stage.store.set(Mood::Kind);
    ends_well(&server.copy("film", &out));
    let removed = stage.archive(&["remove", "film", "--yes"]);
    assert_eq!(removed["complete"], true);
    assert_eq!(stage.store.bucket("disk").list().unwrap().len(), 1);
    let gone = text(&server.copy("film", &out).stderr);
    assert!(gone.contains("404"), "{gone}");
}

#[test]
fn recordings_go_to_a_store_and_are_played_from_there() {
    let stage = Stage::new();
    stage.record("tone");
    let log = stage.folder.path().join("archive/log");
    let here = || fs::read_dir(&log).unwrap().count();
    let store = stage.archive(&["store", &place("tones/")]);
    assert_eq!(store["store"], place("tones"));
    let said = stage.refused(&["store", &place("elsewhere")]);
    assert!(said.contains(&place("tones")), "{said}");

    // Nothing is let go of that is not there.
    stage.store.set(Mood::Busy);
    let said = stage.refused(&["settle"]);
    assert!(said.contains("SlowDown"), "{said}");
    assert_eq!(here(), 1);
    stage.store.set(Mood::Kind);
    let settled = stage.archive(&["settle"]);
    assert_eq!(settled["segments"], 1, "{settled}");
    assert_eq!(here(), 0);
    assert_eq!(stage.archive(&["settle"])["segments"], 0);
    assert_eq!(stage.archive(&["list"])["packets"], SECONDS * 50);

    let out = stage.path("tone.mkv");
    stage.archive(&["export", "tone", "--out", &out]);
    assert!((probe(Path::new(&out)).1 - SECONDS as f64).abs() < 0.2);
    let server = stage.serve();
    ends_well(&server.copy("tone", &out));
    assert!(probe(Path::new(&out)).1 > SECONDS as f64 - 1.0);
    assert_eq!(stage.archive(&["scrub"])["segments"], 1);

    // Busy, it is still listed, by the catalogue, and cannot be read.
    stage.store.set(Mood::Busy);
    assert_eq!(stage.archive(&["list"])["name"], "tone");
    let said = stage.refused(&["export", "tone", "--out", &out]);
    assert!(said.contains("503"), "{said}");
    let said = stage.refused(&["remove", "tone", "--yes"]);
    assert!(said.contains("503"), "{said}");
    // It was noted: what is left is not seen, and goes with the next scrub.
    assert_eq!(stage.archive(&["list"]), Value::Null);
    stage.store.set(Mood::Kind);
    stage.archive(&["scrub"]);
    let left = stage.store.bucket("tones").list().unwrap();
    assert_eq!(left.len(), 1, "its mark alone: {left:?}");
}

#[test]
fn what_is_wrong_with_a_store_is_said() {
    let stage = Stage::new();
    let said = stage.refused(&["store", "s3://nowhere/at/all"]);
    assert!(said.contains("NoSuchBucket"), "{said}");
    let said = stage.refused(&["store", "/a/folder"]);
    assert!(said.contains("s3://BUCKET"), "{said}");
    let said = stage.refused(&["disk", "add", "ftp://films"]);
    assert!(said.contains("s3://BUCKET"), "{said}");
    let mut wrong = stage.command(&["disk", "add", &place("disk")]);
    wrong.env("AWS_SECRET_ACCESS_KEY", "wrong");
    let said = text(&wrong.output().unwrap().stderr);
    assert!(said.contains("SignatureDoesNotMatch"), "{said}");
}
