//! Units behind a 16-bit length, on their way through a stream of QUIC.

use bytes::{Bytes, BytesMut};
use sangam_model::limits::EVENT_LEN_MAX;

use super::Full;

/// Bytes of the length in front of a unit.
const PREFIX: usize = 2;

/// What came of a stream and is no whole unit yet.
#[derive(Debug, Default)]
pub(super) struct Incoming(BytesMut);

/// The peer announced a unit of no bytes, or of too many: its units cannot be found any more.
#[derive(Debug)]
pub(super) struct Broken;

impl Incoming {
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next whole unit.
    pub(super) fn pop(&mut self) -> Result<Option<Bytes>, Broken> {
        let Some(prefix) = self.0.first_chunk() else {
            return Ok(None);
        };
        let len = usize::from(u16::from_be_bytes(*prefix));
        if !(1..=EVENT_LEN_MAX).contains(&len) {
            return Err(Broken);
        }
        if self.0.len() < PREFIX + len {
            return Ok(None);
        }
        let mut unit = self.0.split_to(PREFIX + len).freeze();
        Ok(Some(unit.split_off(PREFIX)))
    }
}

/// What waits until the stream takes it; at most `max` bytes.
#[derive(Debug)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    /// Bytes at the front that the stream has taken.
    taken: usize,
    max: usize,
}

impl Outgoing {
    pub(super) fn new(max: usize) -> Self {
        Self {
            bytes: Vec::new(),
            taken: 0,
            max,
        }
    }

    pub(super) fn push(&mut self, unit: &[u8]) -> Result<(), Full> {
        let len = u16::try_from(unit.len()).map_err(|_| Full)?;
        if self.len() + PREFIX + unit.len() > self.max {
            return Err(Full);
        }
        self.bytes.extend_from_slice(&len.to_be_bytes());
        self.bytes.extend_from_slice(unit);
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.taken
    }

    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    pub(super) fn take(&mut self, count: usize) {
        self.taken += count;
        if self.taken == self.bytes.len() {
            self.bytes.clear();
            self.taken = 0;
        } else if self.taken > self.max / 2 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_survive_any_cut_of_the_stream() {
        let mut outgoing = Outgoing::new(100);
        outgoing.push(b"one").unwrap();
        outgoing.push(b"three").unwrap();
        for step in 1..=outgoing.len() {
            let mut incoming = Incoming::default();
            let mut units = Vec::new();
            for piece in outgoing.rest().chunks(step) {
                incoming.extend(piece);
                while let Some(unit) = incoming.pop().unwrap() {
                    units.push(unit);
                }
            }
            assert_eq!(units, [&b"one"[..], b"three"]);
        }
    }

    #[test]
    fn a_length_that_no_unit_has_breaks_the_stream() {
        for prefix in [0, 16_385, u16::MAX] {
            let mut incoming = Incoming::default();
            incoming.extend(&u16::to_be_bytes(prefix));
            assert!(incoming.pop().is_err(), "{prefix}");
        }
    }

    #[test]
    fn what_waits_for_a_stream_is_bounded() {
        let mut outgoing = Outgoing::new(16);
        outgoing.push(&[1; 10]).unwrap();
        assert_eq!(outgoing.push(&[2; 10]), Err(Full));
        outgoing.take(9);
        outgoing.push(&[3; 10]).unwrap();
        assert_eq!(outgoing.rest().len(), 15);
    }
}
