//! Films on real folders that stand for disks: lost, damaged, added and taken away, interrupted.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sangam_archive::blocks::{
    BlockDisk, BlockError, Cache, LocalDisk, Look, Object, PieceId, Settled, Store,
};
use sangam_model::Random;
use sangam_placement::{Disk, DiskId, Disks, Layout, NodeId, Straw2};
use tempfile::TempDir;

/// A packet of a transport stream within RTP, and so many in a block.
const PACKET: usize = 1_316;
const BLOCK: u32 = 50 * PACKET as u32;

struct Folders(TempDir);

impl Folders {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self, disk: u32) -> PathBuf {
        self.0.path().join(disk.to_string())
    }

    fn disk(&self, disk: u32) -> (DiskId, Box<dyn BlockDisk>) {
        let local = LocalDisk::open(&self.path(disk)).unwrap();
        (DiskId(disk), Box::new(local))
    }

    fn store(&self, disks: impl IntoIterator<Item = u32> + Clone) -> Store {
        let all = disks.clone().into_iter().map(|disk| self.disk(disk));
        Store::open(all, placement(disks)).unwrap()
    }
}

fn placement(disks: impl IntoIterator<Item = u32>) -> Box<Straw2> {
    let disk = |id| Disk {
        id: DiskId(id),
        node: NodeId(id / 2),
        weight: 1,
    };
    Box::new(Straw2::new(
        Disks::new(disks.into_iter().map(disk)).unwrap(),
    ))
}

/// A film of 40 blocks and a piece, and what it is to be.
fn film(layout: Layout) -> (Object, Vec<u8>) {
    let mut random = Random::new(9);
    let len = BLOCK as usize * 40 + 7 * PACKET;
    let bytes: Vec<u8> = (0..len / 4)
        .flat_map(|_| (random.bits() as u32).to_be_bytes())
        .collect();
    let object = Object {
        id: random.bits(),
        name: "a film".to_owned(),
        bytes: bytes.len() as u64,
        block_len: BLOCK,
        layout,
    };
    (object, bytes)
}

#[track_caller]
fn is_whole(store: &Store, (object, bytes): &(Object, Vec<u8>)) {
    for (block, expected) in bytes.chunks(BLOCK as usize).enumerate() {
        assert!(
            store.get(object, block as u64).unwrap() == expected,
            "{block}"
        );
    }
}

fn settle(store: &Store, object: &Object) -> Settled {
    let mut sum = Settled::default();
    for stripe in 0..object.stripes() {
        let one = store.settle(object, stripe, Look::Content).unwrap();
        sum.written += one.written;
        sum.moved += one.moved;
        sum.rebuilt += one.rebuilt;
        sum.removed += one.removed;
    }
    sum
}

const LAYOUTS: [Layout; 2] = [Layout::Copies(2), Layout::Parity(3)];

#[test]
fn a_dead_disk_is_survived_and_rebuilt() {
    for layout in LAYOUTS {
        let (folders, film) = (Folders::new(), film(layout));
        let mut store = folders.store(0..8);
        store.put(&film.0, &film.1[..]).unwrap();
        is_whole(&store, &film);

        store.detach(DiskId(3));
        fs::remove_dir_all(folders.path(3)).unwrap();
        is_whole(&store, &film);

        store.place(placement((0..8).filter(|disk| *disk != 3)));
        let settled = settle(&store, &film.0);
        assert!(settled.rebuilt > 0);
        is_whole(&store, &film);
        // As good as new: another may die.
        store.detach(DiskId(6));
        is_whole(&store, &film);
    }
}

#[test]
fn damaged_pieces_are_never_given_out_and_are_made_again() {
    for layout in LAYOUTS {
        let (folders, film) = (Folders::new(), film(layout));
        folders.store(0..8).put(&film.0, &film.1[..]).unwrap();
        let damaged = damage(&folders.path(2));
        let store = folders.store(0..8);
        is_whole(&store, &film);
        assert_eq!(settle(&store, &film.0).rebuilt, damaged);
        assert_eq!(settle(&store, &film.0), Settled::default());
    }
}

/// Flips a bit in every piece of a disk; how many.
fn damage(disk: &Path) -> u64 {
    let mut random = Random::new(4);
    let mut damaged = 0;
    for folder in fs::read_dir(disk).unwrap() {
        for piece in fs::read_dir(folder.unwrap().path()).unwrap() {
            let path = piece.unwrap().path();
            let mut bytes = fs::read(&path).unwrap();
            // Of what is checked: the head, or the first bytes of the data.
            let place = [random.below(320), 4_096 + random.below(PACKET)][random.below(2)];
            bytes[place] ^= 1 << random.below(8);
            fs::write(&path, bytes).unwrap();
            damaged += 1;
        }
    }
    damaged
}

#[test]
fn the_catalogue_is_in_the_pieces() {
    let (folders, film) = (Folders::new(), film(Layout::Parity(3)));
    folders.store(0..8).put(&film.0, &film.1[..]).unwrap();
    assert_eq!(folders.store(0..8).objects(), [(film.0, true)]);
}

#[test]
fn a_film_that_was_not_put_to_its_end_is_not_whole() {
    for layout in LAYOUTS {
        let (folders, film) = (Folders::new(), film(layout));
        let half = &film.1[..film.1.len() / 2];
        let done = folders.store(0..8).put(&film.0, half);
        assert!(matches!(done, Err(BlockError::Source(_))));
        assert_eq!(folders.store(0..8).objects(), [(film.0, false)]);
    }
}

#[test]
fn a_film_that_is_put_again_is_read_anew() {
    let (folders, mut film) = (Folders::new(), film(Layout::Copies(2)));
    let store = folders.store(0..4);
    store.put(&film.0, &film.1[..]).unwrap();
    assert_eq!(store.share(&film.0, 0).unwrap()[..4], film.1[..4]);
    film.1[0] ^= 1;
    store.put(&film.0, &film.1[..]).unwrap();
    assert_eq!(store.share(&film.0, 0).unwrap()[..4], film.1[..4]);
}

#[test]
fn what_was_not_written_to_its_end_is_removed() {
    let (folders, film) = (Folders::new(), film(Layout::Copies(2)));
    let store = folders.store(0..2);
    store.put(&film.0, &film.1[..]).unwrap();
    let fresh = folders.path(0).join(format!("{:016x}/ff-0.new", film.0.id));
    fs::write(&fresh, "a piece of a piece").unwrap();
    is_whole(&folders.store(0..2), &film);
    assert!(!fresh.exists());
}

#[test]
fn a_name_that_does_not_fit_is_refused() {
    let (folders, mut film) = (Folders::new(), film(Layout::Copies(2)));
    film.0.name = "\u{e9}".repeat(128);
    let done = folders.store(0..2).put(&film.0, &film.1[..]);
    assert!(matches!(done, Err(BlockError::Name)));
}

/// A disk of a machine that dies after so many more writes.
struct Dying {
    disk: LocalDisk,
    left: Arc<AtomicU64>,
}

impl BlockDisk for Dying {
    fn put(&self, id: PieceId, bytes: &[u8]) -> io::Result<()> {
        self.step()?;
        self.disk.put(id, bytes)
    }

    fn get(&self, id: PieceId) -> io::Result<Vec<u8>> {
        self.disk.get(id)
    }

    fn remove(&self, id: PieceId) -> io::Result<()> {
        self.step()?;
        self.disk.remove(id)
    }

    fn list(&self) -> io::Result<Vec<PieceId>> {
        self.disk.list()
    }

    fn clear(&self) -> io::Result<()> {
        self.disk.clear()
    }
}

impl Dying {
    fn step(&self) -> io::Result<()> {
        let left = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            });
        left.map(drop).map_err(|_| io::Error::other("dead"))
    }
}

/// A disk that answers after so long.
struct Slow {
    disk: LocalDisk,
    time: Duration,
}

impl BlockDisk for Slow {
    fn put(&self, id: PieceId, bytes: &[u8]) -> io::Result<()> {
        self.disk.put(id, bytes)
    }

    fn get(&self, id: PieceId) -> io::Result<Vec<u8>> {
        let until = Instant::now() + self.time;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            std::thread::park_timeout(left);
        }
        self.disk.get(id)
    }

    fn remove(&self, id: PieceId) -> io::Result<()> {
        self.disk.remove(id)
    }

    fn list(&self) -> io::Result<Vec<PieceId>> {
        self.disk.list()
    }

    fn clear(&self) -> io::Result<()> {
        self.disk.clear()
    }
}

/// Over so many folders, the first of which is slow.
fn slow(folders: &Folders, disks: u32, time: Duration) -> Store {
    let disk = LocalDisk::open(&folders.path(0)).unwrap();
    let slow: Box<dyn BlockDisk> = Box::new(Slow { disk, time });
    let all = (1..disks).map(|id| folders.disk(id));
    Store::open(all.chain([(DiskId(0), slow)]), placement(0..disks)).unwrap()
}

#[test]
fn nobody_waits_for_a_slow_disk_while_there_is_another_way() {
    for layout in LAYOUTS {
        let (folders, film) = (Folders::new(), film(layout));
        folders.store(0..8).put(&film.0, &film.1[..]).unwrap();
        let store = slow(&folders, 8, Duration::from_secs(4));
        let begin = Instant::now();
        is_whole(&store, &film);
        // Once for its first read; it is not asked until that has come back.
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(4), "{took:?}");
        assert_eq!(store.late(DiskId(0)), Some(1));
        // Whoever checks it waits, and finds nothing wrong.
        assert_eq!(
            store.settle(&film.0, 0, Look::Content).unwrap(),
            Settled::default()
        );
    }
}

#[test]
fn what_a_slow_disk_alone_has_is_waited_for() {
    let (folders, film) = (Folders::new(), film(Layout::Copies(1)));
    folders.store(0..1).put(&film.0, &film.1[..]).unwrap();
    let store = slow(&folders, 1, Duration::from_millis(1_500));
    let soon = store.share_soon(&film.0, 0, Instant::now());
    let Err(BlockError::Unread(_, DiskId(0), error)) = soon else {
        panic!("{soon:?}");
    };
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(store.share(&film.0, 0).unwrap()[..4], film.1[..4]);
}

#[test]
fn movement_goes_on_after_a_crash_at_any_point() {
    for (layout, crash_after) in [(LAYOUTS[0], 5), (LAYOUTS[1], 12), (LAYOUTS[0], 30)] {
        let (folders, film) = (Folders::new(), film(layout));
        folders.store(0..8).put(&film.0, &film.1[..]).unwrap();
        // A disk goes and two come.
        let left = Arc::new(AtomicU64::new(crash_after));
        let dying = (0..10).map(|id| {
            let disk = LocalDisk::open(&folders.path(id)).unwrap();
            let left = left.clone();
            (
                DiskId(id),
                Box::new(Dying { disk, left }) as Box<dyn BlockDisk>,
            )
        });
        let store = Store::open(dying, placement(1..10)).unwrap();
        let failed = (0..film.0.stripes()).map(|stripe| store.settle(&film.0, stripe, Look::Name));
        let failed = failed.filter(Result::is_err).count();
        assert!(failed > 0);
        is_whole(&store, &film);
        drop(store);

        let mut store = folders.store(0..10);
        store.place(placement(1..10));
        is_whole(&store, &film);
        assert!(settle(&store, &film.0).moved > 0);
        assert_eq!(settle(&store, &film.0), Settled::default());
        // The disk that goes is empty.
        assert_eq!(folders.disk(0).1.list().unwrap(), []);
        store.detach(DiskId(0));
        is_whole(&store, &film);
    }
}

#[test]
fn a_block_is_read_once_for_all_who_play_it() {
    let (folders, film) = (Folders::new(), film(Layout::Copies(2)));
    let store = folders.store(0..4);
    store.put(&film.0, &film.1[..]).unwrap();
    let first = store.share(&film.0, 3).unwrap();
    (0..4).for_each(|disk| fs::remove_dir_all(folders.path(disk)).unwrap());
    let second = store.share(&film.0, 3).unwrap();
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!(store.cache().users(film.0.id, 3), 2);
    assert!(matches!(store.share(&film.0, 4), Err(BlockError::Lost(_))));
}

#[test]
fn too_few_disks_are_told() {
    let (folders, film) = (Folders::new(), film(Layout::Parity(3)));
    let done = folders.store(0..3).put(&film.0, &film.1[..]);
    assert!(matches!(done, Err(BlockError::TooFewDisks)));
}

#[test]
fn blocks_in_use_stay_in_the_cache() {
    let cache = Cache::new(2);
    let read = |block: u64| {
        cache
            .get((1, block), || Ok::<_, ()>(vec![block as u8]))
            .unwrap()
    };
    let held = read(0);
    (1..5).for_each(|block| drop(read(block)));
    assert_eq!((cache.users(1, 0), cache.users(1, 4)), (1, 0));
    let again = read(0);
    assert!(Arc::ptr_eq(&held, &again));
    assert_eq!(cache.users(1, 0), 2);
    assert_eq!(cache.counts(), (2, 1));
}
