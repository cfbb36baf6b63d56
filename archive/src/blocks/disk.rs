//! A disk that keeps pieces.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::piece::{PAGE, PieceId};
use crate::medium::make;

/// Keeps pieces: a local disk or a bucket of an object store.
pub trait BlockDisk: Send + Sync {
    /// Keeps a piece in place of an earlier one, whole or not at all, whatever fails; returns once
    /// it is safe.
    ///
    /// # Errors
    /// Of the disk.
    fn put(&self, id: PieceId, bytes: &[u8]) -> io::Result<()>;

    /// A piece.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], or of the disk.
    fn get(&self, id: PieceId) -> io::Result<Vec<u8>>;

    /// Lets go of a piece; one that is not there is no error.
    ///
    /// # Errors
    /// Of the disk.
    fn remove(&self, id: PieceId) -> io::Result<()>;

    /// All pieces, in any order.
    ///
    /// # Errors
    /// Of the disk.
    fn list(&self) -> io::Result<Vec<PieceId>>;

    /// Reads that it serves best at the same time: with more, whoever is more urgent waits for
    /// others; with fewer, the disk waits for us.
    fn reads_at_once(&self) -> usize {
        4
    }

    /// Removes what an earlier life had not written to its end: nobody may be writing.
    ///
    /// # Errors
    /// Of the disk.
    fn clear(&self) -> io::Result<()>;
}

/// A folder of a local disk: `OBJECT/STRIPE-PIECE`, all hexadecimal. Read past the page cache: a
/// film is read once, and the cache of blocks knows who reads it.
#[derive(Debug)]
pub struct LocalDisk {
    path: PathBuf,
}

/// Ending of what is not whole yet.
const FRESH: &str = "new";

impl LocalDisk {
    /// A folder, made if it is not there.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(path: &Path) -> io::Result<Self> {
        make(path)?;
        let disk = Self {
            path: path.to_owned(),
        };
        disk.clear()?;
        Ok(disk)
    }

    /// A folder that is there, in which others may be writing now.
    ///
    /// # Errors
    /// It is not there.
    pub fn existing(path: &Path) -> io::Result<Self> {
        match fs::metadata(path)?.is_dir() {
            true => Ok(Self {
                path: path.to_owned(),
            }),
            false => Err(ErrorKind::NotADirectory.into()),
        }
    }

    fn folder(&self, id: PieceId) -> PathBuf {
        self.path.join(format!("{:016x}", id.object))
    }
}

pub(super) fn name(id: PieceId) -> String {
    format!("{:x}-{:x}", id.stripe, id.piece)
}

impl BlockDisk for LocalDisk {
    fn clear(&self) -> io::Result<()> {
        for folder in fs::read_dir(&self.path)? {
            let folder = folder?;
            if !folder.file_type()?.is_dir() {
                continue;
            }
            for entry in fs::read_dir(folder.path())? {
                let path = entry?.path();
                if path.extension().is_some_and(|ending| ending == FRESH) {
                    fs::remove_file(path)?;
                }
            }
        }
        Ok(())
    }

    fn put(&self, id: PieceId, bytes: &[u8]) -> io::Result<()> {
        let folder = self.folder(id);
        if !folder.is_dir() {
            make(&folder)?;
        }
        let path = folder.join(name(id));
        let fresh = path.with_extension(FRESH);
        let mut file = File::create(&fresh)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        fs::rename(&fresh, &path)?;
        File::open(&folder)?.sync_all()
    }

    fn get(&self, id: PieceId) -> io::Result<Vec<u8>> {
        let path = self.folder(id).join(name(id));
        let direct = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::DIRECT.bits() as i32)
            .open(&path);
        let file = match direct {
            // Not every file system can.
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                File::open(&path)?
            }
            direct => direct?,
        };
        read(&file)
    }

    fn remove(&self, id: PieceId) -> io::Result<()> {
        match fs::remove_file(self.folder(id).join(name(id))) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn list(&self) -> io::Result<Vec<PieceId>> {
        let mut found = Vec::new();
        for folder in fs::read_dir(&self.path)? {
            let folder = folder?;
            let object = folder.file_name().into_string();
            let object = object
                .ok()
                .and_then(|text| u64::from_str_radix(&text, 16).ok());
            let Some(object) = object else {
                continue;
            };
            for entry in fs::read_dir(folder.path())? {
                let name = entry?.file_name().into_string();
                found.extend(name.ok().and_then(|name| parse(object, &name)));
            }
        }
        Ok(found)
    }
}

pub(super) fn parse(object: u64, name: &str) -> Option<PieceId> {
    let (stripe, piece) = name.split_once('-')?;
    Some(PieceId {
        object,
        stripe: u64::from_str_radix(stripe, 16).ok()?,
        piece: u8::from_str_radix(piece, 16).ok()?,
    })
}

/// The whole file, which has whole pages. Direct reads want memory at a page's begin.
fn read(file: &File) -> io::Result<Vec<u8>> {
    let len = usize::try_from(file.metadata()?.len()).map_err(|_| ErrorKind::FileTooLarge)?;
    let mut bytes = vec![0; len.next_multiple_of(PAGE) + PAGE];
    let start = bytes.as_ptr().align_offset(PAGE);
    let mut filled = 0;
    while filled < len {
        let room = &mut bytes[start + filled..start + len.next_multiple_of(PAGE)];
        match file.read_at(room, filled as u64) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(start + len);
    bytes.drain(..start);
    Ok(bytes)
}
