//! The store against disks that forget what was not synced, and disks that are full.

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use redb::StorageBackend;
use sangam_io::wake::pair;

use super::*;

/// A disk in memory: what is written since the last sync may or may not survive a crash, each
/// write by itself.
#[derive(Clone, Debug, Default)]
struct Disk(Arc<Platter>);

#[derive(Debug, Default)]
struct Platter {
    synced: Mutex<Vec<u8>>,
    /// What a reader sees, and the writes and lengths that led there from `synced`.
    state: Mutex<(Vec<u8>, Vec<Write>)>,
    /// Bytes it takes; 0: any number.
    size: AtomicUsize,
}

#[derive(Clone, Debug)]
enum Write {
    Bytes(u64, Vec<u8>),
    Length(u64),
}

impl Write {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Length(len) => bytes.resize(*len as usize, 0),
            Self::Bytes(offset, data) => {
                let (start, end) = (*offset as usize, *offset as usize + data.len());
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[start..end].copy_from_slice(data);
            }
        }
    }
}

impl Disk {
    /// The disk after a loss of power: of what was not synced some writes have arrived.
    fn after_crash(&self, random: &mut u64) -> Self {
        let mut bytes = self.0.synced.lock().unwrap().clone();
        for write in &self.0.state.lock().unwrap().1 {
            if next(random).is_multiple_of(2) {
                write.apply(&mut bytes);
            }
        }
        let disk = Self::default();
        disk.0.synced.lock().unwrap().clone_from(&bytes);
        disk.0.state.lock().unwrap().0 = bytes;
        disk
    }

    fn store(&self) -> Store {
        let (disk, (waker, _)) = (self.clone(), pair().unwrap());
        let open = move || Builder::new().create_with_backend(disk.clone());
        Store::start(Path::new("a disk of a test"), Box::new(open), waker).unwrap()
    }

    fn write_one(&self, write: Write) -> io::Result<()> {
        let size = self.0.size.load(Ordering::Relaxed);
        let end = match &write {
            Write::Bytes(offset, data) => *offset as usize + data.len(),
            Write::Length(len) => *len as usize,
        };
        if size > 0 && end > size {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut state = self.0.state.lock().unwrap();
        write.apply(&mut state.0);
        state.1.push(write);
        Ok(())
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.state.lock().unwrap().0.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.0.state.lock().unwrap();
        let bytes = state.0.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.write_one(Write::Length(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.0.state.lock().unwrap();
        state.1.clear();
        self.0.synced.lock().unwrap().clone_from(&state.0);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_one(Write::Bytes(offset, data.to_vec()))
    }
}

fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}

fn record(sequence: u64) -> Record {
    Record {
        publisher: PublisherId(7),
        sequence,
        flags: RecordFlags::WHOLE,
        payload: sequence
            .to_be_bytes()
            .repeat(1 + sequence as usize % 60)
            .into(),
    }
}

fn append(index: u64) -> Change {
    Change::Append {
        topic: Topic::new("a/b").unwrap(),
        index,
        records: vec![record(index + 1)],
    }
}

fn trim(first: u64) -> Change {
    Change::Trim {
        topic: Topic::new("a/b").unwrap(),
        first,
        lasts: vec![(PublisherId(7), first)],
    }
}

/// What a keeper would know: the records by index, and how far the publisher was.
fn contents(store: &mut Store) -> (BTreeMap<u64, Record>, u64) {
    let mut records = BTreeMap::new();
    let mut last = 0;
    for restored in store.take_restored() {
        match restored {
            Input::Restored(_, index, record) => {
                last = last.max(record.sequence);
                records.insert(index, record);
            }
            Input::RestoredLast(_, _, sequence) => last = last.max(sequence),
            other => panic!("{other:?}"),
        }
    }
    (records, last)
}

#[test]
fn what_is_told_to_be_safe_survives_any_crash() {
    for seed in 1..40 {
        let mut random = seed;
        let disk = Disk::default();
        let mut store = disk.store();
        let mut changes = Vec::new();
        for index in 0..200 {
            changes.push(append(index));
            if next(&mut random).is_multiple_of(20) {
                changes.push(trim(index / 2));
            }
        }
        let crash_at = next(&mut random) % changes.len() as u64;
        for change in &changes {
            store.write(change.clone());
        }
        while store.safe() < crash_at {
            thread::yield_now();
        }
        // The disk first: what is safe then was safe before.
        let safe = store.safe();
        let crashed = disk.after_crash(&mut random);
        let (records, last) = contents(&mut crashed.store());
        let mut first = 0;
        let mut end = 0;
        for change in &changes[..safe as usize] {
            match change {
                Change::Append { index, .. } => end = index + 1,
                Change::Trim { first: at, .. } => first = *at,
                Change::Forget(_) => {}
            }
        }
        assert!(last >= end, "seed {seed}: {last} of {end}");
        // Later trims may have been made as well, as a whole.
        let kept = records.keys().next().copied().unwrap_or(last);
        assert!(kept >= first, "seed {seed}");
        let whole: Vec<u64> = (kept..last).collect();
        assert!(records.keys().copied().eq(whole), "seed {seed}");
        assert!(records.iter().all(|(index, one)| *one == record(index + 1)));
    }
}

#[test]
fn a_full_disk_makes_nothing_safe_until_there_is_room_and_loses_nothing() {
    let disk = Disk::default();
    let mut store = disk.store();
    let small = disk.0.state.lock().unwrap().0.len();
    disk.0.size.store(small, Ordering::Relaxed);
    let count = 4_000;
    for index in 0..count {
        store.write(append(index));
    }
    assert!(store.behind() > 0);
    disk.0.size.store(0, Ordering::Relaxed);
    while store.behind() > 0 {
        thread::yield_now();
    }
    drop(store);
    assert_eq!(contents(&mut disk.store()).1, count);
}

#[test]
fn a_forgotten_topic_is_gone_and_others_stay() {
    let disk = Disk::default();
    let mut store = disk.store();
    let other = Topic::new("a/bc").unwrap();
    store.write(append(0));
    store.write(Change::Append {
        topic: other.clone(),
        index: 5,
        records: vec![record(3)],
    });
    store.write(Change::Forget(Topic::new("a/b").unwrap()));
    drop(store);
    let restored = disk.store().take_restored();
    let expected = [format!("{:?}", Input::Restored(other, 5, record(3)))];
    assert!(restored.iter().map(|one| format!("{one:?}")).eq(expected));
}
