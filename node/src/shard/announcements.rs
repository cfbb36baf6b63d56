//! Announcements that wait: a subscriber of thousands of streams hears of them at its own pace.

use std::collections::VecDeque;

use sangam_model::StreamId;

use super::audience::Subscriber;

/// Announcements that may wait in one shard; beyond, the oldest is given up, and its subscriber
/// gets events of a stream whose topic it is not told.
const WAITING: usize = 1 << 20;

/// Announcements made at a time: half a millisecond in which no event is delivered.
pub(super) const ROUND: usize = 128;

/// A line of announcements.
#[derive(Debug, Default)]
pub(super) struct Announcements {
    line: VecDeque<(Subscriber, StreamId)>,
}

impl Announcements {
    pub(super) fn len(&self) -> usize {
        self.line.len()
    }

    pub(super) fn add(&mut self, who: Subscriber, stream: StreamId) {
        if self.line.len() == WAITING {
            self.line.pop_front();
            tracing::warn!("too many announcements wait; a subscriber is not told of a stream");
        }
        self.line.push_back((who, stream));
    }

    /// Forgets a subscriber that left.
    pub(super) fn forget(&mut self, who: Subscriber) {
        self.line.retain(|(waiting, _)| *waiting != who);
    }

    pub(super) fn next(&mut self) -> Option<(Subscriber, StreamId)> {
        self.line.pop_front()
    }
}
