//! `sangam archive store`, and whole segments on their way there.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sangam_archive::{Archive, StorePlace};
use serde_json::json;

use super::settle::{Throttle, rest};
use crate::cli::Place;
use crate::exit::{Exit, Failure, io};
use crate::output;
use crate::stop::Stop;

/// How soon a segment goes when it is whole,
const EVERY: Duration = Duration::from_secs(5);
/// and when it is tried again.
const AGAIN: Duration = Duration::from_secs(30);

/// Names the store, or shows it.
pub(super) fn run(
    place: &Place,
    (wanted, off): (Option<&str>, bool),
    as_json: bool,
) -> Result<(), Failure> {
    let wrong = || io(place.folder.display());
    let found = match wanted {
        Some(wanted) => {
            let archive = RandomState::new().build_hasher().finish();
            Some(StorePlace::set(&place.folder, wanted, archive).map_err(wrong())?)
        }
        None => StorePlace::read(&place.folder).map_err(wrong())?,
    };
    let Some(mut found) = found else {
        let hint = "`sangam archive store s3://BUCKET/PREFIX` names one";
        return Err(Failure::new(Exit::Failure, "recordings stay here").hint(hint));
    };
    if off {
        found.set_moves(&place.folder, false).map_err(wrong())?;
    }
    let StorePlace { place, moves, .. } = &found;
    match (as_json, moves) {
        (true, _) => output::json_line(&json!({ "store": place, "moves": moves })),
        (false, true) => output::line(&format!("recordings go to {place} when they are whole")),
        (false, false) => output::line(&format!(
            "recordings stay here from now on; those in {place} stay there"
        )),
    }
    Ok(())
}

/// A thread that takes whole segments to the store, if there is one.
#[derive(Debug)]
pub(super) struct Carrier(Option<JoinHandle<()>>);

impl Carrier {
    /// Moves so many MiB in a second at most, none at all at 0.
    pub(super) fn start(place: &Place, rate: Option<u64>, stop: &Stop) -> Result<Self, Failure> {
        if rate == Some(0) {
            return Ok(Self(None));
        }
        let (archive, stop) = (Archive::new(&place.folder), stop.clone());
        let thread = thread::Builder::new().name("sangam-carrier".to_owned());
        let thread = thread.spawn(move || work(&archive, rate, &stop));
        let thread = thread.map_err(io("no thread for the store"))?;
        Ok(Self(Some(thread)))
    }

    /// Waits until it has put down what it holds: it was told to stop.
    pub(super) fn end(self) {
        if let Some(thread) = self.0
            && thread.join().is_err()
        {
            tracing::error!("the way to the store had panicked");
        }
    }
}

/// Takes there what has just become whole. What cannot go now goes with a later recording.
pub(super) fn carry_last(place: &Place) {
    let moved = Archive::new(&place.folder).move_out(&mut |_| true);
    let failed = moved.map_or_else(|error| Some(error.to_string()), |moved| moved.failed.1);
    if let Some(error) = failed {
        tracing::warn!(
            error,
            "what was recorded stays here; `sangam archive settle` moves it"
        );
    }
}

fn work(archive: &Archive, rate: Option<u64>, stop: &Stop) {
    let mut pause = EVERY;
    while rest(pause, stop) {
        let throttle = Throttle::new(rate, stop);
        let moved = archive.move_out(&mut |bytes| throttle.wait(bytes));
        let failed = moved.as_ref().map_or_else(
            |error| Some(error.to_string()),
            |moved| moved.failed.1.clone(),
        );
        pause = EVERY;
        if let Some(error) = failed {
            tracing::warn!(error, "recordings stay here until the store takes them");
            pause = AGAIN;
        }
    }
}
