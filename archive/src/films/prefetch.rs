//! The block behind the one that is played, in memory before it is wanted.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;

use super::Film;
use crate::blocks::Store;

/// Blocks that wait to be read; beyond, whoever plays them reads them.
const WAITING_MAX: usize = 256;

type Job = (Arc<Store>, Arc<Film>, u64);

/// A thread that reads ahead; there is none before the first wish.
#[derive(Debug, Default)]
pub(super) struct Prefetch(OnceLock<Option<SyncSender<Job>>>);

impl Prefetch {
    /// Wants a block, if there is one of this number.
    pub(super) fn want(&self, store: Arc<Store>, film: Arc<Film>, block: u64) {
        if block >= film.object.blocks() {
            return;
        }
        if let Some(jobs) = self.0.get_or_init(start) {
            // Too many wait: it is read later, or too late, and counted there.
            let _ = jobs.try_send((store, film, block));
        }
    }
}

fn start() -> Option<SyncSender<Job>> {
    let (jobs, inbox) = sync_channel(WAITING_MAX);
    let thread = thread::Builder::new().name("sangam-ahead".to_owned());
    let started = thread.spawn(move || work(&inbox));
    let started = started.inspect_err(|error| tracing::warn!(%error, "nothing is read ahead"));
    started.is_ok().then_some(jobs)
}

fn work(inbox: &Receiver<Job>) {
    while let Ok((store, film, block)) = inbox.recv() {
        // Nobody's next block waits for another's slow disk; what is lost is told to whoever plays.
        let _ = store.share_soon(&film.object, block);
    }
}
