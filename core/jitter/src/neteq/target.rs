//! How much NetEQ wants to hold: its delay manager, with WebRTC's defaults.

use core::time::Duration;

use sangam_model::Time;

use crate::fading::Fading;

const BUCKET_MS: i64 = 20;
const BUCKETS: usize = 100;
/// Until the first interval is over.
const START_MS: i64 = 80;
const INTERVAL: Duration = Duration::from_millis(500);
const UNDERRUN_QUANTILE: f32 = 0.95;
const UNDERRUN_FORGET: f32 = 0.983;
const REORDER_FORGET: f32 = 0.9993;
const MS_PER_LOSS_PERCENT: f32 = 20.0;
/// Of the buffer, which holds 200 packets, the target takes three quarters at most.
const PACKETS_MAX: i64 = 200 * 3 / 4;

/// The delay manager.
#[derive(Clone, Debug)]
pub(super) struct DelayManager {
    underrun: Fading,
    underrun_ms: Option<i64>,
    /// The running interval's begin and its largest delay.
    interval: Option<(Time, i64)>,
    reorder: Fading,
    target_ms: i64,
}

impl DelayManager {
    pub(super) fn new() -> Self {
        Self {
            underrun: Fading::new(BUCKETS, UNDERRUN_FORGET),
            underrun_ms: None,
            interval: None,
            reorder: Fading::new(BUCKETS, REORDER_FORGET),
            target_ms: START_MS,
        }
    }

    /// Takes a packet that came `delay_us` later than the fastest one of two seconds would have.
    pub(super) fn packet(&mut self, now: Time, delay_us: i64, reordered: bool, spacing_us: i64) {
        let delay_ms = delay_us / 1_000;
        if !reordered {
            self.underrun(now, delay_ms);
        }
        let underrun_ms = self.underrun_ms.unwrap_or(START_MS);
        self.reorder.add(match reordered {
            true => (delay_ms / BUCKET_MS) as usize,
            false => 0,
        });
        let loss_ms = MS_PER_LOSS_PERCENT * 100.0;
        let bucket = self
            .reorder
            .cheapest(BUCKET_MS as f32, underrun_ms as f32, loss_ms);
        let reorder_ms = (1 + bucket as i64) * BUCKET_MS;
        self.target_ms = underrun_ms.max(reorder_ms);
        if spacing_us > 0 {
            self.target_ms = self.target_ms.min(PACKETS_MAX * spacing_us / 1_000);
        }
    }

    /// The delay to hold, in microseconds.
    pub(super) fn target_us(&self) -> i64 {
        self.target_ms * 1_000
    }

    fn underrun(&mut self, now: Time, delay_ms: i64) {
        let Some((begin, largest)) = &mut self.interval else {
            self.interval = Some((now, delay_ms));
            return;
        };
        *largest = delay_ms.max(*largest);
        if now.since(*begin) <= INTERVAL {
            return;
        }
        self.underrun.add((*largest / BUCKET_MS) as usize);
        self.interval = None;
        let bucket = self.underrun.quantile(UNDERRUN_QUANTILE);
        self.underrun_ms = Some((1 + bucket as i64) * BUCKET_MS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The target after so many seconds of packets every 10 ms with these delays in ms.
    fn target_ms(seconds: u64, delay_ms: impl Fn(u64) -> (i64, bool)) -> i64 {
        let mut manager = DelayManager::new();
        for count in 0..seconds * 100 {
            let (delay, reordered) = delay_ms(count);
            manager.packet(
                Time::from_millis(count * 10),
                delay * 1_000,
                reordered,
                10_000,
            );
        }
        manager.target_us() / 1_000
    }

    #[test]
    fn the_target_starts_at_80_ms_and_falls_to_one_bucket() {
        assert_eq!(target_ms(0, |_| (0, false)), 80);
        assert_eq!(target_ms(2, |_| (0, false)), 20);
    }

    #[test]
    fn one_late_packet_in_half_a_second_sets_the_target() {
        assert_eq!(
            target_ms(30, |count| (if count % 50 == 0 { 130 } else { 0 }, false)),
            140
        );
    }

    #[test]
    fn reordered_packets_raise_the_target_by_what_their_loss_costs() {
        let every = |n: u64| {
            move |count: u64| match count % n {
                0 => (90, true),
                _ => (0, false),
            }
        };
        // One in twenty is worth 100 ms of delay, one in a hundred 20 ms.
        assert_eq!(target_ms(60, every(20)), 100);
        assert_eq!(target_ms(60, every(100)), 20);
    }

    #[test]
    fn the_target_stays_within_the_buffer() {
        assert_eq!(target_ms(30, |_| (1_900, false)), 1_500);
    }
}
