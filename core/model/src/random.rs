//! Choices that a seed repeats.

use core::f64::consts::TAU;
use core::time::Duration;

/// A generator of numbers that is given, never global: SplitMix64 (Steele, Lea & Flood, 2014).
/// Good enough for choices and simulations, not for secrets.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
    /// The second of a pair of normal numbers.
    spare: Option<f64>,
}

impl Random {
    /// The numbers of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self {
            state: seed,
            spare: None,
        }
    }

    /// All 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, or 0 if that is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.bits()) * bound as u128) >> 64) as usize
    }

    /// Whether something of this probability happens.
    pub fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.unit() < probability
    }

    /// A time below `bound`, in whole microseconds; 0 if that is 0.
    pub fn time(&mut self, bound: Duration) -> Duration {
        Duration::from_micros(self.below(bound.as_micros() as usize) as u64)
    }

    /// One of these, if there is any.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len()))
    }

    /// A number in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number of the standard normal distribution (Box & Muller, 1958).
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        // In 0 < u <= 1, so that the logarithm is finite.
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        let (sin, cos) = (TAU * self.unit()).sin_cos();
        self.spare = Some(radius * sin);
        radius * cos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_numbers() {
        // The first outputs for seed 0, as published with the generator.
        let mut random = Random::new(0);
        assert_eq!(random.bits(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.bits(), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!(Random::new(7).below(0), 0);
        assert_eq!(Random::new(7).time(Duration::ZERO), Duration::ZERO);
        assert_eq!(Random::new(7).pick::<u8>(&[]), None);
    }

    #[test]
    fn normal_numbers_have_mean_zero_and_deviation_one() {
        let mut random = Random::new(1);
        let draws: Vec<f64> = (0..100_000).map(|_| random.normal()).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let square = draws.iter().map(|x| x * x).sum::<f64>() / draws.len() as f64;
        let late = draws.iter().filter(|x| **x > 1.96).count();
        assert!(
            mean.abs() < 0.01 && (square - 1.0).abs() < 0.02,
            "{mean} {square}"
        );
        assert!((2_350..2_650).contains(&late), "{late}");
    }
}
