//! Which datagrams a path carries while it is used: what was agreed when the link came up may
//! shrink later, and nobody needs to say so (RFC 8899, "black hole").
//!
//! A ping as long as the datagrams in use is sent from time to time. If pings that follow it are
//! answered and it is not, three times in a row, the path has become narrower: then every path's
//! size is used at once, and the largest that passes is looked for by halves. What was agreed is
//! tried again later, as the path may have healed.

use core::time::Duration;

use sangam_model::Time;
use sangam_model::limits::DATAGRAM_LEN_SAFE;

/// The size in use is confirmed at most so often,
const CONFIRM_EVERY: Duration = Duration::from_millis(500);
/// and only when so many bytes have left since in long packets: probes take a fortieth of a link,
/// and a voice alone, whose packets pass anyway, is not probed for.
const CONFIRM_BYTES: u64 = 64 << 10;
/// As many in a row have to vanish (RFC 8899 section 5.1.2: `MAX_PROBES`).
const FAILURES: u8 = 3;
/// An answered ping that left so much later than a probe shows that the probe is lost and not
/// overtaken.
const LATER: Duration = Duration::from_millis(20);
/// Sizes are found to within so many bytes.
const STEP: u16 = 16;
/// A larger size is tried again after so long, doubling up to
const RAISE: Duration = Duration::from_secs(10);
/// this (RFC 8899 section 5.1.1: `PMTU_RAISE_TIMER`).
const RAISE_MAX: Duration = Duration::from_secs(600);

/// The search on one link, from one end.
#[derive(Debug)]
pub(crate) struct PathSearch {
    /// What both ends agreed on.
    most: u16,
    /// In use.
    size: u16,
    /// Nothing larger passes, or was agreed.
    top: u16,
    probe: Option<(Time, u16)>,
    failures: u8,
    searching: bool,
    /// The next probe, at the earliest.
    next: Time,
    /// When a larger size is tried, and how long that was put off.
    raise_at: Time,
    raise: Duration,
    /// Bytes that had left when the size was confirmed last.
    confirmed: u64,
}

impl PathSearch {
    /// A path that is to carry datagrams of `most` bytes; `None` if every path does.
    pub(crate) fn new(most: u16, now: Time) -> Option<Self> {
        (usize::from(most) > DATAGRAM_LEN_SAFE).then(|| Self {
            most,
            size: most,
            top: most,
            probe: None,
            failures: 0,
            searching: false,
            next: now + CONFIRM_EVERY,
            raise_at: Time::NEVER,
            raise: RAISE,
            confirmed: 0,
        })
    }

    /// The size of a probe that is to leave now. `sent`: bytes that have left so far in long
    /// packets.
    pub(crate) fn poll(&mut self, now: Time, sent: u64) -> Option<u16> {
        if now >= self.raise_at {
            self.raise_at = Time::NEVER;
            self.searching = true;
            self.top = self.most;
        }
        let used = usize::from(self.size) > DATAGRAM_LEN_SAFE;
        let used = used && sent - self.confirmed >= CONFIRM_BYTES;
        let wanted = self.searching || self.failures > 0 || used;
        if self.probe.is_some() || now < self.next || !wanted {
            return None;
        }
        let size = self.candidate();
        self.probe = Some((now, size));
        Some(size)
    }

    /// When a probe may be due although nothing happens.
    pub(crate) fn deadline(&self) -> Time {
        if self.probe.is_none() && (self.searching || self.failures > 0) {
            self.next
        } else {
            // What is sent brings pings, and these bring the rest to mind.
            self.raise_at
        }
    }

    /// A probe that left at `echo` was answered; the size in use if it is another now.
    pub(crate) fn arrived(&mut self, now: Time, echo: Time, sent: u64) -> Option<u16> {
        let (_, size) = self.probe.take_if(|(at, _)| *at == echo)?;
        self.failures = 0;
        self.confirmed = sent;
        self.next = now + CONFIRM_EVERY;
        if self.searching {
            self.settle(now, size);
        }
        let wider = size > self.size;
        self.size = self.size.max(size);
        wider.then_some(size)
    }

    /// A ping that left at `echo` was answered; the size in use if it is another now.
    pub(crate) fn overtaken(&mut self, now: Time, echo: Time) -> Option<u16> {
        let (_, size) = self.probe.take_if(|(at, _)| echo >= *at + LATER)?;
        self.next = now;
        self.failures += 1;
        if self.failures < FAILURES {
            return None;
        }
        self.failures = 0;
        self.top = size - 1;
        if self.searching {
            self.settle(now, self.size);
            return None;
        }
        self.searching = true;
        self.size = DATAGRAM_LEN_SAFE as u16;
        Some(self.size)
    }

    /// The search ends where nothing is left between what passes and what does not.
    fn settle(&mut self, now: Time, passes: u16) {
        if passes == self.most {
            self.raise = RAISE;
        } else if self.top - passes >= STEP {
            self.next = now;
            return;
        } else {
            self.raise_at = now + self.raise;
            self.raise = (self.raise * 2).min(RAISE_MAX);
        }
        self.searching = false;
    }

    fn candidate(&self) -> u16 {
        if !self.searching {
            self.size
        } else if self.top == self.most {
            self.most
        } else {
            self.size + (self.top - self.size).div_ceil(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u16 = 1_472;
    const ROUND: Duration = Duration::from_millis(30);

    /// Runs a path that carries `carries` bytes for so long, with a megabit each second on it
    /// and a ping every 50 ms; the sizes in use, and how many probes left.
    fn run(search: &mut PathSearch, from: Time, millis: u64, carries: u16) -> (Vec<u16>, u32) {
        let (mut sizes, mut probes) = (Vec::new(), 0);
        for at in (0..millis).step_by(50) {
            let now = from + Duration::from_millis(at);
            let sent = now.as_micros() / 8;
            let probe = search.poll(now, sent);
            probes += u32::from(probe.is_some());
            if probe.is_some_and(|size| size <= carries) {
                sizes.extend(search.arrived(now + ROUND, now, sent));
            }
            let ping = now + LATER;
            sizes.extend(search.overtaken(ping + ROUND, ping));
        }
        (sizes, probes)
    }

    #[test]
    fn a_path_that_carries_what_was_agreed_is_probed_twice_a_second() {
        let mut search = PathSearch::new(MOST, Time::ZERO).unwrap();
        let (sizes, probes) = run(&mut search, Time::ZERO, 10_000, MOST);
        assert_eq!(sizes, []);
        assert!((15..=21).contains(&probes), "{probes}");
    }

    #[test]
    fn a_path_that_shrinks_is_noticed_within_a_second_and_its_size_is_found() {
        let mut search = PathSearch::new(MOST, Time::ZERO).unwrap();
        run(&mut search, Time::ZERO, 1_000, MOST);
        let shrunk = Time::from_millis(1_000);
        let (mut sizes, _) = run(&mut search, shrunk, 1_000, 1_300);
        assert_eq!(sizes.first(), Some(&1_232));
        sizes.extend(run(&mut search, Time::from_millis(2_000), 3_000, 1_300).0);
        let last = *sizes.last().unwrap();
        assert!((1_300 - STEP..=1_300).contains(&last), "{sizes:?}");
    }

    #[test]
    fn a_path_that_heals_carries_what_was_agreed_again() {
        let mut search = PathSearch::new(MOST, Time::ZERO).unwrap();
        run(&mut search, Time::ZERO, 5_000, 1_240);
        let (sizes, _) = run(&mut search, Time::from_millis(5_000), 15_000, MOST);
        assert_eq!(sizes, [MOST]);
    }

    #[test]
    fn a_narrow_path_is_left_alone_for_longer_and_longer() {
        let mut search = PathSearch::new(MOST, Time::ZERO).unwrap();
        run(&mut search, Time::ZERO, 60_000, 1_232);
        let (sizes, probes) = run(&mut search, Time::from_millis(60_000), 600_000, 1_232);
        assert_eq!(sizes, []);
        assert!(probes < 200, "{probes}");
    }

    #[test]
    fn two_lost_probes_prove_nothing() {
        let mut search = PathSearch::new(MOST, Time::ZERO).unwrap();
        let mut now = Time::from_millis(600);
        for lost in 1..=300 {
            assert_eq!(search.poll(now, now.as_micros()), Some(MOST), "{lost}");
            if lost % 3 == 0 {
                assert_eq!(search.arrived(now, now, now.as_micros()), None);
                now += CONFIRM_EVERY;
            } else {
                assert_eq!(search.overtaken(now, now + LATER), None);
            }
            now += Duration::from_millis(50);
        }
    }

    #[test]
    fn the_longest_datagrams_there_are_shrink_and_heal() {
        let mut search = PathSearch::new(u16::MAX, Time::ZERO).unwrap();
        let (sizes, _) = run(&mut search, Time::ZERO, 9_000, 9_000);
        assert_eq!(sizes.first(), Some(&1_232));
        let last = *sizes.last().unwrap();
        assert!((9_000 - STEP..=9_000).contains(&last), "{sizes:?}");
        let (sizes, _) = run(&mut search, Time::from_millis(9_000), 15_000, u16::MAX);
        assert_eq!(sizes, [u16::MAX]);
    }

    #[test]
    fn nothing_is_searched_where_every_path_carries_what_was_agreed() {
        assert!(PathSearch::new(1_232, Time::ZERO).is_none());
    }
}
