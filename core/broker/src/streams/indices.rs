//! Places of streams in tables of per-stream state.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use sangam_model::limits::STREAMS_PER_BROKER;
use sangam_model::{StreamId, Time};

/// So long the place of a stream that is gone waits for its return. A tree that turns around ends
/// a stream for a moment; with another place its duplicate window would be another, and what came
/// by the old way would be new by the new one. After a second of silence a window forgets anyway.
const RETURN: Duration = Duration::from_secs(2);
/// Places that wait at once.
const WAITING_MAX: usize = STREAMS_PER_BROKER;

/// Dense numbers; those given back are taken first.
#[derive(Debug, Default)]
pub(super) struct Indices {
    free: Vec<u32>,
    next: u32,
    /// Places of streams that may return, and until when.
    waiting: BTreeMap<StreamId, (u32, Time)>,
    ends: VecDeque<(Time, StreamId)>,
}

impl Indices {
    pub(super) fn take(&mut self, now: Time, stream: StreamId) -> u32 {
        if let Some((index, _)) = self.waiting.remove(&stream) {
            return index;
        }
        self.expire(now);
        self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    /// The stream is gone for good.
    pub(super) fn free(&mut self, index: u32) {
        self.free.push(index);
    }

    /// The stream is gone, and may return.
    pub(super) fn leave(&mut self, now: Time, stream: StreamId, index: u32) {
        self.expire(now);
        let until = now + RETURN;
        self.waiting.insert(stream, (index, until));
        self.ends.push_back((until, stream));
    }

    fn expire(&mut self, now: Time) {
        while let Some((until, stream)) = self.ends.front().copied()
            && (until <= now || self.ends.len() >= WAITING_MAX)
        {
            self.ends.pop_front();
            // It may have returned, and gone again later.
            let waits = self.waiting.get(&stream);
            if let Some((index, _)) = waits.copied().filter(|(_, at)| *at == until) {
                self.waiting.remove(&stream);
                self.free.push(index);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sangam_model::{BrokerId, Incarnation};

    use super::*;

    const START: Time = Time::from_millis(1);

    fn stream(local: u32) -> StreamId {
        StreamId::new(BrokerId(1), Incarnation(0), local)
    }

    #[test]
    fn a_stream_that_returns_soon_has_its_place_again() {
        let mut indices = Indices::default();
        let first = indices.take(START, stream(1));
        indices.leave(START, stream(1), first);
        assert_ne!(indices.take(START, stream(2)), first);
        assert_eq!(indices.take(START, stream(1)), first);
    }

    #[test]
    fn the_place_of_one_that_does_not_return_is_taken_by_another() {
        let mut indices = Indices::default();
        let first = indices.take(START, stream(1));
        indices.leave(START, stream(1), first);
        // It returns once, and goes again: that counts.
        let half = START + RETURN / 2;
        assert_eq!(indices.take(half, stream(1)), first);
        indices.leave(half, stream(1), first);
        assert_ne!(indices.take(START + RETURN, stream(2)), first);
        assert_eq!(indices.take(half + RETURN, stream(3)), first);
    }
}
