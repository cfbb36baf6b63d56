//! What a node may send in a second. Where its line is narrower than what is due, films wait for
//! each other, the one first that is due first, in place of losing packets in somebody's queue.

use std::time::Duration;

use sangam_model::Time;

/// Of what films take on average, in percent: what leaves at any moment at most, headers included.
const PEAK: u64 = 110;
/// What may be on its way to the line: what it carries in so long.
const AHEAD: Duration = Duration::from_millis(6);
/// When no more than this is left of it more may leave, so that several bursts go at once.
const LEFT: Duration = Duration::from_millis(2);
/// Of the line's time that went by unused, because this thread was not there, so much is made up
/// for: less than what the queue before a line holds.
const CREDIT: Duration = Duration::from_millis(30);
/// Around each datagram: Ethernet's header and those of IP and UDP.
const HEADERS: usize = 14 + 20 + 8;

/// The way to the line; open for ever where it has no limit.
#[derive(Debug)]
pub(super) struct Gate {
    bytes_per_s: Option<u64>,
    /// When all that left will have passed the line.
    passed: Time,
}

impl Gate {
    /// Where films may take so many bits a second on average.
    pub(super) fn new(limit: Option<u64>) -> Self {
        let bytes_per_s = limit.map(|bits| (bits / 8 * PEAK / 100).max(1));
        Self {
            bytes_per_s,
            passed: Time::ZERO,
        }
    }

    /// Whether something may leave.
    pub(super) fn is_open(&self, now: Time) -> bool {
        self.passed <= now + AHEAD
    }

    /// When to look again, once nothing may leave.
    pub(super) fn opens(&self) -> Time {
        let left = LEFT.as_micros() as u64;
        Time::from_micros(self.passed.as_micros().saturating_sub(left))
    }

    /// So many datagrams leave, of so many bytes.
    pub(super) fn pass(&mut self, now: Time, datagrams: usize, bytes: usize) {
        let Some(bytes_per_s) = self.bytes_per_s else {
            return;
        };
        let bytes = (bytes + datagrams * HEADERS) as u64;
        let lasts = Duration::from_micros(bytes.saturating_mul(1_000_000) / bytes_per_s);
        let credit = CREDIT.as_micros() as u64;
        let earliest = Time::from_micros(now.as_micros().saturating_sub(credit));
        self.passed = self.passed.max(earliest) + lasts;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_leaves_than_the_line_carries_and_little_is_saved_up() {
        let mut gate = Gate::new(Some(88_000_000));
        let mut now = Time::from_millis(1_000);
        for _ in 0..3 {
            let (mut sent, begin) = (0, now);
            while now - begin < Duration::from_secs(1) {
                while gate.is_open(now) {
                    gate.pass(now, 8, 8 * 1_358);
                    sent += 8 * 1_400;
                }
                assert!(gate.opens() > now);
                now += Duration::from_millis(2);
            }
            let mbps = sent as f64 * 8e-6;
            // A pause is worth 30 ms of the line, not more.
            assert!((96.0..101.0).contains(&mbps), "{mbps}");
            now += Duration::from_secs(5);
        }
    }

    #[test]
    fn a_line_without_a_limit_is_always_open() {
        let mut gate = Gate::new(None);
        gate.pass(Time::ZERO, 1_000_000, 1 << 40);
        assert!(gate.is_open(Time::ZERO));
    }
}
