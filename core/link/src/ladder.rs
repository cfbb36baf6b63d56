//! Which of several ways to a peer is used: the first that works, and a better one as soon as
//! that works again.

use core::time::Duration;

use sangam_model::Time;

use crate::timing::Backoff;

/// How long a peer is let alone with which no link comes about although it answers.
const REST: Duration = Duration::from_secs(5);

/// How patiently the ways are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LadderConfig {
    /// Ways there are; at least one.
    pub ways: usize,
    /// After so long on a lower way a better one is tried, and as often again.
    pub climb_after: Duration,
    /// Pauses after all ways have failed.
    pub backoff: Backoff,
}

/// Ways to a peer, by number, best first. It says when to go to which; its owner dials.
#[derive(Debug)]
pub struct Ladder {
    config: LadderConfig,
    used: usize,
    /// When the way in use was last up, or was begun.
    since: Time,
    failed: bool,
    /// Rounds through all ways that failed in a row.
    rounds: u32,
    /// The next way begins then, not before.
    pause: Option<Time>,
    climb: Option<Time>,
    next_better: usize,
}

impl Ladder {
    /// Begins with the best way.
    #[must_use]
    pub fn new(config: LadderConfig, now: Time) -> Self {
        Self {
            config,
            used: 0,
            since: now,
            failed: false,
            rounds: 0,
            pause: None,
            climb: None,
            next_better: 0,
        }
    }

    /// The way in use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used
    }

    /// The link is up by the way in use.
    pub fn up(&mut self, now: Time) {
        self.since = now;
        self.failed = false;
        self.rounds = 0;
        self.pause = None;
        self.climb = (self.used > 0).then(|| now + self.config.climb_after);
    }

    /// The link that was up has died, or the way in use has not come up.
    pub fn failed(&mut self, now: Time) {
        self.failed = true;
        self.climb = None;
        self.since = now;
    }

    /// There is no use in trying again soon.
    pub fn rest(&mut self, now: Time) {
        self.failed(now);
        self.pause = Some(now + REST);
    }

    /// There may be use in it now.
    pub fn stir(&mut self, now: Time) {
        let soon = now + self.config.backoff.pause(0);
        self.pause = self.pause.map(|pause| pause.min(soon));
    }

    /// The way to dial now instead of the one in use, which is not up and gets `patience`.
    pub fn turn(&mut self, now: Time, patience: Duration) -> Option<usize> {
        if let Some(pause) = self.pause {
            if now < pause {
                return None;
            }
            self.pause = None;
            return Some(self.begin(now));
        }
        let alone = self.config.ways < 2;
        if alone || !(self.failed || now >= self.since + patience) {
            return None;
        }
        let round = self.used + 1 >= self.config.ways;
        if round {
            self.rounds += 1;
            self.failed = true;
            self.pause = Some(now + self.config.backoff.pause(self.rounds - 1));
            return None;
        }
        Some(self.begin(now))
    }

    /// A better way to try beside the one in use, which is up.
    pub fn climb(&mut self, now: Time) -> Option<usize> {
        if self.climb? > now {
            return None;
        }
        self.climb = Some(now + self.config.climb_after);
        let way = self.next_better % self.used.max(1);
        self.next_better = way + 1;
        Some(way)
    }

    /// The link has moved to a better way.
    pub fn climbed(&mut self, way: usize, now: Time) {
        self.used = way;
        self.up(now);
    }

    /// When [`Ladder::turn`] or [`Ladder::climb`] may have something to say.
    #[must_use]
    pub fn deadline(&self, up: bool, patience: Duration) -> Option<Time> {
        if up {
            return self.climb;
        }
        let several = self.config.ways > 1;
        let turn = several.then(|| match self.failed {
            true => self.since,
            false => self.since + patience,
        });
        self.pause.or(turn)
    }

    fn begin(&mut self, now: Time) -> usize {
        self.used = (self.used + 1) % self.config.ways;
        self.since = now;
        self.failed = false;
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(1);
    const CLIMB: Duration = Duration::from_secs(5);

    fn ladder(ways: usize) -> Ladder {
        let config = LadderConfig {
            ways,
            climb_after: CLIMB,
            backoff: Backoff::BROKER,
        };
        Ladder::new(config, Time::ZERO)
    }

    fn at(ms: u64) -> Time {
        Time::from_micros(ms * 1_000)
    }

    #[test]
    fn a_way_that_fails_gives_way_to_the_next() {
        let mut ladder = ladder(3);
        assert_eq!(ladder.turn(at(999), PATIENCE), None);
        assert_eq!(ladder.turn(at(1_000), PATIENCE), Some(1));
        ladder.failed(at(1_010));
        assert_eq!(ladder.turn(at(1_010), PATIENCE), Some(2));
        assert_eq!(ladder.turn(at(1_020), PATIENCE), None);
    }

    #[test]
    fn a_round_through_all_ways_ends_with_a_growing_pause() {
        let mut ladder = ladder(2);
        let mut pauses = Vec::new();
        let mut now = Time::ZERO;
        for _ in 0..5 {
            ladder.failed(now);
            assert_eq!(ladder.turn(now, PATIENCE), Some(1));
            ladder.failed(now);
            assert_eq!(ladder.turn(now, PATIENCE), None);
            let again = ladder.deadline(false, PATIENCE).unwrap();
            pauses.push((again - now).as_millis());
            assert_eq!(ladder.turn(again, PATIENCE), Some(0));
            now = again;
        }
        assert_eq!(pauses, [50, 100, 200, 400, 500]);
    }

    #[test]
    fn a_better_way_is_tried_from_time_to_time() {
        let mut ladder = ladder(3);
        ladder.failed(at(0));
        ladder.turn(at(0), PATIENCE);
        ladder.failed(at(0));
        assert_eq!(ladder.turn(at(0), PATIENCE), Some(2));
        ladder.up(at(10));
        assert_eq!(ladder.climb(at(5_009)), None);
        assert_eq!(ladder.climb(at(5_010)), Some(0));
        assert_eq!(ladder.deadline(true, PATIENCE), Some(at(10_010)));
        assert_eq!(ladder.climb(at(10_010)), Some(1));
        ladder.climbed(1, at(10_020));
        assert_eq!(ladder.used(), 1);
        assert_eq!(ladder.climb(at(15_020)), Some(0));
        ladder.climbed(0, at(15_030));
        assert_eq!(ladder.climb(at(60_000)), None);
    }

    #[test]
    fn the_only_way_is_left_to_its_dialer() {
        let mut ladder = ladder(1);
        ladder.failed(at(0));
        assert_eq!(ladder.turn(at(60_000), PATIENCE), None);
        assert_eq!(ladder.deadline(false, PATIENCE), None);
        ladder.rest(at(60_000));
        assert_eq!(ladder.turn(at(64_999), PATIENCE), None);
        assert_eq!(ladder.turn(at(65_000), PATIENCE), Some(0));
    }

    #[test]
    fn who_rests_dials_soon_where_that_may_help() {
        let mut ladder = ladder(1);
        ladder.stir(at(0));
        assert_eq!(ladder.deadline(false, PATIENCE), None);
        ladder.rest(at(0));
        ladder.stir(at(1_000));
        assert_eq!(ladder.turn(at(1_049), PATIENCE), None);
        assert_eq!(ladder.turn(at(1_050), PATIENCE), Some(0));
    }
}
