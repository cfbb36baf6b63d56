//! What waits for a peer as datagrams: signs of life first, then audio, then video.

use core::time::Duration;
use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use sangam_link::fragment;
use sangam_model::limits::EVENT_LEN_MAX;
use sangam_model::{Class, Time};

use super::{Full, Waiting};
use crate::pool::Packet;

/// Signs of life that wait: a peer that takes none is dead soon.
const SIGNS: usize = 16;
/// Packets of one kind that wait, however short they are.
const PACKETS: usize = 4_096;
/// Bytes of audio, RTCP and feedback that wait.
const URGENT_BYTES: usize = 128 << 10;
/// Bytes of video that wait. Owners shed whole frames before, by their age.
const VIDEO_BYTES: usize = 2 << 20;
/// Copies are carved from pieces of memory of this size, which are used again once quinn-proto
/// has let go of them: it wants to own what it sends.
const ARENA: usize = 64 << 10;

/// The queues of one connection.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    signs: VecDeque<Bytes>,
    urgent: Line,
    video: Line,
    /// Datagrams of the event that is being sent.
    staged: VecDeque<Bytes>,
    arena: BytesMut,
    /// Room for one piece of an event.
    piece: Vec<u8>,
}

#[derive(Debug, Default)]
struct Line {
    /// With the time since when each waits.
    packets: VecDeque<(Packet, Time)>,
    bytes: usize,
}

/// Up to which importance to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Signs,
    Urgent,
    Video,
}

impl Line {
    fn push(&mut self, packet: Packet, bytes_max: usize, now: Time) -> Result<(), Full> {
        if self.packets.len() >= PACKETS || self.bytes + packet.len() > bytes_max {
            return Err(Full);
        }
        self.bytes += packet.len();
        self.packets.push_back((packet, now));
        Ok(())
    }

    fn age(&self, now: Time) -> Duration {
        let first = self.packets.front();
        first.map_or(Duration::ZERO, |(_, since)| now - *since)
    }

    fn pop(&mut self) -> Option<Packet> {
        let (packet, _) = self.packets.pop_front()?;
        self.bytes -= packet.len();
        Some(packet)
    }
}

impl Outgoing {
    /// Queues a ping or pong.
    pub(super) fn sign(&mut self, frame: &[u8]) -> Result<(), Full> {
        if self.signs.len() >= SIGNS {
            return Err(Full);
        }
        self.signs.push_back(Bytes::copy_from_slice(frame));
        Ok(())
    }

    /// Queues an event.
    pub(super) fn event(&mut self, class: Class, packet: Packet, now: Time) -> Result<(), Full> {
        match class {
            Class::Video => self.video.push(packet, VIDEO_BYTES, now),
            _ => self.urgent.push(packet, URGENT_BYTES, now),
        }
    }

    /// The next datagram of at most `len_max` bytes that is as important as `stage`.
    pub(super) fn next(&mut self, stage: Stage, len_max: usize) -> Option<Bytes> {
        if let Some(sign) = self.signs.pop_front() {
            return Some(sign);
        }
        if stage == Stage::Signs {
            return None;
        }
        loop {
            if let Some(datagram) = self.staged.pop_front() {
                return Some(datagram);
            }
            let packet = match self.urgent.pop() {
                None if stage == Stage::Video => self.video.pop()?,
                next => next?,
            };
            self.stage(&packet, len_max);
        }
    }

    /// Takes back what could not be sent yet.
    pub(super) fn put_back(&mut self, datagram: Bytes) {
        self.staged.push_front(datagram);
    }

    /// Packets that wait.
    pub(super) fn packets(&self) -> usize {
        self.urgent.packets.len() + self.video.packets.len()
    }

    pub(super) fn waiting(&self, now: Time) -> Waiting {
        Waiting {
            urgent: self.urgent.bytes,
            urgent_age: self.urgent.age(now),
            video: self.video.bytes,
            video_age: self.video.age(now),
            ..Waiting::default()
        }
    }

    fn stage(&mut self, packet: &Packet, len_max: usize) {
        if packet.len() <= len_max {
            return self.copy(packet.len(), |arena| arena.extend_from_slice(packet));
        }
        let Ok(mut pieces) = fragment(packet, len_max) else {
            return;
        };
        let mut piece = core::mem::take(&mut self.piece);
        piece.resize(EVENT_LEN_MAX, 0);
        while let Some(Ok(len)) = pieces.write_next(&mut piece) {
            self.copy(len, |arena| arena.extend_from_slice(&piece[..len]));
        }
        self.piece = piece;
    }

    fn copy(&mut self, len: usize, write: impl FnOnce(&mut BytesMut)) {
        if self.arena.capacity() < len {
            self.arena.reserve(ARENA);
        }
        write(&mut self.arena);
        self.staged.push_back(self.arena.split().freeze());
    }
}
