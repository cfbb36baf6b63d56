//! What waits for the neighbours: a bounded queue for each link, audio before data before video,
//! drained at the rate that the path bears.

mod send;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use sangam_broker::{Admit, DropReason, LinkId, Shedder};
use sangam_io::pool::Packet;
use sangam_link::{Pacer, RateController, Sample, Uptake};
use sangam_model::limits::{AUDIO_AGE_MAX, VIDEO_AGE_MAX};
use sangam_model::{Bitrate, Class, StreamId, Time};
use sangam_wire::Header;

use crate::broker::Queue;

/// Packets of a kind that may wait for a link.
const OUTBOX: usize = 2_048;
/// Video that would wait longer, as the path has become slower since it was queued, goes.
const STALE: Duration = VIDEO_AGE_MAX.saturating_mul(2);

/// What leaves first.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Urgent,
    Data,
    Video,
}

pub(super) const KINDS: [Kind; 3] = [Kind::Urgent, Kind::Data, Kind::Video];

/// One outbox for each link.
#[derive(Debug, Default)]
pub(super) struct Outboxes {
    links: Vec<Outbox>,
    waiting: usize,
}

#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// By [`Kind`]. `habits` go with video, to cut it where it hurts least; not with what is sent
    /// again.
    queues: [VecDeque<(Packet, Option<Shedder>)>; 3],
    /// Bytes in each.
    bytes: [u64; 3],
    /// Streams (and layers) that lost part of a frame here, and lose the rest until the next key
    /// frame.
    cut: HashMap<(StreamId, u8), Shedder>,
    refused: Vec<DropReason>,
    dropped: u64,
    pacer: Pacer,
    pace: Pace,
}

/// How the rate of a link is found.
#[derive(Debug, Default)]
pub(super) enum Pace {
    /// Not at all: the transport has a queue of its own, the link stays within the machine, or
    /// it is down.
    #[default]
    Free,
    /// From what the transport takes, and the bytes that wait in it already.
    Taken(Uptake, u64),
    /// From the first measurement on; before it hardly anything flows. With the round trip, if
    /// it is known.
    Begins(Option<Duration>),
    Controlled(Box<RateController>),
}

/// What writing to a stream has come to, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// The kernel took these.
    pub(super) bytes: u64,
    /// These wait in the stream.
    pub(super) waiting: u64,
    /// It takes no more now.
    pub(super) full: bool,
}

impl Outboxes {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// The link is up.
    pub(super) fn open(&mut self, link: LinkId, pace: Pace) {
        let outbox = self.outbox(link);
        outbox.pace = pace;
        outbox.pacer = Pacer::default();
        outbox.cut.clear();
        outbox.dropped = 0;
    }

    /// The link goes on by another way.
    pub(super) fn move_over(&mut self, link: LinkId, pace: Pace) {
        let outbox = self.outbox(link);
        outbox.pace = pace;
        outbox.pacer = Pacer::default();
    }

    /// Takes what was measured of a link.
    pub(super) fn sampled(&mut self, link: LinkId, now: Time, sample: Sample) {
        let outbox = self.outbox(link);
        if let Pace::Begins(rtt) = outbox.pace {
            let control = RateController::new(now, rtt.unwrap_or(sample.rtt));
            outbox.pace = Pace::Controlled(Box::new(control));
        }
        let Pace::Controlled(control) = &mut outbox.pace else {
            return;
        };
        control.handle(now, sample);
        let rate = control.rate();
        self.set_rate(link, now, rate);
    }

    /// The stream of a link has taken some bytes; how many the kernel is to keep of it.
    pub(super) fn taken(&mut self, link: LinkId, now: Time, taken: Taken) -> Option<u64> {
        let outbox = self.outbox(link);
        let Pace::Taken(uptake, within) = &mut outbox.pace else {
            return None;
        };
        uptake.took(now, taken.bytes, taken.full);
        *within = taken.waiting;
        let committed = uptake.committed();
        self.purge_stale(link);
        Some(committed)
    }

    /// A ping of a link has been without its answer for `age`.
    pub(super) fn overdue(&mut self, link: LinkId, now: Time, age: Duration) {
        let outbox = self.outbox(link);
        if let Pace::Controlled(control) = &mut outbox.pace {
            control.overdue(now, age);
            let rate = control.rate();
            self.set_rate(link, now, rate);
        }
    }

    /// From now on at this rate: video for which that is too slow goes.
    fn set_rate(&mut self, link: LinkId, now: Time, rate: Bitrate) {
        self.outbox(link).pacer.set_rate(now, rate);
        self.purge_stale(link);
    }

    fn purge_stale(&mut self, link: LinkId) {
        let outbox = self.outbox(link);
        if outbox.wait(Kind::Video) > STALE {
            let purged = outbox.purge();
            self.waiting -= purged;
        }
    }

    /// Queues a packet. Beyond the bounds it is counted and dropped: video by whole frames and
    /// higher layers first, and long before audio, which does not wait for it.
    ///
    /// `habits` has watched the stream, so it knows whether frames and key frames are marked.
    pub(super) fn push(&mut self, link: LinkId, packet: Packet, habits: Shedder) {
        self.queue(link, packet, Some(habits));
    }

    /// Queues what has left once already, if the link has room to spare; whether it has. Whatever
    /// becomes of it, the stream goes on as before.
    pub(super) fn push_again(&mut self, link: LinkId, packet: Packet) -> bool {
        self.queue(link, packet, None)
    }

    fn queue(&mut self, link: LinkId, packet: Packet, habits: Option<Shedder>) -> bool {
        let Ok(header) = packet.header() else {
            return false;
        };
        let outbox = self.outbox(link);
        let kind = Kind::of(header.class);
        if let Admit::Drop(reason) = outbox.admit(&header, kind, habits) {
            outbox.refused.push(reason);
            return false;
        }
        outbox.bytes[kind as usize] += packet.len() as u64;
        outbox.queues[kind as usize].push_back((packet, habits));
        self.waiting += 1;
        true
    }

    /// Forgets what was cut of streams that go to a link no more.
    pub(super) fn forget(&mut self, goes: impl Fn(StreamId, LinkId) -> bool) {
        for (link, outbox) in (0..).map(LinkId).zip(&mut self.links) {
            outbox.cut.retain(|(stream, _), _| goes(*stream, link));
        }
    }

    /// What waits for a link, its rate, and what it cost.
    pub(super) fn state(&self, link: LinkId) -> (Queue, Option<Bitrate>) {
        let Some(outbox) = self.links.get(usize::from(link.0)) else {
            return (Queue::default(), None);
        };
        let queue = Queue {
            packets: outbox.len() as u64,
            bytes: outbox.bytes.iter().sum(),
            time: outbox.wait(Kind::Video),
            dropped: outbox.dropped,
        };
        let rate = match &outbox.pace {
            Pace::Controlled(control) => Some(control.rate()),
            Pace::Taken(uptake, _) => Some(uptake.rate()),
            Pace::Free | Pace::Begins(_) => None,
        };
        (queue, rate)
    }

    /// Whether something waits for a link.
    pub(super) fn waits(&self, link: LinkId) -> bool {
        let outbox = self.links.get(usize::from(link.0));
        outbox.is_some_and(|outbox| outbox.len() > 0)
    }

    /// Takes out what waits for a link, until [`Lane::return_outbox`].
    pub(super) fn take(&mut self, link: LinkId) -> Outbox {
        std::mem::take(self.outbox(link))
    }

    fn outbox(&mut self, link: LinkId) -> &mut Outbox {
        let index = usize::from(link.0);
        if index >= self.links.len() {
            self.links.resize_with(index + 1, Outbox::default);
        }
        &mut self.links[index]
    }
}

impl Kind {
    fn of(class: Class) -> Self {
        match class {
            Class::Audio | Class::Rtcp | Class::Feedback => Self::Urgent,
            Class::Data => Self::Data,
            Class::Video => Self::Video,
        }
    }
}

impl Outbox {
    pub(super) fn len(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    /// How long a packet of this kind will wait, at the rate of now.
    fn wait(&self, kind: Kind) -> Duration {
        let before = self.bytes[..=kind as usize].iter().sum();
        match &self.pace {
            Pace::Taken(uptake, within) => uptake.rate().time_for(within + before),
            _ => self.pacer.time_for(before),
        }
    }

    fn admit(&mut self, header: &Header, kind: Kind, habits: Option<Shedder>) -> Admit {
        let full = self.queues[kind as usize].len() >= OUTBOX;
        let wait = self.wait(kind);
        match kind {
            Kind::Urgent if wait > AUDIO_AGE_MAX => {
                return Admit::Drop(DropReason::late(header.class));
            }
            Kind::Urgent | Kind::Data if full => return Admit::Drop(DropReason::SendBufferFull),
            Kind::Urgent | Kind::Data => return Admit::Deliver,
            Kind::Video => {}
        }
        // The second layer goes at two thirds of the wait, the third at half of it.
        let age = wait * (2 + u32::from(header.layer)) / 2;
        let key = (header.stream, header.layer);
        let Some(habits) = habits else {
            return match (full, self.cut.contains_key(&key)) {
                (true, _) => Admit::Drop(DropReason::SendBufferFull),
                (_, true) => Admit::Drop(DropReason::VideoShed),
                _ if age > VIDEO_AGE_MAX => Admit::Drop(DropReason::VideoLate),
                _ => Admit::Deliver,
            };
        };
        if full || age > VIDEO_AGE_MAX {
            self.cut.entry(key).or_insert(habits);
        }
        if self.cut.is_empty() {
            return Admit::Deliver;
        }
        let Some(shedder) = self.cut.get_mut(&key) else {
            return Admit::Deliver;
        };
        let admit = shedder.admit(header, age, full);
        if admit == Admit::Deliver && age <= VIDEO_AGE_MAX {
            // A frame that decodes by itself has begun, or none was cut: all is well again.
            self.cut.remove(&key);
        }
        admit
    }

    /// Takes out all that waits, in order.
    fn take(&mut self) -> impl Iterator<Item = Packet> + use<'_> {
        self.bytes = [0; 3];
        let queues = self.queues.iter_mut();
        queues.flat_map(|queue| queue.drain(..).map(|(packet, _)| packet))
    }

    /// Drops all video that waits; how much that was.
    fn purge(&mut self) -> usize {
        let queue = &mut self.queues[Kind::Video as usize];
        let count = queue.len();
        for (packet, habits) in queue.drain(..) {
            if let (Ok(header), Some(habits)) = (packet.header(), habits) {
                let cut = self.cut.entry((header.stream, header.layer));
                cut.or_insert(habits).admit(&header, Duration::ZERO, true);
            }
            self.refused.push(DropReason::VideoLate);
        }
        self.bytes[Kind::Video as usize] = 0;
        count
    }

    /// How many packets of a queue may leave now; they are paid for.
    pub(super) fn due(&mut self, kind: Kind, now: Time) -> usize {
        let mut count = 0;
        for (packet, _) in &self.queues[kind as usize] {
            let may = match kind {
                Kind::Urgent => self.pacer.may_borrow(now),
                Kind::Data | Kind::Video => self.pacer.may_send(now),
            };
            if !may {
                break;
            }
            self.pacer.spend(packet.len());
            count += 1;
        }
        count
    }

    /// The first packets of a kind.
    pub(super) fn first(&self, kind: Kind, count: usize) -> impl Iterator<Item = &Packet> {
        let queue = self.queues[kind as usize].iter();
        queue.take(count).map(|(packet, _)| packet)
    }

    /// Takes the first packets one by one, until `take` refuses one; how many it took.
    fn while_taken(
        &self,
        (kind, count): (Kind, usize),
        take: impl FnMut(&Packet) -> bool,
    ) -> usize {
        let mut take = take;
        let packets = self.first(kind, count);
        packets.take_while(|packet| take(packet)).count()
    }

    /// Of the packets up to `due` lets those go that have left by another way; how many.
    pub(super) fn let_go(
        &mut self,
        kind: Kind,
        due: usize,
        has_left: impl Fn(&Packet) -> bool,
    ) -> usize {
        let (queue, bytes) = (
            &mut self.queues[kind as usize],
            &mut self.bytes[kind as usize],
        );
        let mut left = 0;
        for _ in 0..due {
            // Each goes to the end in its turn, and so the order stays.
            let Some((packet, habits)) = queue.pop_front() else {
                break;
            };
            if has_left(&packet) {
                *bytes -= packet.len() as u64;
                left += 1;
            } else {
                queue.push_back((packet, habits));
            }
        }
        queue.rotate_right(due - left);
        left
    }

    /// Packets at the front have left; those behind up to `due` were paid for and have not.
    fn sent(&mut self, kind: Kind, sent: usize, due: usize) {
        let queue = &mut self.queues[kind as usize];
        for (packet, _) in queue.drain(..sent) {
            self.bytes[kind as usize] -= packet.len() as u64;
        }
        for (packet, _) in queue.iter().take(due - sent) {
            self.pacer.refund(packet.len());
        }
    }
}

#[cfg(test)]
#[path = "outbox_tests.rs"]
mod tests;
