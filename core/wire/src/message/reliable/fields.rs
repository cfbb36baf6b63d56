//! Fields that several messages have.

use sangam_model::PublisherId;

use crate::WireError;
use crate::codec::{Put, Reader};

pub(super) fn publisher(read: &mut Reader<'_>) -> Result<PublisherId, WireError> {
    read.u64().map(PublisherId)
}

/// Sequences and indices stay so far below 2^64 that adding to them cannot overflow.
pub(super) fn number(read: &mut Reader<'_>) -> Result<u64, WireError> {
    let number = read.u64()?;
    if number >> 62 != 0 {
        return Err(WireError::Value);
    }
    Ok(number)
}

pub(super) fn put_number(out: &mut Vec<u8>, number: u64) -> Result<(), WireError> {
    if number >> 62 != 0 {
        return Err(WireError::Value);
    }
    out.put_u64(number);
    Ok(())
}

/// Things behind their number (u8); the length of the message bounds them.
pub(super) fn list<T>(
    read: &mut Reader<'_>,
    item: impl Fn(&mut Reader<'_>) -> Result<T, WireError>,
) -> Result<Vec<T>, WireError> {
    let count = usize::from(read.u8()?);
    (0..count).map(|_| item(read)).collect()
}

pub(super) fn put_list<T>(
    out: &mut Vec<u8>,
    items: &[T],
    put: impl Fn(&T, &mut Vec<u8>) -> Result<(), WireError>,
) -> Result<(), WireError> {
    out.put_u8(u8::try_from(items.len()).map_err(|_| WireError::Oversized)?);
    items.iter().try_for_each(|item| put(item, out))
}
