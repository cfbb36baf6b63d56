//! Fewer wake-ups where much comes from many: the lane naps while more arrives.
//!
//! A lane that wakes for every few packets pays more for waking, and for taking the processor from
//! the shards, than for the packets. Network cards moderate their interrupts for the same reason.

use std::time::Duration;

use sangam_model::Time;

/// Messages per second from which on it is worth it: so many that a nap gathers several. What the
/// kernel joined (GRO) is one message, as it woke the lane once.
const BUSY: f64 = 30_000.0;
/// How long to look before the rate is known.
const WINDOW: Duration = Duration::from_millis(2);
/// How much longer a packet may wait for it. An audio frame lasts eighty times as long.
const NAP: Duration = Duration::from_micros(250);

/// How much has come lately.
#[derive(Debug, Default)]
pub(super) struct Naps {
    /// Begin of the window.
    since: Time,
    /// Messages in it.
    messages: usize,
    /// What the window before it had.
    busy: bool,
}

impl Naps {
    /// That many messages were received.
    pub(super) fn received(&mut self, messages: usize) {
        self.messages += messages;
    }

    /// How long to nap before the next wait, if at all. To be asked whenever nothing is left to do.
    pub(super) fn next(&mut self, now: Time) -> Option<Duration> {
        let span = now - self.since;
        if span >= WINDOW {
            self.busy = self.messages as f64 >= BUSY * span.as_secs_f64();
            self.since = now;
            self.messages = 0;
        }
        self.busy.then_some(NAP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the lane naps after `messages` in each of some milliseconds.
    fn naps(messages_per_ms: &[usize]) -> Vec<bool> {
        let mut naps = Naps::default();
        let mut ms = 0;
        let mut after = |messages: &usize| {
            ms += 1;
            naps.received(*messages);
            naps.next(Time::from_millis(ms)).is_some()
        };
        messages_per_ms.iter().map(&mut after).collect()
    }

    #[test]
    fn a_lane_naps_while_much_comes() {
        let (calm, busy) = (20, 100);
        let expected = [false, false, false, true, true, true, true, false];
        assert_eq!(
            naps(&[calm, calm, busy, busy, busy, calm, calm, calm]),
            expected
        );
    }

    #[test]
    fn a_burst_after_silence_is_served_at_once() {
        let mut naps = Naps::default();
        naps.received(1_000);
        assert_eq!(naps.next(Time::from_millis(500)), None);
    }
}
