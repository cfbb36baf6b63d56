//! When the thread of reliable topics is told who can be reached.

use std::sync::mpsc::SyncSender;
use std::time::Duration;

use sangam_broker::Routing;
use sangam_io::wake::Waker;
use sangam_model::Time;

use crate::reliable::{ReliableEvent, Ways};

/// How long a broker that has just started waits for its first link: until then it would take
/// itself for the only one and for the home of every topic.
const ALONE: Duration = Duration::from_secs(3);
/// How long after the first link the map is mostly there.
const FIRST_MAP: Duration = Duration::from_millis(300);

/// Tells the ways, once they are known and whenever they change.
#[derive(Debug)]
pub(crate) struct WayTeller {
    to: SyncSender<ReliableEvent>,
    waker: Waker,
    /// Not before.
    from: Time,
    told: Option<u64>,
}

impl WayTeller {
    /// `linked`: there are neighbours to wait for.
    pub(crate) fn new(
        now: Time,
        (to, waker): (SyncSender<ReliableEvent>, Waker),
        linked: bool,
    ) -> Self {
        let pause = if linked { ALONE } else { Duration::ZERO };
        Self {
            to,
            waker,
            from: now + pause,
            told: None,
        }
    }

    /// The first neighbour is there.
    pub(crate) fn link_up(&mut self, now: Time) {
        self.from = self.from.min(now + FIRST_MAP);
    }

    /// Tells the ways if they are others.
    pub(crate) fn tell(&mut self, now: Time, routing: &Routing) {
        let version = routing.ways_version();
        if now < self.from || self.told == Some(version) {
            return;
        }
        self.told = Some(version);
        let ways = Ways {
            keepers: routing.keepers(),
            links: routing.ways().collect(),
        };
        self.send(ReliableEvent::Ways(ways));
    }

    /// The broker stops.
    pub(crate) fn stop(&self) {
        self.send(ReliableEvent::Stop);
    }

    /// When the first ways may be told, if they were not.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.told.is_none().then_some(self.from)
    }

    fn send(&self, event: ReliableEvent) {
        // It has stopped only when the whole broker stops.
        let _ = self.to.send(event);
        self.waker.wake();
    }
}
