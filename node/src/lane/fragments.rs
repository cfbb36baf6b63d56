//! Events that came, or have to leave, in pieces.

use sangam_broker::{DropReason, LinkId};
use sangam_io::pool::Packet;
use sangam_io::udp::SendReport;
use sangam_link::{ReassemblyCounters, fragment};
use sangam_wire::Header;

use super::Lane;
use super::ingest::{Source, may_send};

impl Lane {
    /// Takes a piece of an event that a neighbour had to split.
    pub(super) fn fragment(&mut self, id: LinkId, bytes: &[u8]) {
        let now = self.now;
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let mut whole = std::mem::take(&mut self.whole);
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
        let snapshot = self.snapshot.clone();
        let route = match snapshot.route(header.stream) {
            Some(route) => may_send(route, source).map(|()| route),
            None => Err(DropReason::UnknownStream),
        };
        let paid = route.and_then(|route| self.pay(header, route));
        if let Err(reason) = paid {
            return self.counters.dropped(reason);
        }
        let mut whole = std::mem::take(&mut self.whole);
        let before = *self.reassembler.counters();
        let joined = self
            .reassembler
            .push_of(owner(source), self.now, bytes, &mut whole);
        self.count_given_up(before, *self.reassembler.counters());
        match joined {
            Ok(true) => self.joined(header, &whole, source),
            Ok(false) => {}
            Err(_) => self.counters.dropped(DropReason::FragmentInvalid),
        }
        self.whole = whole;
    }

    /// Takes a client's event whose pieces were paid for, so that it is not.
    fn joined(&mut self, header: &Header, whole: &[u8], source: Source) {
        let index = self.snapshot.route(header.stream).map(|route| route.index);
        if let Some(index) = index {
            self.stream_state(index, header.stream).bucket.forgive();
        }
        self.event(whole, source);
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

    /// Sends an event that is larger than the link's datagrams. Whether it has left or never will;
    /// otherwise all of it is to be sent again, and who has some pieces already lets them go.
    pub(super) fn send_in_pieces(&mut self, id: LinkId, packet: &Packet) -> bool {
        let Some((socket, address, most)) = self.links.route_to(id) else {
            self.counters.dropped(DropReason::LinkDown);
            return true;
        };
        let Ok(mut pieces) = fragment(packet, most) else {
            self.counters.dropped(DropReason::MessageSize);
            return true;
        };
        let mut bytes = std::mem::take(&mut self.whole);
        let mut end = 0;
        loop {
            bytes.resize(end + most, 0);
            let Some(Ok(len)) = pieces.write_next(&mut bytes[end..]) else {
                break;
            };
            end += len;
        }
        // All but the last are as long as the datagrams, so that they leave as one message.
        let pieces = bytes[..end].chunks(most).map(|piece| (address, piece));
        let mut report = SendReport::default();
        self.sender.send(&self.sockets[socket], pieces, &mut report);
        self.count_sent(id, &report);
        self.whole = bytes;
        report.would_block == 0
    }
}

/// Who shares the room for pieces with the others: each address, and all that a shard's ports take
/// in, whose clients have no need of pieces.
fn owner(source: Source) -> u64 {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
    BuildHasherDefault::<DefaultHasher>::default().hash_one(source)
}

#[cfg(test)]
#[path = "fragments_tests.rs"]
mod tests;
