//! Reading segments: whole ones by their footers, interrupted ones by scanning.

mod resume;

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
    /// Where its last whole record ends.
    pub len: u64,
    /// What is damaged before.
    pub gaps: Gaps,
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
            gaps: Gaps::default(),
            whole: true,
        }),
        None => {
            let mut index = Index::default();
            let scanned = scan(medium, name, 0, |record, offset| {
                index.take(record, offset);
                true
            })?;
            Ok(Found {
                index,
                len: scanned.end,
                gaps: scanned.gaps,
                whole: false,
            })
        }
    }
}

/// Ends a segment that a crash interrupted: cuts off what is no record and appends the footer.
/// False, and nothing done, if it is whole or somebody still writes it.
///
/// # Errors
/// Of the medium.
pub fn repair(medium: &mut dyn Medium, name: &str, now: u64) -> io::Result<bool> {
    // What is looked at before nobody else is let in may grow meanwhile.
    let Some(len) = medium.lock(name)?.filter(|len| *len > 0) else {
        return Ok(false);
    };
    let found = find(medium, name, len)?;
    if found.whole {
        return Ok(false);
    }
    medium.cut(name, found.len)?;
    let mut bytes = Vec::new();
    Record::new(Kind::Footer, now, &found.index.body()).write(&mut bytes);
    bytes.extend(trailer(found.len));
    medium.write(name, found.len, &bytes)?;
    medium.sync(name)?;
    Ok(true)
}

/// Places at which a segment is damaged; what a crash left at its end is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// How many.
    pub count: u64,
    /// Bytes passed over.
    pub bytes: u64,
    /// Where the first is.
    pub first: u64,
}

impl Gaps {
    /// Counts those of another segment as well.
    pub fn add(&mut self, more: Self) {
        if self.count == 0 {
            self.first = more.first;
        }
        self.count += more.count;
        self.bytes += more.bytes;
    }
}

/// How far a scan came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scanned {
    /// Where it ended.
    pub end: u64,
    /// What it passed over.
    pub gaps: Gaps,
}

/// Hands every record from `offset` on to `take` with its place, until the segment ends or `take`
/// says no. It goes on behind what is damaged.
///
/// # Errors
/// Of the medium.
pub fn scan(
    medium: &dyn Medium,
    name: &str,
    offset: u64,
    mut take: impl FnMut(&Record<'_>, u64) -> bool,
) -> io::Result<Scanned> {
    let mut gaps = Gaps::default();
    let mut from = offset;
    loop {
        let (end, damaged) = run(medium, name, from, &mut take)?;
        let next = match damaged {
            true => resume::behind(medium, name, end)?,
            false => None,
        };
        let Some(next) = next else {
            return Ok(Scanned { end, gaps });
        };
        gaps.add(Gaps {
            count: 1,
            bytes: next - end,
            first: end,
        });
        from = next;
    }
}

/// Hands out records up to the first that is none: where that is, and whether one should be there.
fn run(
    medium: &dyn Medium,
    name: &str,
    mut offset: u64,
    take: &mut dyn FnMut(&Record<'_>, u64) -> bool,
) -> io::Result<(u64, bool)> {
    let mut want = READ;
    loop {
        let bytes = medium.read(name, offset, want)?;
        let mut rest = &bytes[..];
        let damage = loop {
            match Record::read(rest) {
                Ok(record) if !begins(&record, offset) => return Ok((offset, false)),
                Ok(record) if record.kind == Kind::Footer => return Ok((offset, false)),
                Ok(record) => {
                    if !take(&record, offset) {
                        return Ok((offset, false));
                    }
                    offset += record.encoded_len() as u64;
                    rest = &rest[record.encoded_len()..];
                }
                Err(damage) => break damage,
            }
        };
        let at_end = bytes.len() < want;
        if damage == Damage::Wrong || at_end {
            return Ok((offset, true));
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

/// The index of a segment that was ended; `None` if it was not.
///
/// # Errors
/// Of the medium.
pub(crate) fn footer(medium: &dyn Medium, name: &str, len: u64) -> io::Result<Option<Index>> {
    Ok(ending(medium, name, len)?.map(|(_, index)| index))
}

/// The place of a segment's footer and what it says, if it was ended.
fn ending(medium: &dyn Medium, name: &str, len: u64) -> io::Result<Option<(u64, Index)>> {
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
    let index = record.and_then(|record| Index::read(record.body));
    Ok(index.map(|index| (footer, index)))
}

fn parts(trailer: &[u8]) -> Option<(u64, [u8; 8])> {
    let (footer, mark) = trailer.split_first_chunk()?;
    Some((u64::from_be_bytes(*footer), mark.try_into().ok()?))
}
