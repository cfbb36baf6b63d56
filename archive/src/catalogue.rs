//! What recordings there are, without reading every segment each time.
//!
//! A segment that is whole never changes: what its footer says is kept in memory and in a file that
//! any process may throw away, and made again from the segments wherever it is missing, damaged or
//! held by another process. Only names of segments are listed, and only if the folder has changed.

mod kept;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io;
use std::time::{Duration, SystemTime};

use crate::archive::{Archive, Recording, assemble};
use crate::index::Index;
use crate::medium::{Folder, Medium};
use crate::record::RecordingId;
use crate::segment;
use kept::Kept;

/// A folder's time is as coarse as the kernel's clock: what was changed so lately may change again
/// unseen.
const SETTLED: Duration = Duration::from_millis(100);

/// The recordings of an archive, as one process knows them.
#[derive(Debug)]
pub struct Catalogue {
    archive: Archive,
    kept: Kept,
    segments: BTreeMap<String, Known>,
    recordings: BTreeMap<RecordingId, Entry>,
    /// For each name when recordings of it began, and which.
    names: HashMap<String, BTreeSet<(u64, RecordingId)>>,
    /// When the folder was changed last.
    stamp: Option<SystemTime>,
    is_begun: bool,
}

/// What is known of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    /// Its length, or how far it has been read.
    len: u64,
    /// Whether it changes no more.
    whole: bool,
    /// Without places to start from.
    index: Index,
}

/// Where a recording is.
#[derive(Debug, Default)]
struct Entry {
    name: String,
    begin: u64,
    segments: BTreeSet<String>,
}

impl Catalogue {
    /// Of an archive. Nothing is read yet, and nothing made where there is no recording.
    #[must_use]
    pub fn new(archive: Archive) -> Self {
        Self {
            kept: Kept::new(archive.folder()),
            archive,
            segments: BTreeMap::new(),
            recordings: BTreeMap::new(),
            names: HashMap::new(),
            stamp: None,
            is_begun: false,
        }
    }

    /// Every recording, oldest first.
    ///
    /// # Errors
    /// Of the disk.
    pub fn all(&mut self) -> io::Result<Vec<Recording>> {
        let mut all = self.even_removed()?;
        let gone = self.archive.removed()?;
        all.retain(|recording| !gone.contains(&recording.id));
        Ok(all)
    }

    /// The same with those that are being removed.
    pub(crate) fn even_removed(&mut self) -> io::Result<Vec<Recording>> {
        self.refresh()?;
        let segments = self.segments.iter();
        Ok(assemble(segments.map(|(name, known)| (name, &known.index))))
    }

    /// Which recordings a segment holds, as it was looked at last.
    pub(crate) fn recordings_in(&self, segment: &str) -> Vec<RecordingId> {
        let known = self.segments.get(segment);
        let found = known.map_or(&[][..], |known| &known.index.recordings);
        found.iter().map(|found| found.id).collect()
    }

    /// The recordings of a name, oldest first; then those whose number begins so.
    ///
    /// # Errors
    /// Of the disk.
    pub fn find(&mut self, wanted: &str) -> io::Result<Vec<Recording>> {
        self.refresh()?;
        let gone = self.archive.removed()?;
        let named = self.names.get(wanted).into_iter().flatten();
        let mut found: Vec<_> = named.map(|(_, id)| *id).collect();
        let known: BTreeSet<_> = found.iter().copied().collect();
        if let Some(range) = numbers(wanted) {
            let numbered = self.recordings.range(range).map(|(id, _)| *id);
            found.extend(numbered.filter(|id| !known.contains(id)));
        }
        found.retain(|id| !gone.contains(id));
        Ok(found
            .into_iter()
            .filter_map(|id| self.recording(id))
            .collect())
    }

    /// Forgets everything, the file as well: it is made again.
    ///
    /// # Errors
    /// Of the disk.
    pub fn rebuild(&mut self) -> io::Result<()> {
        self.kept.clear()?;
        *self = Self::new(self.archive.clone());
        // It is there already, as far as it goes.
        self.is_begun = true;
        self.refresh()
    }

    fn recording(&self, id: RecordingId) -> Option<Recording> {
        let names = &self.recordings.get(&id)?.segments;
        let segments = names
            .iter()
            .filter_map(|name| self.segments.get_key_value(name));
        let all = assemble(segments.map(|(name, known)| (name, &known.index)));
        all.into_iter().find(|recording| recording.id == id)
    }

    /// Looks at what has changed.
    pub(crate) fn refresh(&mut self) -> io::Result<()> {
        if !self.is_begun {
            self.is_begun = true;
            for (name, known) in self.kept.read() {
                self.insert(name, known);
            }
        }
        let medium = self.archive.reader();
        let stamp = fs::metadata(self.archive.path())
            .and_then(|folder| folder.modified())
            .ok();
        let is_old = |at: SystemTime| at.elapsed().is_ok_and(|age| age > SETTLED);
        let mut change = Change::default();
        if stamp.is_none() || stamp != self.stamp || !stamp.is_some_and(is_old) {
            self.list(&medium, &mut change)?;
            // What comes while it is listed is seen the next time.
            self.stamp = stamp.filter(|at| is_old(*at));
        }
        let open = self.segments.iter().filter(|(_, known)| !known.whole);
        for name in open.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.look(&medium, &name, &mut change)?;
        }
        if !change.is_nothing() {
            let whole = |name: &String| Some((name.clone(), self.segments.get(name)?.clone()));
            let fresh: Vec<_> = change.whole.iter().filter_map(whole).collect();
            self.kept.write(&fresh, &change.gone);
        }
        Ok(())
    }

    /// Takes segments that are new, and lets go of those that are gone.
    fn list(&mut self, medium: &Folder, change: &mut Change) -> io::Result<()> {
        let mut all: BTreeMap<_, _> = medium.near()?.into_iter().collect();
        if let Some(far) = medium.far() {
            match far.list() {
                Ok(found) => found.into_iter().for_each(|(name, len)| {
                    all.entry(name).or_insert(len);
                }),
                Err(error) => {
                    tracing::warn!(%error, "what is new in the bucket is not seen");
                    let known = self.segments.iter().filter(|(_, known)| known.whole);
                    known.for_each(|(name, known)| {
                        all.entry(name.clone()).or_insert(known.len);
                    });
                }
            }
        }
        let is_same = |name: &String, len| {
            let known = self.segments.get(name);
            known.is_some_and(|known| known.len == len || !known.whole)
        };
        let fresh = all.iter().filter(|(name, len)| !is_same(name, **len));
        let fresh: Vec<_> = fresh.map(|(name, _)| name.clone()).collect();
        let gone = self.segments.keys().filter(|name| !all.contains_key(*name));
        for name in gone.cloned().collect::<Vec<_>>() {
            self.forget(&name);
            change.gone.push(name);
        }
        for name in fresh {
            self.forget(&name);
            self.look(medium, &name, change)?;
        }
        Ok(())
    }

    /// Reads what a segment has more than before.
    fn look(&mut self, medium: &Folder, name: &str, change: &mut Change) -> io::Result<()> {
        let Some(len) = medium.len_of(name)? else {
            return Ok(());
        };
        let known = match segment::footer(medium, name, len)? {
            Some(index) => {
                change.whole.push(name.to_owned());
                Known {
                    len,
                    whole: true,
                    index: index.without_points(),
                }
            }
            None => {
                let known = self.segments.get(name).filter(|known| !known.whole);
                let (from, mut index) =
                    known.map_or_else(Default::default, |known| (known.len, known.index.clone()));
                let scanned = segment::scan(medium, name, from, |record, offset| {
                    index.take(record, offset);
                    true
                })?;
                Known {
                    len: scanned.end,
                    whole: false,
                    index: index.without_points(),
                }
            }
        };
        self.forget(name);
        self.insert(name.to_owned(), known);
        Ok(())
    }

    fn insert(&mut self, segment: String, known: Known) {
        for found in &known.index.recordings {
            let entry = self.recordings.entry(found.id).or_insert_with(|| Entry {
                name: found.name.clone(),
                begin: found.begin,
                segments: BTreeSet::new(),
            });
            entry.segments.insert(segment.clone());
            let names = self.names.entry(entry.name.clone()).or_default();
            names.insert((entry.begin, found.id));
        }
        self.segments.insert(segment, known);
    }

    fn forget(&mut self, segment: &str) {
        let Some(known) = self.segments.remove(segment) else {
            return;
        };
        for found in known.index.recordings {
            let Some(entry) = self.recordings.get_mut(&found.id) else {
                continue;
            };
            entry.segments.remove(segment);
            if !entry.segments.is_empty() {
                continue;
            }
            if let Some(names) = self.names.get_mut(&entry.name) {
                names.remove(&(entry.begin, found.id));
                if names.is_empty() {
                    self.names.remove(&entry.name);
                }
            }
            self.recordings.remove(&found.id);
        }
    }
}

/// What came and went since the last look.
#[derive(Debug, Default)]
struct Change {
    whole: Vec<String>,
    gone: Vec<String>,
}

impl Change {
    fn is_nothing(&self) -> bool {
        self.whole.is_empty() && self.gone.is_empty()
    }
}

/// All numbers that begin so, in hexadecimal digits.
fn numbers(begin: &str) -> Option<core::ops::RangeInclusive<RecordingId>> {
    let is_number = begin
        .bytes()
        .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    if begin.is_empty() || begin.len() > 16 || !is_number {
        return None;
    }
    let first = u64::from_str_radix(&format!("{begin:0<16}"), 16).ok()?;
    let last = u64::from_str_radix(&format!("{begin:f<16}"), 16).ok()?;
    Some(RecordingId(first)..=RecordingId(last))
}
