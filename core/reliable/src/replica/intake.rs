//! What comes into a topic: from publishers, from other brokers, from disk.

use sangam_model::{BrokerId, PublisherId, Time};
use sangam_wire::Record;

use super::{Context, Pushed, Replica, Run};
use crate::feed::Feed;
use crate::limits::{Limits, PUBLISHERS_MAX};
use crate::log::Entry;
use crate::peer::Peer;
use crate::writes::Change;

impl Replica {
    /// Takes records of a publisher; as much of them as there is room for.
    pub(crate) fn push(&mut self, from: Peer, pushed: &Pushed<'_>, cx: &mut Context<'_>) {
        let Pushed {
            publisher,
            base,
            first,
            pieces,
        } = *pushed;
        if !self.remember(publisher, cx) {
            return;
        }
        let incomplete = self.upstreams.values().any(|up| !up.synced);
        let Some(run) = self.runs.get_mut(&publisher) else {
            return;
        };
        run.heard = cx.now;
        run.pusher = Some(from);
        if base > run.last + 1 {
            // Held by homes, and not known here: they are about to be handed over, or lost.
            let (since, _) = *run.missed.get_or_insert((cx.now, base));
            if incomplete || cx.now - since < cx.limits.gap_after {
                return;
            }
            cx.counters.gaps += 1;
            run.last = base - 1;
            run.stable = run.stable.max(run.last);
        }
        run.missed = None;
        let again = self.tell.entry(publisher).or_insert(false);
        if first > run.last + 1 {
            *again = true;
            return;
        }
        for (sequence, piece) in (first..).zip(pieces) {
            let run = self.runs.get(&publisher);
            if run.is_some_and(|run| sequence <= run.last) {
                cx.counters.duplicate += 1;
                continue;
            }
            if cx.full || self.is_full(cx.limits, 1) {
                cx.counters.held_back += 1;
                self.put_off.insert(publisher);
                return;
            }
            cx.counters.pushed += 1;
            let record = Record {
                publisher,
                sequence,
                flags: piece.flags,
                payload: piece.payload.clone(),
            };
            self.append(cx.now, record, None);
        }
    }

    /// Takes records that another broker feeds us.
    pub(crate) fn fed(
        &mut self,
        from: BrokerId,
        (index, all_sent): (u64, bool),
        records: Vec<Record>,
        cx: &mut Context<'_>,
    ) {
        let Some(mut up) = self.upstreams.remove(&from) else {
            return;
        };
        up.heard(cx.now);
        up.owes = true;
        let skip = usize::try_from(up.next.saturating_sub(index)).unwrap_or(usize::MAX);
        // One that was lost comes again with all behind it.
        let lost = index > up.next;
        let mut complete = all_sent && !lost;
        for record in records.into_iter().skip(skip).take_while(|_| !lost) {
            // Two homes that are both full of what the other lacks must still come together.
            if self.is_full(cx.limits, if self.home { 2 } else { 1 }) {
                up.left = true;
                complete = false;
                break;
            }
            up.next += 1;
            self.take(from, record, cx);
        }
        up.synced |= complete;
        self.ready |= complete;
        up.took(self.log.end());
        self.upstreams.insert(from, up);
    }

    fn take(&mut self, from: BrokerId, record: Record, cx: &mut Context<'_>) {
        if !self.remember(record.publisher, cx) {
            return;
        }
        let Some(run) = self.runs.get_mut(&record.publisher) else {
            return;
        };
        run.heard = cx.now;
        let sequence = record.sequence;
        if sequence <= run.last {
            cx.counters.duplicate += u64::from(!record.is_mark());
            return;
        }
        let before = if record.is_mark() {
            sequence
        } else {
            sequence - 1
        };
        if before > run.last {
            // What does not come has not to be waited for. What has come is held only once
            // [`Self::note_stable`] says so: it is here, and maybe on no disk yet.
            cx.counters.gaps += u64::from(run.last > 0);
            run.last = before;
            run.stable = run.stable.max(before);
        }
        if !record.is_mark() {
            cx.counters.fed += 1;
            self.append(cx.now, record, Some(from));
        } else if self.feeds.values().any(Feed::is_started) {
            // Those we feed already learn of it in its place.
            self.append(cx.now, record, Some(from));
        }
    }

    /// Puts a record that follows those of its publisher into the log.
    fn append(&mut self, now: Time, record: Record, from: Option<BrokerId>) {
        let Some(run) = self.runs.get_mut(&record.publisher) else {
            return;
        };
        run.last = record.sequence;
        if run.missed.is_some_and(|(_, base)| run.last + 1 >= base) {
            // What was put off for want of these follows now.
            run.missed = None;
            self.tell.insert(record.publisher, true);
        }
        run.kept += 1;
        run.heard = now;
        let at = now;
        self.log.push(Entry { record, at, from });
    }

    /// Makes sure a publisher is known; false if there is no room.
    fn remember(&mut self, publisher: PublisherId, cx: &mut Context<'_>) -> bool {
        if self.runs.contains_key(&publisher) {
            return true;
        }
        if self.runs.len() >= PUBLISHERS_MAX {
            let idle = self.runs.iter().filter(|(_, run)| run.kept == 0);
            let Some(oldest) = idle.min_by_key(|(_, run)| run.heard).map(|(id, _)| *id) else {
                cx.counters.refused += 1;
                return false;
            };
            self.runs.remove(&oldest);
        }
        let run = Run {
            last: 0,
            stable: 0,
            kept: 0,
            heard: cx.now,
            pusher: None,
            missed: None,
        };
        self.runs.insert(publisher, run);
        true
    }

    /// Puts back a record that was written in an earlier life.
    pub(crate) fn restore(&mut self, index: u64, record: Record, cx: &mut Context<'_>) {
        // Until the map says who else is one.
        self.home = true;
        if index == self.log.end() && self.remember(record.publisher, cx) {
            self.append(cx.now, record, None);
            self.asked.0 = self.log.end();
            self.durable = Some(self.log.end());
        }
    }

    /// Puts back how far a publisher was whose records are gone.
    pub(crate) fn restore_last(&mut self, publisher: PublisherId, last: u64, cx: &mut Context<'_>) {
        self.home = true;
        if self.remember(publisher, cx)
            && let Some(run) = self.runs.get_mut(&publisher)
        {
            run.last = run.last.max(last);
            run.stable = run.stable.max(last);
        }
    }

    /// What is to be written since the last time.
    pub(crate) fn changes(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        if core::mem::take(&mut self.forget) {
            changes.push(Change::Forget(self.topic.clone()));
            self.asked = (self.log.first(), self.log.first());
            self.durable = Some(self.log.first());
        }
        if !self.home && self.owed.is_empty() {
            return changes;
        }
        let index = self.asked.0.max(self.log.first());
        let fresh = self.log.from(index);
        let records: Vec<Record> = fresh.map(|(_, entry)| entry.record.clone()).collect();
        if !records.is_empty() {
            let topic = self.topic.clone();
            changes.push(Change::Append {
                topic,
                index,
                records,
            });
        }
        let first = self.log.first();
        if first > self.asked.1 {
            let gone = core::mem::take(&mut self.trimmed);
            let last = |id| self.runs.get(&id).map(|run: &Run| (id, run.last));
            changes.push(Change::Trim {
                topic: self.topic.clone(),
                first,
                lasts: gone.into_iter().filter_map(last).collect(),
            });
        }
        self.asked = (self.log.end(), first);
        changes
    }

    pub(super) fn is_full(&self, limits: &Limits, times: usize) -> bool {
        self.log.bytes() >= limits.topic_bytes * times
    }
}
