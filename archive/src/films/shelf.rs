//! All films of an archive, as one process sees them.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use sangam_placement::{DiskId, Straw2};

use super::add::random;
use super::patrol::Patrolled;
use super::prefetch::Prefetch;
use super::roster::{Entry, Roster, weight};
use super::site::Site;
use super::{Film, FilmError, Summary, file};
use crate::blocks::{BlockDisk, Cache, LocalDisk, Store};
use crate::medium::make;
use crate::nodes::{Own, RemoteDisk};

/// The folder with what is known of each film.
const FOLDER: &str = "films";
/// The file with the disks, and those by which processes keep out of each other's way.
const ROSTER: &str = "disks.json";
const LOCK: &str = "disks.lock";
const MOVER: &str = "mover.lock";

/// The films of an archive.
#[derive(Debug)]
pub struct Films {
    pub(super) archive: PathBuf,
    cache: Arc<Cache>,
    pub(super) ahead: Prefetch,
    present: Mutex<Option<Present>>,
    /// Which node this is.
    pub(super) this: Mutex<Option<Arc<Own>>>,
    /// Indexes that somebody holds.
    known: Mutex<HashMap<u64, Weak<Film>>>,
    pub(super) patrolled: Patrolled,
}

/// The disks as they were when the roster was read.
#[derive(Debug)]
struct Present {
    /// Which file that was.
    stamp: Option<(u64, i64, i64)>,
    roster: Roster,
    store: Arc<Store>,
}

/// A disk and how it is.
#[derive(Debug)]
pub struct DiskState {
    /// What the roster says.
    pub entry: Entry,
    /// Why it is not there, if it is not.
    pub away: Option<String>,
    /// Pieces that lie there.
    pub pieces: usize,
    /// Bytes of its file system, and those of them that are free, if it is there.
    pub room: Option<(u64, u64)>,
}

impl Films {
    /// The films of an archive's folder, with room for so many blocks in memory.
    #[must_use]
    pub fn new(archive: &Path, blocks_max: usize) -> Self {
        Self {
            archive: archive.to_owned(),
            cache: Arc::new(Cache::new(blocks_max)),
            ahead: Prefetch::default(),
            present: Mutex::new(None),
            this: Mutex::default(),
            known: Mutex::default(),
            patrolled: Patrolled::default(),
        }
    }

    /// The archive's folder.
    #[must_use]
    pub fn place(&self) -> &Path {
        &self.archive
    }

    /// What is in memory.
    #[must_use]
    pub const fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// Every film, in the order of their numbers. Files that are damaged are passed over, and
    /// logged.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn list(&self) -> Result<Vec<Summary>, FilmError> {
        let folder = self.folder();
        let ids = file::list(&folder).map_err(FilmError::of(folder.display()))?;
        let mut found = Vec::new();
        for id in ids {
            let path = file::path(&folder, id);
            match file::summary(&path) {
                Ok(summary) => found.push(summary),
                Err(error) => {
                    let path = path.display();
                    tracing::warn!(%path, %error, "`sangam archive scrub` makes this again");
                }
            }
        }
        Ok(found)
    }

    /// The film with this name, or the one whose number begins so.
    ///
    /// # Errors
    /// The folder cannot be read, or the film's file.
    pub fn find(&self, wanted: &str) -> Result<Option<Arc<Film>>, FilmError> {
        let all = self.list()?;
        let named = all.iter().find(|one| one.object.name == wanted);
        let mut numbered = all.iter().filter(|one| {
            let number = format!("{:016x}", one.object.id);
            !wanted.is_empty() && number.starts_with(wanted)
        });
        let found = named.or_else(|| match (numbered.next(), numbered.next()) {
            (Some(one), None) => Some(one),
            _ => None,
        });
        found.map(|found| self.film(found.object.id)).transpose()
    }

    /// A film by its number, read once for all who hold it.
    ///
    /// # Errors
    /// Its file cannot be read.
    pub fn film(&self, id: u64) -> Result<Arc<Film>, FilmError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(film) = known.get(&id).and_then(Weak::upgrade) {
            return Ok(film);
        }
        let path = file::path(&self.folder(), id);
        let film = file::read(&path).map_err(FilmError::of(path.display()))?;
        let film = Arc::new(film);
        known.retain(|_, film| film.strong_count() > 0);
        known.insert(id, Arc::downgrade(&film));
        Ok(film)
    }

    /// Whether a film was not removed.
    pub(super) fn has(&self, id: u64) -> bool {
        file::path(&self.folder(), id).exists()
    }

    /// The disks and what is on them, as the roster says now. Disks that are away are left out.
    ///
    /// # Errors
    /// The roster cannot be read.
    pub fn present(&self) -> Result<(Roster, Arc<Store>), FilmError> {
        let mut present = self.held();
        let stamp = self.stamp();
        if let Some(present) = &*present
            && present.stamp == stamp
        {
            return Ok((present.roster.clone(), present.store.clone()));
        }
        let roster = self.roster()?;
        let mut store = self.empty(&roster)?;
        for entry in &roster.disks {
            match self.unseen(&roster, entry) {
                Ok(disk) => store.attach_unseen(DiskId(entry.id), disk),
                Err(error) if !roster.is_kept() => tracing::debug!(%error, "no films yet"),
                Err(error) => {
                    tracing::warn!(disk = entry.id, place = entry.place, %error, "a disk is away");
                }
            }
        }
        let store = Arc::new(store);
        let found = (roster.clone(), store.clone());
        *present = Some(Present {
            stamp,
            roster,
            store,
        });
        Ok(found)
    }

    /// Looks at the disks anew, whatever the roster says: one may have come back.
    pub fn look_again(&self) {
        *self.held() = None;
    }

    /// The roster.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn roster(&self) -> Result<Roster, FilmError> {
        let path = self.archive.join(ROSTER);
        Roster::read(&self.archive).map_err(FilmError::of(path.display()))
    }

    /// Every disk, how it is, and a store of all that are there with what lies on them.
    ///
    /// # Errors
    /// The roster cannot be read.
    pub fn survey(&self, roster: &Roster) -> Result<(Vec<DiskState>, Store), FilmError> {
        let mut store = self.empty(roster)?;
        let mut states = Vec::new();
        for entry in &roster.disks {
            let id = DiskId(entry.id);
            let disk = self.disk(roster, entry).map_err(|error| error.to_string());
            let attached = disk.and_then(|disk| {
                let attached = store.attach(id, disk);
                attached.map_err(|error| error.to_string())
            });
            states.push(DiskState {
                pieces: store.lies(id).unwrap_or(0),
                room: (entry.host == self.own_node())
                    .then(|| entry.site(&self.archive).ok()?.room())
                    .flatten(),
                away: attached.err(),
                entry: entry.clone(),
            });
        }
        Ok((states, store))
    }

    /// A disk of the roster, if it is there.
    pub(super) fn disk(&self, roster: &Roster, entry: &Entry) -> io::Result<Box<dyn BlockDisk>> {
        if let Some(own) = self.this().filter(|own| own.node != entry.host) {
            let mut nodes = roster.nodes.iter();
            let node = nodes.find(|node| node.id == entry.host);
            let node = node.ok_or_else(|| io::Error::other("no node has this disk"))?;
            let disk = RemoteDisk::new(own.link(node), entry.id, roster.changes);
            return Ok(Box::new(disk));
        }
        let site = entry.site(&self.archive)?;
        let disk = site.disk()?;
        match roster.is_marked(&site, entry.id)? {
            Some(true) => Ok(disk),
            Some(false) => Err(io::Error::other("another disk is there")),
            None if site.is_far() => Err(io::Error::other("it has lost its mark")),
            None => Err(io::Error::other("nothing is mounted there")),
        }
    }

    /// The same to read from: a bucket is not asked, as others' films do not wait for it.
    fn unseen(&self, roster: &Roster, entry: &Entry) -> io::Result<Box<dyn BlockDisk>> {
        let site = entry.site(&self.archive)?;
        match site.is_far() {
            true => site.disk(),
            false => self.disk(roster, entry),
        }
    }

    /// Makes the archive's own folder a disk, unless there are disks.
    pub(super) fn found(&self) -> Result<(), FilmError> {
        if self.roster()?.is_kept() {
            return Ok(());
        }
        let _lock = self.own()?;
        let mut roster = self.roster()?;
        if roster.is_kept() {
            return Ok(());
        }
        let failed = || FilmError::of(self.archive.display());
        let folders = roster.disks.iter();
        let folders = folders.map(|disk| (disk.id, self.archive.join(&disk.place)));
        let sites: Vec<_> = folders
            .map(|(id, folder)| (id, Site::Folder(folder)))
            .collect();
        let mut gib = 1;
        for (_, site) in &sites {
            if let Site::Folder(folder) = site {
                LocalDisk::open(folder).map_err(failed())?;
            }
            gib = site.room().map_or(1, |(all, _)| all >> 30);
        }
        roster.found((random(), weight(gib)));
        for (id, site) in &sites {
            roster.mark(site, *id).map_err(failed())?;
        }
        roster.write(&self.archive).map_err(failed())
    }

    /// Keeps away who changes disks or clears up, as long as it is held.
    ///
    /// # Errors
    /// The archive's folder cannot be written.
    pub(crate) fn share(&self) -> Result<File, FilmError> {
        self.lock(LOCK, File::lock_shared)
    }

    /// Keeps away who puts films and who changes disks, as long as it is held.
    pub(super) fn own(&self) -> Result<File, FilmError> {
        self.lock(LOCK, File::lock)
    }

    /// The same; `None` if films are being put, or disks changed.
    pub(super) fn try_own(&self) -> Result<Option<File>, FilmError> {
        let locked = self.lock(LOCK, |file| {
            let locked = file.try_lock();
            locked.map_err(|_| ErrorKind::WouldBlock.into())
        });
        match locked {
            Err(FilmError::Io(_, error)) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            locked => locked.map(Some),
        }
    }

    /// Keeps away who moves blocks; [`FilmError::Busy`] if somebody does.
    pub(super) fn own_moves(&self) -> Result<File, FilmError> {
        match self.is_leased_to_another(self.own_node()) {
            true => Err(FilmError::Busy),
            false => self.own_moves_here(),
        }
    }

    /// The same of this folder alone, whoever else moves.
    pub(super) fn own_moves_here(&self) -> Result<File, FilmError> {
        self.lock(MOVER, |file| {
            let locked = file.try_lock();
            locked.map_err(|_| ErrorKind::WouldBlock.into())
        })
        .map_err(|error| match error {
            FilmError::Io(_, error) if error.kind() == ErrorKind::WouldBlock => FilmError::Busy,
            other => other,
        })
    }

    /// The folder with what is known of films.
    pub(super) fn folder(&self) -> PathBuf {
        self.archive.join(FOLDER)
    }

    fn lock(
        &self,
        name: &str,
        take: impl FnOnce(&File) -> io::Result<()>,
    ) -> Result<File, FilmError> {
        let path = self.archive.join(name);
        let locked = make(&self.archive).and_then(|()| {
            let file = File::options()
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)?;
            take(&file).map(|()| file)
        });
        locked.map_err(FilmError::of(path.display()))
    }

    fn empty(&self, roster: &Roster) -> Result<Store, FilmError> {
        let placement: Straw2 = roster.placement()?;
        Ok(Store::empty(Box::new(placement), self.cache.clone()))
    }

    fn held(&self) -> MutexGuard<'_, Option<Present>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which file the roster is: it is replaced, never changed.
    fn stamp(&self) -> Option<(u64, i64, i64)> {
        let found = fs::metadata(self.archive.join(ROSTER)).ok()?;
        Some((found.ino(), found.mtime(), found.mtime_nsec()))
    }
}
