//! Events that came, or have to leave, in pieces.

use sangam_broker::{DropReason, LinkId};
use sangam_io::pool::Packet;
use sangam_link::{ReassemblyCounters, fragment};
use sangam_wire::Header;

use super::Lane;
use super::ingest::{Source, may_send};

impl Lane {
    /// Takes a piece of an event that a neighbour had to split.
    pub(super) fn fragment(&mut self, id: LinkId, bytes: &[u8]) {
        let mut whole = std::mem::take(&mut self.whole);
        let now = self.now;
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let before = *link.reassembler.counters();
        let joined = link.reassembler.push(now, bytes, &mut whole);
        let after = *link.reassembler.counters();
        self.count_given_up(before, after);
        match joined {
            // The link has counted its pieces.
            Ok(true) => self.event_of(&whole, self.links.whose(id)),
            Ok(false) => {}
            Err(_) => self.counters.dropped(DropReason::FragmentInvalid),
        }
        self.whole = whole;
    }

    /// Takes a piece of an event that a client had to split.
    pub(super) fn fragment_of_client(&mut self, header: &Header, bytes: &[u8], source: Source) {
        // Strangers may not fill the room for pieces that all clients share.
        let route = self
            .snapshot
            .route(header.stream)
            .ok_or(DropReason::UnknownStream);
        if let Err(reason) = route.and_then(|route| may_send(route, source)) {
            return self.counters.dropped(reason);
        }
        let mut whole = std::mem::take(&mut self.whole);
        let before = *self.reassembler.counters();
        let joined = self.reassembler.push(self.now, bytes, &mut whole);
        self.count_given_up(before, *self.reassembler.counters());
        match joined {
            Ok(true) => self.event(&whole, source),
            Ok(false) => {}
            Err(_) => self.counters.dropped(DropReason::FragmentInvalid),
        }
        self.whole = whole;
    }

    /// Counts events that were given up as pieces are missing.
    fn count_given_up(&self, before: ReassemblyCounters, after: ReassemblyCounters) {
        let expired = after.expired - before.expired;
        let evicted = after.evicted - before.evicted;
        self.counters
            .dropped_many(DropReason::ReassemblyTimeout, expired);
        self.counters
            .dropped_many(DropReason::ReassemblyFull, evicted);
    }

    /// Sends an event that is larger than the link's datagrams.
    pub(super) fn send_in_pieces(&mut self, id: LinkId, packet: &Packet) {
        let Some((socket, address, most)) = self.links.route_to(id) else {
            return self.counters.dropped(DropReason::LinkDown);
        };
        let Ok(mut pieces) = fragment(packet, most) else {
            return self.counters.dropped(DropReason::MessageSize);
        };
        let mut bytes = std::mem::take(&mut self.whole);
        bytes.resize(most, 0);
        while let Some(Ok(len)) = pieces.write_next(&mut bytes) {
            self.send_bytes(socket, &bytes[..len], address);
            self.links.sent(id, 1, len as u64);
        }
        self.whole = bytes;
    }
}
