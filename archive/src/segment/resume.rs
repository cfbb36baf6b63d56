//! Where reading goes on behind damage.
//!
//! Parts are written one behind the other, each synced before the next: so a crash tears the last
//! one alone, and what is wrong before another part is damage of the disk.

use std::io;

use super::{HEAD_LEN, Kind, Medium, READ, Record, ending};
use crate::record::BODY_LEN_MAX;

/// The place behind a record that is damaged at `offset`; `None` if the segment ends there.
pub(super) fn behind(medium: &dyn Medium, name: &str, offset: u64) -> io::Result<Option<u64>> {
    let len = medium.len_of(name)?.unwrap_or(0);
    let next = match ending(medium, name, len)? {
        Some((footer, _)) if footer <= offset => return Ok(None),
        Some((footer, index)) => {
            let points = index.tracks.iter().flat_map(|track| &track.points);
            let points = points.map(|(_, point)| *point);
            let next = points.filter(|point| (offset + 1..footer).contains(point));
            next.min().unwrap_or(footer)
        }
        None => match later_part(medium, name, offset)? {
            Some(part) => part,
            None => return Ok(None),
        },
    };
    // If its length alone is right, the record alone is missed.
    let after = after(medium, name, offset)?.filter(|after| *after < next);
    Ok(Some(after.unwrap_or(next)))
}

/// The end of a damaged record, if a whole one stands there.
fn after(medium: &dyn Medium, name: &str, offset: u64) -> io::Result<Option<u64>> {
    let Some(len) = len_at(medium, name, offset)? else {
        return Ok(None);
    };
    let end = offset + len as u64;
    Ok(is_record(medium, name, end)?.then_some(end))
}

/// The begin of the first part behind `offset` of which a record is whole.
fn later_part(medium: &dyn Medium, name: &str, offset: u64) -> io::Result<Option<u64>> {
    let mut from = offset;
    loop {
        let bytes = medium.read(name, from, READ)?;
        for (place, window) in bytes.windows(HEAD_LEN).enumerate() {
            let end = from + (place + HEAD_LEN) as u64;
            if is_commit(window) && is_record(medium, name, end)? {
                return Ok(Some(end));
            }
        }
        if bytes.len() < READ {
            return Ok(None);
        }
        // One may stand across the border.
        from += (READ - HEAD_LEN + 1) as u64;
    }
}

fn is_commit(bytes: &[u8]) -> bool {
    // Most places are told by their first bytes.
    bytes.starts_with(&[0; 4])
        && bytes[8] == Kind::Commit as u8
        && Record::read(bytes).is_ok_and(|record| record.track == 0)
}

fn is_record(medium: &dyn Medium, name: &str, offset: u64) -> io::Result<bool> {
    let Some(len) = len_at(medium, name, offset)? else {
        return Ok(false);
    };
    let bytes = medium.read(name, offset, len)?;
    Ok(Record::read(&bytes).is_ok())
}

/// Bytes of a record, as its first bytes tell.
fn len_at(medium: &dyn Medium, name: &str, offset: u64) -> io::Result<Option<usize>> {
    let bytes = medium.read(name, offset, 4)?;
    let len = bytes.first_chunk().copied().map(u32::from_be_bytes);
    let len = len.map(|len| len as usize);
    Ok(len
        .filter(|len| *len <= BODY_LEN_MAX)
        .map(|len| HEAD_LEN + len))
}
