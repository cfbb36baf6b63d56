//! What a durable broker has written, and what it loses when it dies.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use sangam_model::{PublisherId, Time, Topic};
use sangam_reliable::{Change, Input};
use sangam_wire::Record;

/// How long a write takes to be safe.
const SYNC: Duration = Duration::from_millis(20);

#[derive(Default)]
pub(crate) struct Disk {
    records: BTreeMap<(Topic, u64), Record>,
    lasts: BTreeMap<(Topic, PublisherId), u64>,
    /// Not safe yet.
    pending: VecDeque<(Time, Change)>,
    /// Writes of this life that are safe.
    safe: u64,
}

impl Disk {
    pub(crate) fn write(&mut self, now: Time, change: Change) {
        self.pending.push_back((now + SYNC, change));
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.pending.front().map(|(at, _)| *at)
    }

    /// What has become safe: how many writes, if there are more than before.
    pub(crate) fn sync(&mut self, now: Time) -> Option<u64> {
        let before = self.safe;
        while self.deadline().is_some_and(|at| at <= now)
            && let Some((_, change)) = self.pending.pop_front()
        {
            self.apply(change);
            self.safe += 1;
        }
        (self.safe > before).then_some(self.safe)
    }

    /// The broker dies.
    pub(crate) fn crash(&mut self) {
        self.pending.clear();
        self.safe = 0;
    }

    /// What the next life is given.
    pub(crate) fn restored(&self) -> Vec<Input> {
        let records = self.records.iter();
        let records = records
            .map(|((topic, index), record)| Input::Restored(topic.clone(), *index, record.clone()));
        let lasts = self.lasts.iter();
        let lasts = lasts.map(|((topic, id), last)| Input::RestoredLast(topic.clone(), *id, *last));
        records.chain(lasts).collect()
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Append {
                topic,
                index,
                records,
            } => {
                let keys = (index..).map(|index| (topic.clone(), index));
                self.records.extend(keys.zip(records));
            }
            Change::Trim {
                topic,
                first,
                lasts,
            } => {
                // All are of one topic in these tests.
                self.records = self.records.split_off(&(topic.clone(), first));
                let lasts = lasts.into_iter();
                self.lasts
                    .extend(lasts.map(|(id, last)| ((topic.clone(), id), last)));
            }
            Change::Forget(topic) => {
                self.records.retain(|(of, _), _| *of != topic);
                self.lasts.retain(|(of, _), _| *of != topic);
            }
        }
    }
}
