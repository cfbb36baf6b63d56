//! The log on disks that forget what was not synced, and on disks that are full.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use sangam_archive::record::{HEAD_LEN, Kind, Record, TrackInfo};
use sangam_archive::{
    Archive, Log, Medium, Recording, RecordingId, WAITING_MAX, recordings, repair,
};
use sangam_model::{MediaInfo, Random, Topic};

const PATIENCE: Duration = Duration::from_secs(30);
const MS: u64 = 1_000_000;
/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

type Files = BTreeMap<String, Vec<u8>>;

/// A disk in memory: of what was written since the last sync any sector may be lost in a crash.
#[derive(Clone, Default)]
struct Disk(Arc<Machine>);

#[derive(Default)]
struct Machine {
    platter: Mutex<Platter>,
    let_go: Condvar,
}

#[derive(Default)]
struct Platter {
    synced: Files,
    seen: Files,
    unsynced: Vec<(String, u64, Vec<u8>)>,
    /// Bytes it takes; `None`: any number.
    size: Option<usize>,
    /// Syncs wait.
    held: bool,
    /// What its writer had added when somebody else gets the lock.
    grows: Option<Vec<u8>>,
}

impl Disk {
    fn after_crash(&self, random: &mut Random) -> Self {
        let platter = self.0.platter.lock().unwrap();
        let mut files = platter.synced.clone();
        // So may the entry of a file that was never synced.
        let lost: Vec<_> = platter.seen.keys().collect();
        let lost = lost.into_iter();
        let lost = lost.filter(|name| !files.contains_key(*name) && random.below(2) == 0);
        let lost: Vec<_> = lost.collect();
        let unsynced = platter.unsynced.iter();
        for (name, offset, bytes) in unsynced.filter(|(name, ..)| !lost.contains(&name)) {
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
        let machine = Machine {
            platter: Mutex::new(platter),
            let_go: Condvar::new(),
        };
        Self(Arc::new(machine))
    }

    /// Makes syncs wait, or lets them go on.
    fn hold(&self, held: bool) {
        self.0.platter.lock().unwrap().held = held;
        self.0.let_go.notify_all();
    }

    fn bytes(&self) -> usize {
        let platter = self.0.platter.lock().unwrap();
        platter.seen.values().map(Vec::len).sum()
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
        let mut platter = self.0.platter.lock().unwrap();
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
        let platter = self.0.platter.lock().unwrap();
        let held = |platter: &mut Platter| platter.held;
        let mut platter = self.0.let_go.wait_while(platter, held).unwrap();
        let bytes = platter.seen.get(name).cloned().unwrap_or_default();
        platter.synced.insert(name.to_owned(), bytes);
        platter.unsynced.retain(|(of, ..)| of != name);
        Ok(())
    }

    fn read(&self, name: &str, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let platter = self.0.platter.lock().unwrap();
        let file = platter.seen.get(name).ok_or(io::ErrorKind::NotFound)?;
        let start = (offset as usize).min(file.len());
        Ok(file[start..(start + len).min(file.len())].to_vec())
    }

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let platter = self.0.platter.lock().unwrap();
        let files = platter.seen.iter();
        Ok(files
            .map(|(name, file)| (name.clone(), file.len() as u64))
            .collect())
    }

    fn lock(&mut self, name: &str) -> io::Result<Option<u64>> {
        let mut platter = self.0.platter.lock().unwrap();
        if let Some(bytes) = platter.grows.take() {
            platter.seen.insert(name.to_owned(), bytes);
        }
        Ok(platter.seen.get(name).map(|file| file.len() as u64))
    }

    fn cut(&mut self, name: &str, len: u64) -> io::Result<()> {
        let mut platter = self.0.platter.lock().unwrap();
        let file = platter.seen.get_mut(name).ok_or(io::ErrorKind::NotFound)?;
        file.truncate(len as usize);
        Ok(())
    }
}

const ID: RecordingId = RecordingId(7);

/// A log with one recording and one track.
fn log(disk: &Disk) -> (Log, u32) {
    let mut log = Log::new(disk.clone(), (1, 2)).unwrap();
    log.begin(ID, "test", 0).unwrap();
    let track = log.track(TrackInfo {
        reliable: false,
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

/// A crash while the writer is between write and sync.
#[test]
fn a_crash_costs_at_most_the_part_that_is_written() {
    let (mut torn, mut nameless) = (0, 0);
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let disk = Disk::default();
        let (mut log, track) = log(&disk);
        let old = 300 * random.below(4) as u64;
        (0..old).for_each(|number| push(&mut log, track, number));
        wait(|| {
            if old > 0 {
                log.commit(old * 10 * MS);
            }
            log.safe() == old
        });
        disk.hold(true);
        let packets = old + 200 + random.below(500) as u64;
        (old..packets).for_each(|number| push(&mut log, track, number));
        wait(|| !disk.0.platter.lock().unwrap().unsynced.is_empty());
        assert_eq!(log.safe(), old);

        let mut crashed = disk.after_crash(&mut random);
        disk.hold(false);
        nameless += u64::from(crashed.list().unwrap().is_empty());
        torn += u64::from(crashed.bytes() > 0 && crashed.bytes() != disk.bytes());
        let found = count(&crashed);
        assert!(
            (old..packets).contains(&found),
            "seed {seed}: {found} of {old}"
        );
        assert!(!only(&crashed).is_some_and(|one| one.whole));

        // The next life ends what was interrupted, and finds the same.
        let expected = repair(&mut crashed, 1).unwrap();
        assert!(expected <= 1);
        assert_eq!(count(&crashed), found);
        assert_eq!(repair(&mut crashed, 2).unwrap(), 0);
    }
    assert!(torn > 30 && nameless > 0, "{torn}, {nameless}");
}

/// What a disk holds after a second of each of these was made safe.
fn parts(disk: &Disk, ends_in_order: bool) -> Vec<u8> {
    let (mut log, track) = log(disk);
    for number in 0..500 {
        push(&mut log, track, number);
        // Parts of a second each, none joined with the next.
        wait(|| log.safe() + 150 > number);
    }
    let now = 5_000 * MS;
    if ends_in_order {
        log.end(ID, now);
        log.close(now);
    } else {
        wait(|| {
            log.commit(now);
            log.safe() == 500
        });
    }
    let bytes = disk.0.platter.lock().unwrap().seen.clone();
    bytes.into_values().next().unwrap()
}

fn holding(bytes: Vec<u8>) -> Disk {
    let disk = Disk::default();
    let seen = Files::from([("000000000001-00000002-000000.log".to_owned(), bytes)]);
    disk.0.platter.lock().unwrap().seen = seen;
    disk
}

/// Where the record of a packet begins.
fn place(bytes: &[u8], number: u64) -> usize {
    let body = body(number);
    let at = bytes.windows(body.len()).position(|window| window == body);
    at.unwrap() - HEAD_LEN
}

/// Numbers of packets that a damaged recording gives, and how often it is damaged.
fn numbers(disk: &Disk) -> (Vec<u64>, u64) {
    let mut found = Vec::new();
    let gaps = only(disk).unwrap().read(disk, |_, record| {
        let number = u64::from_be_bytes(record.body[..8].try_into().unwrap());
        assert_eq!(record.body, body(number));
        found.push(number);
        true
    });
    (found, gaps.unwrap().count)
}

#[test]
fn a_flipped_bit_costs_its_packet_alone_and_is_counted() {
    for ends_in_order in [true, false] {
        let mut bytes = parts(&Disk::default(), ends_in_order);
        let at = place(&bytes, 140) + HEAD_LEN + 3;
        bytes[at] ^= 1;
        let (found, gaps) = numbers(&holding(bytes));
        let expected: Vec<_> = (0..500).filter(|number| *number != 140).collect();
        assert_eq!((found, gaps), (expected, 1), "{ends_in_order}");
    }
}

#[test]
fn behind_a_damaged_length_reading_goes_on_with_the_next_second() {
    for ends_in_order in [true, false] {
        let mut bytes = parts(&Disk::default(), ends_in_order);
        let at = place(&bytes, 140);
        bytes[at] ^= 0x80;
        let (found, gaps) = numbers(&holding(bytes));
        assert_eq!(gaps, 1);
        assert_eq!(found[..140], (0..140).collect::<Vec<_>>());
        assert!(found.len() > 380, "{}", found.len());
        assert_eq!(found.last(), Some(&499));
    }
}

#[test]
fn repair_keeps_what_stands_behind_damage() {
    let mut bytes = parts(&Disk::default(), false);
    let at = place(&bytes, 140);
    bytes[at] ^= 0x80;
    let mut disk = holding(bytes);
    let before = numbers(&disk);
    assert_eq!(repair(&mut disk, 1).unwrap(), 1);
    assert_eq!(numbers(&disk), before);
    assert_eq!(before.1, 1);
}

#[test]
fn repair_leaves_a_running_recorder_alone() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::new(folder.path());
    let mut log = Log::new(archive.medium().unwrap(), (1, 2)).unwrap();
    log.begin(ID, "test", 0).unwrap();
    log.commit(0);
    let path = folder.path().join("log/000000000001-00000002-000000.log");
    wait(|| path.metadata().is_ok_and(|file| file.len() > 0));
    assert_eq!(archive.repair(1).unwrap(), 0);
    log.end(ID, 5);
    log.close(5);
    assert!(archive.recordings().unwrap()[0].whole);
}

#[test]
fn repair_cuts_by_the_length_under_the_lock() {
    // While the segment is locked, all that its last writer wrote is there.
    let whole = parts(&Disk::default(), false);
    let disk = holding(whole[..place(&whole, 200)].to_vec());
    disk.0.platter.lock().unwrap().grows = Some(whole);
    assert_eq!(repair(&mut disk.clone(), 1).unwrap(), 1);
    assert_eq!(count(&disk), 500);
}

#[test]
fn reading_makes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mistyped");
    let archive = Archive::new(&path);
    assert_eq!(archive.recordings().unwrap(), []);
    assert_eq!(archive.repair(1).unwrap(), 0);
    assert!(!path.exists());
}

#[test]
fn a_name_that_cannot_be_read_back_is_refused() {
    let disk = Disk::default();
    let mut log = Log::new(disk.clone(), (1, 2)).unwrap();
    assert!(log.begin(ID, &"n".repeat(256), 0).is_err());
    log.begin(ID, &"n".repeat(255), 0).unwrap();
    log.end(ID, 1);
    log.close(1);
    assert_eq!(only(&disk).unwrap().name.len(), 255);
}

#[test]
fn what_waits_for_the_disk_is_bounded_with_what_was_handed_over() {
    let disk = Disk::default();
    let (mut log, track) = log(&disk);
    disk.hold(true);
    let body = vec![7; 1 << 20];
    for number in 0..200 {
        let record = Record {
            track,
            ..Record::new(Kind::Packet, number * 1_000 * MS, &body)
        };
        log.packet(&record);
        log.tick(number * 1_000 * MS);
    }
    // One in a record is a little more than a MiB.
    assert_eq!(log.packets(), (WAITING_MAX >> 20) as u64 - 1);
    assert_eq!(log.packets() + log.dropped(), 200);
    disk.hold(false);
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
    disk.0.platter.lock().unwrap().size = Some(50_000);
    let (mut log, track) = log(&disk);
    (0..1_000).for_each(|number| push(&mut log, track, number));
    wait(|| log.is_refused());
    assert!(log.safe() < 1_000 && log.dropped() == 0);
    disk.0.platter.lock().unwrap().size = None;
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
