//! How long nothing comes although it could.

use core::time::Duration;
use std::collections::BTreeMap;

use sangam_model::{PublisherId, Time};

use crate::world::World;

/// Between each subscriber and publisher: what came last, and the longest wait for more while
/// nothing was wrong any more.
#[derive(Default)]
pub(crate) struct Pauses {
    /// Since when nothing has changed, and all know of it.
    calm: Time,
    last: BTreeMap<(usize, PublisherId), (u64, Time)>,
    longest: Duration,
    /// When that ended.
    pub(crate) at: Time,
}

impl Pauses {
    /// Something changes, or somebody learns of it.
    pub(crate) fn disturbed(&mut self, now: Time) {
        self.calm = now;
    }

    /// How far a subscriber is that could have more of a publisher.
    pub(crate) fn note(&mut self, now: Time, pair: (usize, PublisherId), last: u64) {
        let (before, since) = self.last.entry(pair).or_insert((last, now));
        let pause = now - self.calm.max(*since);
        if pause > self.longest {
            (self.longest, self.at) = (pause, now);
        }
        if last != *before {
            (*before, *since) = (last, now);
        }
    }

    pub(crate) fn longest(&self) -> Duration {
        self.longest
    }
}

impl World {
    /// Notes how far everybody is, unless the network is in parts.
    pub(crate) fn note_pauses(&mut self) {
        let now = self.now;
        let alive = |index: &usize| self.brokers[*index].keeper.is_some();
        let alive: Vec<_> = (0..self.brokers.len()).filter(alive).collect();
        let first = alive.first().map(|first| self.hops(*first).len());
        if first.is_none_or(|count| count < alive.len()) {
            // What is kept in the other part is waited for.
            return self.pauses.disturbed(now);
        }
        let publishers = self.clients.iter().filter(|one| one.session.is_some());
        let publishers: Vec<_> = publishers.filter_map(|one| one.publishes).collect();
        for (number, client) in self.clients.iter().enumerate() {
            if client.session.is_none() || client.publishes.is_some() {
                continue;
            }
            for publisher in &publishers {
                let last = client.last.get(publisher).copied().unwrap_or(0);
                if last > 0 {
                    self.pauses.note(now, (number, *publisher), last);
                }
            }
        }
    }
}
