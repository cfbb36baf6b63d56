//! Peers that share a thread.

use std::time::{Duration, Instant};

use sangam_io::clock;
use sangam_io::poll::{Events, Interest, Poller};
use sangam_io::timer::Wheel;
use sangam_io::udp::RecvBatch;

use super::peer::{Hub, Peer, Tally};
use super::sender::Beat;
use crate::error::Error;

/// How long all peers together may take to connect.
const CONNECT_PATIENCE: Duration = Duration::from_secs(30);
const EVENTS: usize = 256;
/// Messages of one call; a frame is one, if the broker sent it as one.
const MESSAGES: usize = 4;
/// What the kernel may join to one message.
const MESSAGE_BYTES: usize = 65_535;

/// Peers in one thread.
pub(crate) struct Peers {
    all: Vec<Peer>,
    poller: Poller,
    events: Events,
    wheel: Wheel<u32>,
    due: Vec<u32>,
    batch: RecvBatch,
    hub: Hub,
}

impl Peers {
    /// Nobody yet.
    ///
    /// # Errors
    /// [`Error::System`] if nothing can be polled.
    pub(crate) fn new() -> Result<Self, Error> {
        let poller = Poller::new().map_err(|error| Error::System("polling peers", error))?;
        Ok(Self {
            all: Vec::new(),
            poller,
            events: Events::with_capacity(EVENTS),
            wheel: Wheel::new(clock::now()),
            due: Vec::new(),
            batch: RecvBatch::new(MESSAGES, MESSAGE_BYTES),
            hub: Hub::new(),
        })
    }

    /// Takes a peer that has joined.
    ///
    /// # Errors
    /// [`Error::System`] if its socket cannot be polled.
    pub(crate) fn add(&mut self, peer: Peer) -> Result<(), Error> {
        let number = self.all.len() as u32;
        let added = self
            .poller
            .add(peer.socket.fd(), number.into(), Interest::Read);
        added.map_err(|error| Error::System("polling a peer", error))?;
        self.all.push(peer);
        self.due.push(number);
        Ok(())
    }

    /// Waits until all are connected.
    ///
    /// # Errors
    /// [`Error::Join`] if that takes too long.
    pub(crate) fn connect(&mut self) -> Result<(), Error> {
        let end = Instant::now() + CONNECT_PATIENCE;
        while self.hub.tally.connected < self.all.len() {
            if Instant::now() > end {
                let missing = self.all.len() - self.hub.tally.connected;
                let what = format!("{missing} WebRTC peers did not connect");
                return Err(Error::Join(what));
            }
            self.pass(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Serves all peers for at most so long.
    pub(crate) fn pass(&mut self, most: Duration) {
        let now = clock::now();
        let deadline = self.wheel.deadline();
        let mut wait = deadline.map_or(most, |at| (at - now).min(most));
        if !self.due.is_empty() {
            wait = Duration::ZERO;
        }
        // An interrupted wait is a short one.
        let _ = self.poller.wait(&mut self.events, Some(wait));
        for event in self.events.iter() {
            let number = event.token as u32;
            if let Some(peer) = self.all.get_mut(number as usize) {
                let next = peer.read(&mut self.batch, &mut self.hub);
                wake_at(&mut self.wheel, number, next);
            }
        }
        self.wheel.expired(clock::now(), &mut self.due);
        for number in self.due.drain(..) {
            if let Some(peer) = self.all.get_mut(number as usize) {
                let next = peer.turn(&mut self.hub);
                wake_at(&mut self.wheel, number, next);
            }
        }
    }

    /// What happened so far.
    pub(super) fn tally(&mut self) -> &mut Tally {
        &mut self.hub.tally
    }

    /// Sends one beat by every peer; how many packets.
    pub(super) fn beat(&mut self, beat: &Beat, (number, key): (u64, bool)) -> usize {
        let all = self.all.iter_mut();
        all.map(|peer| peer.beat(beat, (number, key), &mut self.hub))
            .sum()
    }
}

fn wake_at(wheel: &mut Wheel<u32>, number: u32, at: Option<Instant>) {
    if let Some(at) = at {
        let ahead = at.saturating_duration_since(Instant::now());
        wheel.set(number, clock::now() + ahead);
    }
}
