//! Loss above what the path loses anyhow.

use core::time::Duration;

use sangam_model::Time;

use super::delay::Minimum;

/// Loss is judged over at least this time.
const SPAN: Duration = Duration::from_millis(400);
/// More than this is never taken for the path's own.
const FLOOR_MAX: f64 = 0.1;
/// Less above the floor says nothing.
const EXCESS_MIN: f64 = 0.02;

/// Tells loss that comes of sending too much, where the buffer is too short to show it by delay,
/// from loss that the path has anyhow: that is there at any rate, so the least of the last ten
/// seconds is the path's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loss {
    packets: u64,
    lost: u64,
    since: Time,
    /// In millionths.
    floor: Minimum,
}

impl Loss {
    pub(super) fn new() -> Self {
        Self {
            packets: 0,
            lost: 0,
            since: Time::ZERO,
            floor: Minimum::new(Duration::from_secs(10)),
        }
    }

    /// Takes one sample; the share of packets lost above the floor if that is significant.
    pub(super) fn note(
        &mut self,
        now: Time,
        packets: u64,
        lost: u64,
        rtt: Duration,
    ) -> Option<f64> {
        self.packets += packets;
        self.lost += lost;
        if now - self.since < SPAN.max(rtt) || self.packets < 10 {
            return None;
        }
        let packets = self.packets as f64;
        let share = (self.lost as f64 / packets).min(1.0);
        (self.packets, self.lost, self.since) = (0, 0, now);
        self.floor.note(now, (share * 1e6) as i64);
        let floor = (self.floor.get() as f64 / 1e6).min(FLOOR_MAX);
        let excess = share - floor;
        // Four standard deviations of a binomial count.
        let noise = 4.0 * (share * (1.0 - share) / packets).sqrt();
        (excess > noise.max(EXCESS_MIN)).then_some(excess)
    }
}
