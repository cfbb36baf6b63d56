//! What waits for the neighbours: a short, bounded queue for each link, audio before the rest.

use sangam_broker::{DropReason, LinkId};
use sangam_io::pool::Packet;
use sangam_io::udp::{Address, SendReport};
use sangam_model::Class;

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
    refused: u64,
}

impl Outboxes {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Queues a packet; beyond the bound it is counted and dropped, bulk first.
    pub(super) fn push(&mut self, link: LinkId, class: Class, packet: Packet) {
        let index = usize::from(link.0);
        if index >= self.links.len() {
            self.links.resize_with(index + 1, Outbox::default);
        }
        let outbox = &mut self.links[index];
        let queue = match class {
            Class::Audio | Class::Rtcp | Class::Feedback => &mut outbox.urgent,
            Class::Video | Class::Data => &mut outbox.bulk,
        };
        if queue.len() < OUTBOX {
            queue.push(packet);
            self.waiting += 1;
        } else {
            outbox.refused += 1;
        }
    }
}

impl Lane {
    /// Sends what waits for every link; what the kernel does not take stays for the next round.
    pub(super) fn send_to_neighbours(&mut self) {
        if self.outboxes.is_empty() {
            return;
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
            self.counters
                .dropped_many(DropReason::SendBufferFull, outbox.refused);
            outbox.refused = 0;
            self.outboxes.links[index] = outbox;
        }
    }

    fn send_queue(&mut self, link: LinkId, queue: &mut Vec<Packet>) {
        let Some((socket, address, datagram_max)) = self.links.route_to(link) else {
            self.counters
                .dropped_many(DropReason::LinkDown, queue.len() as u64);
            return queue.clear();
        };
        if queue.iter().all(|packet| packet.len() <= datagram_max) {
            let sent = self.send_all(socket, address, queue);
            queue.drain(..sent);
            return;
        }
        for packet in queue.drain(..) {
            if packet.len() > datagram_max {
                self.send_in_pieces(link, &packet);
            } else {
                self.send_all(socket, address, std::slice::from_ref(&packet));
            }
        }
    }

    /// Sends packets in order; how many the kernel took or refused for good.
    pub(super) fn send_all(&mut self, socket: usize, to: Address, packets: &[Packet]) -> usize {
        let batch = packets.iter().map(|packet| (to, &packet[..]));
        let mut report = SendReport::default();
        self.sender.send(&self.sockets[socket], batch, &mut report);
        self.counters.relayed.packets.add(report.packets);
        self.counters.relayed.messages.add(report.messages);
        self.counters.relayed.bytes.add(report.bytes);
        self.counters
            .dropped_many(DropReason::SendError, report.errors);
        packets.len() - report.would_block as usize
    }
}
