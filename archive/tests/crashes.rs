//! The log on disks that forget what was not synced, and on disks that are full.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use sangam_archive::record::{Kind, Record, TrackInfo};
use sangam_archive::{Log, Medium, Recording, RecordingId, recordings, repair};
use sangam_model::{MediaInfo, Random, Topic};

const PATIENCE: Duration = Duration::from_secs(30);
const MS: u64 = 1_000_000;
/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

type Files = BTreeMap<String, Vec<u8>>;

/// A disk in memory: of what was written since the last sync any sector may be lost in a crash.
#[derive(Clone, Default)]
struct Disk(Arc<Mutex<Platter>>);

#[derive(Default)]
struct Platter {
    synced: Files,
    seen: Files,
    unsynced: Vec<(String, u64, Vec<u8>)>,
    /// Bytes it takes; `None`: any number.
    size: Option<usize>,
}

impl Disk {
    fn after_crash(&self, random: &mut Random) -> Self {
        let platter = self.0.lock().unwrap();
        let mut files = platter.synced.clone();
        for (name, offset, bytes) in &platter.unsynced {
            for (place, sector) in bytes.chunks(SECTOR).enumerate() {
                if random.below(2) == 0 {
                    apply(&mut files, (name, offset + (place * SECTOR) as u64), sector);
                }
            }
        }
        let platter = Platter {
            synced: files.clone(),
            seen: files,
            ..Platter::default()
        };
        Self(Arc::new(Mutex::new(platter)))
    }
}

fn apply(files: &mut Files, (name, offset): (&str, u64), bytes: &[u8]) {
    let file = files.entry(name.to_owned()).or_default();
    let (start, end) = (offset as usize, offset as usize + bytes.len());
    if file.len() < end {
        file.resize(end, 0);
    }
    file[start..end].copy_from_slice(bytes);
}

impl Medium for Disk {
    fn write(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut platter = self.0.lock().unwrap();
        let used: usize = platter.seen.values().map(Vec::len).sum();
        if platter.size.is_some_and(|size| used + bytes.len() > size) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        apply(&mut platter.seen, (name, offset), bytes);
        let write = (name.to_owned(), offset, bytes.to_vec());
        platter.unsynced.push(write);
        Ok(())
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        let mut platter = self.0.lock().unwrap();
        let bytes = platter.seen.get(name).cloned().unwrap_or_default();
        platter.synced.insert(name.to_owned(), bytes);
        platter.unsynced.retain(|(of, ..)| of != name);
        Ok(())
    }

    fn read(&self, name: &str, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let platter = self.0.lock().unwrap();
        let file = platter.seen.get(name).ok_or(io::ErrorKind::NotFound)?;
        let start = (offset as usize).min(file.len());
        Ok(file[start..(start + len).min(file.len())].to_vec())
    }

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let platter = self.0.lock().unwrap();
        let files = platter.seen.iter();
        Ok(files
            .map(|(name, file)| (name.clone(), file.len() as u64))
            .collect())
    }

    fn cut(&mut self, name: &str, len: u64) -> io::Result<bool> {
        let mut platter = self.0.lock().unwrap();
        platter
            .seen
            .entry(name.to_owned())
            .or_default()
            .truncate(len as usize);
        Ok(true)
    }
}

const ID: RecordingId = RecordingId(7);

/// A log with one recording and one track.
fn log(disk: &Disk) -> (Log, u32) {
    let mut log = Log::new(disk.clone(), (1, 2)).unwrap();
    log.begin(ID, "test", 0);
    let track = log.track(TrackInfo {
        recording: ID,
        topic: Topic::new("a/b").unwrap(),
        media: MediaInfo::data(),
    });
    (log, track)
}

/// The `number`th packet, of a length of its own.
fn body(number: u64) -> Vec<u8> {
    number.to_be_bytes().repeat(1 + number as usize % 150)
}

fn push(log: &mut Log, track: u32, number: u64) {
    let time = number * 10 * MS;
    let record = Record {
        track,
        ..Record::new(Kind::Packet, time, &[])
    };
    log.packet(&Record {
        body: &body(number),
        ..record
    });
    log.tick(time);
}

fn only(disk: &Disk) -> Option<Recording> {
    let mut all = recordings(disk).unwrap();
    assert!(all.len() <= 1);
    all.pop()
}

/// Packets of a recording, after a look at each.
fn count(disk: &Disk) -> u64 {
    let Some(recording) = only(disk) else {
        return 0;
    };
    let mut read = 0;
    recording
        .read(disk, |_, record| {
            assert_eq!(record.body, body(read));
            read += 1;
            true
        })
        .unwrap();
    assert_eq!(recording.packets(), read);
    read
}

#[track_caller]
fn wait(mut until: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !until() {
        assert!(begin.elapsed() < PATIENCE);
        thread::yield_now();
    }
}

#[test]
fn a_crash_costs_at_most_the_last_second() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let disk = Disk::default();
        let (mut log, track) = log(&disk);
        let packets = 1 + random.below(2_000) as u64;
        (0..packets).for_each(|number| push(&mut log, track, number));
        // What is older than a second was handed to the disk, which is given its time.
        let old = packets.saturating_sub(102);
        wait(|| {
            log.tick(packets * 10 * MS);
            log.safe() >= old
        });
        let safe = log.safe();
        let mut crashed = disk.after_crash(&mut random);
        let found = count(&crashed);
        assert!(
            (safe..=packets).contains(&found),
            "seed {seed}: {found} of {safe}"
        );
        assert!(!only(&crashed).is_some_and(|one| one.whole));

        // The next life ends what was interrupted, and finds the same.
        let expected = repair(&mut crashed, 1).unwrap();
        assert!(expected <= 1);
        assert_eq!(count(&crashed), found);
        assert_eq!(repair(&mut crashed, 2).unwrap(), 0);
    }
}

#[test]
fn a_recording_that_was_ended_is_whole() {
    let disk = Disk::default();
    let (mut log, track) = log(&disk);
    (0..500).for_each(|number| push(&mut log, track, number));
    log.end(ID, 5_000 * MS);
    assert_eq!(log.close(5_000 * MS), 500);
    let crashed = disk.after_crash(&mut Random::new(1));
    assert_eq!(count(&crashed), 500);
    let recording = only(&crashed).unwrap();
    assert!(recording.whole);
    assert_eq!(recording.end, 5_000 * MS);
    assert_eq!(repair(&mut crashed.clone(), 1).unwrap(), 0);
}

#[test]
fn a_full_disk_costs_nothing_once_it_has_room_again() {
    let disk = Disk::default();
    disk.0.lock().unwrap().size = Some(50_000);
    let (mut log, track) = log(&disk);
    (0..1_000).for_each(|number| push(&mut log, track, number));
    wait(|| log.is_refused());
    assert!(log.safe() < 1_000 && log.dropped() == 0);
    disk.0.lock().unwrap().size = None;
    let mut now = 10_000 * MS;
    wait(|| {
        now += 1_000 * MS;
        log.tick(now);
        log.safe() == 1_000
    });
    assert!(!log.is_refused());
    assert_eq!(count(&disk.after_crash(&mut Random::new(1))), 1_000);
}

#[test]
fn a_recording_goes_on_over_segments() {
    let disk = Disk::default();
    let (mut log, track) = log(&disk);
    let body = vec![7; 16_000];
    for number in 0..5_000 {
        let record = Record {
            track,
            ..Record::new(Kind::Packet, number * 10 * MS, &body)
        };
        log.packet(&record);
        log.tick(number * 10 * MS);
        wait(|| log.safe() + 500 > number);
    }
    log.end(ID, 50_000 * MS);
    log.close(50_000 * MS);
    let recording = only(&disk).unwrap();
    assert_eq!(recording.segments.len(), 3);
    assert_eq!(recording.packets(), 5_000);
    let mut times = Vec::new();
    recording
        .read(&disk, |_, record| {
            times.push(record.time);
            true
        })
        .unwrap();
    let expected: Vec<_> = (0..5_000).map(|number| number * 10 * MS).collect();
    assert_eq!(times, expected);
}
