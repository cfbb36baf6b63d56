//! What a measured receiver finds out about the stream it receives.

mod frames;
mod slices;
mod window;

use std::time::Duration;

use hdrhistogram::Histogram;
use sangam_model::Time;

use crate::load::{Load, Stamp};
use frames::Frames;
use slices::Slices;

pub(crate) use slices::Slice;
pub(crate) use window::Window;

/// Uyar & Fox, section 2: packets that take longer count as lost.
pub(crate) const LATE: Duration = Duration::from_millis(100);

/// Longest latency that is told apart, in microseconds.
const LATENCY_MAX_US: u64 = 60_000_000;

/// One packet at one receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// What it said of itself.
    pub(crate) stamp: Stamp,
    /// When it was read.
    pub(crate) at: Time,
}

/// One receiver's record of one stream, over the packets sent within the window.
#[derive(Clone)]
pub(crate) struct Reception {
    latency_us: Histogram<u64>,
    seen: Vec<u64>,
    frames: Frames,
    /// Latencies by the time of sending.
    pub(crate) slices: Slices,
    first: Option<u32>,
    last: Option<(Time, Time)>,
    jitter_us: f64,
    jitter_sum_us: f64,
    /// Each packet, again ones too, as it came; only if that was asked for.
    pub(crate) arrivals: Option<Vec<Arrival>>,
    /// Different packets.
    pub(crate) received: u64,
    /// Packets that came again.
    pub(crate) duplicates: u64,
    /// Packets that took longer than [`LATE`].
    pub(crate) late: u64,
}

impl Reception {
    /// Nothing received.
    pub(crate) fn new() -> Self {
        Self {
            // Three digits over a minute: 1 us apart up to 2 ms, 0.1 % above.
            latency_us: Histogram::new_with_bounds(1, LATENCY_MAX_US, 3)
                .unwrap_or_else(|_| unreachable!("the bounds are constants and in order")),
            seen: Vec::new(),
            frames: Frames::default(),
            slices: Slices::default(),
            first: None,
            last: None,
            jitter_us: 0.0,
            jitter_sum_us: 0.0,
            arrivals: None,
            received: 0,
            duplicates: 0,
            late: 0,
        }
    }

    /// Nothing received; every arrival will be written down.
    pub(crate) fn recording() -> Self {
        Self {
            arrivals: Some(Vec::new()),
            ..Self::new()
        }
    }

    /// Takes a packet of the window.
    pub(crate) fn take(&mut self, stamp: Stamp, arrived: Time) {
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.push(Arrival { stamp, at: arrived });
        }
        if !self.is_new(stamp.number) {
            self.duplicates += 1;
            return;
        }
        self.received += 1;
        let latency = arrived - stamp.sent;
        self.late += u64::from(latency > LATE);
        self.frames.take(stamp.sent, latency > LATE);
        self.slices.take(stamp.sent, latency);
        self.latency_us
            .saturating_record(latency.as_micros().max(1) as u64);
        self.jitter(stamp.sent, arrived);
        self.jitter_sum_us += self.jitter_us;
    }

    /// Joins what several receivers of like place found.
    pub(crate) fn merge(&mut self, other: &Self) {
        // Both have the same bounds, so nothing can fall outside.
        let _ = self.latency_us.add(&other.latency_us);
        self.frames.merge(&other.frames);
        self.slices.merge(&other.slices);
        self.received += other.received;
        self.duplicates += other.duplicates;
        self.late += other.late;
        self.jitter_sum_us += other.jitter_sum_us;
    }

    /// Mean latency in milliseconds.
    pub(crate) fn mean_ms(&self) -> f64 {
        self.latency_us.mean() / 1e3
    }

    /// Latency in milliseconds that `percent` of the packets stayed below.
    pub(crate) fn percentile_ms(&self, percent: f64) -> f64 {
        self.latency_us.value_at_percentile(percent) as f64 / 1e3
    }

    /// Smallest latency in milliseconds.
    pub(crate) fn min_ms(&self) -> f64 {
        self.latency_us.min() as f64 / 1e3
    }

    /// Largest latency in milliseconds.
    pub(crate) fn max_ms(&self) -> f64 {
        self.latency_us.max() as f64 / 1e3
    }

    /// Mean of RFC 3550's jitter over all packets, in milliseconds.
    pub(crate) fn jitter_ms(&self) -> f64 {
        self.jitter_sum_us / self.received.max(1) as f64 / 1e3
    }

    /// Percent of `expected` packets that did not come.
    pub(crate) fn loss_percent(&self, expected: u64) -> f64 {
        percent(expected.saturating_sub(self.received), expected)
    }

    /// Percent of `expected` packets that came late.
    pub(crate) fn late_percent(&self, expected: u64) -> f64 {
        percent(self.late, expected)
    }

    /// The same, weighted: as if the frames had come as often as in a whole round of `load`.
    pub(crate) fn late_percent_of(&self, load: &Load) -> f64 {
        self.frames.late_percent_of(load)
    }

    fn is_new(&mut self, number: u32) -> bool {
        // A packet from before the first one is counted from 2^31 on, which never fills a run.
        let offset = number.wrapping_sub(*self.first.get_or_insert(number.saturating_sub(1024)));
        let (word, bit) = (offset as usize / 64, offset % 64);
        if word >= self.seen.len() {
            self.seen.resize(word + 1, 0);
        }
        let fresh = self.seen[word] & (1 << bit) == 0;
        self.seen[word] |= 1 << bit;
        fresh
    }

    /// RFC 3550 section 6.4.1: J += (|D| - J) / 16, in microseconds instead of media ticks.
    fn jitter(&mut self, sent: Time, arrived: Time) {
        if let Some((sent_before, arrived_before)) = self.last {
            let us = |time: Time| time.as_micros() as f64;
            let difference = us(arrived) - us(arrived_before) - (us(sent) - us(sent_before));
            self.jitter_us += (difference.abs() - self.jitter_us) / 16.0;
        }
        self.last = Some((sent, arrived));
    }
}

/// `part` of `whole` in percent; all of nothing counts as lost.
fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        100.0
    } else {
        part as f64 * 100.0 / whole as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(number: u32, sent_ms: u64, arrived_ms: u64) -> (Stamp, Time) {
        let sent = Time::from_millis(sent_ms);
        (Stamp { sent, number }, Time::from_millis(arrived_ms))
    }

    #[test]
    fn loss_lateness_and_duplicates_are_told_apart() {
        let mut reception = Reception::new();
        for (stamp, arrived) in [
            packet(10, 0, 1),
            packet(11, 30, 131),
            packet(11, 30, 140),
            packet(13, 90, 190),
        ] {
            reception.take(stamp, arrived);
        }
        assert_eq!(reception.received, 3);
        assert_eq!(reception.duplicates, 1);
        assert_eq!(reception.late, 1);
        assert_eq!(reception.loss_percent(4), 25.0);
        assert_eq!(reception.late_percent(4), 25.0);
    }

    #[test]
    fn reordered_packets_are_not_lost() {
        let mut reception = Reception::new();
        for number in [5_u32, 3, 4, 6] {
            reception.take(
                Stamp {
                    sent: Time::ZERO,
                    number,
                },
                Time::from_millis(1),
            );
        }
        assert_eq!((reception.received, reception.duplicates), (4, 0));
    }

    #[test]
    fn a_steady_stream_has_no_jitter() {
        let mut reception = Reception::new();
        for number in 0..100 {
            let (stamp, arrived) =
                packet(number, u64::from(number) * 30, u64::from(number) * 30 + 7);
            reception.take(stamp, arrived);
        }
        assert_eq!(reception.jitter_ms(), 0.0);
        assert!((reception.mean_ms() - 7.0).abs() < 0.01);
    }

    #[test]
    fn nothing_received_is_all_lost() {
        assert_eq!(Reception::new().loss_percent(0), 100.0);
        assert_eq!(Reception::new().loss_percent(10), 100.0);
    }
}
