//! The catalogue's file: whole segments and what their footers say. It is held for a moment at a
//! time; who finds it held reads the segments instead.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use redb::{
    Database, DatabaseError, ReadOnlyDatabase, ReadableDatabase, ReadableTable, TableDefinition,
};

use super::Known;
use crate::index::Index;

/// Name of a segment to its length, its index without points, and a checksum.
const SEGMENTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("segments");
const FILE: &str = "catalogue.redb";
/// Bytes of its cache: it is read once, from its begin to its end.
const CACHE: usize = 4 << 20;
/// Another process holds it no longer than this, as a rule.
const PATIENCE: Duration = Duration::from_millis(500);
const NAP: Duration = Duration::from_millis(5);

/// The file.
#[derive(Debug)]
pub(super) struct Kept {
    path: PathBuf,
}

impl Kept {
    /// Of the archive in a folder.
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            path: folder.join(FILE),
        }
    }

    /// All that it says; nothing if it is missing, damaged or held.
    pub(super) fn read(&self) -> Vec<(String, Known)> {
        if !self.path.exists() {
            return Vec::new();
        }
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE);
        let read = patiently(|| builder.open_read_only(&self.path));
        let read = read.map_err(redb::Error::from);
        let read = read.and_then(|database: ReadOnlyDatabase| {
            let table = database.begin_read()?.open_table(SEGMENTS)?;
            let mut found = Vec::new();
            for entry in table.iter()? {
                let (name, value) = entry?;
                let known = decode(value.value());
                found.extend(known.map(|known| (name.value().to_owned(), known)));
            }
            Ok(found)
        });
        read.unwrap_or_else(|error| {
            tracing::debug!(%error, "the catalogue is not used");
            Vec::new()
        })
    }

    /// Takes note of segments that are whole, and of those that are gone. What cannot be noted is
    /// read from the segments the next time.
    pub(super) fn write(&self, whole: &[(String, Known)], gone: &[String]) {
        if let Err(error) = self.try_write(whole, gone) {
            tracing::debug!(%error, "the catalogue is not kept");
            if !is_held(&error) && self.path.exists() {
                // It is none, or damaged.
                tracing::warn!(%error, "the catalogue is made again");
                if let Err(error) = self.clear() {
                    tracing::warn!(%error, "the catalogue stays as it is");
                }
            }
        }
    }

    fn try_write(&self, whole: &[(String, Known)], gone: &[String]) -> Result<(), redb::Error> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE);
        let database = patiently(|| builder.create(&self.path))?;
        let transaction = database.begin_write()?;
        let mut table = transaction.open_table(SEGMENTS)?;
        for name in gone {
            table.remove(name.as_str())?;
        }
        for (name, known) in whole {
            table.insert(name.as_str(), &*encode(known))?;
        }
        drop(table);
        Ok(transaction.commit()?)
    }

    /// Throws it away.
    ///
    /// # Errors
    /// Of the disk.
    pub(super) fn clear(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn is_held(error: &redb::Error) -> bool {
    matches!(error, redb::Error::DatabaseAlreadyOpen)
}

/// Opens a file that others hold for moments.
fn patiently<T>(open: impl Fn() -> Result<T, DatabaseError>) -> Result<T, DatabaseError> {
    let until = Instant::now() + PATIENCE;
    loop {
        match open() {
            Err(DatabaseError::DatabaseAlreadyOpen) if Instant::now() < until => {
                thread::park_timeout(NAP);
            }
            opened => return opened,
        }
    }
}

fn encode(known: &Known) -> Vec<u8> {
    let mut out = known.len.to_be_bytes().to_vec();
    out.extend(known.index.body());
    out.extend(crc32c::crc32c(&out).to_be_bytes());
    out
}

fn decode(bytes: &[u8]) -> Option<Known> {
    let (body, sum) = bytes.split_last_chunk::<4>()?;
    if crc32c::crc32c(body) != u32::from_be_bytes(*sum) {
        return None;
    }
    let (len, index) = body.split_first_chunk()?;
    Some(Known {
        len: u64::from_be_bytes(*len),
        whole: true,
        index: Index::read(index)?,
    })
}
