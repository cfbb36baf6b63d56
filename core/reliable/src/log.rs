//! The records of a topic in the order in which they came here.

use std::collections::VecDeque;

use sangam_model::{BrokerId, Time};
use sangam_wire::Record;

use crate::limits::RECORD_COST;

/// Records by rising index; the index of a record never changes.
#[derive(Debug, Default)]
pub(crate) struct Log {
    first: u64,
    entries: VecDeque<Entry>,
    bytes: usize,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) record: Record,
    pub(crate) at: Time,
    /// The broker that fed it to us; to it it does not return.
    pub(crate) from: Option<BrokerId>,
}

impl Log {
    /// An empty log whose next record gets this index.
    pub(crate) fn starting_at(first: u64) -> Self {
        Self {
            first,
            ..Self::default()
        }
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        self.bytes += cost(&entry);
        self.entries.push_back(entry);
    }

    pub(crate) fn pop_front(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.bytes -= cost(&entry);
        self.first += 1;
        Some(entry)
    }

    pub(crate) fn front(&self) -> Option<&Entry> {
        self.entries.front()
    }

    pub(crate) fn get(&self, index: u64) -> Option<&Entry> {
        let at = index.checked_sub(self.first)?;
        self.entries.get(usize::try_from(at).ok()?)
    }

    /// Entries from `index` on, with their indices.
    pub(crate) fn from(&self, index: u64) -> impl Iterator<Item = (u64, &Entry)> {
        let index = index.max(self.first);
        let skip = usize::try_from(index - self.first).unwrap_or(usize::MAX);
        (index..).zip(self.entries.iter().skip(skip))
    }

    /// Index of the first entry of which this holds, as of all behind it; of the next if there is
    /// none.
    pub(crate) fn first_that(&self, holds: impl Fn(&Entry) -> bool) -> u64 {
        self.first + self.entries.partition_point(|entry| !holds(entry)) as u64
    }

    /// Index of the oldest entry, or of the next if there is none.
    pub(crate) const fn first(&self) -> u64 {
        self.first
    }

    /// Index of the next entry.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}

fn cost(entry: &Entry) -> usize {
    entry.record.payload.len() + RECORD_COST
}
