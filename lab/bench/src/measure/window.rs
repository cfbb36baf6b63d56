//! The span of a run that counts: what was sent before or after it is warm-up or run-out.

use std::sync::atomic::{AtomicU64, Ordering};

use sangam_model::Time;

/// Shared by publishers and receivers; empty until it is set.
#[derive(Debug)]
pub(crate) struct Window {
    from_us: AtomicU64,
    until_us: AtomicU64,
}

impl Window {
    /// A window that holds nothing yet.
    pub(crate) const fn new() -> Self {
        Self {
            from_us: AtomicU64::new(u64::MAX),
            until_us: AtomicU64::new(u64::MAX),
        }
    }

    /// Sets it. To be done before `from`.
    pub(crate) fn set(&self, from: Time, until: Time) {
        self.until_us.store(until.as_micros(), Ordering::SeqCst);
        self.from_us.store(from.as_micros(), Ordering::SeqCst);
    }

    /// Whether a packet sent at this moment counts.
    pub(crate) fn holds(&self, sent: Time) -> bool {
        let us = sent.as_micros();
        us >= self.from_us.load(Ordering::Relaxed) && us < self.until_us.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_half_open_and_empty_at_first() {
        let window = Window::new();
        assert!(!window.holds(Time::from_millis(5)));
        window.set(Time::from_millis(5), Time::from_millis(9));
        let inside = [4, 5, 8, 9].map(|ms| window.holds(Time::from_millis(ms)));
        assert_eq!(inside, [false, true, true, false]);
    }
}
