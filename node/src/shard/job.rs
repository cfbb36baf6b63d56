//! A delivery under way: one burst, and how far down the lists it has come.

use sangam_io::pool::Packet;
use sangam_io::port::PeerKey;
use sangam_model::{StreamId, limits};

use super::audience::{Removal, Stream};

/// Receivers served before the shard looks whether something more urgent waits: at about 1 us
/// for each packet, audio waits for a quarter of a millisecond behind single packets.
pub(crate) const SLICE: usize = 256;

/// One burst on its way to its receivers.
#[derive(Debug, Default)]
pub(crate) struct Job {
    stream: StreamId,
    burst: Vec<Packet>,
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

    /// Whether an event of `stream` may join the burst before delivery starts: only what leaves
    /// as one segmented send does, so that a delivery cut short can be resumed in its middle.
    pub(crate) fn accepts(&self, stream: StreamId, len: usize) -> bool {
        let Some(first) = self.burst.first() else {
            return true;
        };
        let fits = self.burst.len() < limits::BURST_MAX && len <= first.len();
        self.stream == stream && fits && !self.closed
    }

    pub(crate) fn push(&mut self, stream: StreamId, packet: Packet) {
        self.stream = stream;
        self.closed = self
            .burst
            .first()
            .is_some_and(|first| packet.len() < first.len());
        self.burst.push(packet);
    }

    pub(crate) fn clear(&mut self) {
        self.burst.clear();
        self.closed = false;
        self.port = 0;
        self.begun = false;
    }

    /// The receivers still to be served on the present port, or the next that has any: up to the
    /// end of the list, then those before the place where the delivery began.
    pub(crate) fn rest<'a>(&mut self, stream: &'a Stream, ports: usize) -> Option<&'a [PeerKey]> {
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
