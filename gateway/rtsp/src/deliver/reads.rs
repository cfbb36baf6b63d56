//! Threads that read blocks: those of each disk in queues of their own, the one first that is due
//! first. A disk that is slow holds up what lies there alone, and nothing else.

use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use sangam_archive::films::{Film, Films};
use sangam_io::wake::Waker;
use sangam_model::Time;

use super::work::Command;
use super::{Key, Totals};

/// Readers of one queue: while one checks what it read, the other reads.
const THREADS: usize = 2;
/// Disks with queues of their own; those beyond share them.
const QUEUES_MAX: u32 = 64;
/// Blocks of one queue that wait to be read; beyond, streams ask again.
const WAITING_MAX: usize = 8_192;

/// A block that somebody wants.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) key: Key,
    pub(crate) film: Arc<Film>,
    pub(crate) block: u64,
    /// The disk where it belongs.
    pub(crate) disk: u32,
    /// When its first datagram is to be sent.
    pub(crate) due: Time,
}

/// A block that was read, or cannot be.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) key: Key,
    pub(crate) block: u64,
    pub(crate) bytes: Option<Arc<Vec<u8>>>,
}

/// The threads.
#[derive(Debug)]
pub(crate) struct Reads {
    /// By disk, and whether blocks lie there alone: such a block is waited for as long as it takes,
    /// and those for which there is another way must not stand behind it.
    queues: HashMap<(u32, bool), Lane>,
    films: Arc<Films>,
    outbox: Sender<Command>,
    waker: Waker,
    totals: Arc<Totals>,
}

/// The queue of a disk, and who reads it.
#[derive(Debug)]
struct Lane {
    queue: Arc<Queue<Wanted>>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Queue<T> {
    inner: Mutex<Inner<T>>,
    filled: Condvar,
}

#[derive(Debug)]
struct Inner<T> {
    waiting: BinaryHeap<Place<T>>,
    is_over: bool,
}

/// The earliest is the greatest.
#[derive(Debug)]
struct Place<T> {
    due: Time,
    job: T,
}

impl<T> Ord for Place<T> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        other.due.cmp(&self.due)
    }
}

impl<T> PartialOrd for Place<T> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Place<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Place<T> {}

impl Reads {
    /// For who hands what was read to the sender and wakes it. There are no threads before the
    /// first wish.
    pub(crate) fn new(
        films: &Arc<Films>,
        (outbox, waker): (&Sender<Command>, &Waker),
        totals: &Arc<Totals>,
    ) -> Self {
        Self {
            queues: HashMap::new(),
            films: films.clone(),
            outbox: outbox.clone(),
            waker: waker.clone(),
            totals: totals.clone(),
        }
    }

    /// Wants a block; false if too many of its disk wait.
    pub(crate) fn want(&mut self, wanted: Wanted) -> bool {
        let is_alone = wanted.film.object.layout.width() == 1;
        let number = (wanted.disk % QUEUES_MAX, is_alone);
        if !self.queues.contains_key(&number) {
            match self.start() {
                Ok(lane) => drop(self.queues.insert(number, lane)),
                Err(error) => {
                    tracing::warn!(%error, "a disk is not read: no thread for it");
                    return false;
                }
            }
        }
        let due = wanted.due;
        let lane = self.queues.get(&number);
        lane.is_some_and(|lane| lane.queue.push(due, wanted))
    }

    fn start(&self) -> io::Result<Lane> {
        let mut lane = Lane {
            queue: Arc::new(Queue::new()),
            threads: Vec::new(),
        };
        for _ in 0..THREADS {
            let (queue, films, totals) =
                (lane.queue.clone(), self.films.clone(), self.totals.clone());
            let (outbox, waker) = (self.outbox.clone(), self.waker.clone());
            let thread = thread::Builder::new().name("sangam-blocks".to_owned());
            lane.threads.push(thread.spawn(move || {
                while let Some(wanted) = queue.next() {
                    let got = read(&films, wanted, &totals);
                    if outbox.send(Command::Got(got)).is_err() {
                        return;
                    }
                    waker.wake();
                }
            })?);
        }
        Ok(lane)
    }
}

impl<T> Queue<T> {
    fn new() -> Self {
        let inner = Inner {
            waiting: BinaryHeap::new(),
            is_over: false,
        };
        Self {
            inner: Mutex::new(inner),
            filled: Condvar::new(),
        }
    }

    fn push(&self, due: Time, job: T) -> bool {
        let mut inner = self.lock();
        let has_room = inner.waiting.len() < WAITING_MAX;
        if has_room {
            inner.waiting.push(Place { due, job });
            self.filled.notify_one();
        }
        has_room
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<T> {
        let mut inner = self.lock();
        loop {
            if inner.is_over {
                return None;
            }
            if let Some(place) = inner.waiting.pop() {
                return Some(place.job);
            }
            let woken = self.filled.wait(inner);
            inner = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Reads {
    fn drop(&mut self) {
        // All are told before the first is waited for.
        self.queues.values().for_each(Lane::end);
    }
}

impl Lane {
    fn end(&self) {
        self.queue.lock().is_over = true;
        self.queue.filled.notify_all();
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.end();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a reader of blocks had panicked");
            }
        }
    }
}

fn read(films: &Films, wanted: Wanted, totals: &Totals) -> Got {
    let Wanted {
        key, film, block, ..
    } = wanted;
    let read = films.share_block(&film, block, true);
    let read = read.inspect_err(|error| tracing::warn!(%error, block, "a block is lost"));
    let bytes = read.ok().map(|(bytes, _)| bytes);
    match &bytes {
        Some(bytes) => totals.read_bytes.add(bytes.len() as u64),
        None => totals.lost_blocks.one(),
    }
    Got { key, block, bytes }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_earliest_is_read_first() {
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let queue = Queue::new();
        for (job, due) in [(0, 30), (1, 10), (2, 20)] {
            assert!(queue.push(at(due), job));
        }
        assert_eq!([(); 3].map(|()| queue.next()), [Some(1), Some(2), Some(0)]);
        queue.lock().is_over = true;
        assert_eq!(queue.next(), None);
    }
}
