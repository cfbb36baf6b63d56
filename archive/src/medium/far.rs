//! Whole segments in a bucket.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::sync::{Mutex, PoisonError};

use super::SUFFIX;
use crate::bucket::Bucket;

/// What is read at once: records are read one after the other, so the next ones come with them.
const READ: u64 = 2 << 20;

/// Segments that no disk has any more.
#[derive(Debug)]
pub(crate) struct Far {
    bucket: Bucket,
    seen: Mutex<Seen>,
}

/// What was read. Segments never change.
#[derive(Debug, Default)]
struct Seen {
    lengths: HashMap<String, u64>,
    /// The last piece: of which segment, from where.
    piece: Option<(String, u64, Vec<u8>)>,
}

impl Far {
    /// The segments of a bucket.
    pub(crate) fn new(bucket: Bucket) -> Self {
        Self {
            bucket,
            seen: Mutex::default(),
        }
    }

    /// The bucket.
    pub(crate) const fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    /// Names and lengths of all.
    pub(crate) fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let mut all = self.bucket.list()?;
        all.retain(|(name, _)| name.ends_with(SUFFIX) && !name.contains('/'));
        Ok(all)
    }

    /// Bytes of a segment.
    pub(super) fn len_of(&self, name: &str) -> io::Result<u64> {
        let known = self.with(|seen| seen.lengths.get(name).copied());
        if let Some(len) = known {
            return Ok(len);
        }
        let len = self.bucket.len_of(name)?;
        self.with(|seen| seen.lengths.insert(name.to_owned(), len));
        Ok(len)
    }

    /// Up to `len` bytes from `offset` on; fewer at the end.
    pub(super) fn read(&self, name: &str, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let all = self.len_of(name)?;
        let left = all.saturating_sub(offset);
        let len = left.min(len as u64) as usize;
        if len == 0 {
            return Ok(Vec::new());
        }
        if let Some(bytes) = self.with(|seen| seen.find(name, offset, len)) {
            return Ok(bytes);
        }
        let piece = left.min(READ.max(len as u64)) as usize;
        let bytes = self.bucket.range(name, offset, piece)?;
        let found = bytes.get(..len).map(<[u8]>::to_vec);
        self.with(|seen| seen.piece = Some((name.to_owned(), offset, bytes)));
        found.ok_or_else(|| ErrorKind::UnexpectedEof.into())
    }

    fn with<T>(&self, work: impl FnOnce(&mut Seen) -> T) -> T {
        work(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Seen {
    /// What stands in the last piece.
    fn find(&self, name: &str, offset: u64, len: usize) -> Option<Vec<u8>> {
        let (of, from, bytes) = self.piece.as_ref()?;
        let place = usize::try_from(offset.checked_sub(*from)?).ok()?;
        let end = place.checked_add(len)?;
        let found = bytes.get(place..end).filter(|_| of == name)?;
        Some(found.to_vec())
    }
}
