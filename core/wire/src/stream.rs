//! Events and link frames on a byte stream: each behind its 16-bit big-endian length.

use sangam_model::limits::EVENT_LEN_MAX;

use crate::WireError;

/// Bytes in front of a unit.
pub const PREFIX_LEN: usize = 2;

/// The first whole unit of `bytes`, and how many bytes it and its length take together; `None`
/// if more bytes have to come first.
///
/// # Errors
/// [`WireError::Oversized`] or, for an empty unit, [`WireError::Value`]: the stream cannot be
/// trusted any further and has to be closed.
pub fn next_unit(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, WireError> {
    let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX_LEN>() else {
        return Ok(None);
    };
    match usize::from(u16::from_be_bytes(*prefix)) {
        0 => Err(WireError::Value),
        len if len > EVENT_LEN_MAX => Err(WireError::Oversized),
        len => Ok(rest.get(..len).map(|unit| (unit, PREFIX_LEN + len))),
    }
}

/// The length to put in front of a unit of `len` bytes, at most [`EVENT_LEN_MAX`].
///
/// # Panics
/// If `len` exceeds 65,535.
#[must_use]
pub const fn prefix(len: usize) -> [u8; PREFIX_LEN] {
    assert!(
        len <= u16::MAX as usize,
        "a unit has at most EVENT_LEN_MAX bytes"
    );
    (len as u16).to_be_bytes()
}
