//! Logarithms by integers: the same bits on every machine, which `f64::ln` does not promise.

/// Steps of the table between two powers of two; between its entries the curve is a line, at most
/// 2^-23 beside it.
const STEPS: usize = 1 << 10;
/// log2(1 + i / STEPS) in units of 2^-32.
const TABLE: [u64; STEPS + 1] = table();

/// `-log2(u / 2^64)` in units of 2^-32: 1 to 64 * 2^32. Zero counts as one.
pub(crate) fn minus_log2(u: u64) -> u64 {
    let u = u.max(1);
    let zeros = u.leading_zeros();
    // The digits behind the leading one.
    let digits = (u << zeros) << 1;
    let step = (digits >> 54) as usize;
    let rest = (digits >> 22) & 0xffff_ffff;
    let (low, high) = (TABLE[step], TABLE[step + 1]);
    let fraction = low + (((high - low) * rest) >> 32);
    (u64::from(zeros + 1) << 32) - fraction
}

/// Bit by bit: squaring a number doubles its logarithm.
const fn table() -> [u64; STEPS + 1] {
    const ONE: u128 = 1 << 63;
    let mut table = [0; STEPS + 1];
    let mut i = 0;
    while i < STEPS {
        let mut x = ((STEPS + i) as u128) << 53;
        let mut log = 0;
        let mut bit = 0;
        while bit < 32 {
            x = (x * x) >> 63;
            log <<= 1;
            if x >= 2 * ONE {
                x >>= 1;
                log |= 1;
            }
            bit += 1;
        }
        table[i] = log;
        i += 1;
    }
    table[STEPS] = 1 << 32;
    table
}

#[cfg(test)]
mod tests {
    use sangam_model::Random;

    use super::*;

    #[test]
    fn it_is_the_logarithm() {
        let mut random = Random::new(1);
        for _ in 0..100_000 {
            let shift = random.below(64);
            let u = random.bits() >> shift;
            let exact = 64.0 - (u.max(1) as f64).log2();
            let ours = minus_log2(u) as f64 / (1_u64 << 32) as f64;
            assert!((ours - exact).abs() < 2e-7, "{u}: {ours} {exact}");
        }
        assert_eq!(minus_log2(1), 64 << 32);
        assert_eq!(minus_log2(0), 64 << 32);
        assert!(minus_log2(u64::MAX) < 4);
    }

    #[test]
    fn its_bits_are_the_same_everywhere() {
        let mut random = Random::new(2);
        let sum = (0..1_000).fold(0_u64, |sum, _| {
            sum.rotate_left(1) ^ minus_log2(random.bits())
        });
        assert_eq!(sum, 15_804_690_754_305_819_064);
    }
}
