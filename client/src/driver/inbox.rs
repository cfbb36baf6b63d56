//! What goes to the application: bounded, video first to go.

use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use sangam_broker::{Admit, DuplicateWindow, Shedder, Verdict};
use sangam_io::door::{BrokerDoor, DoorError, DoorState, Item};
use sangam_io::pool::Pool;
use sangam_model::{Class, StreamId, Time};
use sangam_wire::{Header, Message};

use crate::shared::Shared;

/// Video leaves one part in so many of the door to everything else.
const VIDEO_LEAVES: usize = 4;
/// Events leave one part in so many of the door to messages.
const EVENTS_LEAVE: usize = 16;
/// Messages that wait for an application that does not read; beyond, the link starts anew.
const BACKLOG_MAX: usize = 4_096;
/// Video streams that are shed by whole frames; those beyond lose single packets.
const SHEDDERS_MAX: usize = 1_024;

/// How much later than the other link one may bring the same event.
const ECHO: Duration = Duration::from_secs(5);

/// What came of each stream since there are two links; only then anything comes twice.
#[derive(Default)]
struct Overlap {
    windows: HashMap<StreamId, DuplicateWindow>,
    /// There is one link again, and until then echoes are expected.
    until: Option<Time>,
}

pub(super) struct Inbox {
    pub(super) door: BrokerDoor,
    pool: Pool,
    shared: Arc<Shared>,
    capacity: usize,
    /// Items that were put through the door.
    passed: u64,
    /// Messages and states the door had no room for.
    backlog: VecDeque<Item>,
    shedders: HashMap<StreamId, Shedder>,
    overlap: Option<Overlap>,
    /// What came of each stream that has a group: some of it may come by both ways.
    grouped: HashMap<StreamId, DuplicateWindow>,
    fresh: bool,
}

impl Inbox {
    pub(super) fn new(
        door: BrokerDoor,
        pool: Pool,
        (capacity, shared): (usize, Arc<Shared>),
    ) -> Self {
        Self {
            door,
            pool,
            shared,
            capacity,
            passed: 0,
            backlog: VecDeque::new(),
            shedders: HashMap::new(),
            overlap: None,
            grouped: HashMap::new(),
            fresh: false,
        }
    }

    /// Takes an event, or drops and counts it.
    pub(super) fn event(&mut self, now: Time, header: &Header, bytes: &[u8]) {
        if self.overlap.is_some() && self.came_before(now, header) {
            return;
        }
        if !self.grouped.is_empty() && self.came_by_both_ways(now, header) {
            return self.shared.counters.dropped_twice.add(1);
        }
        let video = header.class == Class::Video;
        let reserve = if video { VIDEO_LEAVES } else { EVENTS_LEAVE };
        let full = !self.backlog.is_empty() || self.room() <= self.capacity / reserve;
        let packet = if full { None } else { self.pool.copy(bytes) };
        let passes = !video || self.admits(header, packet.is_none());
        let counters = &self.shared.counters;
        match packet {
            Some(packet) if passes => {
                // There is room, or the client is gone and this driver ends.
                let _ = self.put(Item::Event(packet.freeze()));
            }
            None if !full => counters.dropped_pool.add(1),
            _ if video => counters.dropped_video.add(1),
            _ => counters.dropped_other.add(1),
        }
    }

    /// A stream may come by a group as well from now on, until it is retired.
    pub(super) fn expect_group(&mut self, stream: StreamId) {
        if self.grouped.len() < SHEDDERS_MAX {
            self.grouped.entry(stream).or_default();
        }
    }

    /// From now on two links bring the same.
    pub(super) fn begin_overlap(&mut self) {
        self.overlap = Some(Overlap::default());
    }

    /// There is one link again; what the other has brought may still come by this one.
    pub(super) fn end_overlap(&mut self, now: Time) {
        if let Some(overlap) = &mut self.overlap {
            overlap.until = Some(now + ECHO);
        }
    }

    /// Takes a message; false if far too many wait already.
    pub(super) fn message(&mut self, message: Message) -> bool {
        if let Message::Retire { stream } = message {
            self.shedders.remove(&stream);
            self.grouped.remove(&stream);
        }
        self.push(Item::Message(message));
        self.backlog.len() <= BACKLOG_MAX
    }

    /// Tells how the link is; what waits from before it went down is void.
    pub(super) fn state(&mut self, state: DoorState) {
        if let DoorState::Down(_) = state {
            self.backlog.retain(|item| matches!(item, Item::State(_)));
            self.shedders.clear();
            self.grouped.clear();
            // Only the last change counts; the application may be long behind.
            while self.backlog.len() > 1 {
                self.backlog.pop_front();
            }
        }
        self.push(Item::State(state));
    }

    /// Discards what the client left for a link that is no more.
    pub(super) fn discard_requests(&mut self) {
        while let Some(item) = self.door.recv() {
            if let Item::Event(_) = item {
                self.shared.counters.dropped_down.add(1);
            }
        }
    }

    /// Ends a round: moves what waits, and wakes the application if anything is new.
    pub(super) fn hand_over(&mut self) {
        self.move_backlog();
        if core::mem::take(&mut self.fresh) {
            self.door.wake();
        }
    }

    /// Places of the door that are free; more may be already.
    fn room(&self) -> usize {
        let waiting = self.passed.saturating_sub(self.shared.taken.get());
        self.capacity
            .saturating_sub(usize::try_from(waiting).unwrap_or(usize::MAX))
    }

    fn put(&mut self, item: Item) -> Result<(), DoorError> {
        self.door.queue(item)?;
        self.passed += 1;
        self.fresh = true;
        Ok(())
    }

    fn came_before(&mut self, now: Time, header: &Header) -> bool {
        let Some(Overlap { windows, until }) = &mut self.overlap else {
            return false;
        };
        if until.is_some_and(|until| now >= until) {
            self.overlap = None;
            return false;
        }
        // Feedback has no sequence.
        if header.class == Class::Feedback {
            return false;
        }
        if windows.len() >= SHEDDERS_MAX && !windows.contains_key(&header.stream) {
            return false;
        }
        let window = windows.entry(header.stream).or_default();
        window.insert(now, header.sequence) == Verdict::Duplicate
    }

    fn came_by_both_ways(&mut self, now: Time, header: &Header) -> bool {
        let window = self.grouped.get_mut(&header.stream);
        window.is_some_and(|window| window.insert(now, header.sequence) == Verdict::Duplicate)
    }

    fn admits(&mut self, header: &Header, full: bool) -> bool {
        let room = self.shedders.len() < SHEDDERS_MAX;
        let shedder = match self.shedders.get_mut(&header.stream) {
            Some(shedder) => shedder,
            None if room => self.shedders.entry(header.stream).or_default(),
            None => return !full,
        };
        shedder.admit(header, core::time::Duration::ZERO, full) == Admit::Deliver
    }

    fn push(&mut self, item: Item) {
        self.backlog.push_back(item);
        self.move_backlog();
    }

    fn move_backlog(&mut self) {
        while let Some(item) = self.backlog.pop_front() {
            match self.put(item) {
                Ok(()) => {}
                Err(DoorError::Full(item)) => return self.backlog.push_front(item),
                Err(DoorError::Closed(_)) => return,
            }
        }
    }
}

#[cfg(test)]
#[path = "inbox_tests.rs"]
mod tests;
