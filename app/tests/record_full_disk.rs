//! A recorder whose disk is full: it says so, what was safe is whole, and it goes on when there is
//! room.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;
#[path = "common/numbers.rs"]
mod numbers;

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Broker, Running};
use numbers::{Numbers, latest, lines};
use sangam_archive::Archive;

const PATIENCE: Duration = Duration::from_secs(30);

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
