//! How well a publisher's packets come (RFC 3550 section 6.4.1 and appendices A.3 and A.8).

use sangam_model::Time;
use sangam_wire::rtcp::{Block, SenderInfo};
use sangam_wire::rtp::Header;

/// Losses that a report can tell.
const LOST_MAX: i64 = 0x7f_ffff;

/// What was received of one source.
#[derive(Clone, Debug, Default)]
pub(super) struct Reception {
    rate: u32,
    source: Option<Source>,
}

#[derive(Clone, Copy, Debug)]
struct Source {
    ssrc: u32,
    /// Extended sequence numbers.
    first: u32,
    highest: u32,
    received: u32,
    /// As of the last report.
    before: (u32, u32),
    /// In units of the clock, times 16.
    jitter: u32,
    /// When the last packet came, in units of the clock, less its timestamp.
    transit: u32,
    /// The middle of the last sender report's wall clock, and when it came.
    report: Option<(u32, Time)>,
}

impl Reception {
    /// Nothing was received of this clock rate.
    pub(super) fn new(rate: u32) -> Self {
        Self { rate, source: None }
    }

    /// A packet came.
    pub(super) fn packet(&mut self, header: &Header, now: Time) {
        let ticks = u128::from(now.as_micros()) * u128::from(self.rate) / 1_000_000;
        let transit = (ticks as u32).wrapping_sub(header.timestamp);
        let sequence = u32::from(header.sequence);
        let Some(source) = self.source.as_mut().filter(|one| one.ssrc == header.ssrc) else {
            self.source = Some(Source {
                ssrc: header.ssrc,
                first: sequence,
                highest: sequence,
                received: 1,
                before: (0, 0),
                jitter: 0,
                transit,
                report: None,
            });
            return;
        };
        let ahead = header.sequence.wrapping_sub(source.highest as u16);
        if ahead < 1 << 15 {
            source.highest = source.highest.wrapping_add(ahead.into());
        }
        source.received = source.received.wrapping_add(1);
        let apart = (transit.wrapping_sub(source.transit) as i32).unsigned_abs();
        source.transit = transit;
        // RFC 3550 appendix A.8, without rounding errors.
        source.jitter = source.jitter.saturating_add(apart) - ((source.jitter + 8) >> 4);
    }

    /// The publisher reported.
    pub(super) fn report(&mut self, info: &SenderInfo, now: Time) {
        if let Some(source) = self.source.as_mut().filter(|one| one.ssrc == info.ssrc) {
            source.report = Some(((info.ntp >> 16) as u32, now));
        }
    }

    /// The source, if one was heard.
    pub(super) fn ssrc(&self) -> Option<u32> {
        self.source.map(|source| source.ssrc)
    }

    /// What it is told of itself since the last time.
    pub(super) fn block(&mut self, now: Time) -> Option<Block> {
        let source = self.source.as_mut()?;
        let expected = source.highest.wrapping_sub(source.first).wrapping_add(1);
        let (expected_before, received_before) = source.before;
        source.before = (expected, source.received);
        let since = expected.wrapping_sub(expected_before);
        let came = source.received.wrapping_sub(received_before);
        let lost = i64::from(expected) - i64::from(source.received);
        let missing = u64::from(since.saturating_sub(came));
        let fraction = (missing << 8).checked_div(since.into()).unwrap_or(0);
        let (last_report, delay) = source.report.map_or((0, 0), |(report, at)| {
            let delay = now.since(at).as_micros() * 65_536 / 1_000_000;
            (report, delay.min(u32::MAX.into()) as u32)
        });
        Some(Block {
            ssrc: source.ssrc,
            fraction_lost: fraction.min(255) as u8,
            lost: lost.clamp(-LOST_MAX, LOST_MAX) as i32,
            highest: source.highest,
            jitter: source.jitter >> 4,
            last_report,
            delay,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(sequence: u16, timestamp: u32) -> Header {
        Header {
            marker: false,
            payload_type: 96,
            sequence,
            timestamp,
            ssrc: 7,
        }
    }

    #[test]
    fn losses_are_told_since_the_last_report_and_in_all() {
        let mut reception = Reception::new(1_000);
        assert_eq!(reception.block(Time::ZERO), None);
        // Over the end of the numbers; each fourth is lost.
        for number in 0..100_u16 {
            let at = Time::from_millis(20 * u64::from(number));
            if number % 4 != 3 {
                let header = packet(65_500_u16.wrapping_add(number), 20 * u32::from(number));
                reception.packet(&header, at);
            }
        }
        let info = SenderInfo {
            ssrc: 7,
            ntp: 0x1234_5678_9abc_def0,
            ..SenderInfo::default()
        };
        reception.report(&info, Time::from_millis(2_000));
        let block = reception.block(Time::from_millis(2_500)).unwrap();
        assert_eq!((block.ssrc, block.highest), (7, 65_500 + 98));
        assert_eq!((block.lost, block.fraction_lost), (24, 62));
        assert_eq!((block.last_report, block.delay), (0x5678_9abc, 32_768));
        assert_eq!(block.jitter, 0);
        let block = reception.block(Time::from_millis(2_500)).unwrap();
        assert_eq!((block.lost, block.fraction_lost), (24, 0));
    }
}
