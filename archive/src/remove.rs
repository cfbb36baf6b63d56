//! Recordings that are let go of.
//!
//! A note in the folder `removed` comes first, and from then on nobody sees the recording; then go
//! the segments, then the note. Whatever is interrupted is done by the next scrub. A segment that
//! holds other recordings as well stays until they are removed, too, and the note with it.

use core::fmt;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use crate::archive::{Archive, Recording};
use crate::catalogue::Catalogue;
use crate::medium::{Folder, Medium, make};
use crate::record::RecordingId;

/// The folder with a file for each recording that is removed.
const FOLDER: &str = "removed";

/// What became of segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// Segments that are gone.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Segments that stay, as they hold other recordings as well, or somebody is writing or moving
    /// them.
    pub kept: u64,
}

/// Why a recording is not removed.
#[derive(Debug)]
#[non_exhaustive]
pub enum RemoveError {
    /// It goes on.
    Recorded(RecordingId),
    /// Of the disk. It is not seen any more if it was noted.
    Io(io::Error),
}

impl Archive {
    /// Removes a recording.
    ///
    /// # Errors
    /// [`RemoveError`].
    pub fn remove(&self, recording: &Recording) -> Result<Removal, RemoveError> {
        let mut folder = self.reader();
        let last = recording.segments.last();
        if let Some(last) = last.filter(|_| !recording.whole)
            && self.path().join(last).exists()
            && folder.lock(last)?.is_none()
        {
            return Err(RemoveError::Recorded(recording.id));
        }
        let notes = self.folder().join(FOLDER);
        make(&notes)?;
        File::create(self.note(recording.id))?.sync_all()?;
        File::open(&notes)?.sync_all()?;
        Ok(self.finish(&mut folder, recording)?)
    }

    /// Goes on with removals that were interrupted, or that others' recordings were in the way of.
    ///
    /// # Errors
    /// Of the disk.
    pub fn finish_removals(&self) -> io::Result<Removal> {
        let mut sum = Removal::default();
        let notes = self.removed()?;
        if notes.is_empty() {
            return Ok(sum);
        }
        let mut folder = self.reader();
        let all = Catalogue::new(self.clone()).even_removed()?;
        for id in &notes {
            match all.iter().find(|recording| recording.id == *id) {
                Some(recording) => {
                    let done = self.finish(&mut folder, recording)?;
                    sum.segments += done.segments;
                    sum.bytes += done.bytes;
                    sum.kept += done.kept;
                }
                None => self.forget(*id)?,
            }
        }
        Ok(sum)
    }

    /// Recordings that are being removed.
    ///
    /// # Errors
    /// Of the disk.
    pub fn removed(&self) -> io::Result<BTreeSet<RecordingId>> {
        let entries = match fs::read_dir(self.folder().join(FOLDER)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
            entries => entries?,
        };
        let mut found = BTreeSet::new();
        for entry in entries {
            let name = entry?.file_name().into_string().ok();
            let id = name.and_then(|name| u64::from_str_radix(&name, 16).ok());
            found.extend(id.map(RecordingId));
        }
        Ok(found)
    }

    /// Lets go of the segments that nobody else needs.
    fn finish(&self, folder: &mut Folder, recording: &Recording) -> io::Result<Removal> {
        let gone = self.removed()?;
        let mut catalogue = Catalogue::new(self.clone());
        catalogue.refresh()?;
        let mut done = Removal::default();
        for name in &recording.segments {
            let others = catalogue.recordings_in(name);
            if others.iter().any(|id| !gone.contains(id)) || !let_go(folder, name, &mut done)? {
                done.kept += 1;
            }
        }
        if self.path().exists() {
            File::open(self.path())?.sync_all()?;
        }
        if done.kept == 0 {
            self.forget(recording.id)?;
        }
        Ok(done)
    }

    fn forget(&self, id: RecordingId) -> io::Result<()> {
        match fs::remove_file(self.note(id)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn note(&self, id: RecordingId) -> PathBuf {
        self.folder().join(FOLDER).join(format!("{:016x}", id.0))
    }
}

/// Lets go of a segment, wherever it is; whether nobody was in the way.
fn let_go(folder: &mut Folder, name: &str, done: &mut Removal) -> io::Result<bool> {
    let path = folder.path().join(name);
    if path.exists() {
        let Some(len) = folder.lock(name)? else {
            return Ok(false);
        };
        fs::remove_file(path)?;
        done.bytes += len;
        done.segments += 1;
    }
    // It may be in both places, if moving it was interrupted.
    if let Some(far) = folder.far() {
        match far.bucket().len_of(name) {
            Ok(len) => {
                far.bucket().remove(name)?;
                done.bytes += len;
                done.segments += 1;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

impl From<io::Error> for RemoveError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for RemoveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recorded(id) => write!(f, "{id} is being recorded"),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for RemoveError {}
