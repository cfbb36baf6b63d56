//! Where segments lie: files of a local disk, or whatever else keeps bytes under names.

mod far;

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use far::Far;

/// Keeps segments. They grow at their end and never change afterwards, so that an object store
/// can keep those that are whole.
pub trait Medium: Send {
    /// Writes bytes at `offset` of a segment, which begins with its first byte. What was not
    /// [`Medium::sync`]ed may be forgotten, all of it or any piece.
    ///
    /// # Errors
    /// Of the disk; the same bytes may be written again.
    fn write(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Returns once all that was written to a segment, and its name, are safe.
    ///
    /// # Errors
    /// Of the disk; nothing since the last success counts as safe.
    fn sync(&mut self, name: &str) -> io::Result<()>;

    /// Up to `len` bytes from `offset` on; fewer at the end.
    ///
    /// # Errors
    /// Of the disk.
    fn read(&self, name: &str, offset: u64, len: usize) -> io::Result<Vec<u8>>;

    /// Names and lengths of all segments, in the order of their names.
    ///
    /// # Errors
    /// Of the disk.
    fn list(&self) -> io::Result<Vec<(String, u64)>>;

    /// Bytes of a segment; `None` if there is none of this name.
    ///
    /// # Errors
    /// Of the disk.
    fn len_of(&self, name: &str) -> io::Result<Option<u64>> {
        let all = self.list()?;
        let found = all.into_iter().find(|(known, _)| known == name);
        Ok(found.map(|(_, len)| len))
    }

    /// Keeps writers away from a segment, until another one is locked or written; its length, which
    /// nobody else changes from now on. `None`, and nothing done, if somebody writes it, or if it
    /// is where nobody ever does.
    ///
    /// # Errors
    /// Of the disk.
    fn lock(&mut self, name: &str) -> io::Result<Option<u64>>;

    /// Cuts off the end of the segment that was locked last.
    ///
    /// # Errors
    /// It is not locked, or of the disk.
    fn cut(&mut self, name: &str, len: u64) -> io::Result<()>;
}

/// A folder of a local disk; segments are its files, and objects of a bucket those that have been
/// moved there.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// The segment that is written, locked against other writers.
    open: Option<(String, File)>,
    /// Whether its name is in the folder for good.
    named: bool,
    far: Option<Arc<Far>>,
}

/// Ending of segments' names.
const SUFFIX: &str = ".log";

impl Folder {
    /// A folder, made if it is not there.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(path: &Path) -> io::Result<Self> {
        make(path)?;
        Ok(Self::existing(path))
    }

    /// A folder to read from, which is empty if it is not there.
    #[must_use]
    pub fn existing(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            open: None,
            named: false,
            far: None,
        }
    }

    /// The same, with what is in a bucket.
    pub(crate) fn with(self, far: Far) -> Self {
        let far = Some(Arc::new(far));
        Self { far, ..self }
    }

    /// Whether some of it is in a bucket.
    #[must_use]
    pub const fn is_far(&self) -> bool {
        self.far.is_some()
    }

    /// Where its files are.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What is in a bucket, if there is one.
    pub(crate) const fn far(&self) -> Option<&Arc<Far>> {
        self.far.as_ref()
    }

    /// Names and lengths of its files.
    pub(crate) fn near(&self) -> io::Result<Vec<(String, u64)>> {
        let mut found = Vec::new();
        let entries = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(found),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().into_string();
            let Some(name) = name.ok().filter(|name| name.ends_with(SUFFIX)) else {
                continue;
            };
            match entry.metadata() {
                // It has gone to the bucket, or for good.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                found_here => found.push((name, found_here?.len())),
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    fn make_safe(&mut self, name: &str) -> io::Result<()> {
        self.file(name)?.sync_data()?;
        if !self.named {
            // The entry of a new file is the folder's data.
            File::open(&self.path)?.sync_all()?;
            self.named = true;
        }
        Ok(())
    }

    /// An error that says which disk is meant.
    fn of_disk(&self, error: &io::Error) -> io::Error {
        let message = format!("{}: {error}", self.path.display());
        io::Error::new(error.kind(), message)
    }

    fn file(&mut self, name: &str) -> io::Result<&File> {
        if self.open.as_ref().is_none_or(|(open, _)| open != name) {
            let mut options = OpenOptions::new();
            let file = options
                .write(true)
                .create(true)
                .truncate(false)
                .open(self.path.join(name))?;
            file.try_lock()?;
            self.open = Some((name.to_owned(), file));
            self.named = false;
        }
        let open = self.open.as_ref().map(|(_, file)| file);
        open.ok_or_else(|| ErrorKind::NotFound.into())
    }
}

impl Medium for Folder {
    fn write(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let file = self.file(name);
        let written = file.and_then(|file| file.write_all_at(bytes, offset));
        written.map_err(|error| self.of_disk(&error))
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        let done = self.make_safe(name);
        done.map_err(|error| self.of_disk(&error))
    }

    fn read(&self, name: &str, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let file = match (File::open(self.path.join(name)), &self.far) {
            (Err(error), Some(far)) if error.kind() == ErrorKind::NotFound => {
                return far.read(name, offset, len);
            }
            (file, _) => file?,
        };
        let mut bytes = vec![0; len];
        let mut filled = 0;
        while filled < len {
            match file.read_at(&mut bytes[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let Some(far) = &self.far else {
            return self.near();
        };
        // What goes there meanwhile is in one of both.
        let mut found = self.near()?;
        let known: BTreeSet<_> = found.iter().map(|(name, _)| name.clone()).collect();
        let far = far.list()?.into_iter();
        found.extend(far.filter(|(name, _)| !known.contains(name)));
        found.sort_unstable();
        Ok(found)
    }

    fn len_of(&self, name: &str) -> io::Result<Option<u64>> {
        let len = match (fs::metadata(self.path.join(name)), &self.far) {
            (Err(error), Some(far)) if error.kind() == ErrorKind::NotFound => far.len_of(name),
            (found, _) => found.map(|found| found.len()),
        };
        match len {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            len => len.map(Some),
        }
    }

    fn lock(&mut self, name: &str) -> io::Result<Option<u64>> {
        if let Some((_, file)) = self.open.as_ref().filter(|(open, _)| open == name) {
            return file.metadata().map(|found| Some(found.len()));
        }
        let file = OpenOptions::new().write(true).open(self.path.join(name));
        let file = match file {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
            Ok(()) => {}
        }
        let len = file.metadata()?.len();
        self.open = Some((name.to_owned(), file));
        // Whoever made it may not have come so far.
        self.named = false;
        Ok(Some(len))
    }

    fn cut(&mut self, name: &str, len: u64) -> io::Result<()> {
        match &self.open {
            Some((open, file)) if open == name => file.set_len(len),
            _ => Err(ErrorKind::PermissionDenied.into()),
        }
    }
}

/// Makes a folder and those above it that are not there, for good: an entry is safe when the folder
/// that holds it is.
pub(crate) fn make(path: &Path) -> io::Result<()> {
    let above = match path.parent() {
        None => return Ok(()),
        Some(above) if above.as_os_str().is_empty() => Path::new("."),
        Some(above) => above,
    };
    if !above.is_dir() {
        make(above)?;
    }
    match fs::create_dir(path) {
        // Whoever made it may not have come to the sync.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => {}
        made => made?,
    }
    File::open(above)?.sync_all()
}

/// A name for the `number`th segment of a writer's life: in the order of time.
pub(crate) fn segment_name(life: (u64, u32), number: u32) -> String {
    let (milliseconds, salt) = life;
    format!("{milliseconds:012x}-{salt:08x}-{number:06}{SUFFIX}")
}
