//! What `sangam archive serve` does for films while it serves: blocks go to where they belong when
//! disks came or went, every block is looked at in its time, and a disk that stays away is let go
//! of.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sangam_archive::blocks::Look;
use sangam_archive::films::{FilmError, Films, Roster};

use super::settle::{Throttle, rest};
use crate::cli::CareArgs;
use crate::exit::{Failure, io};
use crate::stop::Stop;

/// How soon a change of disks is noticed.
const EVERY: Duration = Duration::from_secs(1);
/// What could not be done is tried again after so long.
const AGAIN: Duration = Duration::from_secs(60);
/// How often is looked whether disks are there.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const DAY: f64 = 86_400.0;

/// A thread that takes care of films.
#[derive(Debug)]
pub(super) struct Mover {
    thread: JoinHandle<()>,
}

impl Mover {
    /// Takes care of films as `care` says.
    pub(super) fn start(films: &Arc<Films>, care: CareArgs, stop: &Stop) -> Result<Self, Failure> {
        let (films, stop) = (films.clone(), stop.clone());
        let thread = thread::Builder::new().name("sangam-mover".to_owned());
        let thread = thread.spawn(move || work(&films, &care, &stop));
        let thread = thread.map_err(io("no thread to move blocks"))?;
        Ok(Self { thread })
    }

    /// Waits until it has put down what it holds: it was told to stop.
    pub(super) fn end(self) {
        if self.thread.join().is_err() {
            tracing::error!("the mover of blocks had panicked");
        }
    }
}

fn work(films: &Films, care: &CareArgs, stop: &Stop) {
    let mut moves = Moves::default();
    let mut absences = Absences::default();
    let mut patrol = Patrol::new(care);
    while rest(EVERY, stop) {
        let roster = match films.roster() {
            Ok(roster) => roster,
            Err(error) => {
                tracing::debug!(%error, "no disks");
                continue;
            }
        };
        let patience = Duration::from_secs(care.rebuild_after);
        let are_there = absences.look(films, &roster, patience);
        if !roster.is_settled() {
            if care.move_rate > 0 {
                moves.go_on(films, &roster, (care.move_rate, stop));
            }
        } else if are_there {
            patrol.go_on(films, &roster, stop);
        }
    }
}

/// Blocks on their way to where they belong.
#[derive(Debug, Default)]
struct Moves {
    /// Which change could not be settled, and when that was.
    tried: Option<(u64, Instant)>,
}

impl Moves {
    fn go_on(&mut self, films: &Films, roster: &Roster, (rate, stop): (u64, &Stop)) {
        let is_soon =
            |(changes, at): (u64, Instant)| changes == roster.changes && at.elapsed() < AGAIN;
        if self.tried.is_some_and(is_soon) || !films.leads_moves(roster) {
            return;
        }
        let throttle = Throttle::new(Some(rate), stop);
        match films.settle(Look::Name, &mut |step| throttle.wait(step.written)) {
            Ok(report) if report.is_complete => {
                tracing::info!(?report, "blocks are where they belong");
                return;
            }
            Ok(report) => tracing::warn!(?report, "not all blocks are where they belong"),
            Err(FilmError::Busy) => tracing::debug!("somebody else moves blocks"),
            Err(error) => tracing::warn!(%error, "blocks are not moved"),
        }
        self.tried = Some((roster.changes, Instant::now()));
    }
}

/// Disks that are not there.
#[derive(Debug, Default)]
struct Absences {
    looked: Option<Instant>,
    /// Since when each is away.
    away: BTreeMap<u32, Instant>,
}

impl Absences {
    /// Looks which disks are there, and lets go of those that are away for longer than `patience`;
    /// of none if that is zero. Whether all are there.
    fn look(&mut self, films: &Films, roster: &Roster, patience: Duration) -> bool {
        let now = Instant::now();
        if self.looked.is_some_and(|looked| now - looked < LOOK_EVERY) {
            return self.away.is_empty();
        }
        self.looked = Some(now);
        let missing = films.missing(roster);
        let before = self.away.len();
        self.away.retain(|disk, _| missing.contains(disk));
        if self.away.len() < before {
            tracing::info!("a disk has come back");
            films.look_again();
        }
        for disk in missing {
            self.away.entry(disk).or_insert_with(|| {
                let seconds = patience.as_secs();
                tracing::warn!(disk, seconds, "a disk is away; after that it is let go of");
                now
            });
        }
        let away = self.away.iter();
        let gone = away.filter(|(_, since)| now - **since >= patience);
        let gone: Vec<_> = gone.map(|(disk, _)| *disk).collect();
        if gone.is_empty() || patience.is_zero() || !films.leads_moves(roster) {
            return self.away.is_empty();
        }
        match films.give_up(&gone) {
            Ok(gone) => {
                tracing::warn!(
                    ?gone,
                    "disks that stayed away are let go of, and made again"
                );
                self.away.clear();
            }
            Err(error) => {
                tracing::warn!(?gone, %error, "disks stay away, and cannot be let go of");
                // It is judged again as if they had gone only now.
                self.away.values_mut().for_each(|since| *since = now);
            }
        }
        false
    }
}

/// The walk over all blocks.
#[derive(Debug)]
struct Patrol {
    /// Bytes in a second at most; 0: none.
    rate: u64,
    round: Duration,
    /// When the next stripe is looked at.
    due: Instant,
}

impl Patrol {
    fn new(care: &CareArgs) -> Self {
        Self {
            rate: care.scrub_rate << 20,
            round: Duration::from_secs_f64(care.scrub_days * DAY),
            due: Instant::now(),
        }
    }

    /// Looks at what is due.
    fn go_on(&mut self, films: &Films, roster: &Roster, stop: &Stop) {
        let begin = Instant::now();
        if self.rate == 0 || self.due > begin || !films.leads_moves(roster) {
            return;
        }
        // What could not be looked at in time is not made up for: streams need the disks now.
        self.due = begin;
        while self.due <= begin + EVERY && begin.elapsed() < EVERY && !stop.is_set() {
            self.due += match films.patrol() {
                Ok((_, 0)) => AGAIN,
                Ok((bytes, all)) => self.rest(bytes, all),
                Err(FilmError::Busy) => EVERY,
                Err(error) => {
                    tracing::warn!(%error, "films are not looked at");
                    AGAIN
                }
            };
        }
    }

    /// How long these bytes are to take, of so many that a round has.
    fn rest(&self, bytes: u64, all: u64) -> Duration {
        let share = bytes as f64 / all.max(1) as f64;
        let quickest = Duration::from_secs_f64(bytes as f64 / self.rate as f64);
        let rest = self.round.mul_f64(share.min(1.0)).max(quickest);
        // A round that has no bytes is none.
        rest.max(Duration::from_millis(10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_looked_at_as_often_as_they_are_to_be_and_no_faster_than_streams_bear() {
        let care = |scrub_rate, scrub_days| CareArgs {
            move_rate: 16,
            scrub_rate,
            scrub_days,
            rebuild_after: 600,
        };
        // A terabyte in a week, and one of which no more than 1 MiB in a second is read.
        let all = 1_000_000_000_000;
        let rest = Patrol::new(&care(8, 7.0)).rest(1 << 22, all);
        assert!((2.5..2.6).contains(&rest.as_secs_f64()), "{rest:?}");
        let rest = Patrol::new(&care(1, 7.0)).rest(1 << 22, all);
        assert_eq!(rest, Duration::from_secs(4));
    }
}
