//! Reading segments: whole ones by their footers, interrupted ones by scanning.

use std::io;

use crate::index::Index;
use crate::medium::Medium;
use crate::record::{BODY_LEN_MAX, Damage, HEAD_LEN, Kind, MAGIC, Record};

/// Bytes at the end of a whole segment: where its footer stands, and a mark.
pub const TRAILER_LEN: usize = 16;
const TRAILER_MARK: [u8; 8] = *b"SANGAMIX";
/// Bytes read at once.
const READ: usize = 1 << 20;

/// What stands at the end of a segment whose footer stands at `footer`.
#[must_use]
pub(crate) fn trailer(footer: u64) -> [u8; TRAILER_LEN] {
    let mut trailer = [0; TRAILER_LEN];
    trailer[..8].copy_from_slice(&footer.to_be_bytes());
    trailer[8..].copy_from_slice(&TRAILER_MARK);
    trailer
}

/// What a segment holds, and how it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The index.
    pub index: Index,
    /// Bytes of whole records.
    pub len: u64,
    /// Whether it was ended in order; if not, what stands behind `len` is worth nothing.
    pub whole: bool,
}

/// The index of a segment of `len` bytes.
///
/// # Errors
/// Of the medium.
pub fn find(medium: &dyn Medium, name: &str, len: u64) -> io::Result<Found> {
    match footer(medium, name, len)? {
        Some(index) => Ok(Found {
            index,
            len,
            whole: true,
        }),
        None => {
            let mut index = Index::default();
            let len = scan(medium, name, 0, |record, offset| {
                index.take(record, offset);
                true
            })?;
            Ok(Found {
                index,
                len,
                whole: false,
            })
        }
    }
}

/// Ends a segment that a crash interrupted: cuts off what is no record and appends the footer.
/// False if somebody still writes it.
///
/// # Errors
/// Of the medium.
pub fn repair(medium: &mut dyn Medium, name: &str, found: &Found, now: u64) -> io::Result<bool> {
    if !medium.cut(name, found.len)? {
        return Ok(false);
    }
    let mut bytes = Vec::new();
    Record::new(Kind::Footer, now, &found.index.body()).write(&mut bytes);
    bytes.extend(trailer(found.len));
    medium.write(name, found.len, &bytes)?;
    medium.sync(name)?;
    Ok(true)
}

/// Hands every record from `offset` on to `take` with its place, until one is damaged, the
/// segment ends or `take` says no. How far that was.
///
/// # Errors
/// Of the medium.
pub fn scan(
    medium: &dyn Medium,
    name: &str,
    mut offset: u64,
    mut take: impl FnMut(&Record<'_>, u64) -> bool,
) -> io::Result<u64> {
    let mut want = READ;
    loop {
        let bytes = medium.read(name, offset, want)?;
        let mut rest = &bytes[..];
        let damage = loop {
            match Record::read(rest) {
                Ok(record) if !begins(&record, offset) => return Ok(offset),
                Ok(record) if record.kind == Kind::Footer => return Ok(offset),
                Ok(record) => {
                    if !take(&record, offset) {
                        return Ok(offset);
                    }
                    offset += record.encoded_len() as u64;
                    rest = &rest[record.encoded_len()..];
                }
                Err(damage) => break damage,
            }
        };
        let at_end = bytes.len() < want;
        if damage == Damage::Wrong || at_end {
            return Ok(offset);
        }
        // One record may be longer than what is read at once.
        want = if rest.len() == bytes.len() {
            READ + BODY_LEN_MAX + HEAD_LEN
        } else {
            READ
        };
    }
}

/// Whether a record may stand at this place: a segment begins with its own mark.
fn begins(record: &Record<'_>, offset: u64) -> bool {
    offset > 0 || record.kind == Kind::Segment && record.body == MAGIC
}

fn footer(medium: &dyn Medium, name: &str, len: u64) -> io::Result<Option<Index>> {
    let Some(at) = len.checked_sub(TRAILER_LEN as u64) else {
        return Ok(None);
    };
    let trailer = medium.read(name, at, TRAILER_LEN)?;
    let Some((footer, TRAILER_MARK)) = parts(&trailer).filter(|(footer, _)| *footer <= at) else {
        return Ok(None);
    };
    let Ok(len) = usize::try_from(at - footer) else {
        return Ok(None);
    };
    if len > BODY_LEN_MAX + HEAD_LEN {
        return Ok(None);
    }
    let bytes = medium.read(name, footer, len)?;
    let record = Record::read(&bytes).ok();
    let record = record.filter(|record| record.kind == Kind::Footer);
    Ok(record.and_then(|record| Index::read(record.body)))
}

/// Whether the footer of a whole segment of `len` bytes stands at `offset`.
///
/// # Errors
/// Of the medium.
pub fn ends_at(medium: &dyn Medium, name: &str, len: u64, offset: u64) -> io::Result<bool> {
    let at = len.saturating_sub(TRAILER_LEN as u64);
    let trailer = medium.read(name, at, TRAILER_LEN)?;
    Ok(parts(&trailer).is_some_and(|(footer, _)| footer == offset))
}

fn parts(trailer: &[u8]) -> Option<(u64, [u8; 8])> {
    let (footer, mark) = trailer.split_first_chunk()?;
    Some((u64::from_be_bytes(*footer), mark.try_into().ok()?))
}
