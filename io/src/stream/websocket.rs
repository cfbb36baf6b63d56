//! Frames of WebSocket (RFC 6455 section 5): one binary message is one unit.

use aws_lc_rs::rand;
use sangam_model::limits::EVENT_LEN_MAX;

use super::error::FramedError;

/// Bytes in front of a frame that we send, at most: lengths of units need no more than 16 bits.
pub(super) const HEAD_SENT_MAX: usize = 8;
/// RFC 6455 section 5.5: the payload of a control frame.
const CONTROL_MAX: usize = 125;
const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;

/// What a frame is (RFC 6455 section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Continuation = 0,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

/// Why we close (RFC 6455 section 7.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum Code {
    Normal = 1_000,
    Protocol = 1_002,
    TooBig = 1_009,
}

/// Which end we are: frames of clients are masked, those of servers are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Server,
    Client,
}

/// Takes frames apart and joins messages that came in pieces.
#[derive(Debug)]
pub(super) struct Receiver {
    side: Side,
    /// What came of a message in pieces.
    message: Vec<u8>,
    /// Whether such a message has begun.
    begun: bool,
}

/// What one frame amounts to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// A whole message.
    Unit(&'a [u8]),
    /// Nothing to do yet.
    Nothing,
    /// To be answered with the same bytes.
    Ping(&'a [u8]),
    /// The peer ends the stream.
    Close,
}

#[derive(Debug)]
struct Head {
    last: bool,
    kind: Kind,
    mask: Option<[u8; 4]>,
    /// Bytes of the head itself, and behind it.
    size: usize,
    len: usize,
}

impl Receiver {
    pub(super) fn new(side: Side) -> Self {
        Self {
            side,
            message: Vec::new(),
            begun: false,
        }
    }

    pub(super) fn side(&self) -> Side {
        self.side
    }

    /// The first frame of `input`, once it is there whole: its size and what it amounts to.
    pub(super) fn next<'a>(
        &'a mut self,
        input: &'a mut [u8],
    ) -> Result<Option<(usize, Piece<'a>)>, FramedError> {
        let Some(head) = head(input)? else {
            return Ok(None);
        };
        self.check(&head)?;
        let whole = head.size + head.len;
        let Some(payload) = input.get_mut(head.size..whole) else {
            return Ok(None);
        };
        if let Some(mask) = head.mask {
            apply(mask, payload);
        }
        let piece = match head.kind {
            Kind::Close => Piece::Close,
            Kind::Ping => Piece::Ping(payload),
            Kind::Pong => Piece::Nothing,
            Kind::Binary if head.last => Piece::Unit(payload),
            Kind::Binary | Kind::Continuation => {
                return Ok(Some((whole, self.join(&head, payload))));
            }
        };
        Ok(Some((whole, piece)))
    }

    /// RFC 6455 sections 5.1, 5.4 and 5.5, before the payload is waited for.
    fn check(&self, head: &Head) -> Result<(), FramedError> {
        let wrong = |what| Err(FramedError::WebSocket(what));
        match (self.side, head.mask) {
            (Side::Server, None) => return wrong("a frame of a client is not masked"),
            (Side::Client, Some(_)) => return wrong("a frame of a server is masked"),
            _ => {}
        }
        match head.kind {
            Kind::Close | Kind::Ping | Kind::Pong => {
                if !head.last || head.len > CONTROL_MAX {
                    return wrong("a control frame is too long or in pieces");
                }
            }
            Kind::Binary if self.begun => return wrong("a message begins within another"),
            Kind::Continuation if !self.begun => return wrong("a piece belongs to no message"),
            Kind::Binary | Kind::Continuation => {
                let before = if self.begun { self.message.len() } else { 0 };
                let whole = before.saturating_add(head.len);
                if whole > EVENT_LEN_MAX {
                    return Err(FramedError::Oversized(whole));
                }
                if whole == 0 && head.last {
                    return Err(FramedError::Empty);
                }
            }
        }
        Ok(())
    }

    fn join(&mut self, head: &Head, payload: &[u8]) -> Piece<'_> {
        if head.kind == Kind::Binary {
            self.message.clear();
        }
        self.message.extend_from_slice(payload);
        self.begun = !head.last;
        if self.begun {
            Piece::Nothing
        } else {
            Piece::Unit(&self.message)
        }
    }
}

/// Bytes of the frame at the front with its head, as soon as the head tells.
pub(super) fn announced(input: &[u8]) -> Option<usize> {
    let head = head(input).ok()??;
    Some(head.size + head.len.min(EVENT_LEN_MAX))
}

/// The head of a frame of `len` bytes that a server sends: its bytes and how many they are.
pub(super) fn plain_head(kind: Kind, len: usize) -> ([u8; HEAD_SENT_MAX], u8) {
    let mut bytes = [0; HEAD_SENT_MAX];
    bytes[0] = FINAL | kind as u8;
    if len <= CONTROL_MAX {
        bytes[1] = len as u8;
        return (bytes, 2);
    }
    bytes[1] = 126;
    bytes[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    (bytes, 4)
}

/// The same for a client, which masks `payload` with bytes drawn at random (RFC 6455 section
/// 5.3).
pub(super) fn masked_head(
    kind: Kind,
    payload: &mut [u8],
) -> Result<([u8; HEAD_SENT_MAX], u8), FramedError> {
    let (mut bytes, len) = plain_head(kind, payload.len());
    let mut mask = [0; 4];
    rand::fill(&mut mask).map_err(|_| {
        FramedError::Io(std::io::Error::other("the system gives no random numbers"))
    })?;
    apply(mask, payload);
    bytes[1] |= MASKED;
    bytes[usize::from(len)..usize::from(len) + 4].copy_from_slice(&mask);
    Ok((bytes, len + 4))
}

fn head(input: &[u8]) -> Result<Option<Head>, FramedError> {
    let [first, second, rest @ ..] = input else {
        return Ok(None);
    };
    let kind = match first & 0x0f {
        0 => Kind::Continuation,
        1 => return Err(FramedError::WebSocket("messages are binary, not text")),
        2 => Kind::Binary,
        8 => Kind::Close,
        9 => Kind::Ping,
        10 => Kind::Pong,
        _ => return Err(FramedError::WebSocket("a frame of an unknown kind")),
    };
    if first & 0x70 != 0 {
        return Err(FramedError::WebSocket("no extension was agreed on"));
    }
    let (len, extra) = match second & 0x7f {
        126 => (
            rest.first_chunk()
                .map(|b| u64::from(u16::from_be_bytes(*b))),
            2,
        ),
        127 => (rest.first_chunk().map(|b| u64::from_be_bytes(*b)), 8),
        len => (Some(len.into()), 0),
    };
    let Some(len) = len else {
        return Ok(None);
    };
    let mask = match second & MASKED {
        0 => None,
        _ => match rest[extra..].first_chunk() {
            Some(mask) => Some(*mask),
            None => return Ok(None),
        },
    };
    Ok(Some(Head {
        last: first & FINAL != 0,
        kind,
        mask,
        size: 2 + extra + if mask.is_some() { 4 } else { 0 },
        len: usize::try_from(len).unwrap_or(usize::MAX),
    }))
}

fn apply(mask: [u8; 4], payload: &mut [u8]) {
    for (byte, place) in payload.iter_mut().zip(0_usize..) {
        *byte ^= mask[place & 3];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASK: [u8; 4] = [1, 2, 3, 4];

    /// A frame of a client.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![first, MASKED | payload.len() as u8];
        bytes.extend(MASK);
        bytes.extend(payload.iter().zip(MASK.iter().cycle()).map(|(a, b)| a ^ b));
        bytes
    }

    fn whole(receiver: &mut Receiver, mut bytes: Vec<u8>) -> Result<Vec<u8>, FramedError> {
        let size = bytes.len();
        match receiver.next(&mut bytes)? {
            Some((taken, Piece::Unit(unit))) => {
                assert_eq!(taken, size);
                Ok(unit.to_vec())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_message_in_pieces_is_one_unit_with_control_frames_between() {
        let mut receiver = Receiver::new(Side::Server);
        let mut next = |bytes: Vec<u8>| {
            let mut bytes = bytes;
            let (_, piece) = receiver.next(&mut bytes).unwrap().unwrap();
            format!("{piece:?}")
        };
        assert_eq!(next(frame(0x02, b"ab")), "Nothing");
        assert_eq!(next(frame(0x89, b"hi")), "Ping([104, 105])");
        assert_eq!(next(frame(0x00, b"c")), "Nothing");
        assert_eq!(next(frame(0x80, b"d")), "Unit([97, 98, 99, 100])");
        assert_eq!(next(frame(0x82, b"e")), "Unit([101])");
    }

    #[test]
    fn a_frame_is_waited_for_byte_by_byte() {
        let bytes = frame(0x82, &[7; 100]);
        let mut receiver = Receiver::new(Side::Server);
        for len in 0..bytes.len() {
            assert!(receiver.next(&mut bytes[..len].to_vec()).unwrap().is_none());
        }
        assert_eq!(whole(&mut receiver, bytes).unwrap(), [7; 100]);
    }

    #[test]
    fn what_breaks_the_protocol_is_refused() {
        let long = |len: u16| [&[0x82, 0xfe][..], &len.to_be_bytes(), &MASK].concat();
        for (bytes, word) in [
            (vec![0x82, 1, 0], "masked"),
            (frame(0x81, b"text"), "text"),
            (frame(0x83, b"?"), "unknown"),
            (frame(0xc2, b"?"), "extension"),
            (frame(0x80, b"?"), "no message"),
            (frame(0x09, b"?"), "control"),
            (frame(0x82, b""), "no bytes"),
            (long(EVENT_LEN_MAX as u16 + 1), "at most"),
            (
                vec![
                    0x82, 0xff, 255, 255, 255, 255, 255, 255, 255, 255, 1, 2, 3, 4,
                ],
                "at most",
            ),
        ] {
            let mut bytes = bytes;
            let error = Receiver::new(Side::Server).next(&mut bytes).unwrap_err();
            assert!(error.to_string().contains(word), "{word}: {error}");
        }
        let error = Receiver::new(Side::Client)
            .next(&mut frame(0x82, b"?"))
            .unwrap_err();
        assert!(error.to_string().contains("masked"), "{error}");
    }

    #[test]
    fn many_pieces_are_no_way_around_the_limit() {
        let mut receiver = Receiver::new(Side::Server);
        let pieces = EVENT_LEN_MAX / 100 + 1;
        let refused = (0..pieces).find_map(|n| {
            let first = if n == 0 { 0x02 } else { 0x00 };
            receiver.next(&mut frame(first, &[0; 100])).err()
        });
        assert!(
            matches!(refused, Some(FramedError::Oversized(_))),
            "{refused:?}"
        );
    }

    #[test]
    fn what_a_client_sends_a_server_understands() {
        for len in [1, 125, 126, EVENT_LEN_MAX] {
            let unit: Vec<u8> = (0..len).map(|n| n as u8).collect();
            let mut masked = unit.clone();
            let (head, size) = masked_head(Kind::Binary, &mut masked).unwrap();
            let bytes = [&head[..size.into()], &masked].concat();
            assert_eq!(announced(&bytes[..8.min(bytes.len())]), Some(bytes.len()));
            assert_eq!(
                whole(&mut Receiver::new(Side::Server), bytes).unwrap(),
                unit
            );
            let (head, size) = plain_head(Kind::Binary, len);
            let bytes = [&head[..size.into()], &unit].concat();
            assert_eq!(
                whole(&mut Receiver::new(Side::Client), bytes).unwrap(),
                unit
            );
        }
    }
}
