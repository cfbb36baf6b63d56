//! Feedback that shards and the lane treat alike.

use sangam_broker::FeedbackOutput;
use sangam_io::pool::{Packet, Pool};
use sangam_io::port;
use sangam_wire::feedback::Nack;

/// A feedback event that begins here, in a buffer of its own; `None` if the pool is exhausted.
pub(crate) fn event(what: &FeedbackOutput, pool: &Pool) -> Option<Packet> {
    port::feedback((what.stream, what.layer), &what.feedback, pool)
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
