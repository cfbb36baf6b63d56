//! Packets of one track in the order of their numbers.

use std::collections::BTreeMap;

use sangam_wire::rtp;

/// Packets that wait for a missing one before it counts as lost.
const WAITING_MAX: usize = 128;
/// A number that far from what was expected begins anew.
const JUMP: i64 = 3_000;

/// Puts packets in order; repeats are dropped, sources follow each other.
#[derive(Debug, Default)]
pub(super) struct Order {
    source: Option<u32>,
    /// The number that comes next, counted on beyond 16 bits.
    next: i64,
    waiting: BTreeMap<i64, Vec<u8>>,
    /// In order, with whether packets are missing before.
    ready: std::collections::VecDeque<(Vec<u8>, bool)>,
}

impl Order {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let Ok(packet) = rtp::Packet::decode(bytes) else {
            return;
        };
        let header = packet.header;
        let ahead = header.sequence.wrapping_sub(self.next as u16) as i16;
        let mut number = self.next + i64::from(ahead);
        let is_new = self.source != Some(header.ssrc) || (number - self.next).abs() > JUMP;
        if is_new {
            self.flush();
            self.source = Some(header.ssrc);
            number = i64::from(header.sequence);
            self.next = number;
        }
        if number >= self.next {
            self.waiting.entry(number).or_insert_with(|| bytes.to_vec());
        }
        self.advance();
        if self.waiting.len() > WAITING_MAX {
            self.skip();
        }
    }

    /// What is in order: a packet, and whether others are missing before it.
    pub(super) fn pop(&mut self) -> Option<(Vec<u8>, bool)> {
        self.ready.pop_front()
    }

    /// Nothing more comes of what is missing.
    pub(super) fn flush(&mut self) {
        while !self.waiting.is_empty() {
            self.skip();
        }
    }

    fn advance(&mut self) {
        while let Some(bytes) = self.waiting.remove(&self.next) {
            self.next += 1;
            self.ready.push_back((bytes, false));
        }
    }

    fn skip(&mut self) {
        if let Some((number, bytes)) = self.waiting.pop_first() {
            self.ready.push_back((bytes, number != self.next));
            self.next = number + 1;
            self.advance();
        }
    }
}
