//! `sangam archive`: what is recorded, and files made of it.

mod export;
mod list;
mod progress;
mod readiness;
mod record;
mod replay;
mod scrub;
mod serve;

use std::time::{SystemTime, UNIX_EPOCH};

use sangam_archive::segment::Gaps;
use sangam_archive::{Archive, Recording};

use crate::cli::{ArchiveArgs, ArchiveCommand, Place};
use crate::exit::{Exit, Failure, io};

pub(super) use record::run as record;
pub(super) use replay::run as replay;

/// Does what is asked of an archive.
pub(super) fn run(args: &ArchiveArgs, json: bool) -> Result<(), Failure> {
    match &args.command {
        ArchiveCommand::List => list::run(&args.place, json),
        ArchiveCommand::Export { recording, out } => {
            export::run(&args.place, (recording, out), json)
        }
        ArchiveCommand::Scrub => scrub::run(&args.place, json),
        ArchiveCommand::Serve(options) => serve::run(&args.place, options, json),
    }
}

/// Nanoseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

/// The recording with this name, or whose number begins so.
fn find(place: &Place, wanted: &str) -> Result<Recording, Failure> {
    let all = all(place)?;
    let fits = |recording: &&Recording| {
        recording.name == wanted || recording.id.to_string().starts_with(wanted)
    };
    let mut found: Vec<_> = all.iter().filter(fits).collect();
    let wrong = |message: String| {
        let hint = "`sangam archive list` shows what there is";
        Err(Failure::new(Exit::Usage, message).hint(hint))
    };
    match (found.pop(), found.len()) {
        (Some(recording), 0) => Ok(recording.clone()),
        (None, _) => wrong(format!("there is no recording {wanted:?}")),
        (Some(_), more) => wrong(format!("{} recordings are called {wanted:?}", more + 1)),
    }
}

fn all(place: &Place) -> Result<Vec<Recording>, Failure> {
    let archive = Archive::new(&place.folder);
    archive.recordings().map_err(io(place.folder.display()))
}

/// Fails if something of what was read is damaged.
fn is_whole(gaps: Gaps) -> Result<(), Failure> {
    if gaps.count == 0 {
        return Ok(());
    }
    let Gaps { count, bytes, .. } = gaps;
    let message = format!("the recording is damaged at {count} places: {bytes} bytes are left out");
    let hint = "`sangam archive scrub` shows where";
    Err(Failure::new(Exit::Failure, message).hint(hint))
}
