//! So many each second.

use sangam_model::Time;

/// Bounds how often something happens each second.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    used: u32,
    second: u64,
}

impl Bucket {
    /// Whether it may happen once more in this second.
    pub(crate) fn admits(&mut self, now: Time, per_second: u32) -> bool {
        let second = now.as_micros() / 1_000_000;
        if second != self.second {
            *self = Self { used: 0, second };
        }
        self.used = self.used.saturating_add(1);
        self.used <= per_second
    }

    /// The last time does not count.
    pub(crate) fn forgive(&mut self) {
        self.used = self.used.saturating_sub(1);
    }
}
