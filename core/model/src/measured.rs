//! What a link measured.

use core::time::Duration;

/// How good a link is, smoothed: what routing weighs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Smoothed round trip.
    pub rtt: Duration,
    /// Variation of the one-way delay, as RFC 3550 section 6.4.1 smooths it.
    pub jitter: Duration,
    /// Packets lost on the way to the peer, in millionths, over the last 4 to 8 s.
    pub loss_ppm: u32,
}

impl Measured {
    /// Whether `other` differs by more than a fifth in anything, above what noise does.
    #[must_use]
    pub fn differs(&self, other: &Self) -> bool {
        let far = |a: u128, b: u128, noise: u128| a.abs_diff(b) > (a.max(b) / 5).max(noise);
        far(self.rtt.as_micros(), other.rtt.as_micros(), 1_000)
            || far(self.jitter.as_micros(), other.jitter.as_micros(), 1_000)
            || far(self.loss_ppm.into(), other.loss_ppm.into(), 5_000)
    }
}
