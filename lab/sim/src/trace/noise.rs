//! Random series by arithmetic alone: the logarithms and sines of platforms differ in their last
//! bit, and a trace has to hash the same everywhere.

use core::f64::consts::{LN_2, SQRT_2};

use sangam_model::Random;

/// The probability of each tail, in which another approximation holds.
const TAIL: f64 = 0.024_25;
/// Normal numbers that are made at once.
const NORMALS: usize = 64;

/// The natural logarithm of a positive, normal number.
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as f64 - 1023.0;
    let mut mantissa = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | 1.0_f64.to_bits());
    if mantissa > SQRT_2 {
        mantissa /= 2.0;
        exponent += 1.0;
    }
    // atanh as a series: the square is below 0.03, so ten terms reach the last bits.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let terms = (0..10).rev().map(|n| f64::from(2 * n + 1));
    let series = terms.fold(0.0, |sum, odd| sum * square + 1.0 / odd);
    exponent * LN_2 + 2.0 * s * series
}

/// In 0 < u < 1.
fn open_unit(random: &mut Random) -> f64 {
    ((random.bits() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

/// A number of the exponential distribution with mean 1.
pub(super) fn exponential(random: &mut Random) -> f64 {
    -ln(open_unit(random))
}

/// A number of the standard normal distribution: Acklam's approximation of its inverse, whose
/// relative error is below 1.2e-9.
pub(super) fn normal(random: &mut Random) -> f64 {
    quantile(open_unit(random))
}

/// As many of [`normal`]'s numbers as fit: several side by side, but for the few in the tails.
pub(super) fn normals(random: &mut Random, out: &mut [f64]) {
    out.iter_mut().for_each(|p| *p = open_unit(random));
    for block in out.chunks_mut(NORMALS) {
        let mut middles = [0.0; NORMALS];
        for (middle, p) in middles.iter_mut().zip(block.iter()) {
            *middle = self::middle(*p);
        }
        for (p, middle) in block.iter_mut().zip(middles) {
            *p = if (TAIL..=1.0 - TAIL).contains(p) {
                middle
            } else {
                quantile(*p)
            };
        }
    }
}

fn quantile(p: f64) -> f64 {
    if p < TAIL {
        return tail((-2.0 * ln(p)).sqrt());
    }
    if p > 1.0 - TAIL {
        return -tail((-2.0 * ln(1.0 - p)).sqrt());
    }
    middle(p)
}

fn middle(p: f64) -> f64 {
    let q = p - 0.5;
    let r = q * q;
    let over = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    let under = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
        1.0,
    ];
    polynomial(over, r) * q / polynomial(under, r)
}

fn tail(q: f64) -> f64 {
    let over = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    let under = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
        1.0,
    ];
    polynomial(over, q) / polynomial(under, q)
}

fn polynomial<const N: usize>(factors: [f64; N], x: f64) -> f64 {
    factors.iter().fold(0.0, |sum, factor| sum * x + factor)
}

/// A first-order autoregression with mean 0 and deviation 1.
#[derive(Clone, Debug)]
pub(super) struct Correlated {
    keep: f64,
    fresh: f64,
    value: f64,
}

impl Correlated {
    /// One whose correlation falls by the factor `keep` with each step.
    pub(super) fn new(keep: f64, random: &mut Random) -> Self {
        Self {
            keep,
            fresh: (1.0 - keep * keep).sqrt(),
            value: normal(random),
        }
    }

    pub(super) fn next(&mut self, random: &mut Random) -> f64 {
        self.step(normal(random))
    }

    /// The next value, given the normal number that it is drawn by.
    pub(super) fn step(&mut self, normal: f64) -> f64 {
        self.value = self.keep * self.value + self.fresh * normal;
        self.value
    }
}

/// The same, smoothed once more: it has no steep steps, as a queue has none. Mean 0, deviation 1.
#[derive(Clone, Debug)]
pub(super) struct Smooth {
    source: Correlated,
    value: f64,
    scale: f64,
}

impl Smooth {
    pub(super) fn new(keep: f64, random: &mut Random) -> Self {
        let source = Correlated::new(keep, random);
        // The deviation of an exponential mean with this factor over that autoregression.
        let deviation = (1.0 + keep * keep).sqrt() / (1.0 + keep);
        let value = source.value * deviation;
        Self {
            source,
            value,
            scale: 1.0 / deviation,
        }
    }

    pub(super) fn next(&mut self, random: &mut Random) -> f64 {
        let fresh = self.source.next(random);
        let keep = self.source.keep;
        self.value = keep * self.value + (1.0 - keep) * fresh;
        self.value * self.scale
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_the_platform_s_but_for_the_last_bits() {
        for x in [
            1e-300, 1e-9, 0.1, 0.5, 0.999, 1.0, 1.5, 2.0, 3.0, 1e9, 1e300,
        ] {
            assert!(
                (ln(x) - x.ln()).abs() <= 4e-15 * x.ln().abs().max(1.0),
                "{x}"
            );
        }
    }

    #[test]
    fn the_normal_quantiles_match_their_table() {
        let table = [
            (0.5, 0.0),
            (0.975, 1.959_964),
            (0.001, -3.090_232),
            (0.841_344_7, 1.0),
        ];
        for (p, z) in table {
            assert!((quantile(p) - z).abs() < 1e-5, "{p}");
        }
    }

    #[test]
    fn many_normal_numbers_are_those_of_one_call_each() {
        let (mut one, mut many) = (Random::new(9), Random::new(9));
        let mut numbers = [0.0; 1_000];
        normals(&mut many, &mut numbers);
        assert!(numbers.iter().all(|number| *number == normal(&mut one)));
        assert_eq!(one.bits(), many.bits());
    }

    #[test]
    fn series_have_mean_zero_and_deviation_one() {
        let mut random = Random::new(3);
        let mut series = Correlated::new(0.9, &mut random);
        let mut smooth = Smooth::new(0.9, &mut random);
        let count = 200_000;
        let mut sums = [0.0; 4];
        for _ in 0..count {
            let (a, b) = (series.next(&mut random), smooth.next(&mut random));
            for (sum, value) in sums.iter_mut().zip([a, a * a, b, b * b]) {
                *sum += value / f64::from(count);
            }
        }
        assert!(
            sums[0].abs() < 0.05 && (sums[1] - 1.0).abs() < 0.05,
            "{sums:?}"
        );
        assert!(
            sums[2].abs() < 0.05 && (sums[3] - 1.0).abs() < 0.05,
            "{sums:?}"
        );
    }

    #[test]
    fn exponential_numbers_have_mean_one() {
        let mut random = Random::new(5);
        let sum: f64 = (0..100_000).map(|_| exponential(&mut random)).sum();
        assert!((sum / 100_000.0 - 1.0).abs() < 0.02, "{sum}");
    }
}
