//! Films on two disks of which one takes seconds to give a block: those on the other come as if
//! nothing were, and so do those of which there is a copy there.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Running, ends_well, sangam, text};
use serde_json::Value;
use tempfile::TempDir;

/// More than there are readers of a disk.
const SLOW: usize = 3;

/// An archive with two disks.
struct Stage {
    folder: TempDir,
}

impl Stage {
    fn new() -> Self {
        let stage = Self {
            folder: TempDir::new().unwrap(),
        };
        for disk in ["1", "2"] {
            let place = stage.path(disk);
            stage.archive(&["disk", "add", &place, "--weight", "10"]);
        }
        stage
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn command(&self, args: &[&str]) -> Command {
        let place = self.path("archive");
        sangam(&[&["archive", "--json", "--archive", &place], args].concat())
    }

    #[track_caller]
    fn archive(&self, args: &[&str]) {
        let done = self.command(args).output().unwrap();
        assert!(done.status.success(), "{args:?}: {}", text(&done.stderr));
    }

    /// Eight seconds of so many bits each.
    fn film(&self, name: &str, rate: &str) -> String {
        let path = self.path(name);
        let made = Command::new("ffmpeg")
            .args("-nostdin -y -v error -f lavfi -i testsrc2=size=320x180:rate=25".split(' '))
            .args("-t 8 -c:v libx264 -preset ultrafast -g 25 -b:v".split(' '))
            .args([rate, &path])
            .output();
        ends_well(&made.unwrap());
        path
    }

    /// All pieces of a disk.
    fn pieces(&self, disk: &str) -> Vec<PathBuf> {
        let paths = |folder: &Path| -> Vec<PathBuf> {
            let entries = fs::read_dir(folder).unwrap();
            entries.map(|entry| entry.unwrap().path()).collect()
        };
        let films = paths(&self.folder.path().join(disk));
        let films = films.into_iter().filter(|path| path.is_dir());
        films.flat_map(|film| paths(&film)).collect()
    }

    /// Films of one block and one copy each, until enough are on each disk; which are where.
    fn short_films(&self, file: &str) -> [Vec<String>; 2] {
        let mut on_disks: [Vec<String>; 2] = Default::default();
        while on_disks[0].len() < SLOW || on_disks[1].is_empty() {
            let name = format!("short{}", on_disks.concat().len());
            let before = self.pieces("1").len();
            self.archive(&["add", file, "--name", &name, "--copies", "1"]);
            let is_second = self.pieces("1").len() == before;
            on_disks[usize::from(is_second)].push(name);
        }
        on_disks
    }

    fn play(&self, server: &str, name: &str, more: &[&str]) -> Running {
        let (url, out) = (format!("rtsp://{server}/archive/{name}"), self.path(name));
        let play = ["play", "--json", "--film", &url, "--out", &out];
        Running::start(sangam(&[&play[..], more].concat()))
    }

    /// What a player says in the end, once all of the film is there as it was.
    #[track_caller]
    fn is_whole(&self, player: Running, name: &str, file: &str) -> Value {
        let (code, said) = player.end();
        assert_eq!(code, 0, "{said}");
        let last = said.lines().last().unwrap();
        assert!(
            fs::read(self.path(name)).unwrap() == fs::read(file).unwrap(),
            "{name}: {last}"
        );
        serde_json::from_str(last).unwrap()
    }
}

#[test]
fn a_disk_that_is_slow_harms_no_film_that_lies_elsewhere() {
    let stage = Stage::new();
    let (short, long) = (stage.film("short.ts", "700k"), stage.film("long.ts", "6M"));
    let [slow, well] = stage.short_films(&short);
    stage.archive(&["add", &long, "--name", "both", "--copies", "2"]);
    let mut disk = Command::new("/usr/bin/python3");
    disk.arg("tests/slow/disk.py").args(stage.pieces("1"));
    disk.stdin(Stdio::piped());
    let mut disk = Running::start(disk);
    assert!(disk.json_line()["held"].as_u64() >= Some(SLOW as u64));
    let serve = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--scrub-rate",
        "0",
        "--no-admission",
    ];
    let mut server = Running::start(stage.command(&serve));
    let ready = server.json_line();
    let address = ready["rtsp"][0].as_str().unwrap();

    // By one node, which sends what is late for as long as that takes.
    let held_up = slow
        .iter()
        .map(|name| stage.play(address, name, &["--relay"]));
    let held_up: Vec<_> = held_up.collect();
    let film = stage.play(address, &well[0], &[]);
    let copied = stage.play(address, "both", &[]);
    for (player, name, file) in [(film, &*well[0], &short), (copied, "both", &long)] {
        let found = stage.is_whole(player, name, file);
        assert_eq!(
            (&found["lost"], &found["starved"]),
            (&0.into(), &0.into()),
            "{found}"
        );
    }
    // Late, and whole.
    writeln!(disk.child.stdin.take().unwrap(), "go on").unwrap();
    assert!(disk.json_line()["waited_for"].as_u64() >= Some(SLOW as u64 / 2));
    for (player, name) in held_up.into_iter().zip(&slow) {
        let found = stage.is_whole(player, name, &short);
        assert_eq!(found["lost"], 0, "{found}");
    }
}
