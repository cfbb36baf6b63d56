//! Recent packets, to answer NACKs at the nearest broker.

use sangam_model::StreamId;

use sangam_model::hash;

/// A fixed number of recent packets, direct-mapped by stream and sequence.
///
/// Neighbouring sequences of a stream lie in neighbouring slots, so a stream overwrites itself
/// only after as many packets as there are slots; other streams may overwrite it sooner.
#[derive(Debug)]
pub struct PacketCache<T> {
    slots: Box<[Option<Entry<T>>]>,
}

#[derive(Debug)]
struct Entry<T> {
    stream: StreamId,
    sequence: u16,
    packet: T,
}

impl<T: Clone> PacketCache<T> {
    /// A cache of at least `slots` packets, rounded up to a power of two.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        let slots = slots.next_power_of_two();
        Self {
            slots: (0..slots).map(|_| None).collect(),
        }
    }

    /// Keeps a packet; what its slot held before is dropped. Never allocates.
    #[inline]
    pub fn insert(&mut self, stream: StreamId, sequence: u16, packet: T) {
        let at = self.at(stream, sequence);
        self.slots[at] = Some(Entry {
            stream,
            sequence,
            packet,
        });
    }

    /// The packet, if it is still here.
    #[inline]
    #[must_use]
    pub fn get(&self, stream: StreamId, sequence: u16) -> Option<T> {
        self.slots[self.at(stream, sequence)]
            .as_ref()
            .filter(|entry| entry.stream == stream && entry.sequence == sequence)
            .map(|entry| entry.packet.clone())
    }

    /// Drops every packet, for instance to give the pool its buffers back.
    pub fn clear(&mut self) {
        self.slots.fill_with(|| None);
    }

    fn at(&self, stream: StreamId, sequence: u16) -> usize {
        let base = hash::fold(stream.bits(), hash::KEY) as usize;
        base.wrapping_add(usize::from(sequence)) & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sangam_model::{BrokerId, Incarnation};

    const A: StreamId = StreamId::new(BrokerId(1), Incarnation(0), 1);
    const B: StreamId = StreamId::new(BrokerId(1), Incarnation(0), 2);

    #[test]
    fn a_stream_finds_its_last_packets_across_the_wrap() {
        let mut cache = PacketCache::new(64);
        for sequence in (0..100_u16).map(|i| i.wrapping_sub(50)) {
            cache.insert(A, sequence, sequence);
        }
        for sequence in 50 - 64..50_i32 {
            assert_eq!(cache.get(A, sequence as u16), Some(sequence as u16));
        }
        assert_eq!(cache.get(A, 50_u16.wrapping_sub(65)), None);
    }

    #[test]
    fn a_packet_of_another_stream_is_never_returned() {
        let mut cache = PacketCache::new(1);
        cache.insert(A, 7, "a");
        assert_eq!(cache.get(B, 7), None);
        cache.insert(B, 7, "b");
        assert_eq!(cache.get(A, 7), None);
        assert_eq!(cache.get(B, 7), Some("b"));
        cache.clear();
        assert_eq!(cache.get(B, 7), None);
    }
}
