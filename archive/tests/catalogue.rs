//! What recordings there are, with a catalogue beside them that is whole, gone, damaged, old or
//! held by somebody else; and recordings that are removed.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

use std::env;
use std::fs;
use std::path::Path;
use std::time::Instant;

use sangam_archive::record::{Kind, Record, TrackInfo};
use sangam_archive::{
    Archive, Catalogue, Log, Medium, Recording, RecordingId, Removal, RemoveError, recordings,
    repair,
};
use sangam_model::{MediaInfo, Topic};
use tempfile::TempDir;

const FILE: &str = "catalogue.redb";

fn archive(folder: &TempDir) -> Archive {
    Archive::new(folder.path())
}

/// Writes recordings of these numbers at once, each with a packet, into a log of its own life.
fn begin(archive: &Archive, life: u32, ids: &[u64]) -> Log {
    let mut log = Log::new(archive.medium().unwrap(), (1, life)).unwrap();
    for id in ids {
        let recording = RecordingId(*id);
        log.begin(recording, &format!("recording {}", id % 1_000), *id)
            .unwrap();
        let track = log.track(TrackInfo {
            reliable: false,
            recording,
            topic: Topic::new(&format!("test/{id}")).unwrap(),
            media: MediaInfo::data(),
        });
        log.packet(&Record {
            track,
            ..Record::new(Kind::Packet, *id, b"packet")
        });
    }
    log
}

fn record(archive: &Archive, life: u32, ids: &[u64]) {
    let mut log = begin(archive, life, ids);
    ids.iter().for_each(|id| log.end(RecordingId(*id), *id));
    log.close(ids[0]);
}

/// What a look at every segment finds.
fn slowly(archive: &Archive) -> Vec<Recording> {
    recordings(&archive.reader()).unwrap()
}

fn names(found: &[Recording]) -> Vec<u64> {
    found.iter().map(|recording| recording.id.0).collect()
}

fn files(folder: &Path) -> usize {
    fs::read_dir(folder.join("log")).unwrap().count()
}

#[test]
fn the_catalogue_says_what_the_segments_say() {
    let folder = TempDir::new().unwrap();
    let archive = archive(&folder);
    record(&archive, 1, &[10, 11]);
    let mut long = Catalogue::new(archive.clone());
    assert_eq!(long.all().unwrap(), slowly(&archive));
    assert!(folder.path().join(FILE).exists());
    // New ones are seen by who has been there before, and by who has not.
    record(&archive, 2, &[12]);
    let mut log = begin(&archive, 3, &[13]);
    log.commit(13);
    let until = Instant::now() + std::time::Duration::from_secs(10);
    while log.safe() < 1 {
        assert!(Instant::now() < until);
        std::thread::yield_now();
    }
    assert_eq!(names(&long.all().unwrap()), [10, 11, 12, 13]);
    assert_eq!(archive.recordings().unwrap(), slowly(&archive));
    // The one that goes on has more of it now.
    assert_eq!(long.find("recording 13").unwrap()[0].packets(), 1);
    let track = log.track(TrackInfo {
        reliable: false,
        recording: RecordingId(13),
        topic: Topic::new("test/more").unwrap(),
        media: MediaInfo::data(),
    });
    log.packet(&Record {
        track,
        ..Record::new(Kind::Packet, 14, b"packet")
    });
    log.close(15);
    assert_eq!(long.find("recording 13").unwrap()[0].packets(), 2);
    assert_eq!(long.all().unwrap(), slowly(&archive));
    // By name and by the begin of the number.
    assert_eq!(names(&long.find("recording 12").unwrap()), [12]);
    assert_eq!(names(&long.find("000000000000000b").unwrap()), [11]);
    assert_eq!(names(&long.find("00000000").unwrap()), [10, 11, 12, 13]);
    assert_eq!(names(&long.find("nothing").unwrap()), [0; 0]);
    assert_eq!(names(&long.find("").unwrap()), [0; 0]);
}

#[test]
fn a_catalogue_that_is_damaged_held_or_old_costs_time_alone() {
    let folder = TempDir::new().unwrap();
    let archive = archive(&folder);
    for life in 1..20 {
        record(&archive, life, &[u64::from(life)]);
    }
    let whole = archive.recordings().unwrap();
    let path = folder.path().join(FILE);
    let bytes = fs::read(&path).unwrap();
    // Cut short, overwritten, and no database at all.
    let mut torn = bytes.clone();
    let middle = torn.len() / 2;
    torn[middle..middle + 4_096].fill(0xa5);
    for damaged in [&bytes[..bytes.len() / 2], &torn, b"no database", b""] {
        fs::write(&path, damaged).unwrap();
        assert_eq!(archive.recordings().unwrap(), whole);
        record(&archive, 99, &[99]);
        assert_eq!(archive.recordings().unwrap().len(), whole.len() + 1);
        let last = fs::read_dir(folder.path().join("log")).unwrap();
        let last = last.map(|entry| entry.unwrap().path()).max().unwrap();
        fs::remove_file(last).unwrap();
        assert_eq!(archive.recordings().unwrap(), whole);
    }
    // Another process has it open.
    let held = redb::Database::create(&path).unwrap();
    assert_eq!(archive.recordings().unwrap(), whole);
    drop(held);
    // It says what it said before a segment was replaced by another of its length.
    Catalogue::new(archive.clone()).rebuild().unwrap();
    assert_eq!(archive.recordings().unwrap(), whole);
}

#[test]
fn a_recording_is_removed_with_its_segments() {
    let folder = TempDir::new().unwrap();
    let archive = archive(&folder);
    record(&archive, 1, &[1]);
    record(&archive, 2, &[2]);
    let mut catalogue = Catalogue::new(archive.clone());
    let one = catalogue.find("recording 1").unwrap().remove(0);
    let done = archive.remove(&one).unwrap();
    assert_eq!((done.segments, done.kept), (1, 0));
    assert!(done.bytes > 0);
    assert_eq!(names(&catalogue.all().unwrap()), [2]);
    assert_eq!(names(&slowly(&archive)), [2]);
    assert_eq!(archive.removed().unwrap().len(), 0);
    assert_eq!(archive.finish_removals().unwrap(), Removal::default());
}

#[test]
fn a_segment_stays_until_nobody_needs_it() {
    let folder = TempDir::new().unwrap();
    let archive = archive(&folder);
    record(&archive, 1, &[1, 2]);
    let all = archive.recordings().unwrap();
    assert_eq!(archive.remove(&all[0]).unwrap().kept, 1);
    assert_eq!(names(&archive.recordings().unwrap()), [2]);
    assert_eq!(
        (
            files(folder.path()),
            archive.finish_removals().unwrap().kept
        ),
        (1, 1)
    );
    assert_eq!(archive.remove(&all[1]).unwrap().segments, 1);
    assert_eq!(files(folder.path()), 0);
    archive.finish_removals().unwrap();
    assert_eq!(archive.removed().unwrap().len(), 0);
}

#[test]
fn what_is_being_recorded_is_not_removed() {
    let folder = TempDir::new().unwrap();
    let archive = archive(&folder);
    let mut log = begin(&archive, 1, &[1]);
    log.commit(1);
    while log.safe() < 1 {
        std::thread::yield_now();
    }
    let one = archive.recordings().unwrap().remove(0);
    let refused = archive.remove(&one);
    assert!(
        matches!(refused, Err(RemoveError::Recorded(RecordingId(1)))),
        "{refused:?}"
    );
    assert_eq!(names(&archive.recordings().unwrap()), [1]);
    // A recorder that died is none.
    drop(log);
    archive.remove(&one).unwrap();
    assert_eq!(files(folder.path()), 0);
}

#[test]
fn what_is_half_removed_is_not_seen_and_removed_to_its_end() {
    let folder = TempDir::new().unwrap();
    let archive = archive(&folder);
    record(&archive, 1, &[1]);
    record(&archive, 2, &[2]);
    // Somebody was killed behind the note.
    let notes = folder.path().join("removed");
    fs::create_dir(&notes).unwrap();
    fs::write(notes.join(format!("{:016x}", 1)), "").unwrap();
    assert_eq!(names(&archive.recordings().unwrap()), [2]);
    assert_eq!(
        names(&Catalogue::new(archive.clone()).find("recording 1").unwrap()),
        [0; 0]
    );
    assert_eq!(archive.finish_removals().unwrap().segments, 1);
    assert_eq!(files(folder.path()), 1);
    assert_eq!(archive.removed().unwrap().len(), 0);
    assert_eq!(repair(&mut archive.medium().unwrap(), 3).unwrap(), 0);
    assert_eq!(archive.reader().list().unwrap().len(), 1);
}

/// `RECORDINGS=100000 cargo test --release ... many -- --nocapture` says how long it takes.
#[test]
fn many_recordings_are_found_without_a_look_at_each() {
    let many = env::var("RECORDINGS").map_or(300, |many| many.parse().unwrap());
    let folder = TempDir::new().unwrap();
    let archive = archive(&folder);
    // As many small recorders would; one file is copied, as a sync for each takes its time.
    record(&archive, 0, &[0x0123_4567_89ab_cdef]);
    let log = folder.path().join("log");
    let first = fs::read_dir(&log).unwrap().next().unwrap().unwrap().path();
    let bytes = fs::read(&first).unwrap();
    fs::remove_file(first).unwrap();
    for life in 0..many {
        let body = patched(&bytes, life);
        fs::write(log.join(format!("{life:012x}-{life:08x}-000000.log")), body).unwrap();
    }
    let timed = |what: &str, work: &mut dyn FnMut() -> usize| {
        let begin = Instant::now();
        let found = work();
        println!(
            "{what}: {found} in {:.1} ms",
            begin.elapsed().as_secs_f64() * 1e3
        );
        found
    };
    let all = many as usize;
    assert_eq!(timed("every segment", &mut || slowly(&archive).len()), all);
    let list = &mut || archive.recordings().unwrap().len();
    assert_eq!(timed("a list that makes the catalogue", list), all);
    assert_eq!(timed("a list by the catalogue", list), all);
    let mut catalogue = Catalogue::new(archive.clone());
    let name = "recording 7  ";
    let find = &mut || catalogue.find(name).unwrap().len();
    let same = timed("a first look-up", find);
    assert!(same >= 1);
    assert_eq!(timed("a look-up", find), same);
    fs::write(
        log.join("ffffffffffff-00000000-000000.log"),
        patched(&bytes, many),
    )
    .unwrap();
    assert!(timed("a look-up behind a new recording", find) >= same);
    // Nothing was looked at that had been before.
    fs::remove_file(folder.path().join(FILE)).unwrap();
    assert_eq!(catalogue.all().unwrap().len(), all + 1);
}

/// A segment of another recording with other checksums.
fn patched(segment: &[u8], number: u64) -> Vec<u8> {
    let id = 0x0123_4567_89ab_cdef_u64.to_be_bytes();
    let mut out = segment.to_vec();
    let places: Vec<_> = (0..out.len() - 8)
        .filter(|at| out[*at..*at + 8] == id)
        .collect();
    for at in places {
        out[at..at + 8].copy_from_slice(&number.to_be_bytes());
    }
    let name = b"recording 895";
    let places: Vec<_> = (0..out.len() - name.len())
        .filter(|at| out[*at..].starts_with(name))
        .collect();
    let other = format!("recording {:<3}", number % 1_000);
    for at in places {
        out[at..at + name.len()].copy_from_slice(other.as_bytes());
    }
    // Every record's checksum again: docs/spec/archive.md.
    let mut at = 0;
    while at + 24 <= out.len() - 16 {
        let len = u32::from_be_bytes(out[at..at + 4].try_into().unwrap()) as usize;
        let sum = crc32c::crc32c(&out[at + 8..at + 24 + len]);
        out[at + 4..at + 8].copy_from_slice(&sum.to_be_bytes());
        at += 24 + len;
    }
    out
}
