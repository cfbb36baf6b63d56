//! Many participants: their timers, how many join at a time, and what they have to send.

use sangam_io::timer::Wheel;
use sangam_io::udp::Address;
use sangam_model::Time;
use sangam_wire::Frame;

use super::peer::{Peer, Spec, Standing};

/// Participants that are between hello and answer at a time: a crowd that comes in by the door
/// and not all at once.
const JOINING_MAX: usize = 256;

/// A datagram of one participant.
pub(super) struct Outbound {
    /// Whose.
    pub(super) peer: usize,
    /// Where to.
    pub(super) to: Address,
    /// The frame.
    pub(super) bytes: Vec<u8>,
}

/// A thread's participants, by number within their region.
pub(super) struct Peers {
    list: Vec<Peer>,
    wheel: Wheel<u32>,
    /// The next that has not begun.
    next: usize,
    joining: usize,
    ready: usize,
    refused: usize,
    controls: u64,
    outbox: Vec<Outbound>,
    due: Vec<u32>,
}

impl Peers {
    /// Nobody yet.
    pub(super) fn new(now: Time) -> Self {
        Self {
            list: Vec::new(),
            wheel: Wheel::new(now),
            next: 0,
            joining: 0,
            ready: 0,
            refused: 0,
            controls: 0,
            outbox: Vec::new(),
            due: Vec::new(),
        }
    }

    /// Adds a participant, who joins when it is his turn.
    pub(super) fn add(&mut self, spec: Spec, seed: u64) {
        self.list.push(Peer::new(spec, seed));
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// How many have what they came for.
    pub(super) fn ready(&self) -> usize {
        self.ready
    }

    /// How many the broker refused.
    pub(super) fn refused(&self) -> usize {
        self.refused
    }

    /// Frames with control messages that came, all together.
    pub(super) fn controls(&self) -> u64 {
        self.controls
    }

    /// How many know of a stream. Walks the list: to be asked for now and then.
    pub(super) fn announced(&self) -> u64 {
        self.list.iter().filter(|peer| peer.announced > 0).count() as u64
    }

    /// How many links died, all together.
    pub(super) fn deaths(&self) -> u64 {
        self.list.iter().map(|peer| u64::from(peer.deaths)).sum()
    }

    /// One of them.
    pub(super) fn get(&self, number: usize) -> Option<&Peer> {
        self.list.get(number)
    }

    /// Lets the next ones begin, as long as not too many are joining.
    pub(super) fn admit(&mut self, now: Time) {
        while self.joining < JOINING_MAX && self.next < self.list.len() {
            let number = self.next;
            self.next += 1;
            self.change(number, |peer| peer.start(now));
            self.serve(number, now);
        }
    }

    /// Takes a frame that came for a participant.
    pub(super) fn frame(&mut self, number: usize, bytes: &[u8], now: Time) {
        if let (Some(peer), Ok(frame)) = (self.list.get_mut(number), Frame::decode(bytes)) {
            self.controls += u64::from(matches!(frame, Frame::Control { .. }));
            peer.frame(now, &frame);
            self.serve(number, now);
        }
    }

    /// Serves the participants whose time has come. `heard` tells until when one has heard the
    /// broker, if at all since the last time, without a frame having come.
    pub(super) fn expire(&mut self, now: Time, mut heard: impl FnMut(usize, Time) -> Option<Time>) {
        let mut due = std::mem::take(&mut self.due);
        self.wheel.expired(now, &mut due);
        for number in due.drain(..) {
            let number = number as usize;
            if let (Some(at), Some(peer)) = (heard(number, now), self.list.get_mut(number)) {
                peer.heard(at);
            }
            self.serve(number, now);
        }
        self.due = due;
    }

    /// Everybody says goodbye.
    pub(super) fn close(&mut self, now: Time) {
        for number in 0..self.next {
            self.change(number, |peer| peer.close(now));
            self.serve(number, now);
        }
    }

    /// What is to be sent.
    pub(super) fn outbox(&mut self) -> &mut Vec<Outbound> {
        &mut self.outbox
    }

    fn serve(&mut self, number: usize, now: Time) {
        let mut outbox = std::mem::take(&mut self.outbox);
        self.change(number, |peer| {
            while let Some((to, bytes)) = peer.poll(now) {
                outbox.push(Outbound {
                    peer: number,
                    to,
                    bytes,
                });
            }
        });
        self.outbox = outbox;
        if let Some(peer) = self.list.get(number) {
            self.wheel
                .set(number as u32, peer.deadline().unwrap_or(Time::NEVER));
        }
    }

    /// Does something to a participant and keeps the counts.
    fn change(&mut self, number: usize, what: impl FnOnce(&mut Peer)) {
        let Some(peer) = self.list.get_mut(number) else {
            return;
        };
        let before = peer.standing;
        what(peer);
        let after = peer.standing;
        for (standing, sign) in [(before, false), (after, true)] {
            let count = match standing {
                Standing::Waiting => continue,
                Standing::Joining => &mut self.joining,
                Standing::Ready => &mut self.ready,
                Standing::Refused(_) => &mut self.refused,
            };
            *count = if sign { *count + 1 } else { *count - 1 };
        }
    }
}
