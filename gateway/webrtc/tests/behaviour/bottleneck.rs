//! The narrowest place of a path to a peer.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::peer::is_media;

/// What does not pass within this is lost: the queue of a small router.
const QUEUE: Duration = Duration::from_millis(300);

/// So many bits pass in a second, those behind wait, and what would wait too long is lost.
pub(crate) struct Bottleneck {
    bits_per_s: u64,
    /// When everything that waits has passed.
    free_at: Instant,
    waiting: VecDeque<(Instant, SocketAddr, Vec<u8>)>,
    /// SSRC and sequence of the packets of media that were lost.
    lost: BTreeSet<(u32, u16)>,
}

impl Bottleneck {
    pub(crate) fn new(bits_per_s: u64) -> Self {
        Self {
            bits_per_s,
            free_at: Instant::now(),
            waiting: VecDeque::new(),
            lost: BTreeSet::new(),
        }
    }

    /// From now on so many bits pass.
    pub(crate) fn carry(&mut self, bits_per_s: u64) {
        self.bits_per_s = bits_per_s;
    }

    /// Whether this packet of media was lost here.
    pub(crate) fn has_lost(&self, ssrc: u32, sequence: u16) -> bool {
        self.lost.contains(&(ssrc, sequence))
    }

    pub(crate) fn enter(&mut self, bytes: &[u8], from: SocketAddr) {
        let now = Instant::now();
        let begins = self.free_at.max(now);
        if begins - now > QUEUE {
            if let (true, Some(sequence), Some(ssrc)) = (
                is_media(bytes),
                bytes.get(2..).and_then(|rest| rest.first_chunk()),
                bytes.get(8..).and_then(|rest| rest.first_chunk()),
            ) {
                let place = (u32::from_be_bytes(*ssrc), u16::from_be_bytes(*sequence));
                self.lost.insert(place);
            }
            return;
        }
        let takes = bytes.len() as u64 * 8_000_000 / self.bits_per_s;
        self.free_at = begins + Duration::from_micros(takes);
        self.waiting.push_back((self.free_at, from, bytes.to_vec()));
    }

    /// The next datagram that has passed.
    pub(crate) fn leave(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        let (at, ..) = self.waiting.front()?;
        if *at > Instant::now() {
            return None;
        }
        let (_, from, bytes) = self.waiting.pop_front()?;
        Some((from, bytes))
    }
}
