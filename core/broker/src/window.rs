//! Which events of a stream were seen already.

use core::time::Duration;

use sangam_model::Time;

/// Sequence numbers remembered behind the newest one.
pub const WINDOW: u16 = 1_024;
/// A stream silent for so long may start anew at any number.
const SILENCE: Duration = Duration::from_secs(1);
/// So many numbers behind the window in a row are a stream that restarted, not a slow second way:
/// there the faster way's new events stand between. RFC 3550 section A.1 takes two in a row, which
/// one late burst would imitate; this is four of the largest bursts.
const OLD_RUN_MAX: u8 = 64;

const WORDS: usize = WINDOW as usize / 64;

/// Remembers the last 1,024 sequence numbers of one stream, in 144 bytes.
#[derive(Clone, Debug, Default)]
pub struct DuplicateWindow {
    /// Bit `sequence % 1024`.
    seen: [u64; WORDS],
    heard: Time,
    highest: u16,
    old_run: u8,
    started: bool,
}

const _: () = assert!(size_of::<DuplicateWindow>() <= 160);

/// What a sequence number is to a [`DuplicateWindow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not seen before.
    New,
    /// Seen before.
    Duplicate,
    /// Too far behind the newest to tell.
    Old,
}

impl DuplicateWindow {
    /// A window that has seen nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            seen: [0; WORDS],
            heard: Time::ZERO,
            highest: 0,
            old_run: 0,
            started: false,
        }
    }

    /// Notes `sequence` and tells whether it is new.
    #[inline]
    pub fn insert(&mut self, now: Time, sequence: u16) -> Verdict {
        let silent = now.since(self.heard) > SILENCE;
        self.heard = now;
        if !self.started || silent {
            return self.restart(sequence);
        }
        let ahead = sequence.wrapping_sub(self.highest);
        if ahead != 0 && ahead < 0x8000 {
            self.advance(ahead);
        } else if self.highest.wrapping_sub(sequence) >= WINDOW {
            self.old_run += 1;
            if self.old_run < OLD_RUN_MAX {
                return Verdict::Old;
            }
            return self.restart(sequence);
        }
        self.mark(sequence)
    }

    /// Forgets everything.
    pub const fn reset(&mut self) {
        *self = Self::new();
    }

    fn restart(&mut self, sequence: u16) -> Verdict {
        self.seen = [0; WORDS];
        self.highest = sequence;
        self.started = true;
        self.mark(sequence)
    }

    fn advance(&mut self, ahead: u16) {
        let mut at = self.highest.wrapping_add(1) % WINDOW;
        let mut left = ahead.min(WINDOW);
        while left > 0 {
            let run = left.min(64 - at % 64);
            self.seen[usize::from(at / 64)] &= !((u64::MAX >> (64 - run)) << (at % 64));
            at = (at + run) % WINDOW;
            left -= run;
        }
        self.highest = self.highest.wrapping_add(ahead);
    }

    fn mark(&mut self, sequence: u16) -> Verdict {
        self.old_run = 0;
        let (word, bit) = place(sequence);
        if self.seen[word] & bit != 0 {
            return Verdict::Duplicate;
        }
        self.seen[word] |= bit;
        Verdict::New
    }
}

const fn place(sequence: u16) -> (usize, u64) {
    let at = sequence % WINDOW;
    ((at / 64) as usize, 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Duplicate, New, Old};

    const NOW: Time = Time::from_millis(1);

    fn filled(range: core::ops::RangeInclusive<u16>) -> DuplicateWindow {
        let mut window = DuplicateWindow::new();
        for sequence in range {
            assert_eq!(window.insert(NOW, sequence), New);
        }
        window
    }

    #[test]
    fn every_number_passes_once_in_any_order() {
        let mut window = DuplicateWindow::new();
        for sequence in [5, 3, 4, 9, 8] {
            assert_eq!(window.insert(NOW, sequence), New);
        }
        for sequence in [5, 3, 4, 9, 8] {
            assert_eq!(window.insert(NOW, sequence), Duplicate);
        }
        assert_eq!(window.insert(NOW, 7), New);
    }

    #[test]
    fn the_window_crosses_the_wrap() {
        let mut window = filled(65_000..=65_535);
        assert_eq!(window.insert(NOW, 0), New);
        assert_eq!(window.insert(NOW, 65_535), Duplicate);
        assert_eq!(window.insert(NOW, 0), Duplicate);
    }

    #[test]
    fn numbers_left_out_by_a_jump_are_new_and_those_behind_the_window_old() {
        let mut window = filled(0..=2_000);
        assert_eq!(window.insert(NOW, 2_900), New);
        assert_eq!(window.insert(NOW, 2_899), New);
        assert_eq!(window.insert(NOW, 1_999), Duplicate);
        assert_eq!(window.insert(NOW, 2_900 - 1_024), Old);
        assert_eq!(window.insert(NOW, 2_900 + 1_024), New);
        assert_eq!(window.insert(NOW, 2_901), New);
    }

    #[test]
    fn a_restarted_stream_is_taken_up_after_a_run_or_a_silence() {
        let mut window = filled(30_000..=30_010);
        for sequence in 0..63 {
            assert_eq!(window.insert(NOW, sequence), Old);
        }
        assert_eq!(window.insert(NOW, 63), New);
        let later = NOW + Duration::from_millis(1_001);
        assert_eq!(window.insert(later, 20_000), New);
        assert_eq!(window.insert(later, 20_000), Duplicate);
    }

    #[test]
    fn after_a_jump_of_any_length_the_window_holds_just_what_came() {
        for jump in 1..=1_500_u16 {
            let mut window = filled(100..=1_200);
            let highest = 1_200 + jump;
            assert_eq!(window.insert(NOW, highest), New);
            for sequence in highest - 1_023..highest {
                let want = if sequence <= 1_200 { Duplicate } else { New };
                assert_eq!(
                    window.insert(NOW, sequence),
                    want,
                    "{sequence} after {jump}"
                );
            }
        }
    }

    #[test]
    fn a_slow_second_way_never_restarts_the_window() {
        let mut window = filled(0..=5_000);
        for step in 0..10_000_u16 {
            assert_eq!(window.insert(NOW, 5_001 + step), New);
            assert_eq!(window.insert(NOW, 1_001 + step), Old);
        }
    }
}
