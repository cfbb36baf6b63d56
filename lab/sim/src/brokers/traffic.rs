//! What became of events: who got them, what they crossed, and how long somebody got none.

use core::time::Duration;
use std::collections::BTreeMap;

use sangam_model::{StreamId, Time};

use super::broker::Event;

/// Events of all streams since the last [`Self::forget`].
#[derive(Debug, Default)]
pub struct Traffic {
    /// Deliveries to local subscribers, by stream, sequence and broker.
    pub delivered: BTreeMap<(StreamId, u16, usize), u32>,
    /// Crossings of links, by stream, sequence and the two brokers.
    pub crossings: BTreeMap<(StreamId, u16, usize, usize), u32>,
    /// Events that had further to go than their hop limit.
    pub spent: u64,
    /// Events that a local subscriber got twice; never forgotten.
    pub duplicates: u64,
    /// How long each subscriber waited for an event of each stream; never forgotten, empty unless
    /// [`Self::watch`] was called.
    gaps: BTreeMap<(StreamId, usize), Gap>,
    watching: bool,
}

#[derive(Debug)]
struct Gap {
    last: Time,
    longest: Duration,
}

impl Traffic {
    /// Forgets deliveries and crossings.
    pub fn forget(&mut self) {
        self.delivered.clear();
        self.crossings.clear();
        self.spent = 0;
    }

    /// Measures gaps from now on.
    pub fn watch(&mut self) {
        self.watching = true;
        self.gaps.clear();
    }

    /// The longest time between two events of each stream at each subscriber since
    /// [`Self::watch`]; whoever gets nothing more waits until now.
    pub fn gaps(&self, now: Time) -> impl Iterator<Item = (StreamId, usize, Duration)> + '_ {
        self.gaps.iter().map(move |((stream, broker), gap)| {
            let longest = gap.longest.max(now - gap.last);
            (*stream, *broker, longest)
        })
    }

    pub(crate) fn passed(
        &mut self,
        now: Time,
        broker: usize,
        event: Event,
        (delivered, spent): (bool, bool),
    ) {
        self.spent += u64::from(spent);
        if !delivered {
            return;
        }
        let key = (event.stream, event.sequence, broker);
        let count = self.delivered.entry(key).or_default();
        *count += 1;
        self.duplicates += u64::from(*count > 1);
        if self.watching {
            let gap = self.gaps.entry((event.stream, broker)).or_insert(Gap {
                last: now,
                longest: Duration::ZERO,
            });
            gap.longest = gap.longest.max(now - gap.last);
            gap.last = now;
        }
    }

    pub(crate) fn crossed(&mut self, event: Event, (from, to): (usize, usize)) {
        let key = (event.stream, event.sequence, from, to);
        *self.crossings.entry(key).or_default() += 1;
    }
}
