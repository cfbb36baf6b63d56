//! Feedback that shards and the lane treat alike.

use sangam_broker::FeedbackOutput;
use sangam_io::pool::{Packet, Pool};
use sangam_model::{Class, limits};
use sangam_wire::feedback::Nack;
use sangam_wire::{Event, Extensions, Flags, Header};

/// Bytes of the longest feedback payload.
const PAYLOAD_MAX: usize = 16;

/// A feedback event in a buffer of its own; `None` if the pool is exhausted.
pub(crate) fn event(what: &FeedbackOutput, pool: &Pool) -> Option<Packet> {
    let mut payload = Vec::with_capacity(PAYLOAD_MAX);
    what.feedback.encode(&mut payload);
    let header = Header {
        class: Class::Feedback,
        flags: Flags::NONE,
        stream: what.stream,
        sequence: 0,
        // The tree is cut short at every hop by its own parent, so the count starts anew.
        hop_limit: limits::HOP_LIMIT,
        layer: what.layer,
    };
    let event = Event {
        header,
        extensions: Extensions::NONE,
        payload: &payload,
    };
    let mut packet = pool.take(event.encoded_len())?;
    event.write(&mut packet).ok()?;
    Some(packet.freeze())
}

/// Parts a NACK into packets that `find` has and a NACK for those it has not.
pub(crate) fn split(
    nack: Nack,
    find: impl Fn(u16) -> Option<Packet>,
) -> (Vec<Packet>, Option<Nack>) {
    let mut found = Vec::new();
    let mut missing: Option<Nack> = None;
    for sequence in sequences(nack) {
        match (find(sequence), &mut missing) {
            (Some(packet), _) => found.push(packet),
            (None, None) => {
                missing = Some(Nack {
                    first: sequence,
                    also: 0,
                })
            }
            (None, Some(nack)) => {
                nack.also |= 1 << (sequence.wrapping_sub(nack.first) - 1);
            }
        }
    }
    (found, missing)
}

/// The up to 17 sequence numbers of a NACK, in order.
pub(crate) fn sequences(nack: Nack) -> impl Iterator<Item = u16> {
    let also = (0..16).filter(move |bit| nack.also & (1 << bit) != 0);
    std::iter::once(nack.first).chain(also.map(move |bit| nack.first.wrapping_add(bit + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nack_splits_into_what_is_there_and_what_is_not() {
        let pool = Pool::new(4, 1);
        let have = pool.copy(&[7; 20]).unwrap().freeze();
        let nack = Nack {
            first: 65_535,
            also: 0b101,
        };
        assert_eq!(sequences(nack).collect::<Vec<_>>(), [65_535, 0, 2]);

        let (found, missing) = split(nack, |seq| (seq == 65_535).then(|| have.clone()));
        assert_eq!(found.len(), 1);
        assert_eq!(
            missing,
            Some(Nack {
                first: 0,
                also: 0b10
            })
        );

        let (_, missing) = split(nack, |_| Some(have.clone()));
        assert_eq!(missing, None);
    }
}
