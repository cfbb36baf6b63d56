//! Disks come and go.

use std::fs;

use super::add::random;
use super::roster::{Entry, Roster, weight};
use super::site::Site;
use super::{FilmError, Films};
use crate::blocks::BlockError;
use crate::bucket::SCHEME;

impl Films {
    /// Adds a disk: a folder, which is made, or a bucket (`s3://...`), which is there. Its weight
    /// is its size unless one is given. [`Films::settle`] brings its share to it.
    ///
    /// # Errors
    /// [`FilmError::Known`], the folder cannot be made, or the weight is not possible.
    pub fn add_disk(&self, place: &str, share: Option<u32>) -> Result<Entry, FilmError> {
        if place.contains("://") && !place.starts_with(SCHEME) {
            return Err(FilmError::Url(place.to_owned()));
        }
        let _lock = self.own()?;
        let mut roster = self.newest_roster()?;
        if !roster.is_kept() {
            // Nothing is in the archive's own folder.
            roster.disks.clear();
            roster.found((random(), 1));
        }
        let failed = || FilmError::of(place);
        let site = Site::new(place).map_err(failed())?;
        // Of any archive: its films would be mixed up with ours.
        if roster.is_marked(&site, 0).map_err(failed())?.is_some() {
            return Err(FilmError::Known(place.to_owned()));
        }
        let node = self.node(&roster, &site);
        let share = share.unwrap_or_else(|| share_of(&roster, &site));
        let place = (site.place(), self.own_node());
        let id = roster.add(place, node, share)?;
        roster.mark(&site, id).map_err(failed())?;
        self.changed(&roster, id)
    }

    /// Lets a disk go, be it there or dead: what belongs there goes to the others, or is made
    /// again. [`Films::settle`] does so, and then forgets it.
    ///
    /// # Errors
    /// There is no such disk, or without it there are too few.
    pub fn remove_disk(&self, wanted: &str) -> Result<Entry, FilmError> {
        let _lock = self.own()?;
        let mut roster = self.newest_roster()?;
        let canonical = fs::canonicalize(wanted).ok();
        let canonical = canonical.map(|path| path.to_string_lossy().into_owned());
        // A bucket's place is kept without a slash at its end.
        let found = roster.find(wanted.trim_end_matches('/'));
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
        self.publish(roster)?;
        let entry = roster.find(&id.to_string()).cloned();
        entry.ok_or_else(|| FilmError::NoDisk(id.to_string()))
    }

    /// What fails with a place: the disks of its file system or bucket, if there are some.
    fn node(&self, roster: &Roster, site: &Site) -> u32 {
        let own = site.device();
        let device = |disk: &Entry| disk.site(&self.archive).ok()?.device();
        let host = self.own_node();
        let mut disks = roster.disks.iter().filter(|disk| disk.host == host);
        let beside = disks.find(|disk| own.is_some() && device(disk) == own);
        beside.map_or_else(|| roster.free_node(), |disk| disk.node)
    }
}

/// The weight of a disk if nobody says: its size in GiB. A store has none: as much as the largest.
fn share_of(roster: &Roster, site: &Site) -> u32 {
    let largest = roster.disks.iter().map(|disk| disk.weight).max();
    match (site.room(), site.is_far()) {
        (Some((all, _)), _) => weight(all >> 30),
        (None, true) => largest.unwrap_or(1),
        (None, false) => 1,
    }
}
