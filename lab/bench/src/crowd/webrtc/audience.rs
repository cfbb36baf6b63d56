//! Those who watch: a few threads, each with its share of the peers.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::peer::Peer;
use super::peers::Peers;
use crate::error::Error;

/// Peers that may wait for their thread.
const WAITING: usize = 64;
/// A thread looks so often for new peers at least.
const PASS: Duration = Duration::from_millis(5);
const POLL: Duration = Duration::from_millis(10);

/// Peers in threads of their own, for as long as the value lives.
pub(crate) struct Audience {
    hands: Vec<Hand>,
    entered: usize,
    shared: Arc<Shared>,
}

/// One thread.
struct Hand {
    door: SyncSender<Peer>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    joined: AtomicUsize,
    received: [AtomicU64; 2],
    joins: Mutex<Vec<Duration>>,
}

impl Audience {
    /// Nobody yet, and so many threads.
    ///
    /// # Errors
    /// [`Error::System`] if nothing can be polled.
    pub(crate) fn new(threads: usize) -> Result<Self, Error> {
        let shared = Arc::new(Shared::default());
        let hand = |_| {
            let (door, arrivals) = sync_channel(WAITING);
            let (own, peers) = (Arc::clone(&shared), Peers::new()?);
            let thread = Some(thread::spawn(move || own.serve(peers, &arrivals)));
            Ok(Hand { door, thread })
        };
        let hands = (0..threads.max(1))
            .map(hand)
            .collect::<Result<_, Error>>()?;
        Ok(Self {
            hands,
            entered: 0,
            shared,
        })
    }

    /// Takes a peer whose offer was answered.
    ///
    /// # Errors
    /// [`Error::Join`] if its thread has ended.
    pub(crate) fn enter(&mut self, peer: Peer) -> Result<(), Error> {
        let hand = &self.hands[self.entered % self.hands.len()];
        self.entered += 1;
        let gone = |_| Error::Join("a thread of WebRTC peers has ended".to_owned());
        hand.door.send(peer).map_err(gone)
    }

    /// Waits until every peer has joined.
    ///
    /// # Errors
    /// [`Error::Join`] if that takes longer than `patience`.
    pub(crate) fn wait_joined(&self, patience: Duration) -> Result<(), Error> {
        let end = Instant::now() + patience;
        loop {
            let joined = self.shared.joined.load(Relaxed);
            if joined == self.entered {
                return Ok(());
            }
            if Instant::now() > end {
                let (missing, all) = (self.entered - joined, self.entered);
                let what = format!("{missing} of {all} WebRTC peers received nothing");
                return Err(Error::Join(what));
            }
            thread::sleep(POLL);
        }
    }

    /// Packets of each medium so far, all peers together.
    pub(crate) fn received(&self) -> [u64; 2] {
        self.shared.received.each_ref().map(|one| one.load(Relaxed))
    }

    /// How long each took to join, in rising order.
    pub(crate) fn joins(&self) -> Vec<Duration> {
        let joins = self.shared.joins.lock();
        let mut joins = joins.map(|joins| joins.clone()).unwrap_or_default();
        joins.sort_unstable();
        joins
    }
}

impl Drop for Audience {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        for hand in &mut self.hands {
            if let Some(thread) = hand.thread.take() {
                // A thread that panicked has said so.
                let _ = thread.join();
            }
        }
    }
}

impl Shared {
    fn serve(&self, mut peers: Peers, arrivals: &Receiver<Peer>) {
        let mut counted = [0; 2];
        while !self.stop.load(Relaxed) {
            while let Ok(peer) = arrivals.try_recv() {
                // It is missed by `wait_joined`.
                let _ = peers.add(peer);
            }
            peers.pass(PASS);
            let tally = peers.tally();
            for (place, sum) in self.received.iter().enumerate() {
                sum.fetch_add(tally.received[place] - counted[place], Relaxed);
            }
            counted = tally.received;
            if !tally.joins.is_empty() {
                self.joined.fetch_add(tally.joins.len(), Relaxed);
                if let Ok(mut joins) = self.joins.lock() {
                    joins.append(&mut tally.joins);
                }
            }
        }
    }
}
