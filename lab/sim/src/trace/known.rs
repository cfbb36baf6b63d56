//! The hashes of the study's traces, found before any method was tuned.

use super::Family;

const HASHES: &str = include_str!("../../data/trace-hashes.txt");

/// Moments by which networks of the study are known. Longer traces begin with the same moments.
pub const KNOWN_ROWS: u64 = 30_000;
/// Moments by which they are known as a whole: those of the paper's 600,000 packets.
pub const KNOWN_ROWS_WHOLE: u64 = 600_000;

/// The hash that the trace of a family, a seed and so many moments has, if the study uses
/// it: those of [`KNOWN_ROWS`] and [`KNOWN_ROWS_WHOLE`], and some short ones for tests.
#[must_use]
pub fn known_hash(family: Family, seed: u64, rows: u64) -> Option<u64> {
    let start = format!("{} {seed} {rows} ", family.name());
    let hash = HASHES.lines().find_map(|line| line.strip_prefix(&start))?;
    u64::from_str_radix(hash.trim(), 16).ok()
}
