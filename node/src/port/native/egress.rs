//! What leaves for native clients: copies, pieces, and single datagrams to groups.

use sangam_io::pool::Packet;
use sangam_io::port::{Context, Delivery, PeerKey};
use sangam_io::udp::{Address, SendReport};
use sangam_link::{Input, fragment};
use sangam_model::Time;
use sangam_model::limits::{BURST_MAX, EVENT_LEN_MAX};
use sangam_wire::Message;

use super::NativePort;
use super::gathered::GATHERED_MAX;
use super::groups::{Groups, Turn};

/// Peers up to which a single packet waits for others.
const SMALL_AUDIENCE: usize = 16;
/// Bytes of the scratch for pieces: those of the longest event, with room for their headers.
pub(super) const PIECES_LEN: usize = 2 * EVENT_LEN_MAX;

/// What a fan-out left over when the kernel took no more.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    /// Destinations, the last ones, that got nothing.
    destinations: usize,
    /// Packets, the last ones, that the destination before those still lacks.
    packets: usize,
}

impl Left {
    fn of(would_block: u64, burst: usize) -> Self {
        let (left, burst) = (would_block as usize, burst.max(1));
        Self {
            destinations: left / burst,
            packets: left % burst,
        }
    }
}

impl NativePort {
    /// Sends a burst to the group of its stream, if that has one, and to those who do not hear it.
    pub(super) fn by_group(
        &mut self,
        groups: &mut Groups,
        burst: &[Packet],
        peers: &[PeerKey],
        now: Time,
    ) -> Delivery {
        let Some(turn) = groups.turn(burst) else {
            return self.send_each(burst, peers);
        };
        let mut done = Delivery::default();
        if !turn.done {
            if !self.send_group(burst, turn, &mut done) {
                return done;
            }
            groups.sent(&turn, burst.len(), now);
        }
        let apart = groups.apart(turn.stream, peers);
        let each = self.send_each(burst, &apart);
        // The first who was not served, in the list that was given.
        let next = apart.get(each.peers);
        let served = next.and_then(|next| peers.iter().position(|peer| peer == next));
        groups.reuse(apart);
        Delivery {
            peers: served.unwrap_or(peers.len()),
            packets: done.packets + each.packets,
            messages: done.messages + each.messages,
            bytes: done.bytes + each.bytes,
            errors: done.errors + each.errors,
            peer_full: 0,
        }
    }

    /// Sends a burst to each of these peers.
    pub(super) fn send_each(&mut self, burst: &[Packet], peers: &[PeerKey]) -> Delivery {
        let mut done = Delivery::default();
        let longest = longest(burst);
        if longest <= usize::from(self.smallest) {
            done.peers = self.send_whole(burst, peers, &mut done);
            return done;
        }
        // In the order of the list, so that those who are served are its front. Who has a narrow
        // path costs the others the two calls between which its pieces leave, and no more.
        let mut rest = peers;
        while let Some((first, others)) = rest.split_first() {
            let takes = |key: &&PeerKey| usize::from(self.datagram_max[**key as usize]) >= longest;
            let wide = rest.iter().take_while(takes).count();
            if wide == 0 {
                let index = *first as usize;
                let path = (self.addresses[index], self.datagram_max[index]);
                if !self.in_pieces(burst, path, &mut done) {
                    return done;
                }
                done.peers += 1;
                rest = others;
                continue;
            }
            let (now, later) = rest.split_at(wide);
            let served = self.send_whole(burst, now, &mut done);
            done.peers += served;
            if served < wide {
                return done;
            }
            rest = later;
        }
        done
    }

    /// Sends a burst to peers whose paths take it; to how many from the front of the list.
    fn send_whole(&mut self, burst: &[Packet], peers: &[PeerKey], done: &mut Delivery) -> usize {
        if let [packet] = burst
            && peers.len() <= SMALL_AUDIENCE
        {
            if !self.has_room_for(peers.len(), done) {
                return 0;
            }
            let to = peers.iter().map(|key| self.addresses[*key as usize]);
            self.gathered.add(packet, to);
            return peers.len();
        }
        if !self.send_gathered(done) {
            return 0;
        }
        self.destinations.clear();
        self.destinations
            .extend(peers.iter().map(|key| self.addresses[*key as usize]));
        self.fan_out(burst, done)
    }

    /// Sends a burst to a group; `false` if the kernel takes no more now.
    fn send_group(&mut self, burst: &[Packet], turn: Turn, done: &mut Delivery) -> bool {
        if longest(burst) > usize::from(turn.datagram_max) {
            return self.in_pieces(burst, (turn.to, turn.datagram_max), done);
        }
        if let [packet] = burst {
            let room = self.has_room_for(1, done);
            if room {
                self.gathered.add(packet, [turn.to]);
            }
            return room;
        }
        if !self.send_gathered(done) {
            return false;
        }
        self.destinations.clear();
        self.destinations.push(turn.to);
        self.fan_out(burst, done) == 1
    }

    /// Sends a burst to all of `destinations`, nothing being gathered; how many of them have it.
    fn fan_out(&mut self, burst: &[Packet], done: &mut Delivery) -> usize {
        let mut slices: [&[u8]; BURST_MAX] = [&[]; BURST_MAX];
        for (slice, packet) in slices.iter_mut().zip(burst) {
            *slice = packet;
        }
        let slices = &slices[..burst.len().min(BURST_MAX)];
        let mut report = SendReport::default();
        self.fanout
            .send(&self.socket, slices, &self.destinations, &mut report);
        add(done, &report);
        let left = Left::of(report.would_block, slices.len());
        let served = self.destinations.len() - left.destinations;
        if let Some(begun) = served.checked_sub(1) {
            // Whoever has a part of it gets the rest, and nobody a part twice.
            let to = self.destinations[begun];
            for packet in &burst[slices.len() - left.packets..slices.len()] {
                self.gathered.add(packet, [to]);
            }
        }
        served
    }

    /// Whether so many single packets more can be gathered.
    fn has_room_for(&mut self, packets: usize, done: &mut Delivery) -> bool {
        GATHERED_MAX - self.gathered.len() >= packets || self.send_gathered(done)
    }

    /// Hands the kernel what was gathered; `false` while it does not take all of it.
    pub(super) fn send_gathered(&mut self, done: &mut Delivery) -> bool {
        if self.gathered.is_empty() {
            return true;
        }
        let mut report = SendReport::default();
        self.sender
            .send(&self.socket, self.gathered.iter(), &mut report);
        add(done, &report);
        let left = report.would_block as usize;
        self.gathered.keep_last(left);
        left == 0
    }

    /// Sends a burst where the path is too narrow for some of it; `false` if nothing of it left,
    /// as the kernel takes no more now.
    fn in_pieces(
        &mut self,
        burst: &[Packet],
        (to, most): (Address, u16),
        done: &mut Delivery,
    ) -> bool {
        // What was gathered may be of the same stream.
        if !self.send_gathered(done) {
            return false;
        }
        for (before, packet) in burst.iter().enumerate() {
            let mut report = SendReport::default();
            if packet.len() <= usize::from(most) {
                self.fanout
                    .send(&self.socket, &[packet], &[to], &mut report);
            } else {
                self.cut(packet, (to, most), &mut report);
            }
            add(done, &report);
            if report.would_block > 0 {
                if before == 0 && report.packets == 0 {
                    return false;
                }
                // What has left would leave again if the rest were tried later.
                done.errors += (burst.len() - before) as u64;
                return true;
            }
        }
        true
    }

    /// Sends the pieces of one packet, as many at once as one segmented message takes.
    fn cut(&mut self, packet: &Packet, (to, most): (Address, u16), report: &mut SendReport) {
        let most = usize::from(most);
        let Ok(mut pieces) = fragment(packet, most) else {
            report.errors += 1;
            return;
        };
        loop {
            let mut slices: [&[u8]; BURST_MAX] = [&[]; BURST_MAX];
            let (mut count, mut room) = (0, &mut self.pieces[..]);
            while count < BURST_MAX
                && room.len() >= most
                && let Some(Ok(len)) = pieces.write_next(room)
            {
                let (piece, rest) = room.split_at_mut(len);
                slices[count] = piece;
                (count, room) = (count + 1, rest);
            }
            self.fanout
                .send(&self.socket, &slices[..count], &[to], report);
            if count == 0 || report.would_block > 0 {
                return;
            }
        }
    }

    /// Keeps account of who gets which stream.
    pub(super) fn note(&mut self, key: PeerKey, message: &Message, now: Time) {
        let (Some(groups), Some(peer)) = (&mut self.groups, self.peers.get(key)) else {
            return;
        };
        match message {
            Message::Announce { stream, topic, .. } if peer.near => {
                let datagram_max = self.datagram_max[key as usize];
                groups.announced((key, datagram_max), (*stream, topic), now);
            }
            Message::Retire { stream } => groups.retired(key, *stream, now),
            _ => {}
        }
    }

    /// Tells clients what the groups have for them.
    pub(super) fn tell_of_groups(&mut self, cx: &mut Context<'_>) {
        while let Some((key, message)) = self.groups.as_mut().and_then(|groups| groups.message()) {
            if let Some(peer) = self.peers.get_mut(key) {
                peer.session.handle(cx.now, Input::Send(message));
                self.drain(key, cx);
            }
        }
    }

    /// Sends beacons and ends groups, when it is time.
    pub(super) fn look_after_groups(&mut self, cx: &mut Context<'_>) {
        let Some(groups) = &mut self.groups else {
            return;
        };
        if groups.deadline().is_some_and(|at| at <= cx.now) && groups.tick(cx.now) {
            let (fanout, socket) = (&mut self.fanout, &self.socket);
            let mut report = SendReport::default();
            groups.beacons(cx.now, |bytes, to| {
                fanout.send(socket, &[bytes], &[to], &mut report);
            });
        }
        self.tell_of_groups(cx);
    }
}

fn add(done: &mut Delivery, report: &SendReport) {
    done.packets += report.packets;
    done.messages += report.messages;
    done.bytes += report.bytes;
    done.errors += report.errors;
}

fn longest(burst: &[Packet]) -> usize {
    let lengths = burst.iter().map(|packet| packet.len());
    lengths.max().unwrap_or_default()
}

#[cfg(test)]
#[path = "egress_tests.rs"]
mod tests;
