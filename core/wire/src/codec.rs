//! Bounded reading and appending of big-endian fields.

use crate::WireError;

/// What is left to read of a peer's bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (head, rest) = self.0.split_first_chunk().ok_or(WireError::Truncated)?;
        self.0 = rest;
        Ok(*head)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, WireError> {
        self.array().map(|[byte]| byte)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Result<u16, WireError> {
        self.array().map(u16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_be_bytes)
    }

    #[inline]
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(WireError::Truncated)?;
        self.0 = rest;
        Ok(head)
    }

    /// UTF-8 text behind an 8-bit length.
    pub(crate) fn text8(&mut self) -> Result<&'a str, WireError> {
        let len = self.u8()?;
        self.text(usize::from(len))
    }

    /// UTF-8 text behind a 16-bit length.
    pub(crate) fn text16(&mut self) -> Result<&'a str, WireError> {
        let len = self.u16()?;
        self.text(usize::from(len))
    }

    pub(crate) const fn rest(self) -> &'a [u8] {
        self.0
    }

    fn text(&mut self, len: usize) -> Result<&'a str, WireError> {
        core::str::from_utf8(self.take(len)?).map_err(|_| WireError::Text)
    }
}

/// Appends big-endian fields.
pub(crate) trait Put {
    fn put(&mut self, bytes: &[u8]);

    fn put_u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    fn put_u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.put(&value.to_be_bytes());
    }

    /// Text behind an 8-bit length.
    fn put_text8(&mut self, text: &str) -> Result<(), WireError> {
        self.put_u8(u8::try_from(text.len()).map_err(|_| WireError::Text)?);
        self.put(text.as_bytes());
        Ok(())
    }

    /// Text behind a 16-bit length.
    fn put_text16(&mut self, text: &str) -> Result<(), WireError> {
        self.put_u16(u16::try_from(text.len()).map_err(|_| WireError::Text)?);
        self.put(text.as_bytes());
        Ok(())
    }
}

impl Put for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}
