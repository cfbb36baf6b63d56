//! Events that are larger than a link's datagram, in pieces.

use core::fmt;

use sangam_model::limits::EVENT_LEN_MAX;
use sangam_wire::{
    Event, ExtensionBlock, Extensions, Flags, Fragment, HEADER_LEN, Header, WireError,
};

/// Type of the fragment extension (`docs/spec/wire.md`).
const FRAGMENT_TYPE: u8 = 1;
/// Every piece carries at least so many bytes of payload, so that pieces stay few.
const SLICE_MIN: usize = 256;

/// Why an event was not split, or a piece not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FragmentError {
    /// The bytes are no event, or the piece lies outside its event.
    Wire(WireError),
    /// It is a piece already, or is none.
    Piece,
    /// The link's datagram is too small, or the extensions too large, to split this event.
    Datagram,
    /// The piece does not fit the others of its event.
    Contradiction,
    /// The whole event would be larger than an event may be, or its pieces are too many.
    Oversized,
}

/// The pieces of one event, in order. All but the last have the size of the link's datagram, so
/// that they can leave in one UDP_SEGMENT send.
#[derive(Debug)]
pub struct Fragments<'a> {
    event: Event<'a>,
    datagram_max: usize,
    offset: usize,
    done: bool,
}

/// Splits `event` for a link whose datagrams hold `datagram_max` bytes.
///
/// An event that fits yields itself. Each piece has the event's header with
/// [`Flags::FRAGMENT`], a fragment extension and a slice of the payload; the first carries the
/// event's other extensions, too.
///
/// # Errors
/// [`FragmentError::Wire`], [`FragmentError::Piece`], [`FragmentError::Datagram`].
pub fn fragment(event: &[u8], datagram_max: usize) -> Result<Fragments<'_>, FragmentError> {
    let event = Event::decode(event)?;
    if event.encoded_len() > datagram_max {
        if event.header.flags.contains(Flags::FRAGMENT) {
            return Err(FragmentError::Piece);
        }
        let block = piece_extensions(
            event.extensions,
            Fragment {
                offset: 0,
                total: 0,
            },
        )
        .ok_or(FragmentError::Datagram)?;
        if HEADER_LEN + block.extensions().bytes().len() + SLICE_MIN > datagram_max {
            return Err(FragmentError::Datagram);
        }
    }
    Ok(Fragments {
        event,
        datagram_max,
        offset: 0,
        done: false,
    })
}

impl Fragments<'_> {
    /// Writes the next piece to the head of `out` and tells how many bytes it has; `None` after
    /// the last one.
    ///
    /// # Errors
    /// [`WireError::Oversized`] if `out` is smaller than the piece, which is not lost then.
    pub fn write_next(&mut self, out: &mut [u8]) -> Option<Result<usize, WireError>> {
        if self.done {
            return None;
        }
        if self.offset == 0 && self.event.encoded_len() <= self.datagram_max {
            let written = self.event.write(out);
            self.done = written.is_ok();
            return Some(written);
        }
        Some(self.write_piece(out))
    }

    fn write_piece(&mut self, out: &mut [u8]) -> Result<usize, WireError> {
        let payload = self.event.payload;
        // An event has at most EVENT_LEN_MAX bytes, so both fit 16 bits.
        let place = Fragment {
            offset: self.offset as u16,
            total: payload.len() as u16,
        };
        let others = if self.offset == 0 {
            self.event.extensions
        } else {
            Extensions::NONE
        };
        let block = piece_extensions(others, place).ok_or(WireError::Oversized)?;
        let room = self.datagram_max - HEADER_LEN - block.extensions().bytes().len();
        let end = payload.len().min(self.offset + room);
        let flags = self.event.header.flags.with(Flags::FRAGMENT);
        let piece = Event {
            header: Header {
                flags,
                ..self.event.header
            },
            extensions: block.extensions(),
            payload: &payload[self.offset..end],
        };
        let written = piece.write(out)?;
        self.offset = end;
        self.done = end == payload.len();
        Ok(written)
    }
}

/// The fragment extension, then `others` but for fragment extensions among them.
fn piece_extensions(others: Extensions<'_>, place: Fragment) -> Option<ExtensionBlock> {
    let mut block = ExtensionBlock::new();
    let mut fits = block.fragment(place);
    for (kind, value) in other_extensions(others) {
        fits &= block.push(kind, value);
    }
    fits.then_some(block)
}

/// All but fragment extensions.
pub(crate) fn other_extensions(all: Extensions<'_>) -> impl Iterator<Item = (u8, &[u8])> {
    all.iter().filter(|&(kind, _)| kind != FRAGMENT_TYPE)
}

/// Payload bytes an event of at most [`EVENT_LEN_MAX`] can have.
pub(crate) const PAYLOAD_LEN_MAX: usize = EVENT_LEN_MAX - HEADER_LEN;

impl From<WireError> for FragmentError {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

impl fmt::Display for FragmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wire(error) => error.fmt(f),
            Self::Piece => f.write_str("only whole events are split and only pieces joined"),
            Self::Datagram => f.write_str("the link's datagrams are too small for this event"),
            Self::Contradiction => f.write_str("the pieces of an event contradict each other"),
            Self::Oversized => f.write_str("the pieces make up more than an event may hold"),
        }
    }
}

impl core::error::Error for FragmentError {}
