//! Single packets for small audiences that wait for more of their kind, to share a system call.

use sangam_io::pool::Packet;
use sangam_io::udp::Address;

/// Messages that wait, at most: as many as one sendmmsg takes.
pub(super) const GATHERED_MAX: usize = 64;

/// Messages in order, and their packets.
///
/// A packet is held once for all of its destinations: its count lies in a cache line that the
/// other shards change at the same time.
#[derive(Default)]
pub(super) struct Gathered {
    /// Where to, and the packet's place in `packets`; places never decrease.
    messages: Vec<(Address, usize)>,
    packets: Vec<Packet>,
}

impl Gathered {
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Adds one packet for some destinations; the caller has made sure of room.
    pub(super) fn add(&mut self, packet: &Packet, to: impl IntoIterator<Item = Address>) {
        let (place, before) = (self.packets.len(), self.messages.len());
        self.messages.extend(to.into_iter().map(|to| (to, place)));
        if self.messages.len() > before {
            self.packets.push(packet.clone());
        }
    }

    /// All messages, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Address, &[u8])> {
        let message = |(to, place): &(Address, usize)| Some((*to, &self.packets.get(*place)?[..]));
        self.messages.iter().filter_map(message)
    }

    /// Forgets all messages but the last `left`.
    pub(super) fn keep_last(&mut self, left: usize) {
        if left == 0 {
            self.messages.clear();
            self.packets.clear();
            return;
        }
        let gone = self.messages.len().saturating_sub(left);
        self.messages.drain(..gone);
        let first = self.messages.first().map_or(0, |(_, place)| *place);
        self.packets.drain(..first);
        for (_, place) in &mut self.messages {
            *place -= first;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use sangam_io::pool::{PacketMut, Pool};

    use super::*;

    #[test]
    fn what_the_kernel_did_not_take_stays_in_order_with_its_packets() {
        let pool = Pool::new(4, 0);
        let packet = |byte: u8| pool.copy(&[byte]).map(PacketMut::freeze);
        let to = |port: u16| Address::from(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let mut gathered = Gathered::default();
        for (byte, ports) in [(1, 10..13), (2, 20..22), (3, 30..31)] {
            gathered.add(&packet(byte).expect("a buffer"), ports.map(to));
        }
        gathered.add(&packet(4).expect("a buffer"), []);
        assert_eq!(gathered.len(), 6);
        assert_eq!(pool.free().0, 1, "what goes nowhere is not held");
        gathered.keep_last(2);
        let left: Vec<_> = gathered.iter().collect();
        assert_eq!(left, [(to(21), &[2][..]), (to(30), &[3][..])]);
        assert_eq!(pool.free().0, 2, "the first packet went home");
        gathered.keep_last(0);
        assert!(gathered.is_empty());
        assert_eq!(pool.free().0, 4);
    }
}
