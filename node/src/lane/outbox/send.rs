//! What leaves an outbox, by whichever way the link has.

use sangam_broker::{DropReason, LinkId};
use sangam_io::pool::Packet;
use sangam_io::udp::{Address, SendReport};

use super::super::Lane;
use super::super::link::Via;
use super::super::streams::End;
use super::{KINDS, Kind, Outbox, Pace};

impl Lane {
    /// Sends what waits for every link and is due; the rest stays for the next round.
    pub(in crate::lane) fn send_to_neighbours(&mut self) {
        if self.outboxes.is_empty() {
            return self.flush_ways();
        }
        self.send_to_groups();
        for index in 0..self.outboxes.links.len() {
            let link = LinkId(index as u16);
            let mut outbox = std::mem::take(&mut self.outboxes.links[index]);
            let waited = outbox.len();
            if waited > 0 {
                self.send_outbox(link, &mut outbox);
            }
            self.return_outbox(link, outbox, waited);
        }
        self.flush_ways();
    }

    /// Gives an outbox back that was taken when so much waited in it.
    pub(in crate::lane) fn return_outbox(
        &mut self,
        link: LinkId,
        mut outbox: Outbox,
        waited: usize,
    ) {
        self.outboxes.waiting -= waited - outbox.len();
        outbox.dropped += outbox.refused.len() as u64;
        for reason in outbox.refused.drain(..) {
            self.counters.dropped(reason);
        }
        self.outboxes.links[usize::from(link.0)] = outbox;
    }

    /// Writes what waits in connections.
    pub(in crate::lane) fn flush_ways(&mut self) {
        self.flush_quic();
        self.flush_streams();
    }

    fn send_outbox(&mut self, link: LinkId, outbox: &mut Outbox) {
        match self
            .links
            .get(link)
            .filter(|link| link.up)
            .map(|link| &link.via)
        {
            Some(Via::Quic(_)) => return self.send_by_quic(link, outbox.take()),
            Some(Via::Stream(_)) => return self.send_by_stream(link, outbox),
            Some(Via::Datagrams) | None => {}
        }
        for kind in KINDS {
            let due = outbox.due(kind, self.now);
            if !self.send_kind(link, outbox, (kind, due)) {
                return;
            }
        }
    }

    /// Sends what is due of one kind by datagrams; whether the next kind has its turn.
    pub(in crate::lane) fn send_kind(
        &mut self,
        link: LinkId,
        outbox: &mut Outbox,
        (kind, due): (Kind, usize),
    ) -> bool {
        let Some((socket, address, datagram_max)) = self.links.route_to(link) else {
            let lost = outbox.take().count() as u64;
            self.counters.dropped_many(DropReason::LinkDown, lost);
            return false;
        };
        if due == 0 {
            return true;
        }
        let packets = || outbox.first(kind, due);
        let sent = if packets().all(|packet| packet.len() <= datagram_max) {
            self.send_all(link, (socket, address), packets())
        } else {
            outbox.while_taken((kind, due), |packet| match packet.len() > datagram_max {
                true => self.send_in_pieces(link, packet),
                false => self.send_all(link, (socket, address), [packet]) == 1,
            })
        };
        outbox.sent(kind, sent, due);
        outbox.queues[kind as usize].is_empty()
    }

    /// Gives a stream what it takes, in the order of service.
    fn send_by_stream(&mut self, link: LinkId, outbox: &mut Outbox) {
        let end = self.links.get_mut(link).and_then(|link| link.stream_mut());
        let Some(framed) = end.and_then(End::framed) else {
            return;
        };
        let Pace::Taken(uptake, within) = &mut outbox.pace else {
            return;
        };
        uptake.look(self.now);
        let most = uptake.committed();
        let (mut packets, mut bytes) = (0, 0);
        for kind in KINDS {
            while (framed.queued().bytes as u64) < most
                && let Some((packet, _)) = outbox.queues[kind as usize].pop_front()
            {
                let len = packet.len() as u64;
                outbox.bytes[kind as usize] -= len;
                match framed.push(packet) {
                    Ok(()) => (packets, bytes) = (packets + 1, bytes + len),
                    Err(_) => outbox.refused.push(DropReason::SendBufferFull),
                }
            }
        }
        *within = framed.queued().bytes as u64;
        self.counters.relayed.packets.add(packets);
        self.counters.relayed.bytes.add(bytes);
        self.links.sent(link, self.now, (packets, bytes));
        self.has_to_write(link);
    }

    /// Sends packets in order; how many the kernel took or refused for good.
    fn send_all<'a>(
        &mut self,
        link: LinkId,
        (socket, to): (usize, Address),
        packets: impl IntoIterator<Item = &'a Packet>,
    ) -> usize {
        let mut count = 0;
        let batch = packets.into_iter().map(|packet| (to, &packet[..]));
        let batch = batch.inspect(|_| count += 1);
        let mut report = SendReport::default();
        self.sender.send(&self.sockets[socket], batch, &mut report);
        self.count_sent(link, &report);
        count - report.would_block as usize
    }

    /// Counts what has left for a link, and what never will.
    pub(in crate::lane) fn count_sent(&mut self, link: LinkId, report: &SendReport) {
        self.counters.relayed.packets.add(report.packets);
        self.counters.relayed.messages.add(report.messages);
        self.counters.relayed.bytes.add(report.bytes);
        self.counters
            .dropped_many(DropReason::SendError, report.errors);
        let sent = (report.packets, report.bytes);
        self.links.sent(link, self.now, sent);
    }
}
