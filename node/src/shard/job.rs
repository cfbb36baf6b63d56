//! A delivery under way: one burst, and how far down the lists it has come.

use sangam_io::pool::Packet;
use sangam_io::port::PeerKey;
use sangam_model::{Class, StreamId, Time, limits};
use sangam_wire::{Flags, Header};

use super::audience::{Removal, Stream};

/// Receivers served before the shard looks whether something more urgent waits: at about 1 us
/// for each packet, audio waits for a quarter of a millisecond behind single packets.
pub(crate) const SLICE: usize = 256;

/// One burst on its way to its receivers.
#[derive(Debug, Default)]
pub(crate) struct Job {
    stream: StreamId,
    burst: Vec<Packet>,
    /// When the lane took its first packet.
    since: Time,
    /// Whether its last packet is of a picture that goes on.
    unfinished: bool,
    /// The last packet was shorter than the first: it ends what one segmented send can carry.
    closed: bool,
    /// The port whose list is being served.
    pub(crate) port: usize,
    /// Where in that list the delivery began.
    first: usize,
    /// Where it stands.
    pub(crate) cursor: usize,
    /// It has passed the end of the list and began again at its front.
    wrapped: bool,
    begun: bool,
    /// Somebody has been served, or somebody's turn has come.
    under_way: bool,
}

impl Job {
    pub(crate) fn is_idle(&self) -> bool {
        self.burst.is_empty()
    }

    pub(crate) fn stream(&self) -> StreamId {
        self.stream
    }

    pub(crate) fn burst(&self) -> &[Packet] {
        &self.burst
    }

    /// Whether the burst is being delivered: nothing may join it any more.
    pub(crate) fn is_begun(&self) -> bool {
        self.under_way
    }

    /// Whether packets may still join that belong with these.
    pub(crate) fn may_linger(&self) -> bool {
        let has_room = !self.closed && self.burst.len() < limits::BURST_MAX;
        self.unfinished && has_room && !self.under_way
    }

    /// When the lane took the first packet.
    pub(crate) fn since(&self) -> Time {
        self.since
    }

    /// Whether an event of `stream` may join the burst before delivery starts: only what leaves
    /// as one segmented send does, so that a delivery cut short can be resumed in its middle.
    pub(crate) fn accepts(&self, stream: StreamId, len: usize) -> bool {
        let Some(first) = self.burst.first() else {
            return true;
        };
        let fits = self.burst.len() < limits::BURST_MAX && len <= first.len();
        self.stream == stream && fits && !self.closed
    }

    /// Adds a packet that the lane took at `at`.
    pub(crate) fn push(&mut self, header: &Header, at: Time, packet: Packet) {
        let first = self.burst.first();
        self.closed = first.is_some_and(|first| packet.len() < first.len());
        if first.is_none() {
            self.since = at;
        }
        self.stream = header.stream;
        self.unfinished = header.class == Class::Video && !header.flags.contains(Flags::FRAME_END);
        self.burst.push(packet);
    }

    /// Something else waits behind it: nothing will join.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    pub(crate) fn clear(&mut self) {
        self.burst.clear();
        self.closed = false;
        self.unfinished = false;
        self.under_way = false;
        self.port = 0;
        self.begun = false;
    }

    /// The receivers still to be served on the present port, or the next that has any: up to the
    /// end of the list, then those before the place where the delivery began.
    pub(crate) fn rest<'a>(&mut self, stream: &'a Stream, ports: usize) -> Option<&'a [PeerKey]> {
        self.under_way = true;
        while self.port < ports {
            let list = stream.peers(self.port);
            if !self.begun {
                self.first = stream.first(list.len());
                self.cursor = self.first;
                self.wrapped = false;
                self.begun = true;
            }
            let end = if self.wrapped { self.first } else { list.len() };
            match list.get(self.cursor..end) {
                Some(rest) if !rest.is_empty() => return Some(rest),
                _ if !self.wrapped => {
                    self.wrapped = true;
                    self.cursor = 0;
                }
                _ => {
                    self.port += 1;
                    self.begun = false;
                }
            }
        }
        None
    }

    /// Keeps the place when somebody in front of it left.
    pub(crate) fn follow(&mut self, removal: Removal) {
        let here = self.stream == removal.stream && self.port == removal.port;
        if !here || !self.begun {
            return;
        }
        if removal.index < self.cursor {
            self.cursor -= 1;
        }
        if removal.index < self.first {
            self.first -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use sangam_io::pool::Pool;
    use sangam_model::{BrokerId, Filter, Incarnation, MediaInfo, Topic};

    use super::*;
    use crate::shard::audience::{Audience, Subscriber};

    const STREAM: StreamId = StreamId::new(BrokerId(1), Incarnation(0), 1);

    fn audience(peers: PeerKey) -> Audience {
        let mut audience = Audience::new(1);
        let topic = Topic::new("a/b").unwrap();
        audience.add_stream(STREAM, topic, MediaInfo::data().into(), None);
        for peer in 0..peers {
            let who = Subscriber { port: 0, peer };
            audience.subscribe(who, &Filter::new("a/b").unwrap(), &mut Vec::new());
        }
        audience
    }

    fn job() -> Job {
        Job {
            stream: STREAM,
            ..Job::default()
        }
    }

    /// Whom a delivery reaches, `slice` at a time, in order; `leaver` goes after the first slice.
    fn deliver(audience: &mut Audience, slice: usize, leaver: Option<PeerKey>) -> Vec<PeerKey> {
        let (mut job, mut served, mut leaver) = (job(), Vec::new(), leaver);
        while let Some(rest) = job.rest(audience.stream(STREAM).unwrap(), 1) {
            let now = &rest[..rest.len().min(slice)];
            served.extend(now);
            job.cursor += now.len();
            if let Some(peer) = leaver.take() {
                audience.leave(Subscriber { port: 0, peer });
                audience.removals().for_each(|removal| job.follow(removal));
            }
        }
        served
    }

    /// A job with packets of these lengths of one video stream, the last with these flags.
    fn burst(lengths: &[usize], last: Flags) -> Job {
        let pool = Pool::new(lengths.len(), 0);
        let mut job = job();
        for (place, length) in lengths.iter().enumerate() {
            let header = Header {
                class: Class::Video,
                flags: if place + 1 < lengths.len() {
                    Flags::NONE
                } else {
                    last
                },
                stream: STREAM,
                sequence: place as u16,
                hop_limit: 1,
                layer: 0,
            };
            let packet = pool.copy(&vec![0; *length]).unwrap().freeze();
            assert!(job.accepts(STREAM, packet.len()));
            job.push(&header, Time::ZERO, packet);
        }
        job
    }

    #[test]
    fn only_a_picture_that_goes_on_is_waited_for() {
        assert!(!Job::default().may_linger());
        assert!(burst(&[9], Flags::NONE).may_linger());
        assert!(burst(&[9, 9], Flags::FRAME_START).may_linger());
        assert!(!burst(&[9, 9], Flags::FRAME_END).may_linger());
        assert!(!burst(&[9, 8], Flags::NONE).may_linger(), "none may join");
        let full = [9; limits::BURST_MAX];
        assert!(!burst(&full, Flags::NONE).may_linger());

        let mut closed = burst(&[9], Flags::NONE);
        closed.close();
        assert!(!closed.may_linger());

        let mut audience = audience(1);
        let mut begun = burst(&[9], Flags::NONE);
        audience.stream_mut(STREAM).unwrap().rotate();
        begun.rest(audience.stream(STREAM).unwrap(), 1);
        assert!(begun.is_begun() && !begun.may_linger());
        begun.clear();
        assert!(!begun.is_begun());
    }

    #[test]
    fn a_turn_moves_the_beginning_and_still_reaches_everybody_once() {
        let mut audience = audience(10);
        assert_eq!(deliver(&mut audience, 3, None), Vec::from_iter(0..10));
        audience.stream_mut(STREAM).unwrap().rotate();
        let turned = deliver(&mut audience, 3, None);
        assert_eq!(turned, [6, 7, 8, 9, 0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn whoever_leaves_during_a_delivery_costs_nobody_else_the_packet() {
        for leaver in 0..10 {
            let mut audience = audience(10);
            audience.stream_mut(STREAM).unwrap().rotate();
            let mut served = deliver(&mut audience, 3, Some(leaver));
            served.sort_unstable();
            served.retain(|peer| *peer != leaver);
            let others = (0..10).filter(|peer| *peer != leaver);
            assert_eq!(served, Vec::from_iter(others), "without {leaver}");
        }
    }
}
