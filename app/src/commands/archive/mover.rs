//! What `sangam archive serve` does when disks came or went.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sangam_archive::blocks::Look;
use sangam_archive::films::{FilmError, Films};

use super::films;
use super::settle::{Throttle, rest};
use crate::cli::Place;
use crate::exit::{Failure, io};
use crate::stop::Stop;

/// How soon a change of disks is noticed.
const EVERY: Duration = Duration::from_secs(1);
/// What could not be done is tried again after so long.
const AGAIN: Duration = Duration::from_secs(60);

/// A thread that moves blocks.
#[derive(Debug)]
pub(super) struct Mover {
    thread: Option<JoinHandle<()>>,
}

impl Mover {
    /// Moves so many MiB in a second at most, none at all at 0.
    pub(super) fn start(place: &Place, rate: u64, stop: &Stop) -> Result<Self, Failure> {
        if rate == 0 {
            return Ok(Self { thread: None });
        }
        let (films, stop) = (Arc::new(films(place)), stop.clone());
        let thread = thread::Builder::new().name("sangam-mover".to_owned());
        let thread = thread.spawn(move || work(&films, rate, &stop));
        let thread = thread.map_err(io("no thread to move blocks"))?;
        let thread = Some(thread);
        Ok(Self { thread })
    }

    /// Waits until it has put down what it holds: it was told to stop.
    pub(super) fn end(self) {
        if let Some(thread) = self.thread
            && thread.join().is_err()
        {
            tracing::error!("the mover of blocks had panicked");
        }
    }
}

fn work(films: &Films, rate: u64, stop: &Stop) {
    // Which change could not be settled, and when that was.
    let mut tried: Option<(u64, Instant)> = None;
    loop {
        if !rest(EVERY, stop) {
            return;
        }
        let roster = match films.roster() {
            Ok(roster) if !roster.is_settled() => roster,
            Ok(_) => continue,
            Err(error) => {
                tracing::debug!(%error, "no disks");
                continue;
            }
        };
        let is_soon =
            |(changes, at): (u64, Instant)| changes == roster.changes && at.elapsed() < AGAIN;
        if tried.is_some_and(is_soon) {
            continue;
        }
        if !films.leads_moves(&roster) {
            continue;
        }
        let throttle = Throttle::new(Some(rate), stop);
        match films.settle(Look::Name, &mut |step| throttle.wait(step.written)) {
            Ok(report) if report.is_complete => {
                tracing::info!(?report, "blocks are where they belong");
                continue;
            }
            Ok(report) => tracing::warn!(?report, "not all blocks are where they belong"),
            Err(FilmError::Busy) => tracing::debug!("somebody else moves blocks"),
            Err(error) => tracing::warn!(%error, "blocks are not moved"),
        }
        tried = Some((roster.changes, Instant::now()));
    }
}
