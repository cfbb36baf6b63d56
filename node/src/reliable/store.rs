//! Records on disk: written in batches by a thread of its own, and given back after a restart.
//!
//! Nothing counts as safe before the transaction that holds it is on the disk. What waits is
//! bounded by what topics may hold: a log lets nothing go that is not safe.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use redb::{Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition};
use sangam_io::wake::Waker;
use sangam_model::{PublisherId, Topic};
use sangam_reliable::{Change, Input};
use sangam_wire::{Record, RecordFlags};

/// By topic and index: publisher, sequence, flags, payload.
const RECORDS: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("records");
/// By topic and publisher: the last of its records that were let go.
const LASTS: TableDefinition<'_, (&str, u64), u64> = TableDefinition::new("lasts");
/// Changes of one transaction.
const BATCH: usize = 4_096;
/// Bytes of the store's cache: records are written once and read once.
const CACHE: usize = 8 << 20;
/// The pause before what the disk refused is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// Bytes before the payload of a record.
const HEAD: usize = 17;

/// Why a store cannot be used.
#[derive(Debug)]
pub struct StoreError {
    path: PathBuf,
    source: redb::Error,
}

/// The store as the thread of reliable topics sees it. Dropping it writes what waits.
#[derive(Debug)]
pub(crate) struct Store {
    changes: Option<Sender<Change>>,
    shared: Arc<Shared>,
    restored: Vec<Input>,
    asked: u64,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Changes that are safe.
    safe: AtomicU64,
    stopping: AtomicBool,
}

/// What opens the database, again after the disk refused something.
type Open = Box<dyn Fn() -> Result<Database, DatabaseError> + Send>;

struct Writer {
    path: PathBuf,
    open: Open,
    database: Option<Database>,
    changes: Receiver<Change>,
    shared: Arc<Shared>,
    waker: Waker,
}

impl Store {
    /// Opens the store at `path`, or makes it. `waker` is woken when more is safe.
    ///
    /// # Errors
    /// The file cannot be opened, is another program's, or damaged.
    pub(crate) fn open(path: &Path, waker: Waker) -> Result<Self, StoreError> {
        let file = path.to_owned();
        let open = move || Builder::new().set_cache_size(CACHE).create(&file);
        Self::start(path, Box::new(open), waker).map_err(|source| StoreError {
            path: path.to_owned(),
            source,
        })
    }

    fn start(path: &Path, open: Open, waker: Waker) -> Result<Self, redb::Error> {
        let database = open()?;
        let restored = read(&database)?;
        let (changes, inbox) = channel();
        let shared = Arc::new(Shared::default());
        let writer = Writer {
            path: path.to_owned(),
            open,
            database: Some(database),
            changes: inbox,
            shared: shared.clone(),
            waker,
        };
        let thread = thread::Builder::new().name("sangam-store".to_owned());
        Ok(Self {
            changes: Some(changes),
            shared,
            restored,
            asked: 0,
            thread: Some(thread.spawn(move || writer.run())?),
        })
    }

    /// What an earlier life has written, for a keeper.
    pub(crate) fn take_restored(&mut self) -> Vec<Input> {
        std::mem::take(&mut self.restored)
    }

    /// Has a change written.
    pub(crate) fn write(&mut self, change: Change) {
        self.asked += 1;
        if let Some(changes) = &self.changes {
            // The writer ends only with this end.
            let _ = changes.send(change);
        }
    }

    /// How many of the changes are safe.
    pub(crate) fn safe(&self) -> u64 {
        self.shared.safe.load(Ordering::Acquire)
    }

    /// How many are not, yet.
    pub(crate) fn behind(&self) -> u64 {
        self.asked - self.safe()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.changes = None;
        self.shared.stopping.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("the store of reliable topics had panicked");
            }
        }
    }
}

impl Writer {
    fn run(mut self) {
        while let Ok(first) = self.changes.recv() {
            let mut batch = vec![first];
            batch.extend(self.changes.try_iter().take(BATCH - 1));
            while let Err(error) = self.commit(&batch) {
                tracing::error!(
                    %error,
                    file = %self.path.display(),
                    waiting = batch.len(),
                    "records of reliable topics cannot be written, and their publishers wait: \
                     make room on the disk of this file; nothing else stops"
                );
                if self.shared.stopping.load(Ordering::Acquire) {
                    return;
                }
                thread::park_timeout(AGAIN);
            }
            let count = batch.len() as u64;
            self.shared.safe.fetch_add(count, Ordering::Release);
            self.waker.wake();
        }
    }

    /// Makes a batch of changes, or none of them.
    fn commit(&mut self, batch: &[Change]) -> Result<(), redb::Error> {
        // After a failure of the disk only a new opening tells what is there.
        let database = match self.database.take() {
            Some(database) => database,
            None => (self.open)()?,
        };
        let transaction = database.begin_write()?;
        {
            let mut records = transaction.open_table(RECORDS)?;
            let mut lasts = transaction.open_table(LASTS)?;
            for change in batch {
                match change {
                    Change::Append {
                        topic,
                        index,
                        records: fresh,
                    } => {
                        for (index, record) in (*index..).zip(fresh) {
                            let value = to_bytes(record);
                            records.insert((topic.as_str(), index), value.as_slice())?;
                        }
                    }
                    Change::Trim {
                        topic,
                        first,
                        lasts: gone,
                    } => {
                        let topic = topic.as_str();
                        records.retain_in((topic, 0)..(topic, *first), |_, _| false)?;
                        for (publisher, last) in gone {
                            lasts.insert((topic, publisher.0), *last)?;
                        }
                    }
                    Change::Forget(topic) => {
                        let topic = topic.as_str();
                        records.retain_in((topic, 0)..=(topic, u64::MAX), |_, _| false)?;
                        lasts.retain_in((topic, 0)..=(topic, u64::MAX), |_, _| false)?;
                    }
                }
            }
        }
        transaction.commit()?;
        self.database = Some(database);
        Ok(())
    }
}

/// All that is stored, the records first.
fn read(database: &Database) -> Result<Vec<Input>, redb::Error> {
    let transaction = database.begin_write()?;
    // A new store has no tables yet.
    transaction.open_table(RECORDS)?;
    transaction.open_table(LASTS)?;
    transaction.commit()?;
    let transaction = database.begin_read()?;
    let records = transaction.open_table(RECORDS)?;
    let mut restored = Vec::new();
    for entry in records.iter()? {
        let (key, value) = entry?;
        let (name, index) = key.value();
        let record = Topic::new(name).ok().zip(from_bytes(value.value()));
        restored.extend(record.map(|(topic, record)| Input::Restored(topic, index, record)));
    }
    for entry in transaction.open_table(LASTS)?.iter()? {
        let (key, last) = entry?;
        let (name, publisher) = key.value();
        let topic = Topic::new(name).ok();
        let last = |topic| Input::RestoredLast(topic, PublisherId(publisher), last.value());
        restored.extend(topic.map(last));
    }
    Ok(restored)
}

fn to_bytes(record: &Record) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD + record.payload.len());
    bytes.extend_from_slice(&record.publisher.0.to_be_bytes());
    bytes.extend_from_slice(&record.sequence.to_be_bytes());
    bytes.push(record.flags.bits());
    bytes.extend_from_slice(&record.payload);
    bytes
}

fn from_bytes(bytes: &[u8]) -> Option<Record> {
    let (publisher, rest) = bytes.split_first_chunk()?;
    let (sequence, rest) = rest.split_first_chunk()?;
    let (flags, payload) = rest.split_first()?;
    Some(Record {
        publisher: PublisherId(u64::from_be_bytes(*publisher)),
        sequence: u64::from_be_bytes(*sequence),
        flags: RecordFlags::from_bits(*flags),
        payload: Arc::from(payload),
    })
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, source } = self;
        let path = path.display();
        write!(
            f,
            "the store of reliable topics {path} cannot be used: {source}; check the disk and who \
             holds the file, or set reliable.durable = false"
        )
    }
}

impl std::error::Error for StoreError {}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
