//! Disks come and go.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::add::random;
use super::roster::{Entry, Roster, weight};
use super::shelf::room;
use super::{FilmError, Films};
use crate::blocks::{BlockError, LocalDisk};

impl Films {
    /// Adds a disk: a folder, which is made. Its weight is its size unless one is given.
    /// [`Films::settle`] brings its share to it.
    ///
    /// # Errors
    /// [`FilmError::Known`], the folder cannot be made, or the weight is not possible.
    pub fn add_disk(&self, place: &str, share: Option<u32>) -> Result<Entry, FilmError> {
        if place.contains("://") {
            return Err(FilmError::Url(place.to_owned()));
        }
        let _lock = self.own()?;
        let mut roster = self.roster()?;
        if !roster.is_kept() {
            // Nothing is in the archive's own folder.
            roster.disks.clear();
            roster.found((random(), 1));
        }
        let folder = Path::new(place);
        let failed = || FilmError::of(folder.display());
        LocalDisk::open(folder).map_err(failed())?;
        let folder = fs::canonicalize(folder).map_err(failed())?;
        // Of any archive: its films would be mixed up with ours.
        if roster.is_marked(&folder, 0).map_err(failed())?.is_some() {
            return Err(FilmError::Known(place.to_owned()));
        }
        let node = self.node(&roster, &folder);
        let share = share.unwrap_or_else(|| room(&folder).map_or(1, |(all, _)| weight(all >> 30)));
        let id = roster.add(folder.to_string_lossy().into_owned(), node, share)?;
        roster.mark(&folder, id).map_err(failed())?;
        self.changed(&roster, id)
    }

    /// Lets a disk go, be it there or dead: what belongs there goes to the others, or is made
    /// again. [`Films::settle`] does so, and then forgets it.
    ///
    /// # Errors
    /// There is no such disk, or without it there are too few.
    pub fn remove_disk(&self, wanted: &str) -> Result<Entry, FilmError> {
        let _lock = self.own()?;
        let mut roster = self.roster()?;
        let canonical = fs::canonicalize(wanted).ok();
        let canonical = canonical.map(|path| path.to_string_lossy().into_owned());
        let found = roster.find(wanted);
        let found = found.or_else(|| roster.find(canonical.as_deref()?));
        let missing = || FilmError::NoDisk(wanted.to_owned());
        let id = found.ok_or_else(missing)?.id;
        let disk = roster.disks.iter_mut().find(|disk| disk.id == id);
        let disk = disk.ok_or_else(missing)?;
        if !disk.leaving {
            disk.leaving = true;
            roster.changes += 1;
        }
        let widest = self.list()?.into_iter();
        let widest = widest.map(|film| film.object.layout.width()).max();
        if roster.staying() == 0 {
            return Err(FilmError::LastDisk);
        }
        if roster.staying() < widest.unwrap_or(1) {
            return Err(BlockError::TooFewDisks.into());
        }
        self.changed(&roster, id)
    }

    fn changed(&self, roster: &Roster, id: u32) -> Result<Entry, FilmError> {
        let kept = roster.write(&self.archive);
        kept.map_err(FilmError::of(self.archive.display()))?;
        let entry = roster.find(&id.to_string()).cloned();
        entry.ok_or_else(|| FilmError::NoDisk(id.to_string()))
    }

    /// What fails with a folder: the disks of its file system, if there are some.
    fn node(&self, roster: &Roster, folder: &Path) -> u32 {
        let device = |folder: &Path| fs::metadata(folder).map(|found| found.dev()).ok();
        let own = device(folder);
        let mut disks = roster.disks.iter();
        let beside = disks.find(|disk| own.is_some() && device(&disk.folder(&self.archive)) == own);
        beside.map_or_else(|| roster.free_node(), |disk| disk.node)
    }
}
