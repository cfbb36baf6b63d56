//! What one link has yet to be told, and how fast.

use core::time::Duration;
use std::collections::{BTreeSet, VecDeque};

use sangam_model::Time;

/// Keys of things about which a link must be told something, in order, each once.
///
/// What is said is made up only when its turn comes, so a thing that changed twice is told once,
/// and the box holds no more than there are things. Paced, because a link's control channel is
/// closed when `CONTROL_QUEUE_MAX` messages wait in it.
#[derive(Debug)]
pub(crate) struct Outbox<K> {
    queue: VecDeque<K>,
    queued: BTreeSet<K>,
    pace: Pace,
    /// Messages that may leave now; below zero, what was spent beforehand.
    tokens: i32,
    refilled: Time,
}

/// How many messages may leave at once, and the time in which one more may.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) burst: i32,
    pub(crate) every: Duration,
}

impl<K: Clone + Ord> Outbox<K> {
    pub(crate) const fn new(now: Time, pace: Pace) -> Self {
        Self {
            queue: VecDeque::new(),
            queued: BTreeSet::new(),
            pace,
            tokens: pace.burst,
            refilled: now,
        }
    }

    pub(crate) fn push(&mut self, key: K) {
        if self.queued.insert(key.clone()) {
            self.queue.push_back(key);
        }
    }

    /// It need not be told of this any more.
    pub(crate) fn cancel(&mut self, key: &K) {
        if self.queued.remove(key) {
            self.queue.retain(|queued| queued != key);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<K> {
        let key = self.queue.pop_front()?;
        self.queued.remove(&key);
        Some(key)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) const fn may_send(&self) -> bool {
        self.tokens > 0
    }

    /// Pays for one message.
    pub(crate) const fn spend(&mut self) {
        self.spend_many(1);
    }

    /// Pays for one that is worth so many; what there is not has to be earned first.
    pub(crate) const fn spend_many(&mut self, count: i32) {
        self.tokens = self.tokens.saturating_sub(count);
    }

    pub(crate) fn refill(&mut self, now: Time) {
        let earned = now.since(self.refilled).as_micros() / self.pace.every.as_micros();
        let lacking = self.pace.burst.saturating_sub(self.tokens);
        match u32::try_from(earned) {
            Ok(earned) if i64::from(earned) < i64::from(lacking) => {
                // Fewer than are lacking, so the cast loses nothing.
                self.tokens += earned as i32;
                self.refilled += self.pace.every * earned;
            }
            _ => {
                self.tokens = self.pace.burst;
                self.refilled = now;
            }
        }
    }

    /// Whether so many messages may leave at once.
    pub(crate) const fn has(&self, count: i32) -> bool {
        self.tokens >= count
    }

    /// When so many messages may leave at once.
    pub(crate) fn ready_for(&self, count: i32) -> Time {
        self.refilled + self.pace.every * count.saturating_sub(self.tokens).max(0).unsigned_abs()
    }

    /// When the next message may leave.
    pub(crate) fn ready(&self) -> Time {
        self.ready_for(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        burst: 2,
        every: Duration::from_millis(4),
    };

    #[test]
    fn a_key_waits_once_and_in_its_first_place() {
        let mut outbox = Outbox::new(Time::ZERO, PACE);
        [3, 1, 3].into_iter().for_each(|key| outbox.push(key));
        assert_eq!(outbox.pop(), Some(3));
        outbox.push(3);
        assert_eq!(
            [outbox.pop(), outbox.pop(), outbox.pop()],
            [Some(1), Some(3), None]
        );
    }

    #[test]
    fn what_is_cancelled_is_not_told_until_it_is_pushed_again() {
        let mut outbox = Outbox::new(Time::ZERO, PACE);
        [1, 2, 3].into_iter().for_each(|key| outbox.push(key));
        [2, 9].iter().for_each(|key| outbox.cancel(key));
        outbox.push(2);
        let told: Vec<_> = core::iter::from_fn(|| outbox.pop()).collect();
        assert_eq!(told, [1, 3, 2]);
    }

    #[test]
    fn past_the_burst_messages_leave_at_their_pace() {
        let mut outbox = Outbox::<u8>::new(Time::ZERO, PACE);
        outbox.spend();
        outbox.spend();
        assert!(!outbox.may_send());
        assert_eq!(outbox.ready(), Time::from_millis(4));
        outbox.refill(Time::from_millis(3));
        assert!(!outbox.may_send());
        outbox.refill(Time::from_millis(5));
        outbox.spend();
        assert_eq!(outbox.ready(), Time::from_millis(8));
        outbox.refill(Time::from_millis(100));
        outbox.spend();
        assert!(outbox.may_send());
        outbox.spend_many(4);
        assert_eq!(outbox.ready(), Time::from_millis(100 + 4 * 4));
    }
}
