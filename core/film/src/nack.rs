//! Requests to send again, as RFC 4585 section 6.2.1 packs them.

use sangam_wire::feedback::Nack;
use sangam_wire::rtcp::{self, Target};

/// Items of one datagram.
const ITEMS: usize = 64;

/// Datagrams that ask for packets with these numbers, which are in order.
pub(crate) fn requests(target: Target, numbers: &[u16]) -> impl Iterator<Item = Vec<u8>> {
    let items = items(numbers);
    let parts: Vec<Vec<Nack>> = items.chunks(ITEMS).map(<[Nack]>::to_vec).collect();
    parts.into_iter().map(move |part| {
        let mut bytes = Vec::new();
        // RFC 3550 section 6.1: a compound begins with a report.
        rtcp::receiver_report(&mut bytes, target.sender, &[]);
        rtcp::nack(&mut bytes, target, &part);
        bytes
    })
}

fn items(numbers: &[u16]) -> Vec<Nack> {
    let mut all: Vec<Nack> = Vec::new();
    for number in numbers {
        if let Some(last) = all.last_mut()
            && let apart @ 1..=16 = number.wrapping_sub(last.first)
        {
            last.also |= 1 << (apart - 1);
            continue;
        }
        all.push(Nack {
            first: *number,
            also: 0,
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_packed_over_the_wrap() {
        let found = items(&[65_530, 65_535, 0, 10, 11, 40]);
        let sequences = found.iter().flat_map(|item| item.sequences());
        let sequences: Vec<u16> = sequences.collect();
        assert_eq!(sequences, [65_530, 65_535, 0, 10, 11, 40]);
        assert_eq!(found.len(), 3);
    }
}
