//! Where a disk is: a folder of any file system, or a bucket.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;

use super::file::replace;
use crate::blocks::{BlockDisk, LocalDisk};
use crate::bucket::{Bucket, SCHEME};

/// By this a disk is known to be there.
const MARK: &str = "disk.json";

/// A place that is a disk, or may become one.
#[derive(Debug)]
pub(super) enum Site {
    /// A folder.
    Folder(PathBuf),
    /// A bucket of a store.
    Bucket(Bucket),
}

impl Site {
    /// What a place names, relative to the archive's folder.
    ///
    /// # Errors
    /// A URL that is none of a bucket, or a setting for it is wrong.
    pub(super) fn of(archive: &Path, place: &str) -> io::Result<Self> {
        match place.starts_with(SCHEME) {
            true => Bucket::open(place).map(Self::Bucket),
            false => Ok(Self::Folder(archive.join(place))),
        }
    }

    /// A place that is to become a disk; a folder is made.
    ///
    /// # Errors
    /// It cannot be made, or is no place.
    pub(super) fn new(place: &str) -> io::Result<Self> {
        match Self::of(Path::new(""), place)? {
            Self::Folder(folder) => {
                LocalDisk::open(&folder)?;
                fs::canonicalize(folder).map(Self::Folder)
            }
            bucket @ Self::Bucket(_) => Ok(bucket),
        }
    }

    /// As the roster keeps it.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Folder(folder) => folder.to_string_lossy().into_owned(),
            Self::Bucket(bucket) => bucket.place().to_owned(),
        }
    }

    /// The disk.
    ///
    /// # Errors
    /// There is no folder.
    pub(super) fn disk(&self) -> io::Result<Box<dyn BlockDisk>> {
        Ok(match self {
            Self::Folder(folder) => Box::new(LocalDisk::existing(folder)?),
            Self::Bucket(bucket) => Box::new(bucket.clone()),
        })
    }

    /// Its mark, if it has one.
    ///
    /// # Errors
    /// Of the disk.
    pub(super) fn mark(&self) -> io::Result<Option<Vec<u8>>> {
        let read = match self {
            Self::Folder(folder) => fs::read(folder.join(MARK)),
            Self::Bucket(bucket) => bucket.get(MARK),
        };
        match read {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    /// Marks it.
    ///
    /// # Errors
    /// Of the disk.
    pub(super) fn set_mark(&self, mark: &[u8]) -> io::Result<()> {
        match self {
            Self::Folder(folder) => replace(&folder.join(MARK), mark),
            Self::Bucket(bucket) => bucket.put(MARK, mark.to_vec()),
        }
    }

    /// Bytes of its file system, and those that are free; a store does not say.
    pub(super) fn room(&self) -> Option<(u64, u64)> {
        let Self::Folder(folder) = self else {
            return None;
        };
        let found = statvfs(folder).ok()?;
        Some((
            found.f_blocks * found.f_frsize,
            found.f_bavail * found.f_frsize,
        ))
    }

    /// What fails with it: its file system, or its bucket. `None` if it is away.
    pub(super) fn device(&self) -> Option<String> {
        match self {
            Self::Folder(folder) => fs::metadata(folder)
                .ok()
                .map(|found| found.dev().to_string()),
            Self::Bucket(bucket) => {
                let rest = bucket.place().strip_prefix(SCHEME)?;
                rest.split('/').next().map(|name| format!("{SCHEME}{name}"))
            }
        }
    }

    /// Whether it is asked over a network.
    pub(super) const fn is_far(&self) -> bool {
        matches!(self, Self::Bucket(_))
    }
}
