//! `sangam archive`: what is recorded, and files made of it.

mod add;
mod capture;
mod disk;
mod export;
mod list;
mod mover;
mod node;
mod nodes;
mod progress;
mod readiness;
mod record;
mod recorder;
mod remove;
mod replay;
mod scrub;
mod serve;
mod settle;
mod statistics;
mod status;
mod store;

use std::time::{SystemTime, UNIX_EPOCH};

use sangam_archive::blocks::BlockError;
use sangam_archive::films::{FilmError, Films};
use sangam_archive::segment::Gaps;
use sangam_archive::{Archive, Catalogue, Recording};

use crate::cli::{ArchiveArgs, ArchiveCommand, Place};
use crate::exit::{Exit, Failure, io};

pub(super) use record::run as record;
pub(super) use recorder::{Beside as Recorder, near};
pub(crate) use recorder::{Order, Orders};
pub(super) use replay::run as replay;
pub(super) use serve::credentials;

/// Does what is asked of an archive.
pub(super) fn run(args: &ArchiveArgs, json: bool) -> Result<(), Failure> {
    match &args.command {
        ArchiveCommand::List => list::run(&args.place, json),
        ArchiveCommand::Add(film) => add::run(&args.place, film, json),
        ArchiveCommand::Export { recording, out } => {
            export::run(&args.place, (recording, out), json)
        }
        ArchiveCommand::Remove { name, yes } => remove::run(&args.place, (name, *yes), json),
        ArchiveCommand::Store { place, off } => {
            store::run(&args.place, (place.as_deref(), *off), json)
        }
        ArchiveCommand::Scrub => scrub::run(&args.place, json),
        ArchiveCommand::Status => status::run(&args.place, json),
        ArchiveCommand::Disk(command) => disk::run(&args.place, command, json),
        ArchiveCommand::Node(command) => node::run(&args.place, command, json),
        ArchiveCommand::Settle { rate } => settle::run(&args.place, *rate, json),
        ArchiveCommand::Serve(options) => serve::run(&args.place, options, json),
        ArchiveCommand::Recorder(options) => recorder::run(&args.place, options),
    }
}

/// Blocks that a command has in memory.
const BLOCKS_MAX: usize = 16;

/// The films of an archive.
fn films(place: &Place) -> Films {
    Films::new(&place.folder, BLOCKS_MAX)
}

/// What went wrong with films, and what to do.
fn failure(error: &FilmError) -> Failure {
    let hint = match error {
        FilmError::Taken(_) => "give it another one by --name",
        FilmError::NoClock => "FFmpeg makes one: `ffmpeg -i FILE -c copy OUT.mkv`, and add that",
        FilmError::NoDisk(_) | FilmError::Known(_) => "`sangam archive disk list` shows all",
        FilmError::Busy => "it may be `sangam archive serve`; it goes on there",
        FilmError::Blocks(BlockError::TooFewDisks) => {
            "`sangam archive disk add DIR` adds one; --copies and --parity want fewer"
        }
        FilmError::Blocks(BlockError::Lost(_)) => "`sangam archive status` shows what is missing",
        _ => "",
    };
    Failure::new(Exit::Failure, error.to_string()).hint(hint)
}

/// Nanoseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

/// The recording with this name, or whose number begins so.
fn find(place: &Place, wanted: &str) -> Result<Recording, Failure> {
    let mut found = matching(place, wanted)?;
    let wrong = |message: String| {
        let hint = "`sangam archive list` shows what there is";
        Err(Failure::new(Exit::Usage, message).hint(hint))
    };
    match (found.pop(), found.len()) {
        (Some(recording), 0) => Ok(recording),
        (None, _) => wrong(format!("there is no recording {wanted:?}")),
        (Some(_), more) => wrong(format!("{} recordings are called {wanted:?}", more + 1)),
    }
}

/// All recordings with this name, or whose number begins so.
fn matching(place: &Place, wanted: &str) -> Result<Vec<Recording>, Failure> {
    let found = Catalogue::new(Archive::new(&place.folder)).find(wanted);
    found.map_err(io(place.folder.display()))
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
