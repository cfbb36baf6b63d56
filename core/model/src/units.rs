//! Quantities with their units in their types.

use core::fmt;
use core::time::Duration;

/// Bits each second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bitrate(u64);

impl Bitrate {
    /// So many bits each second.
    #[must_use]
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }

    /// So many thousand bits each second.
    #[must_use]
    pub const fn from_kbps(kbps: u64) -> Self {
        Self(kbps.saturating_mul(1_000))
    }

    /// So many million bits each second.
    #[must_use]
    pub const fn from_mbps(mbps: u64) -> Self {
        Self(mbps.saturating_mul(1_000_000))
    }

    /// Bits each second.
    #[must_use]
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// Bytes that pass in `time`, rounded down; at most `u64::MAX`.
    #[must_use]
    pub fn bytes_in(self, time: Duration) -> u64 {
        let bytes = u128::from(self.0) * time.as_micros() / 8_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// How long `bytes` take, in whole microseconds rounded up; [`Duration::MAX`] at rate zero.
    #[must_use]
    pub fn time_for(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        let us = (u128::from(bytes) * 8_000_000).div_ceil(u128::from(self.0));
        Duration::from_micros(u64::try_from(us).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Bitrate {
    /// In Mb/s with three decimals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:03} Mb/s",
            self.0 / 1_000_000,
            self.0 / 1_000 % 1_000
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_times_belong_together() {
        let rate = Bitrate::from_mbps(8);
        assert_eq!(rate.bytes_in(Duration::from_millis(1)), 1_000);
        assert_eq!(rate.time_for(1_000), Duration::from_millis(1));
        assert_eq!(rate.time_for(1), Duration::from_micros(1));
        assert_eq!(Bitrate::default().time_for(1), Duration::MAX);
        assert_eq!(rate.to_string(), "8.000 Mb/s");
    }
}
