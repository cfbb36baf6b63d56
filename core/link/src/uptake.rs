//! How fast a stream takes what waits for it: its window does not tell.

use core::time::Duration;

use sangam_model::{Bitrate, Time};

/// Before anything is measured: what may wait then holds the key frames of most cameras.
const RATE_START: f64 = 20_000_000.0 / 8.0;
/// Audio passes whatever happens.
const RATE_MIN: f64 = 100_000.0 / 8.0;
const RATE_MAX: f64 = 100e9 / 8.0;
/// Shorter measurements say little: a kernel takes bytes in steps.
const SPAN: Duration = Duration::from_millis(100);
/// So often a stream that has taken all may be thought a quarter faster, up to [`RATE_START`]:
/// whatever is sent then does not tell how much faster it is.
const EASE_EVERY: Duration = Duration::from_millis(200);
const EASE: f64 = 1.25;
/// How long the bytes take to leave that wait where none can be shed or overtaken any more, and
/// how many those are at least and at most. Audio waits for them: at 100 kb/s for 160 ms.
const COMMITTED: Duration = Duration::from_millis(30);
const COMMITTED_BYTES: (u64, u64) = (2 << 10, 64 << 10);

/// The rate of a stream, from what its kernel took while more was waiting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Uptake {
    /// Bytes each second.
    rate: f64,
    /// Since when more has waited than the kernel took, and what it took since then.
    full: Option<(Time, u64)>,
    /// When the rate was measured or eased last.
    eased: Time,
}

impl Default for Uptake {
    /// Of a stream of which nothing is known.
    fn default() -> Self {
        Self {
            rate: RATE_START,
            full: None,
            eased: Time::ZERO,
        }
    }
}

impl Uptake {
    /// The kernel took so many bytes now; `full` if it left some.
    pub fn took(&mut self, now: Time, bytes: u64, full: bool) {
        let Some((since, taken)) = self.full else {
            if full {
                self.full = Some((now, 0));
            } else {
                self.ease(now);
            }
            return;
        };
        let (taken, over) = (taken + bytes, now - since);
        let sample = taken as f64 / over.as_secs_f64().max(1e-6);
        if !full {
            self.full = None;
            if over >= SPAN {
                // All has left: it might have been more.
                self.set(self.rate.max(sample));
                self.eased = now;
            } else {
                // Too short to tell anything: it counts as if it had taken all.
                self.ease(now);
            }
        } else if bytes > 0 && over >= SPAN {
            // From one moment at which it was full to another.
            self.set(f64::midpoint(self.rate, sample));
            (self.full, self.eased) = (Some((now, 0)), now);
        } else {
            self.full = Some((since, taken));
        }
    }

    /// Takes note that time has passed: a stream that takes nothing is slow, although nobody says
    /// so.
    pub fn look(&mut self, now: Time) {
        let Some((since, taken)) = self.full else {
            return;
        };
        let over = now - since;
        if over >= SPAN {
            let most = taken + COMMITTED_BYTES.1;
            self.set(self.rate.min(most as f64 / over.as_secs_f64()));
        }
    }

    /// The rate; at least 100 kb/s.
    #[must_use]
    pub fn rate(&self) -> Bitrate {
        Bitrate::from_bps((self.rate * 8.0) as u64)
    }

    /// Bytes that the stream is given before it asks for more, and the kernel before they are in
    /// flight: what leaves in 30 ms, from 2 to 64 KiB.
    #[must_use]
    pub fn committed(&self) -> u64 {
        let (least, most) = COMMITTED_BYTES;
        self.rate().bytes_in(COMMITTED).clamp(least, most)
    }

    fn ease(&mut self, now: Time) {
        if now - self.eased >= EASE_EVERY {
            self.eased = now;
            self.set((self.rate * EASE).min(self.rate.max(RATE_START)));
        }
    }

    fn set(&mut self, rate: f64) {
        self.rate = rate.clamp(RATE_MIN, RATE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A stream that takes a step of bytes whenever they have left, for `time`.
    fn drained(uptake: &mut Uptake, now: &mut Time, (mbps, time): (u64, Duration)) {
        let rate = Bitrate::from_mbps(mbps);
        let (step, end) = (32 << 10, *now + time);
        uptake.took(*now, 0, true);
        while *now < end {
            let next = *now + rate.time_for(step);
            while *now + MS < next {
                *now += MS;
                uptake.look(*now);
                uptake.took(*now, 0, true);
            }
            *now = next;
            uptake.took(*now, step, true);
        }
    }

    #[test]
    fn the_rate_is_found_while_something_waits() {
        for mbps in [1, 4, 16, 100, 1_000] {
            let (mut uptake, mut now) = (Uptake::default(), Time::from_millis(5));
            drained(&mut uptake, &mut now, (mbps, Duration::from_secs(3)));
            let rate = uptake.rate().as_bps() as f64 / 1e6;
            assert!((rate / mbps as f64 - 1.0).abs() < 0.1, "{mbps}: {rate}");
        }
    }

    #[test]
    fn a_stream_that_takes_nothing_is_slow_before_it_says_so() {
        let (mut uptake, now) = (Uptake::default(), Time::from_millis(5));
        uptake.took(now, 0, true);
        uptake.look(now + 99 * MS);
        assert_eq!(uptake, {
            let mut same = Uptake::default();
            same.took(now, 0, true);
            same
        });
        uptake.look(now + 1_000 * MS);
        assert_eq!(uptake.rate().as_bps(), (64 << 10) * 8);
        uptake.look(now + 60_000 * MS);
        assert_eq!(uptake.rate().as_bps(), 100_000);
        assert_eq!(uptake.committed(), 2 << 10);
    }

    #[test]
    fn a_stream_that_takes_all_is_believed_to_be_faster_little_by_little() {
        let (mut uptake, mut now) = (Uptake::default(), Time::from_millis(5));
        drained(&mut uptake, &mut now, (1, Duration::from_secs(3)));
        let before = uptake.rate().as_bps();
        uptake.took(now + MS, 1_000, false);
        let mut rates = Vec::new();
        for _ in 0..100 {
            now += Duration::from_millis(100);
            uptake.took(now, 1_000, false);
            rates.push(uptake.rate().as_bps());
        }
        assert!(rates.is_sorted());
        // Ten times in two seconds at the most.
        assert!(rates[18] < before * 10, "{rates:?}");
        assert_eq!(rates.last(), Some(&20_000_000));
    }

    #[test]
    fn a_stream_that_is_full_for_short_times_recovers() {
        let (mut uptake, mut now) = (Uptake::default(), Time::from_millis(5));
        uptake.took(now, 0, true);
        now += Duration::from_secs(60);
        uptake.look(now);
        uptake.took(now, 1_000, false);
        assert_eq!(uptake.rate().as_bps(), 100_000);
        for _ in 0..300 {
            uptake.took(now, 0, true);
            uptake.took(now + 20 * MS, 10_000, false);
            now += 33 * MS;
        }
        assert!(uptake.rate().as_bps() > 4_000_000, "{uptake:?}");
    }

    #[test]
    fn what_was_measured_is_not_taken_back_by_silence() {
        let (mut uptake, mut now) = (Uptake::default(), Time::from_millis(5));
        drained(&mut uptake, &mut now, (100, Duration::from_secs(3)));
        let before = uptake.rate();
        uptake.took(now, 1_000, false);
        uptake.look(now + Duration::from_secs(60));
        uptake.took(now + Duration::from_secs(60), 1_000, false);
        assert_eq!(uptake.rate(), before);
    }
}
