//! From measurements to a link's weight.

use core::iter;
use core::time::Duration;

use sangam_model::{Measured, Time};

use crate::estimate::{DEVIATIONS, Estimate, cost_ms};

/// The largest weight: a link that is to be used only if there is no other.
pub const WEIGHT_MAX: u16 = u16::MAX;

/// Units of weight in a millisecond of cost.
const UNITS_PER_MS: f64 = 10.0;
/// Costs that differ by less are the same: their sums are rounded.
const GRAIN: f64 = 1e-6;
/// Every link costs so many units besides, so that of equally fast ways the one with fewer
/// brokers is taken: a broker adds up to 0.3 ms.
const HOP_UNITS: u64 = 3;
/// A weight changes if the new one differs by more than a quarter and by more than so many units,
const STEP_UNITS: u16 = 10;
/// for so long,
const PATIENCE: Duration = Duration::from_secs(3);
/// and not sooner after the last change than this: ways must not swing.
const REST: Duration = Duration::from_secs(10);

/// The weight of one link over time.
#[derive(Clone, Debug)]
pub struct Weigher {
    weight: u16,
    /// Fixed by an operator.
    pinned: Option<u16>,
    changed: Option<Time>,
    /// Since when measurements speak for another weight.
    differs: Option<Time>,
}

/// The weight that just this measurement would give, `1..=WEIGHT_MAX`.
fn weight_of(measured: &Measured) -> u16 {
    let cost_ms = cost_ms(iter::once(&Estimate::of(measured)), DEVIATIONS);
    let units = HOP_UNITS + (cost_ms * UNITS_PER_MS - GRAIN).ceil() as u64;
    u16::try_from(units).unwrap_or(WEIGHT_MAX)
}

impl Weigher {
    /// A link of which nothing is measured yet; `pinned` fixes its weight for good.
    #[must_use]
    pub fn new(pinned: Option<u16>) -> Self {
        Self {
            weight: pinned.unwrap_or(weight_of(&Measured::default())),
            pinned,
            changed: None,
            differs: None,
        }
    }

    /// The weight now.
    #[must_use]
    pub const fn weight(&self) -> u16 {
        self.weight
    }

    /// Takes a measurement; whether the weight changed. The first counts at once.
    pub fn measure(&mut self, now: Time, measured: &Measured) -> bool {
        if self.pinned.is_some() {
            return false;
        }
        let target = weight_of(measured);
        let gap = target.abs_diff(self.weight);
        if self.changed.is_none() {
            // Until now it was a guess.
            (self.weight, self.changed) = (target, Some(now));
            return gap != 0;
        }
        if gap <= STEP_UNITS || gap <= self.weight / 4 {
            self.differs = None;
            return false;
        }
        let since = *self.differs.get_or_insert(now);
        let rested = self.changed.is_none_or(|changed| now - changed >= REST);
        let settled = rested && now - since >= PATIENCE;
        if settled {
            self.weight = target;
            self.differs = None;
            self.changed = Some(now);
        }
        settled
    }

    /// Fixes the weight, or lets measurements decide again: the next one counts at once. Whether
    /// it changed.
    pub fn pin(&mut self, weight: Option<u16>) -> bool {
        if weight.is_none() && self.pinned.is_some() {
            // What was fixed says nothing of the link.
            (self.changed, self.differs) = (None, None);
        }
        self.pinned = weight;
        let before = self.weight;
        self.weight = weight.map_or(self.weight, |weight| weight.max(1));
        self.weight != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rtt(ms: u64) -> Measured {
        Measured {
            rtt: Duration::from_millis(ms),
            ..Measured::default()
        }
    }

    #[test]
    fn delay_deviation_and_loss_add_up() {
        assert_eq!(weight_of(&rtt(0)), 3);
        assert_eq!(weight_of(&rtt(90)), 3 + 450);
        let shaky = Measured {
            jitter: Duration::from_millis(5),
            loss_ppm: 10_000,
            ..rtt(90)
        };
        assert_eq!(weight_of(&shaky), 3 + 450 + 100 + 100);
        assert_eq!(weight_of(&rtt(1 << 40)), WEIGHT_MAX);
    }

    #[test]
    fn the_first_measurement_counts_at_once_and_later_ones_when_they_last() {
        let mut weigher = Weigher::new(None);
        assert!(weigher.measure(Time::ZERO, &rtt(20)));
        assert_eq!(weigher.weight(), 103);
        let second = |n: u64| Time::from_millis(n * 1_000);
        // A spike of two seconds moves nothing.
        assert!(!weigher.measure(second(20), &rtt(80)));
        assert!(!weigher.measure(second(22), &rtt(80)));
        assert!(!weigher.measure(second(23), &rtt(20)));
        assert!(!weigher.measure(second(30), &rtt(80)));
        assert!(weigher.measure(second(33), &rtt(80)));
        assert_eq!(weigher.weight(), 403);
        // Changes rest.
        assert!(!weigher.measure(second(34), &rtt(20)));
        assert!(!weigher.measure(second(38), &rtt(20)));
        assert!(weigher.measure(second(43), &rtt(20)));
    }

    #[test]
    fn a_first_measurement_near_the_guess_counts_too() {
        let mut weigher = Weigher::new(None);
        assert!(weigher.measure(Time::ZERO, &rtt(1)));
        assert_eq!(weigher.weight(), 8);
        assert!(!Weigher::new(None).measure(Time::ZERO, &rtt(0)));
    }

    #[test]
    fn small_differences_are_no_reason() {
        let mut weigher = Weigher::new(None);
        weigher.measure(Time::ZERO, &rtt(100));
        for n in 1..100 {
            assert!(!weigher.measure(Time::from_millis(n * 1_000), &rtt(120)));
        }
    }

    #[test]
    fn a_pinned_weight_stays() {
        let mut weigher = Weigher::new(Some(7));
        assert!(!weigher.measure(Time::ZERO, &rtt(500)));
        assert_eq!(weigher.weight(), 7);
        assert!(weigher.pin(Some(9)) && !weigher.pin(None));
        assert!(weigher.measure(Time::ZERO, &rtt(500)));
    }

    #[test]
    fn what_is_measured_counts_at_once_when_a_weight_is_pinned_no_more() {
        let mut weigher = Weigher::new(None);
        weigher.measure(Time::ZERO, &rtt(20));
        let before = weigher.weight();
        weigher.pin(Some(10_000));
        weigher.pin(None);
        assert!(weigher.measure(Time::from_millis(1_000), &rtt(20)));
        assert_eq!(weigher.weight(), before);
    }
}
