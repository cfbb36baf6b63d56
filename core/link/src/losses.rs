//! Whether the path of a stream loses segments, by what its kernel sends again.

use core::time::Duration;

use sangam_model::Time;

/// Segments are counted together over so long.
const WINDOW: Duration = Duration::from_secs(10);
/// A path that has more than one of so many sent again loses: CUBIC (RFC 9438 section 5.1) carries
/// some 4 Mb/s over it at 90 ms of round trip.
const ONE_IN: u64 = 1_000;
/// Fewer of a window are chance.
const CHANCE: u64 = 3;
/// Before a window is over it is judged as if at least so many had been sent: one moment is chance.
const SENT_MIN: u64 = 10_000;
/// After so many windows without, it is sound again.
const SOUND: u8 = 3;

/// What a kernel has sent of a connection since it began, in segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    /// All of them.
    pub sent: u64,
    /// Those that were sent again.
    pub again: u64,
}

/// Judges a path by the [`Segments`] that are told from time to time.
#[derive(Clone, Copy, Debug)]
pub struct Losses {
    /// When the window began, and what had been sent then.
    since: Time,
    then: Segments,
    /// Windows in a row that lost little; all while nothing is known.
    sound: u8,
}

impl Losses {
    /// A path of which nothing is known: it is thought sound.
    #[must_use]
    pub fn new(now: Time) -> Self {
        Self {
            since: now,
            then: Segments::default(),
            sound: SOUND,
        }
    }

    /// Takes what has been sent so far.
    pub fn note(&mut self, now: Time, segments: Segments) {
        let sent = segments.sent.saturating_sub(self.then.sent);
        let again = segments.again.saturating_sub(self.then.again);
        let whole = now - self.since >= WINDOW;
        let of = if whole { sent } else { sent.max(SENT_MIN) };
        if again >= CHANCE && again * ONE_IN > of {
            self.sound = 0;
        } else if whole {
            self.sound = (self.sound + 1).min(SOUND);
        } else {
            return;
        }
        (self.since, self.then) = (now, segments);
    }

    /// Whether it loses, or did a moment ago.
    #[must_use]
    pub fn persist(&self) -> bool {
        self.sound < SOUND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A path over which 20,000 segments a second go, of which one in `one_in` again.
    struct Path {
        now: Time,
        losses: Losses,
        segments: Segments,
    }

    impl Path {
        fn new() -> Self {
            let now = Time::from_millis(5);
            Self {
                now,
                losses: Losses::new(now),
                segments: Segments::default(),
            }
        }

        /// Goes on for so many seconds; in which of them it was held to lose.
        fn run(&mut self, seconds: u64, one_in: u64) -> Vec<bool> {
            let second = |_| {
                self.now += SECOND;
                self.segments.sent += 20_000;
                self.segments.again += 20_000 / one_in;
                self.losses.note(self.now, self.segments);
                self.losses.persist()
            };
            (0..seconds).map(second).collect()
        }
    }

    #[test]
    fn a_path_that_loses_is_known_within_a_second_and_sound_after_thirty() {
        let mut path = Path::new();
        assert!(path.run(100, 10_000).iter().all(|loses| !loses));
        assert!(path.run(100, 100).iter().all(|loses| *loses));
        let after = path.run(40, 10_000);
        assert_eq!(
            after.iter().filter(|loses| **loses).count(),
            29,
            "{after:?}"
        );
        assert!(after.is_sorted_by(|before, after| before >= after));
    }

    #[test]
    fn one_moment_is_chance() {
        let mut path = Path::new();
        path.run(10, 10_000);
        path.segments.again += 10;
        assert!(path.run(30, 10_000).iter().all(|loses| !loses));
    }

    #[test]
    fn where_little_is_sent_the_window_tells() {
        let (mut losses, mut now) = (Losses::new(Time::ZERO), Time::ZERO);
        let mut told = Vec::new();
        for second in 1..=20 {
            now += SECOND;
            let segments = Segments {
                sent: 40 * second,
                again: 4 * second / 10,
            };
            losses.note(now, segments);
            told.push(losses.persist());
        }
        assert_eq!(told.iter().position(|loses| *loses), Some(9), "{told:?}");
    }
}
