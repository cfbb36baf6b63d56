//! A cheap keyed hash for ids and names; it resists accidents, not attackers.

/// A key for tables where a collision costs nothing but a miss (2^64 over the golden ratio).
pub const KEY: u64 = 0x9e37_79b9_7f4a_7c15;

/// One wide multiplication, both halves folded: every bit of `value` reaches every bit below.
#[inline]
#[must_use]
pub const fn fold(value: u64, key: u64) -> u64 {
    let wide = (value ^ key) as u128 * (key.rotate_left(29) | 1) as u128;
    wide as u64 ^ (wide >> 64) as u64
}
