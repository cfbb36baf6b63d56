//! Films that are let go of.
//!
//! What is known of a film is renamed first, and from then on nobody finds it; then go its blocks,
//! then the renamed file. Whatever is interrupted, or lies on a disk that is away, is done by the
//! next scrub.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use super::{FilmError, Films, Summary, file};

/// Ending of what is left of a film until its blocks are gone.
const GONE: &str = "gone";

impl Films {
    /// Removes a film; whether nothing of it is left, which disks that are away may be in the way
    /// of, or somebody who moves blocks.
    ///
    /// # Errors
    /// Of a file or a disk. It is not seen any more if it was renamed. Where there are several
    /// nodes: one that is away would bring it back.
    pub fn remove(&self, film: &Summary) -> Result<bool, FilmError> {
        let _lock = self.share()?;
        if self.roster()?.nodes.len() > 1 {
            let why = "films are not removed from several nodes yet: a node that is away now would \
                       bring them back";
            return Err(FilmError::Node(why.to_owned()));
        }
        // Whoever moves blocks may just put one back.
        let moves = self.own_moves();
        let folder = self.folder();
        let (path, note) = (
            file::path(&folder, film.object.id),
            self.note(film.object.id),
        );
        let renamed = fs::rename(&path, &note).and_then(|()| File::open(&folder)?.sync_all());
        renamed.map_err(FilmError::of(path.display()))?;
        let roster = self.roster()?;
        let (states, store) = self.survey(&roster)?;
        store.remove(film.object.id)?;
        store.cache().forget(film.object.id);
        let is_away = states.iter().any(|state| state.away.is_some());
        let is_gone = !is_away && moves.is_ok();
        if is_gone {
            fs::remove_file(&note).map_err(FilmError::of(note.display()))?;
        }
        Ok(is_gone)
    }

    /// Numbers of films that are being removed.
    pub(super) fn going(&self) -> Result<Vec<u64>, FilmError> {
        let folder = self.folder();
        file::numbered(&folder, GONE).map_err(FilmError::of(folder.display()))
    }

    /// Notes that nothing of a film is left.
    pub(super) fn forget(&self, id: u64) -> Result<(), FilmError> {
        let note = self.note(id);
        let removed: io::Result<()> = match fs::remove_file(&note) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        };
        removed.map_err(FilmError::of(note.display()))
    }

    fn note(&self, id: u64) -> PathBuf {
        file::path(&self.folder(), id).with_extension(GONE)
    }
}
