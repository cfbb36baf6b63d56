//! Traces as files: a head in words, chunks of differences, a hash at the end.

use std::io::{BufRead, Read, Write};

use super::text::{self, HEAD_MAX, Head};
use super::{CHUNK_ROWS, Columns, DELAY_US_MAX, LOST, Overlay, TraceError};

const FIRST_LINE: &str = "sangam-trace 1\n";
/// Bytes of the longest difference.
const DIFFERENCE_MAX: usize = 5;

/// FNV-1a over bytes (Fowler, Noll, Vo): a few lines in any language.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fnv(u64);

impl Fnv {
    pub(super) const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(super) const fn value(self) -> u64 {
        self.0
    }
}

/// Writes one trace.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    hash: Fnv,
    chunk: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Writes the head.
    ///
    /// # Errors
    /// If that fails, or the overlay does not fit together.
    pub fn new(out: W, overlay: &Overlay) -> Result<Self, TraceError> {
        overlay.check()?;
        let mut writer = Self {
            out,
            hash: Fnv::new(),
            chunk: Vec::new(),
        };
        writer.put(FIRST_LINE.as_bytes())?;
        writer.put(text::write(overlay).as_bytes())?;
        Ok(writer)
    }

    /// Writes the next moments: [`CHUNK_ROWS`], fewer only at the end.
    ///
    /// # Errors
    /// If writing fails.
    pub fn chunk(&mut self, columns: &Columns) -> Result<(), TraceError> {
        let mut chunk = std::mem::take(&mut self.chunk);
        chunk.clear();
        for link in columns.links() {
            let mut before = 0;
            for delay in link {
                let value = delay.wrapping_add(1);
                put_difference(&mut chunk, i64::from(value) - before);
                before = i64::from(value);
            }
        }
        let mut sum = Fnv::new();
        sum.add(&chunk);
        self.put(&(columns.rows() as u32).to_le_bytes())?;
        self.put(&(chunk.len() as u32).to_le_bytes())?;
        self.put(&chunk)?;
        self.put(&sum.value().to_le_bytes())?;
        self.chunk = chunk;
        Ok(())
    }

    /// Writes the end; returns the hash of all before it.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(mut self) -> Result<u64, TraceError> {
        let hash = self.hash.value();
        self.put(&hash.to_le_bytes())?;
        self.out.flush()?;
        Ok(hash)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        self.hash.add(bytes);
        Ok(self.out.write_all(bytes)?)
    }
}

/// Zigzag, then seven bits a byte, the lowest first (LEB128).
fn put_difference(out: &mut Vec<u8>, difference: i64) {
    let mut rest = ((difference << 1) ^ (difference >> 63)) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Reads one trace, a chunk at a time.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    overlay: Overlay,
    hash: Fnv,
    row: u64,
    chunk: Vec<u8>,
}

impl<R: BufRead> Reader<R> {
    /// Reads the head.
    ///
    /// # Errors
    /// If this is no trace, or a line of its head is not understood.
    pub fn new(mut input: R) -> Result<Self, TraceError> {
        let mut hash = Fnv::new();
        let mut line = Vec::new();
        read_line(&mut input, &mut line, &mut hash)?;
        if line != FIRST_LINE.as_bytes() {
            return Err(TraceError::Foreign);
        }
        let (mut head, mut bytes) = (Head::new(), 0);
        loop {
            read_line(&mut input, &mut line, &mut hash)?;
            bytes += line.len();
            let wrong = |text: &str| TraceError::Line {
                line: head.line_number() + 1,
                text: text.to_owned(),
            };
            if line.last() != Some(&b'\n') || bytes > HEAD_MAX {
                return Err(wrong("the head has no end: an empty line is missing"));
            }
            let words = std::str::from_utf8(&line).map_err(|_| wrong("this is no text"))?;
            if head.line(words)? {
                break;
            }
        }
        Ok(Self {
            input,
            overlay: head.finish()?,
            hash,
            row: 0,
            chunk: Vec::new(),
        })
    }

    /// Who is in it.
    #[must_use]
    pub const fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    /// Reads the next moments of all links; false at the end of the trace.
    ///
    /// # Errors
    /// If the file is truncated or corrupt, or a delay is out of range.
    pub fn chunk(&mut self, columns: &mut Columns) -> Result<bool, TraceError> {
        let left = self.overlay.rows - self.row;
        if left == 0 {
            self.finish()?;
            return Ok(false);
        }
        let corrupt = TraceError::Corrupt { row: self.row };
        let mut sizes = [0; 8];
        self.take(&mut sizes)?;
        let [a, b, c, d, e, f, g, h] = sizes;
        let (rows, length) = (
            u32::from_le_bytes([a, b, c, d]),
            u32::from_le_bytes([e, f, g, h]),
        );
        let most = CHUNK_ROWS * self.overlay.links.len() * DIFFERENCE_MAX;
        if u64::from(rows) != left.min(CHUNK_ROWS as u64) || length as usize > most {
            return Err(corrupt);
        }
        let mut chunk = std::mem::take(&mut self.chunk);
        chunk.resize(length as usize, 0);
        self.take(&mut chunk)?;
        let mut sum = [0; 8];
        self.take(&mut sum)?;
        let mut found = Fnv::new();
        found.add(&chunk);
        if found.value().to_le_bytes() != sum {
            return Err(corrupt);
        }
        columns.set_rows(rows as usize);
        self.decode(&chunk, columns)?;
        self.chunk = chunk;
        self.row += u64::from(rows);
        Ok(true)
    }

    /// The hash of what was read; the file's, once all was.
    #[must_use]
    pub const fn hash(&self) -> u64 {
        self.hash.value()
    }

    fn decode(&self, chunk: &[u8], columns: &mut Columns) -> Result<(), TraceError> {
        let corrupt = || TraceError::Corrupt { row: self.row };
        if columns.len() != self.overlay.links.len() {
            return Err(TraceError::Overlay(
                "columns for another number of links".to_owned(),
            ));
        }
        let mut bytes = chunk.iter().copied();
        for link in 0..columns.len() {
            let mut value = 0;
            for (row, delay) in columns.link_mut(link).iter_mut().enumerate() {
                value += difference(&mut bytes).ok_or_else(corrupt)?;
                *delay = match value {
                    0 => LOST,
                    1.. if value <= i64::from(DELAY_US_MAX) + 1 => (value - 1) as u32,
                    _ => return Err(self.absurd(link, row, value - 1)),
                };
            }
        }
        bytes.next().is_none().then_some(()).ok_or_else(corrupt)
    }

    fn absurd(&self, link: usize, row: usize, us: i64) -> TraceError {
        TraceError::Delay {
            link: self.overlay.link_name(link),
            row: self.row + row as u64,
            text: format!("a delay of {us} us; it lies between 0 and {DELAY_US_MAX}"),
        }
    }

    fn finish(&mut self) -> Result<(), TraceError> {
        let hash = self.hash;
        let mut end = [0; 8];
        self.take(&mut end)?;
        self.hash = hash;
        if hash.value().to_le_bytes() != end {
            return Err(TraceError::Corrupt { row: self.row });
        }
        Ok(())
    }

    fn take(&mut self, bytes: &mut [u8]) -> Result<(), TraceError> {
        self.input
            .read_exact(bytes)
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::UnexpectedEof => TraceError::Truncated {
                    row: self.row,
                    rows: self.overlay.rows,
                },
                _ => error.into(),
            })?;
        self.hash.add(bytes);
        Ok(())
    }
}

fn read_line(
    input: &mut impl BufRead,
    line: &mut Vec<u8>,
    hash: &mut Fnv,
) -> Result<(), TraceError> {
    line.clear();
    input.take(HEAD_MAX as u64).read_until(b'\n', line)?;
    hash.add(line);
    Ok(())
}

fn difference(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let mut value = 0_u64;
    for place in 0..DIFFERENCE_MAX {
        let byte = bytes.next()?;
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            return Some((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    None
}
