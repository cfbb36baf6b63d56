//! When a live source's timestamps were: as its sender reports say, or else as its packets come.

use std::time::Duration;

use sangam_wire::rtcp::SenderInfo;
use sangam_wire::rtp::Header;

use crate::egress::Moment;

/// Senders whose clocks are so near to each other go by one: what was captured together is played
/// together, as far as they agree. Reports of one sender differ by what they take on their way.
const SAME_NS: i128 = 100_000_000;
/// Clocks known of one topic; of more the oldest is forgotten.
const CLOCKS_MAX: usize = 16;
/// RFC 6298 section 2 takes an eighth of a new measurement of the way; a clock moves less.
const SHARE: i128 = 16;
/// Of what a packet is late the clock is set back by this share: one that is slow by 100 ppm is
/// followed, with 50 packets a second, 8 ms behind.
const FOLLOW: u32 = 4_096;

/// The clock of one stream.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    rate: u32,
    moment: Option<Moment>,
    /// A sender report said it.
    is_told: bool,
}

/// The wall clocks of senders, each as its distance from ours in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct WallClocks(Vec<i128>);

impl Clock {
    /// Of a stream about which nothing is known.
    pub(super) fn new(rate: u32) -> Self {
        Self {
            rate: rate.max(1),
            moment: None,
            is_told: false,
        }
    }

    /// What is known of it.
    pub(super) const fn moment(&self) -> Option<Moment> {
        self.moment
    }

    /// A packet came at `at`. The one with the quickest way counts, until the sender tells.
    pub(super) fn packet(&mut self, header: &Header, at: Duration) {
        let here = Moment {
            ssrc: header.ssrc,
            at,
            timestamp: header.timestamp,
        };
        let Some(known) = self.moment.filter(|known| known.ssrc == header.ssrc) else {
            (self.moment, self.is_told) = (Some(here), false);
            return;
        };
        if self.is_told {
            return;
        }
        let passed = at.saturating_sub(known.at).as_nanos() * u128::from(self.rate);
        let expected = known
            .timestamp
            .wrapping_add((passed / 1_000_000_000) as u32);
        let ahead = i64::from(header.timestamp.wrapping_sub(expected) as i32);
        // Seconds behind are no slow way: the sender's clock is another.
        if ahead > 0 || ahead < -i64::from(self.rate) {
            self.moment = Some(here);
            return;
        }
        let late = ahead.unsigned_abs() * 1_000_000_000 / u64::from(self.rate);
        self.moment = Some(Moment {
            at: known.at + Duration::from_nanos(late) / FOLLOW,
            ..known
        });
    }

    /// The sender told that its clock showed this at `at`.
    pub(super) fn report(&mut self, info: &SenderInfo, at: Duration) {
        if self.moment.is_some_and(|known| known.ssrc == info.ssrc) {
            self.is_told = true;
            self.moment = Some(Moment {
                ssrc: info.ssrc,
                at,
                timestamp: info.timestamp,
            });
        }
    }

    /// Another sender takes its place.
    pub(super) const fn forget(&mut self) {
        (self.moment, self.is_told) = (None, false);
    }
}

impl WallClocks {
    /// When a report with this NTP time, which came at `at`, was made, by the clock of `at`; `None`
    /// if its sender knows no time (RFC 3550 section 6.4.1).
    pub(super) fn made(&mut self, ntp: u64, at: Duration) -> Option<Duration> {
        if ntp == 0 {
            return None;
        }
        let told = i128::from(ntp >> 32) * 1_000_000_000
            + ((i128::from(ntp & u64::from(u32::MAX)) * 1_000_000_000) >> 32);
        let apart = told - at.as_nanos() as i128;
        let mut known = self.0.iter_mut();
        let apart = match known.find(|known| (**known - apart).abs() < SAME_NS) {
            Some(known) => {
                *known += (apart - *known) / SHARE;
                *known
            }
            None => {
                if self.0.len() == CLOCKS_MAX {
                    self.0.remove(0);
                }
                self.0.push(apart);
                apart
            }
        };
        let made = u64::try_from(told - apart).unwrap_or_default();
        Some(Duration::from_nanos(made))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::ntp;

    const MS: Duration = Duration::from_millis(1);

    fn header(ssrc: u32, timestamp: u32) -> Header {
        Header {
            marker: false,
            payload_type: 96,
            sequence: 0,
            timestamp,
            ssrc,
        }
    }

    #[test]
    fn the_quickest_packet_counts_until_the_sender_tells() {
        let mut clock = Clock::new(1_000);
        let shown = |clock: &Clock| {
            let moment = clock.moment();
            moment.map(|one| (one.at.as_millis(), one.timestamp))
        };
        clock.packet(&header(1, 500), MS * 1_000);
        clock.packet(&header(1, 540), MS * 1_060);
        assert_eq!(shown(&clock), Some((1_000, 500)));
        clock.packet(&header(1, 580), MS * 1_070);
        assert_eq!(shown(&clock), Some((1_070, 580)));
        let info = SenderInfo {
            ssrc: 1,
            timestamp: 700,
            ..SenderInfo::default()
        };
        clock.report(&info, MS * 1_100);
        clock.report(&SenderInfo { ssrc: 2, ..info }, MS);
        clock.packet(&header(1, 900), MS * 1_200);
        assert_eq!(shown(&clock), Some((1_100, 700)));
        // Another source has another clock.
        clock.packet(&header(2, 7), MS * 2_000);
        assert_eq!(shown(&clock), Some((2_000, 7)));
    }

    #[test]
    fn a_slow_clock_is_followed() {
        let mut clock = Clock::new(48_000);
        // Half an hour.
        for number in 0..90_000_u32 {
            // 100 ppm more than the 960 ticks take.
            let at = Duration::from_micros(20_002) * number;
            clock.packet(&header(1, number * 960), at);
            let known = clock.moment().unwrap();
            let passed = (at - known.at).as_micros() * 48 / 1_000;
            let shown = i64::from(known.timestamp) + passed as i64;
            let ahead = shown - i64::from(number * 960);
            assert!((-1..=480).contains(&ahead), "{number}: {ahead}");
        }
    }

    #[test]
    fn two_reports_of_one_sender_keep_their_distance() {
        let mut clocks = WallClocks::default();
        let sent = Duration::from_secs(1_700_000_000);
        let near = |found: Option<Duration>, expected: Duration| {
            let found = found.unwrap();
            let apart = found.abs_diff(expected);
            assert!(apart < MS * 2, "{found:?} {expected:?}");
        };
        near(clocks.made(ntp(sent), MS * 5_000), MS * 5_000);
        // Made 300 ms later, 20 ms longer on its way.
        near(clocks.made(ntp(sent + MS * 300), MS * 5_320), MS * 5_300);
        // Another sender's clock is an hour late.
        let late = sent - Duration::from_secs(3_600);
        near(clocks.made(ntp(late), MS * 5_400), MS * 5_400);
        near(clocks.made(ntp(sent + MS * 900), MS * 5_900), MS * 5_900);
        assert_eq!(clocks.made(0, MS), None);
    }
}
