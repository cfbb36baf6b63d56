//! Sound for subscribers that prefer it redundant: each packet brings the one before it along
//! (RFC 2198), so that one that is lost on the way there is missed by nobody.

use std::sync::Arc;

use sangam_model::limits;
use sangam_wire::red::{self, BLOCK_LEN_MAX, Block, OFFSET_MAX};
use str0m::media::Pt;

use crate::item::Item;
use crate::rewrite::Place;

/// Bytes that stand around a payload: 12 of RTP, up to 40 of extensions, up to 16 of SRTP.
const AROUND: usize = 68;
/// Bytes of a payload with its redundancy that any path carries in one datagram.
const LEN_MAX: usize = limits::DATAGRAM_LEN_SAFE - AROUND;

/// What one medium towards a peer needs for it.
#[derive(Debug)]
pub(crate) struct Redundancy {
    /// Of the encoding that is made redundant.
    plain: Pt,
    /// Under which it goes then.
    red: Pt,
    /// The newest packet that was sent.
    last: Option<(Place, Arc<[u8]>)>,
}

/// A payload with the one before, as it was made for one receiver: most others want the same.
#[derive(Debug)]
pub(crate) struct Wrapped {
    plain: Pt,
    offset: u16,
    before: Arc<[u8]>,
    payload: Arc<[u8]>,
}

impl Redundancy {
    /// For an encoding, by its own payload type and that of RED around it.
    pub(crate) fn new(plain: Pt, red: Pt) -> Self {
        Self {
            plain,
            red,
            last: None,
        }
    }

    /// What is sent in place of a packet: its payload and the one before under a payload type of
    /// their own. `None` if it has to go alone: the one before was not sent right before it, lies
    /// too far back, or both are too long for a datagram.
    pub(crate) fn wrap(
        &mut self,
        pt: Pt,
        item: &mut Item,
        place: Place,
    ) -> Option<(Pt, Arc<[u8]>)> {
        if pt != self.plain {
            return None;
        }
        let newest = self.last.as_ref().map(|(last, _)| last.sequence);
        if newest.is_some_and(|newest| newest >= place.sequence) {
            return None;
        }
        let this = (place, Arc::clone(&item.payload));
        let (last, before) = self.last.replace(this)?;
        if last.sequence + 1 != place.sequence {
            return None;
        }
        let offset = place.timestamp.wrapping_sub(last.timestamp);
        let offset = u16::try_from(offset).ok()?;
        let recent = (1..=OFFSET_MAX).contains(&offset);
        if !recent || !(1..=BLOCK_LEN_MAX).contains(&before.len()) {
            return None;
        }
        let made = item.wrapped.take();
        let same = made.filter(|made| {
            (made.plain, made.offset) == (self.plain, offset) && Arc::ptr_eq(&made.before, &before)
        });
        let wrapped = match same {
            Some(same) => same,
            None => Wrapped::new(self.plain, (offset, before), &item.payload)?,
        };
        let payload = Arc::clone(&wrapped.payload);
        item.wrapped = Some(wrapped);
        Some((self.red, payload))
    }
}

impl Wrapped {
    fn new(plain: Pt, (offset, before): (u16, Arc<[u8]>), payload: &[u8]) -> Option<Self> {
        let block = Block {
            payload_type: *plain,
            offset,
            payload: &before,
        };
        let mut out = [0; LEN_MAX];
        let len = red::write(&[block], (*plain, payload), &mut out).ok()?;
        let payload = Arc::from(out.get(..len)?);
        Some(Self {
            plain,
            offset,
            before,
            payload,
        })
    }
}

#[cfg(test)]
mod tests {
    use sangam_model::StreamId;
    use sangam_wire::red::Payload;

    use super::*;

    fn item(payload: &[u8]) -> Item {
        Item {
            stream: StreamId::from_bits(1),
            layer: 0,
            begins: false,
            video: false,
            sequence: 0,
            timestamp: 0,
            marker: false,
            level: None,
            picture: None,
            wrapped: None,
            payload: payload.into(),
        }
    }

    fn place(sequence: u64, timestamp: u32) -> Place {
        Place {
            sequence,
            timestamp,
        }
    }

    fn opus() -> Redundancy {
        Redundancy::new(111.into(), 63.into())
    }

    #[test]
    fn a_packet_brings_the_one_before() {
        let (mut one, mut other) = (opus(), opus());
        let (mut first, mut second) = (item(b"first"), item(b"second"));
        for redundancy in [&mut one, &mut other] {
            let alone = redundancy.wrap(111.into(), &mut first, place(7, u32::MAX - 900));
            assert!(alone.is_none(), "there is none before");
        }
        let (pt, payload) = one.wrap(111.into(), &mut second, place(8, 59)).unwrap();
        assert_eq!(*pt, 63);
        let taken = Payload::decode(&payload).unwrap();
        assert_eq!((taken.payload_type, taken.primary), (111, &b"second"[..]));
        let before = taken.blocks().next().unwrap();
        assert_eq!((before.offset, before.payload), (960, &b"first"[..]));
        let (_, shared) = other.wrap(111.into(), &mut second, place(8, 59)).unwrap();
        assert!(Arc::ptr_eq(&payload, &shared), "it is made once");
        let mut stranger = Redundancy::new(96.into(), 97.into());
        stranger.wrap(96.into(), &mut first, place(1, 0));
        let (pt, own) = stranger
            .wrap(96.into(), &mut second, place(2, 960))
            .unwrap();
        assert_eq!((*pt, own[0]), (97, 0x80 | 96), "in its own numbers");
    }

    #[test]
    fn what_does_not_follow_goes_alone() {
        let mut redundancy = opus();
        let mut wrap = |pt: u8, (sequence, timestamp), payload: &[u8]| {
            let place = place(sequence, timestamp);
            let wrapped = redundancy.wrap(pt.into(), &mut item(payload), place);
            wrapped.is_some()
        };
        assert!(!wrap(111, (1, 0), b"x"));
        assert!(!wrap(111, (3, 1_920), b"x"), "one is missing");
        assert!(!wrap(111, (2, 960), b"x"), "that one comes late");
        assert!(wrap(111, (4, 2_880), b"x"), "and is not what came before");
        assert!(!wrap(0, (5, 3_840), b"x"), "another encoding");
        assert!(!wrap(111, (6, 4_800), b"x"));
        assert!(!wrap(111, (7, 4_800 + 0x4000), b"x"), "too long ago");
        assert!(!wrap(111, (8, 21_184), b"x"), "of the same time");
        assert!(wrap(111, (9, 22_144), b""));
        assert!(
            !wrap(111, (10, 23_104), b"x"),
            "nothing was in the one before"
        );
        assert!(wrap(111, (11, 24_064), &[0; BLOCK_LEN_MAX + 1]));
        assert!(!wrap(111, (12, 25_024), b"x"), "too long for a block");
        assert!(wrap(111, (13, 25_984), &[0; 600]));
        assert!(
            !wrap(111, (14, 26_944), &[0; 600]),
            "too long for a datagram"
        );
    }
}
