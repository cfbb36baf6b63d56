//! Round-trip time and the patience that follows from it.

use core::time::Duration;

/// An acknowledgement waits so long for a message to ride on.
pub(crate) const ACK_DELAY: Duration = Duration::from_millis(20);

const RTO_MIN: Duration = Duration::from_millis(100);
const RTO_MAX: Duration = Duration::from_secs(2);
/// Before the first sample: above the round trip of nearly every path on earth.
const RTO_INITIAL: Duration = Duration::from_millis(300);

/// The smoothed round trip of RFC 6298 section 2, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rtt {
    smoothed_us: u32,
    variation_us: u32,
}

impl Rtt {
    pub(crate) fn sample(&mut self, rtt: Duration) {
        let rtt = u32::try_from(rtt.as_micros())
            .unwrap_or(u32::MAX / 8)
            .clamp(1, u32::MAX / 8);
        if self.smoothed_us == 0 {
            self.smoothed_us = rtt;
            self.variation_us = rtt / 2;
            return;
        }
        let error = self.smoothed_us.abs_diff(rtt);
        self.variation_us = self.variation_us - self.variation_us / 4 + error / 4;
        self.smoothed_us = (self.smoothed_us - self.smoothed_us / 8 + rtt / 8).max(1);
    }

    pub(crate) fn smoothed(&self) -> Option<Duration> {
        (self.smoothed_us > 0).then(|| Duration::from_micros(self.smoothed_us.into()))
    }

    /// How long an answer may be on its way.
    pub(crate) fn patience(&self) -> Duration {
        let patience = match self.smoothed() {
            None => RTO_INITIAL,
            Some(smoothed) => {
                smoothed + Duration::from_micros(4 * u64::from(self.variation_us)) + ACK_DELAY
            }
        };
        patience.max(RTO_MIN)
    }

    /// When to repeat what is not acknowledged, after `timeouts` in a row.
    pub(crate) fn timeout(&self, timeouts: u32) -> Duration {
        let factor = 1_u32.checked_shl(timeouts).unwrap_or(u32::MAX);
        self.patience().saturating_mul(factor).min(RTO_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_path_is_measured_as_it_is() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.smoothed(), None);
        for _ in 0..100 {
            rtt.sample(Duration::from_millis(40));
        }
        let smoothed = rtt.smoothed().unwrap();
        assert!(smoothed.abs_diff(Duration::from_millis(40)) < Duration::from_micros(100));
        assert_eq!(rtt.timeout(0), RTO_MIN);
    }

    #[test]
    fn the_timeout_doubles_and_ends_at_two_seconds() {
        let mut rtt = Rtt::default();
        rtt.sample(Duration::from_millis(100));
        assert_eq!(rtt.timeout(0), Duration::from_millis(320));
        assert_eq!(rtt.timeout(1), Duration::from_millis(640));
        assert_eq!(rtt.timeout(3), RTO_MAX);
        assert_eq!(rtt.timeout(40), RTO_MAX);
    }
}
