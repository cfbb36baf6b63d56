//! Neighbours of one segment: what several of them receive leaves once, to a group of that set.
//!
//! Each link keeps its queue, its pace and its measurements: an event goes to a group only where
//! it is due at the same moment on the links of a whole set, and counts as sent on each of them.
//! Where it arrives it counts as received on the link, but proves no life: that is left to what
//! comes by the link itself, so that a link whose own datagrams are lost is noticed as ever.

mod ears;
mod penalty;
mod sets;
mod shares;

use std::net::SocketAddr;
use std::sync::Arc;

use sangam_broker::{DropReason, LinkId};
use sangam_io::poll::Poller;
use sangam_io::pool::Packet;
use sangam_io::udp::{SendReport, UdpSocket};
use sangam_link::{Sample, Session, fragment};
use sangam_model::{Class, Time};
use sangam_wire::{Flags, Frame, Header, Message, is_event};

use super::ingest::Source;
use super::outbox::{KINDS, Kind, Outbox};
use super::{BATCHES_PER_ROUND, Lane};
use crate::broker::StartError;
use crate::counters::Counters;
use crate::welcome::Greeting;
use ears::Ears;
use sets::{Sets, Turn};
use shares::{Share, Shares};

/// Both ends of the groups that neighbours of one segment have.
pub(crate) struct Groups {
    sets: Sets,
    ears: Ears,
    shares: Shares,
    /// Links of a segment while something is sent to them.
    near: Vec<Near>,
    /// What is to be sent once more, by the link itself.
    again: Vec<(LinkId, Packet)>,
    /// Something may have come to a group.
    pub(super) ready: bool,
}

/// A link with something to send.
struct Near {
    link: LinkId,
    outbox: Outbox,
    waited: usize,
    /// Of the kind whose turn it is.
    due: usize,
    /// Nothing of a kind before waits.
    open: bool,
}

impl Groups {
    /// `None` unless links share groups on a segment. At most `recent_max` events are kept to be
    /// sent again.
    ///
    /// # Errors
    /// [`StartError::Multicast`] with what to do.
    pub(crate) fn open(
        greeting: &Greeting,
        (sockets, recv_buffer): (&[UdpSocket], usize),
        recent_max: usize,
        counters: &Arc<Counters>,
    ) -> Result<Option<Box<Self>>, StartError> {
        let shared = |segment: &&Arc<crate::segment::Segment>| segment.config.links;
        let Some(segment) = greeting.segment.as_ref().filter(shared) else {
            return Ok(None);
        };
        let families = sockets.iter().map(|socket| segment.prepare_links(socket));
        let families = families.collect::<Result<Vec<_>, _>>()?;
        let port = segment.config.port;
        let ears = Ears::new(port, segment.index(), recv_buffer)?;
        let broker = (greeting.broker, greeting.incarnation);
        Ok(Some(Box::new(Self {
            sets: Sets::new(broker, (families, port), recent_max, counters.clone()),
            ears,
            shares: Shares::default(),
            near: Vec::new(),
            again: Vec::new(),
            ready: false,
        })))
    }

    /// Readable when something has come.
    pub(super) fn poller(&self) -> &Poller {
        self.ears.poller()
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let deadlines = [self.sets.deadline(), self.ears.deadline()];
        deadlines.into_iter().flatten().min()
    }
}

impl Lane {
    /// Takes what has come to groups; whether there may be more. To be called before what has
    /// come by links: a ping counts what left before it.
    pub(super) fn receive_groups(&mut self) -> bool {
        let Some(mut groups) = self.groups.take() else {
            return false;
        };
        if groups.ready || self.ready != 0 {
            groups.ready = self.read_ears(&mut groups.ears);
        }
        let more = groups.ready;
        self.groups = Some(groups);
        more
    }

    /// Sends what neighbours of a segment share to their groups, and the rest to each.
    pub(super) fn send_to_groups(&mut self) {
        let Some(mut groups) = self.groups.take() else {
            return;
        };
        for socket in 0..self.sockets.len() {
            self.take_near(socket, &mut groups.near);
            for kind in KINDS {
                self.send_shared(&mut groups, socket, kind);
            }
            for near in groups.near.drain(..) {
                self.return_outbox(near.link, near.outbox, near.waited);
            }
        }
        // No buffer of the pool is held until something is sent again.
        groups.shares.clear();
        self.send_again(&mut groups);
        self.groups = Some(groups);
    }

    /// Sends beacons and messages that are due, and notices groups that have fallen silent.
    pub(super) fn run_groups(&mut self) {
        let now = self.now;
        let due = |groups: &Groups| groups.deadline().is_some_and(|at| at <= now);
        let Some(mut groups) = self.groups.take_if(|groups| due(groups)) else {
            return;
        };
        groups.sets.tick(now, |bytes, socket, to| {
            self.send_bytes(socket, bytes, to);
        });
        if groups.ears.deadline().is_some_and(|at| at <= now) {
            groups.ready = self.read_ears(&mut groups.ears);
            groups.ears.expire(now, |link| {
                let session = self.links.get(link).and_then(|link| link.session());
                session.is_some_and(|session| !Session::is_suspect(session))
            });
        }
        let mut told = Vec::new();
        told.extend(std::iter::from_fn(|| groups.sets.message()));
        told.extend(std::iter::from_fn(|| groups.ears.message()));
        self.groups = Some(groups);
        for (link, message) in told {
            self.links.send(link, message, now);
            self.drain_link(link);
        }
    }

    /// A neighbour tells of a group, or of what it hears.
    pub(super) fn group_message(&mut self, link: LinkId, message: &Message) {
        let known = self.links.get(link).filter(|link| link.up && link.near);
        let Some(from) = known.map(|link| link.address) else {
            return self.counters.dropped(DropReason::ControlUnexpected);
        };
        let Some(mut groups) = self.groups.take() else {
            return self.counters.dropped(DropReason::ControlUnexpected);
        };
        match *message {
            Message::Group {
                stream: name,
                group: Some(group),
            } => {
                let joined = groups.ears.join((link, from), (name, group));
                if let Err(error) = joined {
                    tracing::info!(neighbour = %from, %error, "no group is joined");
                }
            }
            Message::Group { stream: name, .. } => groups.ears.leave(link, name),
            Message::Hearing { stream, hears } => {
                let again = &mut groups.again;
                let again = |link, packet| again.push((link, packet));
                let said = (link, stream, hears);
                groups.sets.hearing(said, self.now, again);
                self.send_again(&mut groups);
            }
            _ => {}
        }
        self.groups = Some(groups);
    }

    /// A ping of a link was answered.
    pub(super) fn judge_groups(&mut self, link: LinkId, sample: &Sample) {
        let Some(mut groups) = self.groups.take() else {
            return;
        };
        let again = &mut groups.again;
        let again = |link, packet| again.push((link, packet));
        let said = (link, sample.packets, sample.lost);
        groups.sets.sampled(said, self.now, again);
        self.send_again(&mut groups);
        self.groups = Some(groups);
    }

    /// A link goes by another way now, which nobody else hears.
    pub(super) fn move_from_groups(&mut self, link: LinkId) {
        let Some(mut groups) = self.groups.take() else {
            return;
        };
        let again = &mut groups.again;
        let again = |link, packet| again.push((link, packet));
        groups.sets.moved(link, again);
        groups.ears.gone(link);
        self.send_again(&mut groups);
        self.groups = Some(groups);
    }

    /// A link is down: both ends forget the groups of it.
    pub(super) fn leave_groups(&mut self, link: LinkId) {
        if let Some(groups) = &mut self.groups {
            groups.sets.gone(link);
            groups.ears.gone(link);
        }
    }

    fn send_again(&mut self, groups: &mut Groups) {
        for (link, packet) in groups.again.drain(..) {
            self.outboxes.push_again(link, packet);
        }
    }

    fn read_ears(&mut self, ears: &mut Ears) -> bool {
        let mut more = false;
        for at in 0.. {
            let mut full = false;
            for _ in 0..BATCHES_PER_ROUND {
                let Some(mut batch) = self.batch.take() else {
                    return false;
                };
                let got = ears.read(at, &mut batch);
                let got = match got {
                    Some(Ok(got)) => got,
                    Some(Err(error)) => {
                        tracing::warn!(%error, "receiving from groups failed");
                        0
                    }
                    None => {
                        self.batch = Some(batch);
                        return more;
                    }
                };
                for datagram in batch.datagrams() {
                    self.by_group(ears, datagram.bytes, datagram.source);
                }
                full = got == batch.capacity();
                self.batch = Some(batch);
                if !full {
                    break;
                }
            }
            more |= full;
        }
        more
    }

    /// Takes one datagram that came to a group: an event, or a beacon. No other frame is believed.
    fn by_group(&mut self, ears: &mut Ears, bytes: &[u8], from: SocketAddr) {
        let Some(way) = self.links.by_address(from) else {
            return self.counters.dropped(DropReason::UnknownPeer);
        };
        let link = self.links.whose(way);
        match bytes.first().copied().and_then(is_event) {
            Some(true) if ears.hears(link) => self.event_by_group(bytes, way),
            Some(true) => self.counters.link_groups.ignored.add(1),
            Some(false) => match Frame::decode(bytes) {
                Ok(Frame::Beacon { stream }) => {
                    // Of a group that was left meanwhile it is no fault.
                    ears.beacon(link, stream, self.now);
                }
                Ok(_) => self.counters.dropped(DropReason::UnknownFrame),
                Err(error) => self.malformed(error),
            },
            None => self.counters.dropped(DropReason::Version),
        }
    }

    fn event_by_group(&mut self, bytes: &[u8], way: LinkId) {
        let header = match Header::decode(bytes) {
            Ok(header) => header,
            Err(error) => return self.malformed(error),
        };
        if header.class == Class::Feedback {
            return self.counters.dropped(DropReason::ControlUnexpected);
        }
        let Some(link) = self.links.received_by_group(way, bytes.len()) else {
            return self.counters.dropped(DropReason::LinkDown);
        };
        self.counters.link_groups.received.add(1);
        if header.flags.contains(Flags::FRAGMENT) {
            return self.fragment(way, bytes);
        }
        self.take_event(&header, bytes, Source::Link(link));
    }

    /// Takes out the outboxes of links that may have groups, if several of them have something.
    fn take_near(&mut self, socket: usize, near: &mut Vec<Near>) {
        let may = |link: &super::link::Link| link.may_share(socket);
        let is = |id: &LinkId| self.links.get(*id).is_some_and(may) && self.outboxes.waits(*id);
        let ids = || self.links.ids().filter(is);
        if ids().nth(1).is_none() {
            return;
        }
        let mut which = 0_u64;
        ids().for_each(|id| which |= 1 << id.0);
        for link in sets::links(which) {
            let outbox = self.outboxes.take(link);
            near.push(Near {
                link,
                waited: outbox.len(),
                outbox,
                due: 0,
                open: true,
            });
        }
    }

    /// Sends what is due of one kind.
    fn send_shared(&mut self, groups: &mut Groups, socket: usize, kind: Kind) {
        groups.shares.clear();
        for near in groups.near.iter_mut().filter(|near| near.open) {
            near.due = near.outbox.due(kind, self.now);
            for packet in near.outbox.first(kind, near.due) {
                groups.shares.add(near.link, packet);
            }
        }
        self.send_by_groups(groups, socket);
        let shares = &groups.shares;
        for near in groups.near.iter_mut().filter(|near| near.open) {
            let Near { link, outbox, .. } = near;
            let left = outbox.let_go(kind, near.due, |packet| shares.has_left(*link, packet));
            near.open = self.send_kind(*link, outbox, (kind, near.due - left));
        }
    }

    fn send_by_groups(&mut self, groups: &mut Groups, socket: usize) {
        let Groups {
            sets,
            shares,
            again,
            ..
        } = groups;
        let mut rest = shares.list();
        while let Some(members) = rest.first().map(|share| share.members) {
            let run = rest.iter().take_while(|share| share.members == members);
            let (burst, behind) = rest.split_at_mut(run.count());
            rest = behind;
            if members.count_ones() < 2 {
                continue;
            }
            let Some(turn) = sets.turn((socket, members), burst.len(), self.now) else {
                continue;
            };
            let Some(left) = self.send_burst(socket, &turn, burst) else {
                let again = |link, packet| again.push((link, packet));
                sets.failed(turn.name, self.now, again);
                continue;
            };
            for share in &mut burst[..left] {
                share.left = turn.hear;
                sets.sent(&turn, &share.packet, self.now);
            }
        }
    }

    /// How many events of a burst have left for a group; `None` if the kernel refuses it.
    fn send_burst(&mut self, socket: usize, turn: &Turn, burst: &[Share]) -> Option<usize> {
        let routes = sets::links(turn.hear).filter_map(|link| self.links.route_to(link));
        let most = routes.map(|(_, _, most)| most).min()?;
        let mut report = SendReport::default();
        let mut left = 0;
        for run in burst.chunk_by(|a, b| a.packet.len() <= most && b.packet.len() <= most) {
            let before = report.would_block;
            if run[0].packet.len() <= most {
                let packets = run.iter().map(|share| (turn.to, &share.packet[..]));
                self.sender
                    .send(&self.sockets[socket], packets, &mut report);
            } else {
                self.send_pieces((socket, turn), (&run[0].packet, most), &mut report);
            }
            let blocked = (report.would_block - before) as usize;
            left += run.len().saturating_sub(blocked);
            if blocked > 0 {
                break;
            }
        }
        self.counters.relayed.packets.add(report.packets);
        self.counters.relayed.messages.add(report.messages);
        self.counters.relayed.bytes.add(report.bytes);
        for link in sets::links(turn.hear) {
            let sent = (report.packets, report.bytes);
            self.links.sent_by_group(link, self.now, sent);
        }
        (report.errors == 0).then_some(left)
    }

    /// Sends an event that is larger than the datagrams of a group.
    fn send_pieces(
        &mut self,
        (socket, turn): (usize, &Turn),
        (packet, most): (&Packet, usize),
        report: &mut SendReport,
    ) {
        let Ok(mut pieces) = fragment(packet, most) else {
            return self.counters.dropped(DropReason::MessageSize);
        };
        let mut bytes = std::mem::take(&mut self.whole);
        bytes.resize(most, 0);
        while let Some(Ok(len)) = pieces.write_next(&mut bytes) {
            let piece = [(turn.to, &bytes[..len])];
            self.sender.send(&self.sockets[socket], piece, report);
        }
        self.whole = bytes;
    }
}
