//! What arrives of a stream: loss, order and jitter, as RFC 3550 measures them.

use core::time::Duration;

use sangam_model::Time;
use sangam_wire::feedback::Report;

/// RFC 3550 appendix A.1: a larger step ahead is taken for a restart of the sender.
const DROPOUT_MAX: u16 = 3_000;
/// A packet further behind is taken for a restart; RFC 3550 suggests 100. Up to here duplicates
/// are told from packets that come late.
const WINDOW: u16 = 128;
const CYCLE: u64 = 1 << 16;
const US_PER_S: u64 = 1_000_000;

/// Statistics of one receiver of one stream.
///
/// Other than RFC 3550's, its loss does not count duplicates as received.
#[derive(Clone, Debug, Default)]
pub struct ReceiverStats {
    clock_rate: u32,
    started: bool,
    /// Highest sequence, its cycles counted above the lowest 16 bits.
    highest: u64,
    base: u64,
    /// The sequence that confirms a restart of the sender.
    restart: Option<u16>,
    /// Bit i: `highest - i` has come.
    seen: u128,
    received: u64,
    duplicates: u64,
    reordered: u64,
    /// Expected before the sender's last restart.
    expected_before: u64,
    transit: Option<u32>,
    /// In 1/16 of the media's clock.
    jitter: u64,
    /// Expected and received at the last report.
    reported: (u64, u64),
}

/// What a packet was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The next, or one further ahead.
    Ahead,
    /// One that was missing.
    Reordered,
    /// One that came before.
    Duplicate,
    /// So far off that it is not counted; if the next one follows it, the sender has restarted.
    Strange,
}

impl ReceiverStats {
    /// For packets with RTP timestamps of this clock rate in Hz, or 1,000,000 for timestamps in
    /// microseconds. With 0 no jitter is measured.
    #[must_use]
    pub fn new(clock_rate: u32) -> Self {
        Self {
            clock_rate,
            ..Self::default()
        }
    }

    /// Takes a packet with its sequence and timestamp.
    pub fn packet(&mut self, sequence: u16, timestamp: u32, now: Time) -> Arrival {
        if !self.started {
            self.started = true;
            self.begin(sequence);
        }
        let arrival = self.place(sequence);
        match arrival {
            Arrival::Strange => return arrival,
            Arrival::Duplicate => {
                self.duplicates += 1;
                return arrival;
            }
            Arrival::Reordered => self.reordered += 1,
            Arrival::Ahead => {}
        }
        self.received += 1;
        self.time(timestamp, now);
        arrival
    }

    /// Packets that came, each counted once.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Packets between the first and the highest.
    #[must_use]
    pub fn expected(&self) -> u64 {
        let current = if self.started {
            self.highest - self.base + 1
        } else {
            0
        };
        self.expected_before + current
    }

    /// Packets that have not come.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.expected().saturating_sub(self.received)
    }

    /// Packets that came again.
    #[must_use]
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Packets that came after a later one.
    #[must_use]
    pub fn reordered(&self) -> u64 {
        self.reordered
    }

    /// Interarrival jitter (RFC 3550 appendix A.8).
    #[must_use]
    pub fn jitter(&self) -> Duration {
        match u64::from(self.clock_rate) {
            0 => Duration::ZERO,
            rate => Duration::from_micros(self.jitter.saturating_mul(US_PER_S) / 16 / rate),
        }
    }

    /// A report on what came since the last one (RFC 3550 appendix A.3).
    pub fn report(&mut self) -> Report {
        let (expected, received) = (self.expected(), self.received);
        let expected_now = expected - self.reported.0.min(expected);
        let received_now = received - self.reported.1;
        self.reported = (expected, received);
        let lost_now = expected_now.saturating_sub(received_now);
        let fraction = (lost_now * 256).checked_div(expected_now).unwrap_or(0);
        Report {
            fraction_lost: u8::try_from(fraction).unwrap_or(u8::MAX),
            highest: self.highest.wrapping_sub(CYCLE) as u32,
            jitter_us: u32::try_from(self.jitter().as_micros()).unwrap_or(u32::MAX),
            capacity_kbps: 0,
        }
    }

    fn begin(&mut self, sequence: u16) {
        // One cycle ahead, so that packets from before the first have a place below it.
        self.base = CYCLE | u64::from(sequence);
        self.highest = self.base;
        self.seen = 0;
        self.restart = None;
    }

    /// RFC 3550 appendix A.1, `update_seq`.
    fn place(&mut self, sequence: u16) -> Arrival {
        let ahead = sequence.wrapping_sub(self.highest as u16);
        let behind = ahead.wrapping_neg();
        if ahead < DROPOUT_MAX {
            if ahead == 0 && self.seen & 1 != 0 {
                return Arrival::Duplicate;
            }
            self.highest += u64::from(ahead);
            self.seen = self.seen.checked_shl(ahead.into()).unwrap_or(0) | 1;
        } else if behind < WINDOW {
            return self.place_behind(behind);
        } else if self.restart == Some(sequence) {
            self.expected_before = self.expected();
            self.begin(sequence);
            self.seen = 1;
        } else {
            self.restart = Some(sequence.wrapping_add(1));
            return Arrival::Strange;
        }
        self.restart = None;
        Arrival::Ahead
    }

    fn place_behind(&mut self, behind: u16) -> Arrival {
        let bit = 1_u128 << behind;
        if self.seen & bit != 0 {
            return Arrival::Duplicate;
        }
        self.seen |= bit;
        self.base = self.base.min(self.highest - u64::from(behind));
        Arrival::Reordered
    }

    /// RFC 3550 appendix A.8.
    fn time(&mut self, timestamp: u32, now: Time) {
        let (rate, us) = (u64::from(self.clock_rate), now.as_micros());
        let seconds = (us / US_PER_S).wrapping_mul(rate);
        let arrival = seconds.wrapping_add(us % US_PER_S * rate / US_PER_S) as u32;
        let transit = arrival.wrapping_sub(timestamp);
        if let Some(last) = self.transit.replace(transit) {
            let difference = transit.wrapping_sub(last).cast_signed().unsigned_abs();
            self.jitter = self.jitter + u64::from(difference) - (self.jitter + 8) / 16;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Audio of 8 kHz, a packet each 20 ms: all sequences of `order` at their due time.
    fn listen(order: &[u16]) -> (ReceiverStats, Vec<Arrival>) {
        let mut stats = ReceiverStats::new(8_000);
        let arrivals = order.iter().map(|&sequence| {
            let timestamp = u32::from(sequence) * 160;
            stats.packet(
                sequence,
                timestamp,
                Time::from_millis(u64::from(sequence) * 20),
            )
        });
        let arrivals = arrivals.collect();
        (stats, arrivals)
    }

    #[test]
    fn a_steady_stream_has_neither_loss_nor_jitter() {
        let (stats, _) = listen(&[1, 2, 3, 4, 5]);
        assert_eq!(
            (stats.expected(), stats.received(), stats.lost()),
            (5, 5, 0)
        );
        assert_eq!(stats.jitter(), Duration::ZERO);
    }

    #[test]
    fn loss_duplicates_and_disorder_are_told_apart() {
        let (stats, arrivals) = listen(&[10, 12, 11, 11, 15]);
        use Arrival::{Ahead, Duplicate, Reordered};
        assert_eq!(arrivals, [Ahead, Ahead, Reordered, Duplicate, Ahead]);
        assert_eq!(
            (stats.expected(), stats.received(), stats.lost()),
            (6, 4, 2)
        );
        assert_eq!((stats.duplicates(), stats.reordered()), (1, 1));
    }

    #[test]
    fn sequences_wrap_and_may_begin_out_of_order() {
        let (mut stats, _) = listen(&[65_535, 65_534, 0, 1]);
        assert_eq!((stats.expected(), stats.lost()), (4, 0));
        assert_eq!(stats.report().highest, 0x1_0001);
    }

    #[test]
    fn a_restarted_sender_is_followed_and_a_stray_packet_is_not() {
        let (stats, arrivals) = listen(&[100, 101, 30_000, 102, 50_000, 50_001, 50_002]);
        assert_eq!(
            arrivals.iter().filter(|&&a| a == Arrival::Strange).count(),
            2
        );
        assert_eq!((stats.received(), stats.lost()), (5, 0));
    }

    #[test]
    fn jitter_follows_the_formula_of_rfc_3550() {
        let mut stats = ReceiverStats::new(1_000_000);
        // Transit times of 0, 1600, 0, 1600 us ...
        for i in 0..1_000_u32 {
            let late = u64::from(i % 2) * 1_600;
            let sent = i * 20_000;
            stats.packet(i as u16, sent, Time::from_micros(u64::from(sent) + late));
        }
        let jitter = stats.jitter();
        assert!(jitter.abs_diff(Duration::from_micros(1_600)) < Duration::from_micros(5));
        assert_eq!(stats.report().jitter_us as u128, jitter.as_micros());
    }

    #[test]
    fn a_report_covers_what_came_since_the_last() {
        let (mut stats, _) = listen(&[1, 2, 3, 5]);
        assert_eq!(stats.report().fraction_lost, 51);
        assert_eq!(stats.report().fraction_lost, 0);
        stats.packet(6, 0, Time::ZERO);
        assert_eq!(stats.report().fraction_lost, 0);
    }

    #[test]
    fn wild_timestamps_do_no_harm() {
        let mut stats = ReceiverStats::new(u32::MAX);
        for i in 0..1_000_u16 {
            let timestamp = if i % 2 == 0 { 0 } else { 1 << 31 };
            stats.packet(i, timestamp, Time::from_micros(u64::MAX - u64::from(i)));
        }
        assert!(stats.jitter() > Duration::ZERO);
    }
}
