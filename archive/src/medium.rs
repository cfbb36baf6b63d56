//! Where segments lie: files of a local disk, or whatever else keeps bytes under names.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

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

    /// Keeps writers away from a segment, until another one is locked or written; its length, which
    /// nobody else changes from now on. `None`, and nothing done, if somebody writes it.
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

/// A folder of a local disk; segments are its files.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// The segment that is written, locked against other writers.
    open: Option<(String, File)>,
    /// Whether its name is in the folder for good.
    named: bool,
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
        }
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
        self.file(name)?.write_all_at(bytes, offset)
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        self.file(name)?.sync_data()?;
        if !self.named {
            // The entry of a new file is the folder's data.
            File::open(&self.path)?.sync_all()?;
            self.named = true;
        }
        Ok(())
    }

    fn read(&self, name: &str, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let file = File::open(self.path.join(name))?;
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
        let mut found = Vec::new();
        let entries = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(found),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().into_string();
            if let Some(name) = name.ok().filter(|name| name.ends_with(SUFFIX)) {
                found.push((name, entry.metadata()?.len()));
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    fn lock(&mut self, name: &str) -> io::Result<Option<u64>> {
        let file = OpenOptions::new().write(true).open(self.path.join(name))?;
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
