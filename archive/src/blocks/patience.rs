//! Reads of one disk: the most urgent first, and none that is waited for longer than one can.
//!
//! What is played has a time by which it is wanted; who moves blocks or looks after them has none,
//! and reads when no stream waits. So movement takes what streams leave of a disk, however fast it
//! is told to be.

use std::cmp::Ordering as Order;
use std::collections::BinaryHeap;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::disk::BlockDisk;
use super::piece::PieceId;

/// While a piece may be elsewhere: a film's block lasts 1.5 s, and the next one is read ahead.
const SOON: Duration = Duration::from_secs(1);
/// When it is nowhere else.
const AT_LAST: Duration = Duration::from_secs(30);
/// Reads that may wait for one disk. Beyond, it is not asked.
const WAITING_MAX: usize = 256;

/// How long a read is waited for, and by when it is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Patience {
    /// As long as a player can, and a disk that is late with another read is not asked at all;
    /// otherwise as long as anybody would.
    is_short: bool,
    /// `None`: no stream waits for it.
    by: Option<Instant>,
}

/// A disk that may be slow.
pub(super) struct Patient {
    disk: Arc<dyn BlockDisk>,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    queue: Mutex<Queue>,
    /// Reads that have not come back, for which somebody has waited in vain.
    late: AtomicUsize,
    /// How many were waited for in vain so far.
    all_late: AtomicU64,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: BinaryHeap<Job>,
    /// Threads that read.
    readers: usize,
    /// Reads there were so far.
    count: u64,
}

/// A read that has not begun.
#[derive(Debug)]
struct Job {
    id: PieceId,
    by: Option<Instant>,
    number: u64,
    ticket: Arc<Ticket>,
    outbox: SyncSender<io::Result<Vec<u8>>>,
}

/// What a reader and whoever waits for him tell each other.
#[derive(Debug, Default)]
struct Ticket {
    begun: OnceLock<Instant>,
    /// Nobody waits any more, and the disk is to blame.
    is_late: AtomicBool,
}

impl Patience {
    /// A stream's, which wants the piece by then and may find it elsewhere.
    pub(super) const fn soon(by: Instant) -> Self {
        let by = Some(by);
        Self { is_short: true, by }
    }

    /// Of whoever moves blocks or looks after them.
    pub(super) const IDLE: Self = Self {
        is_short: false,
        by: None,
    };

    /// While a piece may be elsewhere.
    pub(super) const fn short(self) -> Self {
        Self {
            is_short: true,
            ..self
        }
    }

    /// When it is nowhere else.
    pub(super) const fn long(self) -> Self {
        Self {
            is_short: false,
            ..self
        }
    }

    const fn time(self) -> Duration {
        match self.is_short {
            true => SOON,
            false => AT_LAST,
        }
    }
}

impl Patient {
    pub(super) fn new(disk: Box<dyn BlockDisk>) -> Self {
        Self {
            disk: disk.into(),
            state: Arc::default(),
        }
    }

    /// The disk itself, for whoever writes.
    pub(super) fn disk(&self) -> &dyn BlockDisk {
        &*self.disk
    }

    /// Reads that somebody has waited for in vain so far.
    pub(super) fn late(&self) -> u64 {
        self.state.all_late.load(Ordering::Relaxed)
    }

    /// A piece.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] if it does not come in time, or as [`BlockDisk::get`].
    pub(super) fn get(&self, id: PieceId, patience: Patience) -> io::Result<Vec<u8>> {
        let state = &self.state;
        if patience.is_short && state.late.load(Ordering::Acquire) > 0 {
            return Err(slow());
        }
        // Whoever reads waits here until it is taken: so he knows whether somebody still does.
        let (outbox, inbox) = sync_channel(0);
        let ticket = Arc::new(Ticket::default());
        let number = self.push((id, patience.by), ticket.clone(), outbox)?;
        let time = patience.time();
        let mut left = time;
        loop {
            match inbox.recv_timeout(left) {
                Ok(read) => return read,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(io::Error::other("whoever read it is gone"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            // The disk is to blame if most of the time went by since it was asked.
            let begun = ticket.begun.get();
            let reads_for = begun.map_or(Duration::ZERO, Instant::elapsed);
            if reads_for >= time / 2 {
                // Before the reader can see that nobody waits.
                state.late.fetch_add(1, Ordering::AcqRel);
                ticket.is_late.store(true, Ordering::Release);
                tracing::warn!(?id, seconds = time.as_secs(), "a disk is slow");
            } else if patience.by.is_none() {
                // Streams go before, as long as it takes.
                left = time;
                continue;
            } else {
                state.withdraw(number);
            }
            state.all_late.fetch_add(1, Ordering::Relaxed);
            return Err(slow());
        }
    }

    /// Queues a read; its number.
    fn push(
        &self,
        (id, by): (PieceId, Option<Instant>),
        ticket: Arc<Ticket>,
        outbox: SyncSender<io::Result<Vec<u8>>>,
    ) -> io::Result<u64> {
        let mut queue = self.state.queue();
        if queue.waiting.len() >= WAITING_MAX {
            return Err(slow());
        }
        queue.count += 1;
        let number = queue.count;
        queue.waiting.push(Job {
            id,
            by,
            number,
            ticket,
            outbox,
        });
        if queue.readers >= self.disk.reads_at_once() {
            return Ok(number);
        }
        queue.readers += 1;
        // The system cannot take back a read: a thread of its own may hang with it. Beside reading
        // 1 MiB it costs nothing.
        let (disk, state) = (self.disk.clone(), self.state.clone());
        let reader = thread::Builder::new().name("sangam-block".to_owned());
        let started = reader.spawn(move || state.work(&*disk));
        if let Err(error) = started {
            queue.readers -= 1;
            if queue.readers == 0 {
                queue.waiting.retain(|job| job.number != number);
                return Err(error);
            }
        }
        Ok(number)
    }
}

impl State {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads until nothing waits.
    fn work(&self, disk: &dyn BlockDisk) {
        while let Some(job) = self.next() {
            let _ = job.ticket.begun.set(Instant::now());
            let sent = job.outbox.send(disk.get(job.id));
            if sent.is_err() && job.ticket.is_late.load(Ordering::Acquire) {
                // The disk has come back.
                self.late.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    fn next(&self) -> Option<Job> {
        let mut queue = self.queue();
        let job = queue.waiting.pop();
        if job.is_none() {
            queue.readers -= 1;
        }
        job
    }

    /// Nobody waits for a read any more; it may have begun.
    fn withdraw(&self, number: u64) {
        self.queue().waiting.retain(|job| job.number != number);
    }
}

impl Job {
    /// Less is more urgent.
    fn rank(&self) -> (bool, Option<Instant>, u64) {
        (self.by.is_none(), self.by, self.number)
    }
}

impl Ord for Job {
    /// The most urgent is the greatest, as the heap has that first.
    fn cmp(&self, other: &Self) -> Order {
        other.rank().cmp(&self.rank())
    }
}

impl PartialOrd for Job {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Job {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Job {}

fn slow() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "it is slow to answer")
}

#[cfg(test)]
mod tests {
    use std::env::temp_dir;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::super::disk::LocalDisk;
    use super::*;

    /// A disk whose reads are begun one by one, when the test says so.
    struct Gated {
        disk: LocalDisk,
        gate: Mutex<Receiver<()>>,
        read: Sender<u64>,
    }

    impl BlockDisk for Gated {
        fn put(&self, id: PieceId, bytes: &[u8]) -> io::Result<()> {
            self.disk.put(id, bytes)
        }

        fn get(&self, id: PieceId) -> io::Result<Vec<u8>> {
            self.read.send(id.stripe).unwrap();
            self.gate.lock().unwrap().recv().unwrap();
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

        fn reads_at_once(&self) -> usize {
            1
        }
    }

    fn piece(stripe: u64) -> PieceId {
        PieceId {
            object: 1,
            stripe,
            piece: 0,
        }
    }

    #[test]
    fn the_most_urgent_is_read_first_and_whoever_moves_blocks_last() {
        let folder = temp_dir().join(format!("sangam-urgency-{}", std::process::id()));
        let disk = LocalDisk::open(&folder).unwrap();
        for stripe in 0..6 {
            disk.put(piece(stripe), b"read").unwrap();
        }
        let ((open, gate), (read, begun)) = (channel(), channel());
        let gate = Mutex::new(gate);
        let disk = Patient::new(Box::new(Gated { disk, gate, read }));
        let now = Instant::now();
        let stream = |seconds| Patience::soon(now + Duration::from_secs(seconds)).long();
        thread::scope(|scope| {
            let disk = &disk;
            let ask = |stripe, patience| {
                scope.spawn(move || assert_eq!(disk.get(piece(stripe), patience).unwrap(), b"read"))
            };
            ask(0, stream(0));
            assert_eq!(begun.recv(), Ok(0));
            // They come while it reads, the mover first.
            let later = [Patience::IDLE, stream(9), stream(3), stream(7), stream(5)];
            for (number, patience) in (1..).zip(later) {
                ask(number, patience);
                while disk.state.queue().waiting.len() < number as usize {
                    thread::yield_now();
                }
            }
            let order = (0..5).map(|_| {
                open.send(()).unwrap();
                begun.recv().unwrap()
            });
            assert_eq!(order.collect::<Vec<_>>(), [3, 5, 4, 2, 1]);
            open.send(()).unwrap();
        });
        assert_eq!(disk.late(), 0);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
