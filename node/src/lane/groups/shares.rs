//! Which of the events that are due on several links are the same.

use std::collections::HashMap;

use sangam_broker::LinkId;
use sangam_io::pool::Packet;

/// What is due at one moment, each event once. Its memory is used again.
#[derive(Default)]
pub(super) struct Shares {
    list: Vec<Share>,
    /// By where its bytes lie: clones of a packet share them.
    places: HashMap<usize, usize>,
}

/// An event and the links on which it is due.
pub(super) struct Share {
    pub(super) packet: Packet,
    pub(super) members: u64,
    /// Those that it has left for.
    pub(super) left: u64,
}

impl Shares {
    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.places.clear();
    }

    /// An event is due on a link.
    pub(super) fn add(&mut self, link: LinkId, packet: &Packet) {
        let (list, bit) = (&mut self.list, 1 << link.0);
        let at = *self.places.entry(place(packet)).or_insert_with(|| {
            list.push(Share {
                packet: packet.clone(),
                members: 0,
                left: 0,
            });
            list.len() - 1
        });
        list[at].members |= bit;
    }

    /// In the order in which they became due.
    pub(super) fn list(&mut self) -> &mut [Share] {
        &mut self.list
    }

    /// Whether an event has left for this link.
    pub(super) fn has_left(&self, link: LinkId, packet: &Packet) -> bool {
        let at = self.places.get(&place(packet));
        at.is_some_and(|at| self.list[*at].left & (1 << link.0) != 0)
    }
}

fn place(packet: &Packet) -> usize {
    packet.as_ptr() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use sangam_io::pool::Pool;

    #[test]
    fn clones_are_one_event_and_equal_bytes_are_not() {
        let pool = Pool::new(4, 1);
        let packet = |byte| pool.copy(&[byte; 20]).unwrap().freeze();
        let (shared, alone) = (packet(1), packet(1));
        let mut shares = Shares::default();
        for link in [LinkId(3), LinkId(5)] {
            shares.add(link, &shared.clone());
        }
        shares.add(LinkId(3), &alone);
        let members: Vec<u64> = shares.list().iter().map(|share| share.members).collect();
        assert_eq!(members, [1 << 3 | 1 << 5, 1 << 3]);
        shares.list()[0].left = 1 << 5;
        assert!(shares.has_left(LinkId(5), &shared));
        assert!(!shares.has_left(LinkId(3), &shared));
        assert!(!shares.has_left(LinkId(5), &alone));
    }
}
