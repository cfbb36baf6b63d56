//! Looking ahead: what the next bursts will need comes into the cache all at once.
//!
//! A burst for a few subscribers costs less to compute than to fetch: its header was written by
//! the lane on another core, and its stream, its list of receivers and their addresses were last
//! used thousands of other streams ago. Served one by one, each of these loads waits for the one
//! before, and every change of a packet's count makes all wait. Read here in passes, for many
//! events at once, the loads of one pass depend on none of their own pass, and the processor
//! waits for all of them together.

use std::hint::black_box;

use sangam_model::{Class, StreamId};
use sangam_wire::Header;

use super::Shard;

/// Events looked at in one go: about as many loads as a core can have under way.
const AHEAD: usize = 16;
/// With fewer there is nothing to overlap.
const WORTH_IT: usize = 4;
/// Receivers of a stream that are looked up: a longer list is fetched as it is walked through.
const RECEIVERS: usize = 8;
/// As long as the smallest cache line around.
const LINE: usize = 64;
/// Bytes of a packet that are fetched; the kernel copies what follows in order.
const BYTES: usize = 5 * LINE;

impl Shard {
    /// Reads what the next events of a class need, unless that is done already.
    pub(super) fn look_ahead(&mut self, class: Class) {
        let looked = &mut self.ahead[class as usize];
        if *looked > 0 {
            return;
        }
        let ring = &mut self.inbound[class as usize];
        let waiting = ring.slots().min(AHEAD);
        *looked = waiting;
        if waiting < WORTH_IT {
            return;
        }
        let Ok(chunk) = ring.read_chunk(waiting) else {
            return;
        };
        let (front, back) = chunk.as_slices();
        let mut ids = [StreamId::default(); AHEAD];
        let mut read = 0_u64;
        for (id, entry) in ids.iter_mut().zip(front.iter().chain(back)) {
            let bytes = &entry.packet[..entry.packet.len().min(BYTES)];
            read += bytes
                .iter()
                .step_by(LINE)
                .map(|b| u64::from(*b))
                .sum::<u64>();
            *id = Header::decode(bytes).map_or(*id, |header| header.stream);
        }
        let streams = ids.map(|id| self.audience.stream(id));
        for (index, port) in self.ports.iter().enumerate() {
            let lists = streams.map(|stream| stream.map_or(&[][..], |stream| stream.peers(index)));
            for list in lists {
                read += port.look_up(&list[..list.len().min(RECEIVERS)]);
            }
        }
        black_box(read);
    }

    /// One event of a class was taken.
    pub(super) fn passed(&mut self, class: Class) {
        let looked = &mut self.ahead[class as usize];
        *looked = looked.saturating_sub(1);
    }
}
