//! A counter that threads share.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that any thread raises and any thread reads.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Raises it by `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// Raises it by one.
    pub fn one(&self) {
        self.add(1);
    }

    /// What it has come to.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
