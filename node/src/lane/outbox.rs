//! What waits for the neighbours: a short, bounded queue for each link, audio before the rest.

use std::collections::HashMap;
use std::time::Duration;

use sangam_broker::{Admit, DropReason, LinkId, Shedder};
use sangam_io::pool::Packet;
use sangam_io::udp::{Address, SendReport};
use sangam_model::{Class, StreamId};
use sangam_wire::Header;

use super::Lane;

/// Packets that may wait for a link when the kernel takes no more.
const OUTBOX: usize = 2_048;

/// Two queues for each link.
#[derive(Debug, Default)]
pub(super) struct Outboxes {
    links: Vec<Outbox>,
    waiting: usize,
}

#[derive(Debug, Default)]
struct Outbox {
    urgent: Vec<Packet>,
    bulk: Vec<Packet>,
    /// Streams that lost part of a frame here, and lose the rest until the next key frame.
    cut: HashMap<StreamId, Shedder>,
    refused: Vec<DropReason>,
}

impl Outboxes {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Queues a packet. Beyond the bound it is counted and dropped: video by whole frames, and
    /// before audio, as that has a queue of its own.
    ///
    /// `habits` has watched the stream, so it knows whether frames and key frames are marked.
    pub(super) fn push(&mut self, link: LinkId, packet: Packet, habits: Shedder) {
        let Ok(header) = packet.header() else { return };
        let index = usize::from(link.0);
        if index >= self.links.len() {
            self.links.resize_with(index + 1, Outbox::default);
        }
        let outbox = &mut self.links[index];
        if let Admit::Drop(reason) = outbox.admit(&header, habits) {
            outbox.refused.push(reason);
            return;
        }
        match header.class {
            Class::Audio | Class::Rtcp | Class::Feedback => outbox.urgent.push(packet),
            Class::Video | Class::Data => outbox.bulk.push(packet),
        }
        self.waiting += 1;
    }
}

impl Outbox {
    fn admit(&mut self, header: &Header, habits: Shedder) -> Admit {
        let full = match header.class {
            Class::Audio | Class::Rtcp | Class::Feedback => self.urgent.len() >= OUTBOX,
            Class::Video | Class::Data => self.bulk.len() >= OUTBOX,
        };
        if header.class != Class::Video {
            return if full {
                Admit::Drop(DropReason::SendBufferFull)
            } else {
                Admit::Deliver
            };
        }
        if full {
            self.cut.entry(header.stream).or_insert(habits);
        }
        let Some(shedder) = self.cut.get_mut(&header.stream) else {
            return Admit::Deliver;
        };
        let admit = shedder.admit(header, Duration::ZERO, full);
        if admit == Admit::Deliver {
            // A frame that decodes by itself has begun: all is well again.
            self.cut.remove(&header.stream);
        }
        admit
    }
}

impl Lane {
    /// Sends what waits for every link; what the kernel does not take stays for the next round.
    pub(super) fn send_to_neighbours(&mut self) {
        if self.outboxes.is_empty() {
            return self.flush_quic();
        }
        for index in 0..self.outboxes.links.len() {
            let mut outbox = std::mem::take(&mut self.outboxes.links[index]);
            let waited = outbox.urgent.len() + outbox.bulk.len();
            if waited > 0 {
                self.send_queue(LinkId(index as u16), &mut outbox.urgent);
                if outbox.urgent.is_empty() {
                    self.send_queue(LinkId(index as u16), &mut outbox.bulk);
                }
            }
            self.outboxes.waiting -= waited - outbox.urgent.len() - outbox.bulk.len();
            for reason in outbox.refused.drain(..) {
                self.counters.dropped(reason);
            }
            self.outboxes.links[index] = outbox;
        }
        self.flush_quic();
    }

    fn send_queue(&mut self, link: LinkId, queue: &mut Vec<Packet>) {
        if self.links.get(link).is_some_and(|link| link.quic.is_some()) {
            return self.send_by_quic(link, queue);
        }
        let Some((socket, address, datagram_max)) = self.links.route_to(link) else {
            self.counters
                .dropped_many(DropReason::LinkDown, queue.len() as u64);
            return queue.clear();
        };
        if queue.iter().all(|packet| packet.len() <= datagram_max) {
            let sent = self.send_all(link, (socket, address), queue);
            queue.drain(..sent);
            return;
        }
        for packet in queue.drain(..) {
            if packet.len() > datagram_max {
                self.send_in_pieces(link, &packet);
            } else {
                self.send_all(link, (socket, address), std::slice::from_ref(&packet));
            }
        }
    }

    /// Sends packets in order; how many the kernel took or refused for good.
    fn send_all(&mut self, link: LinkId, way: (usize, Address), packets: &[Packet]) -> usize {
        let (socket, to) = way;
        let batch = packets.iter().map(|packet| (to, &packet[..]));
        let mut report = SendReport::default();
        self.sender.send(&self.sockets[socket], batch, &mut report);
        self.counters.relayed.packets.add(report.packets);
        self.counters.relayed.messages.add(report.messages);
        self.counters.relayed.bytes.add(report.bytes);
        self.counters
            .dropped_many(DropReason::SendError, report.errors);
        self.links.sent(link, report.packets, report.bytes);
        packets.len() - report.would_block as usize
    }
}
