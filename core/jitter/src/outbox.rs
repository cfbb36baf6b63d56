//! What a receiver says, and what it counts.

use core::time::Duration;
use std::collections::VecDeque;

use sangam_model::Time;

use crate::buffer::Slot;
use crate::window::us_since;
use crate::{Discard, HELD_MAX, Output};

/// One input leads to at most three outputs for each packet that is held or waits to be played.
const UNREAD_MAX: usize = 4 * HELD_MAX;

/// Counts of a receiver since its begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Packets that came.
    pub received: u64,
    /// Packets handed on in order.
    pub released: u64,
    /// Packets played.
    pub played: u64,
    /// Packets that came after a later one was released: late loss.
    pub late: u64,
    /// Packets that came again.
    pub duplicates: u64,
    /// Packets played before their time because too many waited.
    pub hurried: u64,
    /// Media time for which there was nothing to play.
    pub concealed: Duration,
    /// Time from arrival to release, all released packets together.
    pub held: Duration,
    /// Time from arrival to playout, all played packets together.
    pub waited: Duration,
    /// Outputs that nobody polled in time.
    pub unread: u64,
}

impl Stats {
    /// Mean time from arrival to release: what reordering costs.
    #[must_use]
    pub fn mean_held(&self) -> Duration {
        mean(self.held, self.released)
    }

    /// Mean time from arrival to playout.
    #[must_use]
    pub fn mean_waited(&self) -> Duration {
        mean(self.waited, self.played)
    }
}

fn mean(sum: Duration, count: u64) -> Duration {
    let us = sum.as_micros() as u64;
    Duration::from_micros(us.checked_div(count).unwrap_or(0))
}

/// Outputs to be polled.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    queue: VecDeque<Output>,
    pub(crate) stats: Stats,
    /// In microseconds, for [`Stats`]' durations, which are dear to add to.
    held_us: u64,
    waited_us: u64,
}

impl Outbox {
    pub(crate) fn new() -> Self {
        Self {
            queue: VecDeque::with_capacity(UNREAD_MAX),
            stats: Stats::default(),
            held_us: 0,
            waited_us: 0,
        }
    }

    /// Counts so far.
    pub(crate) fn stats(&self) -> Stats {
        Stats {
            held: Duration::from_micros(self.held_us),
            waited: Duration::from_micros(self.waited_us),
            ..self.stats
        }
    }

    pub(crate) fn poll(&mut self) -> Option<Output> {
        self.queue.pop_front()
    }

    pub(crate) fn release(&mut self, slot: &Slot, at: Time) {
        self.stats.released += 1;
        self.held_us += us_since(at, slot.arrived);
        self.push(Output::Release { seq: slot.seq, at });
    }

    pub(crate) fn play(&mut self, seq: u64, arrived: Time, at: Time) {
        self.stats.played += 1;
        self.waited_us += us_since(at, arrived);
        self.push(Output::Play { seq, at });
    }

    pub(crate) fn conceal(&mut self, at: Time, length: Duration) {
        self.stats.concealed += length;
        self.push(Output::Conceal { at, length });
    }

    pub(crate) fn discard(&mut self, seq: u64, reason: Discard) {
        match reason {
            Discard::Late => self.stats.late += 1,
            Discard::Duplicate => self.stats.duplicates += 1,
        }
        self.push(Output::Discard { seq, reason });
    }

    fn push(&mut self, output: Output) {
        if self.queue.len() == UNREAD_MAX {
            self.queue.pop_front();
            self.stats.unread += 1;
        }
        if self.queue.is_empty() {
            // From the begin of its memory again, which is still in the cache.
            self.queue.clear();
        }
        self.queue.push_back(output);
    }
}
