//! Which recordings of sessions there are: looked for when there may be others.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use sangam_archive::{Archive, Recording};
use sangam_session::SessionId;
use serde_json::{Value, json};

use super::Id;
use super::take::LOG;
use crate::stop::Stop;

/// How soon a wish to look is heeded.
const NAP: Duration = Duration::from_millis(100);
/// Others may record into the same archive.
const AGAIN: Duration = Duration::from_secs(60);
/// The newest are told of.
const LISTED_MAX: usize = 500;

/// The list, and who wants it anew.
#[derive(Debug)]
pub(super) struct Catalogue {
    archive: PathBuf,
    list: Mutex<Vec<Value>>,
    version: AtomicU64,
    stale: AtomicBool,
    /// Recordings that go on here: they are not listed yet.
    running: Mutex<BTreeSet<String>>,
}

impl Catalogue {
    pub(super) fn new(archive: &Path) -> Self {
        Self {
            archive: archive.to_owned(),
            list: Mutex::default(),
            version: AtomicU64::new(0),
            stale: AtomicBool::new(true),
            running: Mutex::default(),
        }
    }

    /// Grows with each change of the list; 0 before it is known.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The recordings, as session servers are told.
    pub(super) fn list(&self) -> Vec<Value> {
        held(&self.list).clone()
    }

    /// A recording has begun.
    pub(super) fn begun(&self, recording: &str) {
        held(&self.running).insert(recording.to_owned());
    }

    /// It is over.
    pub(super) fn ended(&self, recording: &str) {
        held(&self.running).remove(recording);
        self.changed();
    }

    /// Something of a recording has changed.
    pub(super) fn changed(&self) {
        self.stale.store(true, Ordering::Release);
    }

    /// Looks whenever somebody wants it, until it is told to stop.
    pub(super) fn run(&self, stop: &Stop) {
        let mut looked: Option<Instant> = None;
        while !stop.is_set() {
            let is_old = looked.is_none_or(|at| at.elapsed() >= AGAIN);
            if self.stale.swap(false, Ordering::AcqRel) || is_old {
                looked = Some(Instant::now());
                self.look();
            }
            thread::park_timeout(NAP);
        }
    }

    fn look(&self) {
        let all = match Archive::new(&self.archive).recordings() {
            Ok(all) => all,
            Err(error) => return tracing::warn!(%error, "the archive cannot be read"),
        };
        let running = held(&self.running).clone();
        let others = all
            .iter()
            .filter(|one| !running.contains(&one.id.to_string()));
        let mut found: Vec<_> = others.filter_map(listed).collect();
        found.drain(..found.len().saturating_sub(LISTED_MAX));
        let mut list = held(&self.list);
        if *list != found || self.version() == 0 {
            *list = found;
            self.version.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// What it replaces is whole.
fn held<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A recording that a recorder made of a session; others have no log of its events.
fn listed(recording: &Recording) -> Option<Value> {
    let (tenant, name) = session(recording)?;
    let ms = |ns: u64| ns / 1_000_000;
    let mut listed = json!({
        "id": recording.id.to_string(), "tenant": tenant, "name": name,
        "begin_ms": ms(recording.begin), "over": recording.whole,
        "length_ms": ms(recording.end.saturating_sub(recording.begin)),
    });
    // Servers that know of none need not be told.
    if let said @ 1.. = recording.annotated() {
        listed["annotations"] = json!(said);
    }
    Some(listed)
}

/// The session that was recorded.
pub(super) fn session(recording: &Recording) -> Option<Id> {
    recording.tracks.iter().find_map(|track| {
        let topic = track.info.topic.as_str().strip_suffix(LOG)?;
        let (tenant, name) = topic.split_once('/')?;
        let id = SessionId::new(tenant, name).ok()?;
        Some((id.tenant, id.name))
    })
}
