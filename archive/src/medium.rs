//! Where segments lie: files of a local disk, or whatever else keeps bytes under names.

use std::fs::{self, File, OpenOptions};
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

    /// Cuts off the end of a segment that nobody writes. False, and nothing done, if somebody
    /// does.
    ///
    /// # Errors
    /// Of the disk.
    fn cut(&mut self, name: &str, len: u64) -> io::Result<bool>;
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
        fs::create_dir_all(path)?;
        Ok(Self {
            path: path.to_owned(),
            open: None,
            named: false,
        })
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
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name().into_string();
            if let Some(name) = name.ok().filter(|name| name.ends_with(SUFFIX)) {
                found.push((name, entry.metadata()?.len()));
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    fn cut(&mut self, name: &str, len: u64) -> io::Result<bool> {
        let file = OpenOptions::new().write(true).open(self.path.join(name))?;
        if file.try_lock().is_err() {
            return Ok(false);
        }
        file.set_len(len)?;
        self.open = Some((name.to_owned(), file));
        self.named = true;
        Ok(true)
    }
}

/// A name for the `number`th segment of a writer's life: in the order of time.
pub(crate) fn segment_name(life: (u64, u32), number: u32) -> String {
    let (milliseconds, salt) = life;
    format!("{milliseconds:012x}-{salt:08x}-{number:06}{SUFFIX}")
}
