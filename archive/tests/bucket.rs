//! Films and objects in a bucket of an S3 server that is not ours, and what becomes of them when it
//! is busy, slow, or wrong.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod store;

use std::fs;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use sangam_archive::blocks::{
    BlockDisk, BlockError, LocalDisk, Look, Object, Settled, Store as Blocks,
};
use sangam_archive::bucket::{Bucket, bucket_counts};
use sangam_model::Random;
use sangam_placement::{Disk, DiskId, Disks, Layout, NodeId, Straw2};
use store::{Mood, Store, place};
use tempfile::TempDir;

const BLOCK: u32 = 65_800;
/// More than the store's own pause before it tries again.
const SECOND: Duration = Duration::from_secs(1);

fn film(layout: Layout) -> (Object, Vec<u8>) {
    let mut random = Random::new(9);
    let len = BLOCK as usize * 12 + 1_316;
    let words = (0..len / 4).flat_map(|_| (random.bits() as u32).to_be_bytes());
    let bytes: Vec<u8> = words.collect();
    let object = Object {
        id: random.bits(),
        name: "a film".to_owned(),
        bytes: bytes.len() as u64,
        block_len: BLOCK,
        layout,
    };
    (object, bytes)
}

fn placement(disks: u32) -> Box<Straw2> {
    let disk = |id| Disk {
        id: DiskId(id),
        node: NodeId(id),
        weight: 1,
    };
    Box::new(Straw2::new(Disks::new((0..disks).map(disk)).unwrap()))
}

/// So many disks: the first is in the bucket, the others are folders.
fn blocks(store: &Store, folder: &TempDir, disks: u32) -> Blocks {
    let disks_of = |id: u32| -> (DiskId, Box<dyn BlockDisk>) {
        let local = || LocalDisk::open(&folder.path().join(id.to_string())).unwrap();
        match id {
            0 => (DiskId(id), Box::new(store.bucket("disk"))),
            _ => (DiskId(id), Box::new(local())),
        }
    };
    Blocks::open((0..disks).map(disks_of), placement(disks)).unwrap()
}

#[track_caller]
fn is_whole(blocks: &Blocks, (object, bytes): &(Object, Vec<u8>)) {
    for (block, expected) in bytes.chunks(BLOCK as usize).enumerate() {
        let found = blocks.get(object, block as u64).unwrap();
        assert!(found == expected, "{block}");
    }
}

#[test]
fn objects_are_kept_read_by_ranges_listed_and_removed() {
    let store = Store::start();
    let bucket = store.bucket("a/b/");
    bucket.put("c/d", b"0123456789".to_vec()).unwrap();
    bucket.put("e", vec![7; 5 << 20]).unwrap();
    assert_eq!(bucket.get("c/d").unwrap(), b"0123456789");
    assert_eq!(bucket.range("c/d", 3, 4).unwrap(), b"3456");
    assert_eq!(bucket.len_of("e").unwrap(), 5 << 20);
    let mut all = bucket.list().unwrap();
    all.sort();
    assert_eq!(all, [("c/d".to_owned(), 10), ("e".to_owned(), 5 << 20)]);
    assert_eq!(store.bucket("elsewhere").list().unwrap(), []);
    bucket.put("c/d", b"again".to_vec()).unwrap();
    assert_eq!(bucket.get("c/d").unwrap(), b"again");
    bucket.remove("c/d").unwrap();
    bucket.remove("c/d").unwrap();
    assert_eq!(bucket.get("c/d").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(
        bucket.range("c/d", 0, 4).unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn a_busy_store_is_asked_again_and_after_seconds_told_of() {
    let store = Store::start();
    let bucket = store.bucket("a");
    bucket.put("b", b"bytes".to_vec()).unwrap();
    let before = bucket_counts();
    store.set(Mood::Busy);
    let begin = Instant::now();
    let read = {
        let bucket = bucket.clone();
        std::thread::spawn(move || bucket.get("b"))
    };
    while store.unkind() < 2 {
        std::thread::yield_now();
    }
    store.set(Mood::Kind);
    assert_eq!(read.join().unwrap().unwrap(), b"bytes");
    assert!(begin.elapsed() < 8 * SECOND);
    let counts = bucket_counts();
    assert!(counts.failed >= before.failed + 2);
    assert!(counts.requests > counts.failed);

    store.set(Mood::Busy);
    let begin = Instant::now();
    for failed in [bucket.get("b").map(drop), bucket.put("b", vec![1])] {
        let said = failed.unwrap_err().to_string();
        assert!(
            said.contains("s3://films/a: the store says SlowDown"),
            "{said}"
        );
    }
    assert!(begin.elapsed() < 30 * SECOND, "{:?}", begin.elapsed());
    store.set(Mood::Kind);
    assert_eq!(bucket.get("b").unwrap(), b"bytes");
}

#[test]
fn who_is_not_let_in_is_told_and_his_secret_is_not() {
    let store = Store::start();
    let mut settings = store.settings();
    settings[2].1 = "a-wrong-secret".to_owned();
    let bucket = Bucket::with(&place("a"), settings).unwrap();
    let error = bucket.list().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    let said = format!("{error} {error:?} {bucket:?}");
    assert!(said.contains("SignatureDoesNotMatch") && said.contains("AWS_SECRET_ACCESS_KEY"));
    assert!(!said.contains("a-wrong-secret"), "{said}");
    let missing = Bucket::with("s3://nowhere/a", store.settings()).unwrap();
    let said = missing.list().unwrap_err().to_string();
    assert!(said.contains("NoSuchBucket"), "{said}");
    let closed = [(
        "AWS_ENDPOINT_URL".to_owned(),
        "http://127.0.0.1:9".to_owned(),
    )];
    let settings = store.settings().into_iter().chain(closed);
    let closed = Bucket::with(&place("a"), settings).unwrap();
    assert_eq!(
        closed.list().unwrap_err().kind(),
        ErrorKind::HostUnreachable
    );
}

#[test]
fn a_film_lies_on_folders_and_a_bucket_alike() {
    for layout in [Layout::Copies(2), Layout::Parity(3)] {
        let (store, folder, film) = (Store::start(), TempDir::new().unwrap(), film(layout));
        let all = blocks(&store, &folder, 4);
        all.put(&film.0, &film.1[..]).unwrap();
        is_whole(&all, &film);
        let objects = fs::read_dir(store.files(&format!("disk/{:016x}", film.0.id)));
        assert!(objects.unwrap().count() > 1);
        // What was put is found by who comes later, and nothing is to be done.
        let again = blocks(&store, &folder, 4);
        assert_eq!(again.objects(), [(film.0.clone(), true)]);
        for stripe in 0..film.0.stripes() {
            let settled = again.settle(&film.0, stripe, Look::Content).unwrap();
            assert_eq!(settled, Settled::default());
        }
        again.remove(film.0.id).unwrap();
        assert_eq!(store.bucket("disk").list().unwrap(), []);
    }
}

#[test]
fn what_a_store_gives_wrong_or_short_is_made_of_the_others() {
    let (store, folder, film) = (
        Store::start(),
        TempDir::new().unwrap(),
        film(Layout::Parity(3)),
    );
    let all = blocks(&store, &folder, 4);
    all.put(&film.0, &film.1[..]).unwrap();
    for mood in [Mood::Wrong, Mood::Short] {
        store.set(mood);
        let before = store.unkind();
        is_whole(&all, &film);
        assert!(store.unkind() > before);
    }
}

#[test]
fn a_store_that_is_busy_for_long_harms_nothing() {
    let (store, folder, film) = (
        Store::start(),
        TempDir::new().unwrap(),
        film(Layout::Copies(1)),
    );
    let all = blocks(&store, &folder, 1);
    all.put(&film.0, &film.1[..]).unwrap();
    store.set(Mood::Busy);
    let read = all.get(&film.0, 0);
    let Err(BlockError::Unread(_, DiskId(0), error)) = read else {
        panic!("{read:?}");
    };
    assert!(error.to_string().contains("SlowDown"), "{error}");
    // Who moves blocks meanwhile removes nothing, and says why.
    let failed = all
        .settle(&film.0, 0, Look::Content)
        .unwrap_err()
        .to_string();
    assert!(failed.contains("SlowDown"), "{failed}");
    store.set(Mood::Kind);
    is_whole(&all, &film);
}

#[test]
fn nobody_waits_for_a_slow_store_while_there_is_a_parity() {
    let (store, folder, film) = (
        Store::start(),
        TempDir::new().unwrap(),
        film(Layout::Parity(3)),
    );
    let all = blocks(&store, &folder, 4);
    all.put(&film.0, &film.1[..]).unwrap();
    store.set(Mood::Slow(5 * SECOND));
    let begin = Instant::now();
    is_whole(&all, &film);
    // Once for its first read; then it is not asked until that has come back.
    assert!(begin.elapsed() < 4 * SECOND, "{:?}", begin.elapsed());
    assert_eq!(all.late(DiskId(0)), Some(1));
}
