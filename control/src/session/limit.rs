//! How much one caller may ask: a bucket for each address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Requests of one address at once, and how many more each second.
const BURST: f64 = 200.0;
const PER_S: f64 = 100.0;
/// Addresses that are remembered.
const ADDRESSES: usize = 16_384;

/// The buckets of all addresses.
#[derive(Debug, Default)]
pub(super) struct Limits(Mutex<HashMap<IpAddr, Bucket>>);

/// What may still be asked, and since when that is so.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    left: f64,
    at: Instant,
    burst: f64,
    per_s: f64,
}

impl Bucket {
    /// A full bucket.
    pub(super) fn new(now: Instant, burst: f64, per_s: f64) -> Self {
        Self {
            left: burst,
            at: now,
            burst,
            per_s,
        }
    }

    /// Takes one; false if there is none.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed * self.per_s).min(self.burst);
        self.at = now;
        let some = self.left >= 1.0;
        if some {
            self.left -= 1.0;
        }
        some
    }

    fn is_full(&self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left + passed * self.per_s >= self.burst
    }
}

impl Limits {
    /// Whether this address may ask once more.
    pub(super) fn allows(&self, address: IpAddr, now: Instant) -> bool {
        let Ok(mut buckets) = self.0.lock() else {
            return true;
        };
        if buckets.len() >= ADDRESSES {
            buckets.retain(|_, bucket| !bucket.is_full(now));
        }
        if buckets.len() >= ADDRESSES && !buckets.contains_key(&address) {
            return false;
        }
        let bucket = buckets
            .entry(address)
            .or_insert_with(|| Bucket::new(now, BURST, PER_S));
        bucket.take(now)
    }

    /// How long whoever is refused should wait.
    pub(super) const fn wait() -> Duration {
        Duration::from_secs(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_is_held_up_and_no_other() {
        let (limits, now) = (Limits::default(), Instant::now());
        let (greedy, modest) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let allowed = (0..1_000).filter(|_| limits.allows(greedy, now)).count();
        assert_eq!(allowed, 200);
        assert!(limits.allows(modest, now));
        let later = now + Limits::wait();
        let allowed = (0..1_000).filter(|_| limits.allows(greedy, later)).count();
        assert_eq!(allowed, 100);
    }

    #[test]
    fn addresses_beyond_the_bound_take_no_memory() {
        let (limits, now) = (Limits::default(), Instant::now());
        for number in 0..ADDRESSES as u32 + 10 {
            limits.allows(IpAddr::from(number.to_be_bytes()), now);
        }
        assert!(limits.0.lock().unwrap().len() <= ADDRESSES);
    }
}
