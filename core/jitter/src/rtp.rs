//! From RTP's short numbers to numbers that never wrap.

use sangam_model::Time;

use crate::Packet;

/// RFC 3550 appendix A.1: a larger step ahead is taken for a restart of the sender.
const DROPOUT_MAX: u16 = 3_000;
/// RFC 3550 appendix A.1 has 100; overlay paths reorder more.
const MISORDER_MAX: u16 = 1_000;
const US_PER_S: i64 = 1_000_000;
/// First of all sequences, so that packets from before the first have numbers, too.
const ORIGIN: u64 = 1 << 32;
/// First of all media times, so that clocks may run backwards for a while.
const EPOCH_US: i64 = 1 << 52;

/// Extends the sequence and timestamp of RTP packets of one source.
#[derive(Clone, Debug)]
pub struct RtpClock {
    rate: i64,
    latest: Option<Latest>,
    /// The sequence that confirms a restart of the sender (RFC 3550 appendix A.1).
    restart: Option<u16>,
    starts_anew: bool,
}

#[derive(Clone, Copy, Debug)]
struct Latest {
    seq: u64,
    timestamp: u32,
    /// Ticks of the media clock since the first packet.
    ticks: i64,
}

impl RtpClock {
    /// For timestamps of this clock rate in Hz. With 0, all packets have the same media time.
    #[must_use]
    pub fn new(rate: u32) -> Self {
        Self {
            rate: i64::from(rate),
            latest: None,
            restart: None,
            starts_anew: false,
        }
    }

    /// The packet with this sequence and timestamp; `None` if it is so far off that it is not the
    /// same stream, unless the next one confirms that the sender has begun anew.
    pub fn packet(&mut self, sequence: u16, timestamp: u32) -> Option<Packet> {
        let Some(latest) = self.latest else {
            return Some(self.begin(ORIGIN | u64::from(sequence), timestamp, 0));
        };
        if self.starts_anew {
            return Some(self.begin_anew(latest, sequence, timestamp));
        }
        let ahead = sequence.wrapping_sub(latest.seq as u16);
        let behind = ahead.wrapping_neg();
        let seq = if ahead < DROPOUT_MAX {
            latest.seq + u64::from(ahead)
        } else if behind <= MISORDER_MAX {
            latest.seq - u64::from(behind)
        } else {
            return self.restarted(latest, sequence, timestamp);
        };
        self.restart = None;
        let step = timestamp.wrapping_sub(latest.timestamp) as i32;
        let ticks = latest.ticks.saturating_add(i64::from(step));
        if seq > latest.seq {
            return Some(self.begin(seq, timestamp, ticks));
        }
        Some(self.of(seq, ticks))
    }

    /// The next packet begins a new run of numbers, as of another source that takes over.
    pub fn restart(&mut self) {
        self.starts_anew = true;
        self.restart = None;
    }

    /// RFC 3550 appendix A.1: two packets in a row are a new begin.
    fn restarted(&mut self, latest: Latest, sequence: u16, timestamp: u32) -> Option<Packet> {
        if self.restart != Some(sequence) {
            self.restart = Some(sequence.wrapping_add(1));
            return None;
        }
        self.restart = None;
        Some(self.begin_anew(latest, sequence, timestamp))
    }

    /// Further ahead than any receiver holds packets; media time goes on.
    fn begin_anew(&mut self, latest: Latest, sequence: u16, timestamp: u32) -> Packet {
        self.starts_anew = false;
        let seq = ((latest.seq >> 16) + 2) << 16 | u64::from(sequence);
        self.begin(seq, timestamp, latest.ticks)
    }

    fn begin(&mut self, seq: u64, timestamp: u32, ticks: i64) -> Packet {
        self.latest = Some(Latest {
            seq,
            timestamp,
            ticks,
        });
        self.of(seq, ticks)
    }

    fn of(&self, seq: u64, ticks: i64) -> Packet {
        let us = match self.rate {
            0 => 0,
            // In two parts: a day of ticks times a million is more than 64 bits hold.
            rate => (ticks / rate)
                .saturating_mul(US_PER_S)
                .saturating_add(ticks % rate * US_PER_S / rate),
        };
        Packet {
            seq,
            sent: Time::from_micros(EPOCH_US.saturating_add(us).max(0) as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_and_timestamps_pass_their_wraps() {
        let mut clock = RtpClock::new(48_000);
        let first = clock.packet(u16::MAX - 1, u32::MAX - 479).unwrap();
        let mut expected = first;
        let (mut sequence, mut timestamp) = (u16::MAX - 1, u32::MAX - 479);
        for _ in 0..200_000 {
            sequence = sequence.wrapping_add(1);
            timestamp = timestamp.wrapping_add(48_000);
            expected.seq += 1;
            expected.sent += core::time::Duration::from_secs(1);
            assert_eq!(clock.packet(sequence, timestamp), Some(expected));
        }
    }

    #[test]
    fn packets_from_before_the_first_have_lower_numbers() {
        let mut clock = RtpClock::new(8_000);
        let first = clock.packet(0, 80).unwrap();
        let earlier = clock.packet(u16::MAX, 0).unwrap();
        assert_eq!(earlier.seq + 1, first.seq);
        assert_eq!(
            first.sent - earlier.sent,
            core::time::Duration::from_millis(10)
        );
    }

    #[test]
    fn a_new_begin_needs_two_packets_and_media_time_goes_on() {
        let mut clock = RtpClock::new(8_000);
        let before = clock.packet(100, 0).unwrap();
        assert_eq!(clock.packet(30_000, 4_000_000_000), None);
        assert_eq!(clock.packet(50_000, 9), None, "another stray one");
        assert_eq!(clock.packet(30_000, 4_000_000_000), None);
        let after = clock.packet(30_001, 4_000_000_080).unwrap();
        assert!(after.seq > before.seq + crate::HELD_MAX as u64);
        assert_eq!(after.sent, before.sent);
        assert_eq!(
            clock.packet(30_002, 4_000_000_160).unwrap().seq,
            after.seq + 1
        );
    }
}
