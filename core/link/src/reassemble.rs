//! Pieces of events back to whole events.

use core::time::Duration;

use sangam_model::limits::EVENT_LEN_MAX;
use sangam_model::{Class, StreamId, Time};
use sangam_wire::{Event, ExtensionBlock, Flags, Fragment, HEADER_LEN, Header};

use crate::fragment::{FragmentError, PAYLOAD_LEN_MAX, other_extensions};

/// Events that may be incomplete at a time.
const EVENTS_MAX: usize = 32;
/// Bytes of all incomplete events together.
const BYTES_MAX: usize = 256 * 1_024;
/// How long an event may stay incomplete: beyond, its media is late anyway.
const EXPIRY: Duration = Duration::from_millis(500);
/// Gaps an incomplete event may have at a time: an event of the largest size makes 34 pieces
/// where datagrams are smallest.
const RANGES_MAX: usize = 40;

/// Joins the pieces that come from one peer, or from several ([`Reassembler::push_of`]). Owns no
/// memory until the first one does.
#[derive(Debug, Default)]
pub struct Reassembler {
    /// Oldest first.
    partials: Vec<Partial>,
    bytes: usize,
    /// The memory of the last event that ended, for the next: at most one.
    spare: Vec<Partial>,
    /// The last event that became whole, so that late duplicates do not begin it anew.
    last: Option<Key>,
    counters: ReassemblyCounters,
}

/// What a reassembler counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReassemblyCounters {
    /// Events that became whole.
    pub whole: u64,
    /// Pieces that brought nothing new.
    pub duplicate: u64,
    /// Pieces that were refused.
    pub refused: u64,
    /// Events that were given up as a piece did not come in time.
    pub expired: u64,
    /// Events that were given up for newer ones, as too many were incomplete at a time.
    pub evicted: u64,
}

#[derive(Debug, Default)]
struct Partial {
    key: Option<Key>,
    /// Whose it is.
    owner: u64,
    /// Of the first piece, which also brings the extensions.
    first: Option<(Header, ExtensionBlock)>,
    since: Time,
    payload: Vec<u8>,
    /// What has come: sorted, neither overlapping nor touching.
    ranges: Vec<(usize, usize)>,
}

/// Names an event on one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    stream: StreamId,
    sequence: u16,
    class: Class,
}

impl Reassembler {
    /// A reassembler for one peer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a piece. True: `out` holds the whole event now, its former content replaced.
    ///
    /// # Errors
    /// Why the piece was refused; the pieces before it stay.
    pub fn push(
        &mut self,
        now: Time,
        piece: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool, FragmentError> {
        self.push_of(0, now, piece, out)
    }

    /// The same where several peers share the room: `owner` says whose piece it is. If there is
    /// too little room, an event goes of whoever takes up most of it, and of two alike of the one
    /// that wants more.
    ///
    /// # Errors
    /// As [`Reassembler::push`].
    pub fn push_of(
        &mut self,
        owner: u64,
        now: Time,
        piece: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool, FragmentError> {
        self.expire(now);
        let taken = self.take(owner, now, piece);
        let index = match taken {
            Ok(Some(index)) => index,
            Ok(None) => return Ok(false),
            Err(error) => {
                self.counters.refused += 1;
                return Err(error);
            }
        };
        let partial = self.remove(index);
        let written = partial.write(out);
        self.last = partial.key;
        self.recycle(partial);
        match written {
            Ok(()) => self.counters.whole += 1,
            Err(_) => self.counters.refused += 1,
        }
        written.map(|()| true)
    }

    /// Gives up what is too old.
    pub fn expire(&mut self, now: Time) {
        while self.deadline().is_some_and(|deadline| now >= deadline) {
            let oldest = self.remove(0);
            self.recycle(oldest);
            self.counters.expired += 1;
        }
    }

    /// When the oldest incomplete event is given up.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.partials.first().map(|oldest| oldest.since + EXPIRY)
    }

    /// What was counted.
    #[must_use]
    pub fn counters(&self) -> &ReassemblyCounters {
        &self.counters
    }

    /// Adds a piece to its event; the event's index if it is whole.
    fn take(
        &mut self,
        owner: u64,
        now: Time,
        piece: &[u8],
    ) -> Result<Option<usize>, FragmentError> {
        let event = Event::decode(piece)?;
        let header = event.header;
        let fragment = event.extensions.fragment();
        let place = fragment
            .filter(|_| header.flags.contains(Flags::FRAGMENT))
            .ok_or(FragmentError::Piece)?;
        if usize::from(place.total) > PAYLOAD_LEN_MAX {
            return Err(FragmentError::Oversized);
        }
        let key = Key {
            stream: header.stream,
            sequence: header.sequence,
            class: header.class,
        };
        if self.last == Some(key) {
            self.counters.duplicate += 1;
            return Ok(None);
        }
        let known = self
            .partials
            .iter()
            .position(|partial| partial.key == Some(key));
        let index = known.unwrap_or_else(|| self.begin(now, (owner, key), place.total.into()));
        let partial = &mut self.partials[index];
        if !partial.add(&event, place)? {
            self.counters.duplicate += 1;
        }
        Ok(self.partials[index].is_whole().then_some(index))
    }

    fn begin(&mut self, now: Time, (owner, key): (u64, Key), total: usize) -> usize {
        while self.partials.len() >= EVENTS_MAX || self.bytes + total > BYTES_MAX {
            let given_up = self.remove(self.worst(owner));
            self.recycle(given_up);
            self.counters.evicted += 1;
        }
        let mut partial = self.spare.pop().unwrap_or_default();
        partial.begin(now, key, total);
        partial.owner = owner;
        self.bytes += total;
        self.partials.push(partial);
        self.partials.len() - 1
    }

    /// The oldest event of whoever takes up most room, which is `owner` rather than another.
    fn worst(&self, owner: u64) -> usize {
        let room = |partial: &Partial| partial.payload.len() + BYTES_MAX / EVENTS_MAX;
        let of = |one: u64| {
            self.partials
                .iter()
                .filter(move |partial| partial.owner == one)
        };
        let most = |partial: &Partial| {
            let room: usize = of(partial.owner).map(room).sum();
            (room, partial.owner == owner)
        };
        // Of equals the last one counts, so from the newest to the oldest.
        let indices = (0..self.partials.len()).rev();
        let worst = indices.max_by_key(|index| most(&self.partials[*index]));
        worst.unwrap_or_default()
    }

    fn remove(&mut self, index: usize) -> Partial {
        let partial = self.partials.remove(index);
        self.bytes -= partial.payload.len();
        partial
    }

    fn recycle(&mut self, partial: Partial) {
        self.spare.clear();
        self.spare.push(partial);
    }
}

impl Partial {
    fn begin(&mut self, now: Time, key: Key, total: usize) {
        self.key = Some(key);
        self.first = None;
        self.since = now;
        self.payload.clear();
        self.payload.resize(total, 0);
        self.ranges.clear();
    }

    /// False if the piece brings nothing new.
    fn add(&mut self, event: &Event<'_>, place: Fragment) -> Result<bool, FragmentError> {
        if usize::from(place.total) != self.payload.len() {
            return Err(FragmentError::Contradiction);
        }
        let start = usize::from(place.offset);
        let end = start + event.payload.len();
        if self
            .ranges
            .iter()
            .any(|&(from, to)| from <= start && end <= to)
        {
            return Ok(false);
        }
        self.mark(start, end)?;
        if start == 0 && self.first.is_none() {
            let mut block = ExtensionBlock::new();
            for (kind, value) in other_extensions(event.extensions) {
                if !block.push(kind, value) {
                    return Err(FragmentError::Oversized);
                }
            }
            self.first = Some((event.header, block));
        }
        self.payload[start..end].copy_from_slice(event.payload);
        Ok(true)
    }

    /// Joins `start..end` with the ranges it overlaps or touches.
    fn mark(&mut self, mut start: usize, mut end: usize) -> Result<(), FragmentError> {
        let from = self.ranges.partition_point(|&(_, to)| to < start);
        let to = self.ranges.partition_point(|&(from, _)| from <= end);
        if from == to && self.ranges.len() >= RANGES_MAX {
            return Err(FragmentError::Oversized);
        }
        if let Some(&(first, _)) = self.ranges[from..to].first() {
            start = start.min(first);
        }
        if let Some(&(_, last)) = self.ranges[from..to].last() {
            end = end.max(last);
        }
        self.ranges.splice(from..to, [(start, end)]);
        Ok(())
    }

    fn is_whole(&self) -> bool {
        self.ranges == [(0, self.payload.len())] && self.first.is_some()
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), FragmentError> {
        let Some((header, block)) = &self.first else {
            return Err(FragmentError::Contradiction);
        };
        let event = Event {
            header: Header {
                flags: header.flags.without(Flags::FRAGMENT),
                ..*header
            },
            extensions: block.extensions(),
            payload: &self.payload,
        };
        debug_assert!(self.payload.len() <= EVENT_LEN_MAX - HEADER_LEN);
        out.clear();
        out.resize(event.encoded_len(), 0);
        event.write(out)?;
        Ok(())
    }
}
