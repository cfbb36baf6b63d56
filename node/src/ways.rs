//! When the thread of reliable topics is told who can be reached.

use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use sangam_broker::{LinkId, Routing};
use sangam_io::wake::Waker;
use sangam_model::{BrokerId, Time};
use sangam_reliable::Way;
use sangam_wire::LinkState;

use crate::reliable::{ReliableEvent, Ways};

/// How long a broker that has just started waits for its first link before it takes part: until
/// then it would take itself for the only one and for the home of every topic.
const ALONE: Duration = Duration::from_secs(3);
/// How long after the first link the map is mostly there.
const FIRST_MAP: Duration = Duration::from_millis(300);

/// Tells the ways, once they are known and whenever they change.
#[derive(Debug)]
pub(crate) struct WayTeller {
    to: SyncSender<ReliableEvent>,
    waker: Waker,
    /// Takes part from then on. What others say to each other is passed on before, too.
    from: Time,
    /// What was told last: which ways, and whether with those who can be reached.
    told: Option<(u64, bool)>,
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
        let news = (routing.ways_version(), now >= self.from);
        if self.told == Some(news) {
            return;
        }
        self.told = Some(news);
        let links = routing.ways().collect();
        let ways = news.1.then(|| reachable(routing, &links));
        self.send(ReliableEvent::Ways(Ways { ways, links }));
    }

    /// The broker stops.
    pub(crate) fn stop(&self) {
        self.send(ReliableEvent::Stop);
    }

    /// When those who can be reached may be told, if they were not.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let told = self.told.is_some_and(|(_, all)| all);
        (!told).then_some(self.from)
    }

    fn send(&self, event: ReliableEvent) {
        // It has stopped only when the whole broker stops.
        let _ = self.to.send(event);
        self.waker.wake();
    }
}

fn reachable(routing: &Routing, links: &BTreeMap<BrokerId, LinkId>) -> Vec<Way> {
    let known = routing.brokers().filter(|(_, reachable)| *reachable);
    let way = |(state, _): (&LinkState, bool)| {
        let to = state.version.origin;
        let link = links.get(&to).map_or(u16::MAX, |link| link.0);
        Way {
            to,
            mark: u64::from(link) << 8 | u64::from(state.version.incarnation.0),
            keeps: state.keeps && !state.draining,
        }
    };
    let mut ways: Vec<_> = known.map(way).collect();
    ways.sort_by_key(|way| way.to);
    ways
}
