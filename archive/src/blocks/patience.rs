//! Reads that nobody waits for longer than he can.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use super::disk::BlockDisk;
use super::piece::PieceId;

/// While a piece may be elsewhere: a film's block lasts 1.5 s, and the next one is read ahead.
const SOON: Duration = Duration::from_secs(1);
/// When it is nowhere else.
const AT_LAST: Duration = Duration::from_secs(30);
/// Reads of one disk that may hang at the same time. Beyond, it is not asked.
const OUT_MAX: usize = 16;

/// How long a read is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// As long as a player can; a disk that is late with another read is not asked at all.
    Soon,
    /// As long as anybody would.
    AtLast,
}

/// A disk that may be slow.
pub(super) struct Patient {
    disk: Arc<dyn BlockDisk>,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Reads that have not come back.
    out: AtomicUsize,
    /// Those of them that somebody has waited for in vain.
    late: AtomicUsize,
    /// How many were late so far.
    all_late: AtomicU64,
}

impl Patient {
    pub(super) fn new(disk: Box<dyn BlockDisk>) -> Self {
        Self {
            disk: disk.into(),
            state: Arc::default(),
        }
    }

    /// The disk itself, for whoever has time.
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
        let is_late = state.late.load(Ordering::Acquire) > 0;
        let time = match patience {
            Patience::Soon if is_late => return Err(slow()),
            Patience::Soon => SOON,
            Patience::AtLast => AT_LAST,
        };
        if state.out.fetch_add(1, Ordering::AcqRel) >= OUT_MAX {
            state.out.fetch_sub(1, Ordering::AcqRel);
            return Err(slow());
        }
        // The system cannot take back a read: a thread of its own may hang with it. Beside reading
        // 1 MiB it costs nothing.
        let (outbox, inbox) = sync_channel(0);
        let (disk, own) = (self.disk.clone(), state.clone());
        let reader = thread::Builder::new().name("sangam-block".to_owned());
        let started = reader.spawn(move || {
            let read = disk.get(id);
            own.out.fetch_sub(1, Ordering::AcqRel);
            if outbox.send(read).is_err() {
                // Nobody waits any more: the disk has come back.
                own.late.fetch_sub(1, Ordering::AcqRel);
            }
        });
        if let Err(error) = started {
            state.out.fetch_sub(1, Ordering::AcqRel);
            return Err(error);
        }
        inbox.recv_timeout(time).unwrap_or_else(|error| {
            if error == RecvTimeoutError::Timeout {
                // Before the thread can see that nobody waits.
                state.late.fetch_add(1, Ordering::AcqRel);
                state.all_late.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(?id, seconds = time.as_secs(), "a disk is slow");
            }
            Err(slow())
        })
    }
}

fn slow() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "it is slow to answer")
}
