//! Spreads packets over time: a token bucket whose bursts are as long as a few milliseconds.

use core::time::Duration;

use sangam_model::{Bitrate, Time};

/// So much may leave at once after a pause: a timer's grain, and bursts for the kernel to segment.
const BURST: Duration = Duration::from_millis(4);
/// At any rate, two large packets.
const BURST_MIN: f64 = 3_000.0;

/// How much may leave now. Below the rate it costs a few additions for each batch and no timer.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    /// Bytes each second.
    rate: f64,
    /// Bytes that may leave; negative if more left than was due.
    credit: f64,
    refilled: Time,
}

impl Default for Pacer {
    /// One that holds nothing back.
    fn default() -> Self {
        Self {
            rate: f64::INFINITY,
            credit: f64::INFINITY,
            refilled: Time::ZERO,
        }
    }
}

impl Pacer {
    /// A pacer for this rate, with a burst in hand.
    #[must_use]
    pub fn new(now: Time, rate: Bitrate) -> Self {
        let mut pacer = Self {
            refilled: now,
            ..Self::default()
        };
        pacer.set_rate(now, rate);
        pacer
    }

    /// From now on at this rate.
    pub fn set_rate(&mut self, now: Time, rate: Bitrate) {
        self.refill(now);
        self.rate = rate.as_bps() as f64 / 8.0;
        self.credit = self.credit.min(self.burst());
    }

    /// Whether a packet may leave; the last of a burst may be larger than what is left.
    pub fn may_send(&mut self, now: Time) -> bool {
        self.refill(now);
        self.credit > 0.0
    }

    /// Whether a packet that cannot wait may leave: it borrows from what comes.
    pub fn may_borrow(&mut self, now: Time) -> bool {
        self.refill(now);
        self.credit > -self.burst()
    }

    /// A packet of `bytes` left.
    #[inline]
    pub fn spend(&mut self, bytes: usize) {
        self.credit -= bytes as f64;
    }

    /// A packet of `bytes` did not leave after all.
    pub fn refund(&mut self, bytes: usize) {
        self.credit += bytes as f64;
    }

    /// When the next packet may leave.
    #[must_use]
    pub fn ready(&self) -> Time {
        if self.credit > 0.0 {
            return self.refilled;
        }
        let wait = (1.0 - self.credit) / self.rate.max(1.0);
        self.refilled + Duration::from_micros((wait * 1e6).ceil() as u64)
    }

    /// How long `bytes` take to leave.
    #[must_use]
    pub fn time_for(&self, bytes: u64) -> Duration {
        Duration::from_micros((bytes as f64 / self.rate.max(1.0) * 1e6) as u64)
    }

    fn refill(&mut self, now: Time) {
        let due = (now - self.refilled).as_micros() as f64 / 1e6 * self.rate;
        if due > 0.0 {
            self.credit = (self.credit + due).min(self.burst());
            self.refilled = now;
        }
    }

    fn burst(&self) -> f64 {
        (self.rate * BURST.as_secs_f64()).max(BURST_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: usize = 1_000;

    /// Packets that leave in a second if the pacer is asked so often.
    fn sent(every: Duration) -> usize {
        let mut now = Time::from_millis(1);
        let mut pacer = Pacer::new(now, Bitrate::from_mbps(8));
        let end = now + Duration::from_secs(1);
        let mut sent = 0;
        while now < end {
            while pacer.may_send(now) {
                pacer.spend(PACKET);
                sent += 1;
            }
            now += every;
        }
        sent
    }

    #[test]
    fn packets_leave_at_the_rate_however_often_the_pacer_is_asked() {
        for us in [1, 137, 1_000, 3_000] {
            let sent = sent(Duration::from_micros(us));
            assert!((1_000..=1_005).contains(&sent), "every {us} us: {sent}");
        }
    }

    #[test]
    fn a_pause_earns_one_burst_and_no_more() {
        let mut pacer = Pacer::new(Time::ZERO, Bitrate::from_mbps(8));
        let now = Time::from_millis(10_000);
        let mut burst = 0;
        while pacer.may_send(now) {
            pacer.spend(PACKET);
            burst += 1;
        }
        assert_eq!(burst, 4);
        assert!(pacer.ready() > now && pacer.ready() <= now + Duration::from_millis(1));
        // Audio borrows as much again.
        assert!(pacer.may_borrow(now));
        pacer.spend(5 * PACKET);
        assert!(!pacer.may_borrow(now));
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let mut pacer = Pacer::default();
        for _ in 0..1_000 {
            assert!(pacer.may_send(Time::ZERO));
            pacer.spend(65_000);
        }
        assert_eq!(pacer.time_for(1 << 40), Duration::ZERO);
    }
}
