//! The receiving end of an attachment: what another broker feeds us.

use std::collections::{BTreeMap, VecDeque};

use sangam_model::{PublisherId, Time, Topic};
use sangam_wire::{POSITIONS_MAX, Reliable};

use crate::limits::{ATTACH, DEAF, HEARTBEAT, HOLD, PUBLISHERS_MAX, backoff};

/// How one feed stands.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) feed: u64,
    /// Number of the next record.
    pub(crate) next: u64,
    /// The other end has answered.
    answered: bool,
    /// We had all there was, at least once.
    pub(crate) synced: bool,
    /// How far we are is to be told.
    pub(crate) owes: bool,
    /// Records were left, as there was no room.
    pub(crate) left: bool,
    /// Numbers that may be told once the log is durable up to an index.
    waiting: VecDeque<(u64, u64)>,
    taken: u64,
    heard: Time,
    due: Time,
    tries: u32,
    /// Whether the other end still feeds us is asked until it says something.
    doubted: bool,
}

impl Upstream {
    /// A feed to attach at `at`.
    pub(crate) fn new(feed: u64, at: Time) -> Self {
        Self {
            feed,
            next: 0,
            answered: false,
            synced: false,
            owes: false,
            left: false,
            waiting: VecDeque::new(),
            taken: 0,
            heard: at,
            due: at,
            tries: 0,
            doubted: false,
        }
    }

    /// Notes that the other end speaks.
    pub(crate) fn heard(&mut self, now: Time) {
        self.heard = now;
        self.doubted = false;
        if !self.answered {
            self.answered = true;
            self.due = now + HEARTBEAT;
        }
    }

    /// The way to the other end is another, or it has started anew and may not know of us.
    pub(crate) fn hasten(&mut self, now: Time) {
        self.doubted = true;
        self.tries = 0;
        self.due = self.due.min(now);
    }

    /// All before `next` lies in the log before `end`.
    pub(crate) fn took(&mut self, end: u64) {
        if self
            .waiting
            .back()
            .is_none_or(|(next, _)| *next < self.next)
        {
            self.waiting.push_back((self.next, end));
        }
    }

    /// Whether the feed has fallen silent and has to be attached anew.
    pub(crate) fn is_deaf(&self, now: Time) -> bool {
        self.answered && now - self.heard >= DEAF
    }

    /// Whether nothing has come for so long that nothing will.
    pub(crate) fn is_silent(&self, now: Time) -> bool {
        now - self.heard >= HOLD
    }

    pub(crate) const fn deadline(&self) -> Time {
        self.due
    }

    /// What to say now. `durable`: the log is safe before this index.
    pub(crate) fn poll(
        &mut self,
        now: Time,
        durable: u64,
        attach: impl FnOnce(u64) -> Vec<Reliable>,
    ) -> Vec<Reliable> {
        if !self.answered {
            if now < self.due {
                return Vec::new();
            }
            self.due = now + backoff(ATTACH, self.tries);
            self.tries += 1;
            return attach(self.feed);
        }
        let before = self.taken;
        while let Some((next, _)) = self.waiting.front().filter(|(_, end)| *end <= durable) {
            self.taken = *next;
            self.waiting.pop_front();
        }
        let owes = core::mem::take(&mut self.owes) || self.taken > before;
        if !owes && now < self.due {
            return Vec::new();
        }
        self.due = now + HEARTBEAT;
        if self.doubted {
            self.due = now + backoff(ATTACH, self.tries);
            self.tries += 1;
        }
        vec![Reliable::Taken {
            feed: self.feed,
            next: self.taken,
        }]
    }
}

/// The messages that attach to a topic behind these positions.
pub(crate) fn attach(
    feed: u64,
    topic: &Topic,
    replay: u32,
    positions: impl Iterator<Item = (PublisherId, u64)>,
) -> Vec<Reliable> {
    let positions: Vec<_> = positions.filter(|(_, sequence)| *sequence > 0).collect();
    let parts = positions.len().div_ceil(POSITIONS_MAX).max(1);
    let part = |part: usize| {
        let rest = &positions[part * POSITIONS_MAX..];
        Reliable::Attach {
            feed,
            topic: topic.clone(),
            replay,
            // Publishers are bounded far below 65,536 parts.
            part: part as u16,
            parts: parts as u16,
            positions: rest[..rest.len().min(POSITIONS_MAX)].to_vec(),
        }
    };
    (0..parts).map(part).collect()
}

/// An attachment whose parts are coming.
#[derive(Debug, Default)]
pub(crate) struct Partial {
    parts: u16,
    positions: BTreeMap<PublisherId, u64>,
}

impl Partial {
    /// Takes the next part; `None` if it is not the next.
    pub(crate) fn take(&mut self, part: u16, positions: &[(PublisherId, u64)]) -> Option<()> {
        if part == 0 {
            *self = Self::default();
        }
        if part != self.parts || self.positions.len() + positions.len() > PUBLISHERS_MAX {
            return None;
        }
        self.parts += 1;
        self.positions.extend(positions.iter().copied());
        Some(())
    }

    pub(crate) fn positions(self) -> BTreeMap<PublisherId, u64> {
        self.positions
    }
}
