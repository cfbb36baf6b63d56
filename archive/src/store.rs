//! Where segments go that are whole: a bucket, if somebody named one.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::archive::Archive;
use crate::bucket::Bucket;
use crate::medium::{Far, Folder, Medium};
use crate::segment;

/// The file in the archive's folder that names the bucket.
const FILE: &str = "store.json";
/// The object by which a bucket knows whose it is.
const MARK: &str = "store.json";
const VERSION: u32 = 1;

/// The bucket of an archive's recordings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorePlace {
    version: u32,
    /// By which its mark knows it: 16 hexadecimal digits.
    archive: String,
    /// The bucket and the prefix: `s3://...`.
    pub place: String,
    /// Segments that are whole go there; without, those that are there stay readable.
    pub moves: bool,
}

/// What [`Archive::move_out`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Segments that are in the bucket now.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Segments that could not be moved, and the first reason.
    pub failed: (u64, Option<String>),
}

impl StorePlace {
    /// The bucket of the archive in a folder, if it has one.
    ///
    /// # Errors
    /// The file cannot be read, or is none.
    pub fn read(folder: &Path) -> io::Result<Option<Self>> {
        let text = match fs::read(folder.join(FILE)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let found: Self = serde_json::from_slice(&text)?;
        match found.version {
            VERSION => Ok(Some(found)),
            other => Err(io::Error::new(
                ErrorKind::InvalidData,
                format!("{FILE} is of version {other}, which a newer Sangam wrote"),
            )),
        }
    }

    /// Names the bucket of the archive in a folder. Another one than before is refused: segments
    /// may be there.
    ///
    /// # Errors
    /// The bucket cannot be reached, is another archive's, or the file cannot be written.
    pub fn set(folder: &Path, place: &str, archive: u64) -> io::Result<Self> {
        let bucket = Bucket::open(place)?;
        let known = Self::read(folder)?;
        if let Some(known) = known.as_ref().filter(|known| known.place != bucket.place()) {
            let message = format!("recordings are in {} already", known.place);
            return Err(io::Error::new(ErrorKind::AlreadyExists, message));
        }
        let wanted = Self {
            version: VERSION,
            archive: known.map_or_else(|| format!("{archive:016x}"), |known| known.archive),
            place: bucket.place().to_owned(),
            moves: true,
        };
        match bucket.get(MARK) {
            Ok(mark) if mark == wanted.archive.as_bytes() => {}
            Ok(_) => {
                let message = format!("{place} is another archive's: name another prefix");
                return Err(io::Error::new(ErrorKind::AlreadyExists, message));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                bucket.put(MARK, wanted.archive.clone().into_bytes())?;
            }
            Err(error) => return Err(error),
        }
        wanted.write(folder)?;
        Ok(wanted)
    }

    /// Says whether segments go there from now on.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_moves(&mut self, folder: &Path, moves: bool) -> io::Result<()> {
        self.moves = moves;
        self.write(folder)
    }

    fn write(&self, folder: &Path) -> io::Result<()> {
        crate::medium::make(folder)?;
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        crate::films::replace(&folder.join(FILE), &text)
    }

    /// Its segments, to read from.
    pub(crate) fn far(&self) -> io::Result<Far> {
        Bucket::open(&self.place).map(Far::new)
    }
}

impl Archive {
    /// Moves whole segments to the archive's bucket, if it has one; `goes_on` is asked before each,
    /// with the bytes so far, and may wait. A segment is let go of here when it is there: it can be
    /// stopped and killed anywhere, and done by several at once.
    ///
    /// # Errors
    /// The folder cannot be read, or what names the bucket.
    pub fn move_out(&self, goes_on: &mut dyn FnMut(u64) -> bool) -> io::Result<Moved> {
        let mut moved = Moved::default();
        let Some(store) = StorePlace::read(self.folder())?.filter(|store| store.moves) else {
            return Ok(moved);
        };
        let far = store.far()?;
        let mut folder = Folder::existing(self.path());
        for (name, len) in folder.list()? {
            if !goes_on(moved.bytes) {
                return Ok(moved);
            }
            // Whoever writes it holds the lock.
            let Some(len) = folder.lock(&name)?.filter(|now| *now == len) else {
                continue;
            };
            if !segment::find(&folder, &name, len)?.whole {
                continue;
            }
            match carry(&folder, (&name, len), far.bucket()) {
                Ok(()) => {
                    moved.segments += 1;
                    moved.bytes += len;
                }
                Err(error) => {
                    moved.failed.0 += 1;
                    moved.failed.1.get_or_insert_with(|| error.to_string());
                    // The store is busy or away: the others would wait for it as well.
                    return Ok(moved);
                }
            }
        }
        Ok(moved)
    }
}

/// Puts a segment into a bucket and then lets go of the file.
fn carry(folder: &Folder, (name, len): (&str, u64), bucket: &Bucket) -> io::Result<()> {
    let path = folder.path().join(name);
    bucket.put(name, fs::read(&path)?)?;
    if bucket.len_of(name)? != len {
        let message = format!("{}: {name} has another length there", bucket.place());
        return Err(io::Error::new(ErrorKind::InvalidData, message));
    }
    fs::remove_file(path)?;
    File::open(folder.path())?.sync_all()
}
