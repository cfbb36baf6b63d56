//! Traces that somebody brought, perhaps recorded of a live network.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sangam_sim::replay::{Outcome, Plan, Replay, Roster};
use sangam_sim::trace::{Columns, Overlay, Reader, TraceError};
use serde_json::{Value, json};

use super::Failure;
use super::args::RunArgs;
use super::run::{Piece, Task, run as run_tasks};
use super::store::Store;

/// What a report needs to know of a trace, once its sessions were run.
#[derive(Clone, Debug)]
pub(crate) struct Brought {
    path: PathBuf,
    /// By it results are kept.
    pub(crate) hash: u64,
    /// What the trace calls itself.
    pub(crate) name: String,
    /// Links of the whole network.
    pub(crate) links: usize,
    /// Each session's name, and the links of its paths.
    pub(crate) sessions: Vec<(String, usize)>,
}

/// Runs all sessions of a trace whose results are not there yet.
///
/// # Errors
/// If the trace cannot be read or results not be kept.
pub(super) fn run(path: &Path, args: &RunArgs) -> Result<Store, Failure> {
    let wrong = |error: TraceError| Failure(format!("{}: {error}", path.display()));
    let (brought, rows) = Brought::read(path).map_err(wrong)?;
    let mut store = Store::create(&args.out, rows, 1)?;
    // First, so that a run that is stopped can be reported.
    store.note_trace(&brought)?;
    let brought = Arc::new(brought);
    let task = |session| Task {
        piece: Piece::Brought(Arc::clone(&brought), session),
        roster: Roster::replay(),
    };
    let tasks: Vec<Task> = (0..brought.sessions.len()).map(task).collect();
    run_tasks(&tasks, &store, args.jobs())?;
    Ok(store)
}

fn open(path: &Path) -> Result<Reader<BufReader<File>>, TraceError> {
    Reader::new(BufReader::new(File::open(path)?))
}

impl Brought {
    /// Reads a trace to its end: what it is, and how many moments it has.
    fn read(path: &Path) -> Result<(Self, u64), TraceError> {
        let mut reader = open(path)?;
        let mut columns = Columns::new(reader.overlay().links.len());
        while reader.chunk(&mut columns)? {}
        let overlay = reader.overlay();
        let brought = Self {
            path: path.to_owned(),
            hash: reader.hash(),
            name: overlay.name.clone(),
            links: overlay.links.len(),
            sessions: sessions(overlay),
        };
        Ok((brought, overlay.rows))
    }

    /// Runs one of its sessions.
    ///
    /// # Errors
    /// If the trace cannot be read, or is another one by now.
    pub(super) fn run(
        &self,
        session: usize,
        roster: &Roster,
        plan: Plan,
    ) -> Result<Outcome, TraceError> {
        let mut reader = open(&self.path)?;
        let overlay = reader.overlay().clone();
        let links = overlay.session_links(session)?;
        let (mut whole, mut own) = (Columns::new(overlay.links.len()), Columns::new(links.len()));
        let mut replay = Replay::new(&overlay, session, roster, plan)?;
        while reader.chunk(&mut whole)? {
            own.select(&whole, &links);
            replay.chunk(&own);
        }
        if reader.hash() != self.hash {
            return Err(TraceError::Overlay(
                "the trace was changed meanwhile".to_owned(),
            ));
        }
        Ok(replay.finish())
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "path": self.path,
            "hash": format!("{:016x}", self.hash),
            "name": self.name,
            "links": self.links,
            "sessions": self.sessions,
        })
    }

    /// What [`Brought::to_json`] made, if it is that.
    pub(super) fn from_json(value: &Value) -> Option<Self> {
        let sessions = value["sessions"].as_array()?.iter().map(|session| {
            let links = usize::try_from(session[1].as_u64()?).ok()?;
            Some((session[0].as_str()?.to_owned(), links))
        });
        Some(Self {
            path: value["path"].as_str()?.into(),
            hash: u64::from_str_radix(value["hash"].as_str()?, 16).ok()?,
            name: value["name"].as_str()?.to_owned(),
            links: usize::try_from(value["links"].as_u64()?).ok()?,
            sessions: sessions.collect::<Option<_>>()?,
        })
    }
}

/// Names of sessions, and how many links each has.
pub(super) fn sessions(overlay: &Overlay) -> Vec<(String, usize)> {
    let names = (0..overlay.sessions.len()).map(|session| {
        let links = overlay
            .session_links(session)
            .map_or(0, |links| links.len());
        (overlay.session_name(session), links)
    });
    names.collect()
}
