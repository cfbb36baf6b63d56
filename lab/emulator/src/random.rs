//! Chance by seed: the same seed gives the same network on every machine.

use sangam_model::Random;

/// The generator of a seed and, below it, of a number: of one path among many.
pub(crate) fn path_random(seed: u64, number: u64) -> Random {
    let mut parent = Random::new(seed ^ number.wrapping_mul(0xd134_2543_de82_ef95));
    // Neighbouring seeds begin alike; one step parts them.
    Random::new(parent.bits())
}

/// The share of a standard normal distribution below `z` (Abramowitz and Stegun, 7.1.26; error
/// below 1.5e-7).
pub(crate) fn below(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let factors = [
        1.061_405_429,
        -1.453_152_027,
        1.421_413_741,
        -0.284_496_736,
        0.254_829_592,
    ];
    let polynomial = factors.iter().fold(0.0, |sum, factor| sum * t + factor) * t;
    let tail = polynomial * (-x * x).exp() / 2.0;
    if z > 0.0 { 1.0 - tail } else { tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_paths_differ() {
        let draw = |seed, number| {
            let mut random = path_random(seed, number);
            [(); 4].map(|()| random.bits())
        };
        assert_eq!(draw(7, 1), draw(7, 1));
        assert_ne!(draw(7, 1), draw(7, 2));
        assert_ne!(draw(7, 1), draw(8, 1));
    }

    #[test]
    fn the_normal_distribution_matches_its_table() {
        for (z, share) in [
            (0.0, 0.5),
            (1.0, 0.841_345),
            (-1.0, 0.158_655),
            (2.0, 0.977_250),
        ] {
            assert!((below(z) - share).abs() < 1e-6, "{z}");
        }
    }
}
