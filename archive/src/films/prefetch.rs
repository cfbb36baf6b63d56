//! The block behind the one that is played, in memory before it is wanted.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Instant;

use super::Film;
use crate::blocks::Store;

/// Blocks that wait to be asked for; beyond, whoever plays them reads them.
const WAITING_MAX: usize = 256;
/// Blocks that are asked for at once: each disk reads the most urgent first, so all shall know of
/// theirs early.
const READERS: usize = 16;

#[derive(Debug)]
struct Job {
    store: Arc<Store>,
    film: Arc<Film>,
    block: u64,
    by: Instant,
}

/// Threads that read ahead; there are none before the first wish.
#[derive(Debug, Default)]
pub(super) struct Prefetch(OnceLock<Option<SyncSender<Job>>>);

impl Prefetch {
    /// Wants a block by then, if there is one of this number.
    pub(super) fn want(&self, store: Arc<Store>, (film, block): (Arc<Film>, u64), by: Instant) {
        if block >= film.object.blocks() {
            return;
        }
        if let Some(jobs) = self.0.get_or_init(start) {
            // Too many wait: it is read later, or too late, and counted there.
            let _ = jobs.try_send(Job {
                store,
                film,
                block,
                by,
            });
        }
    }
}

fn start() -> Option<SyncSender<Job>> {
    let (jobs, inbox) = sync_channel(WAITING_MAX);
    let inbox = Arc::new(Mutex::new(inbox));
    let started = (0..READERS).filter(|_| {
        let inbox = inbox.clone();
        let thread = thread::Builder::new().name("sangam-ahead".to_owned());
        let started = thread.spawn(move || work(&inbox));
        let started = started.inspect_err(|error| tracing::warn!(%error, "little is read ahead"));
        started.is_ok()
    });
    (started.count() > 0).then_some(jobs)
}

fn work(inbox: &Mutex<Receiver<Job>>) {
    loop {
        let job = inbox.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else {
            return;
        };
        // Nobody's next block waits for another's slow disk; what is lost is told to whoever plays.
        let _ = job.store.share_soon(&job.film.object, job.block, job.by);
    }
}
