//! The last step of the lane: events into the rings of the shards that want them.

use std::time::Duration;

use sangam_broker::{Admit, DropReason, Shedder};
use sangam_io::pool::Packet;
use sangam_model::{Class, Time};
use sangam_wire::Header;

use super::Lane;
use crate::command::Entry;

/// How long after a full ring every frame is looked at: longer than most key-frame intervals.
const SHED_FOR: Duration = Duration::from_secs(10);

/// Where full rings cut a stream: each shard waits for a frame that decodes by itself, and no
/// shard waits for another's.
#[derive(Debug, Default)]
pub(super) struct Cuts {
    /// By shard. Owns no memory until a ring was full.
    shards: Vec<(usize, Shedder)>,
    /// Older ones count no more.
    until: Time,
}

impl Lane {
    /// Gives an event to the shards of a bit set; returns those that are to be woken.
    pub(super) fn hand_over(&mut self, packet: Packet, shards: u64, class: Class) -> u64 {
        let mut woken = 0;
        // The last shard gets this count itself: by then the others may change it too.
        let mut packet = Some(packet);
        for shard in (0..self.shards.len()).filter(|shard| shards & (1 << shard) != 0) {
            if class == Class::Video
                && let Some(packet) = &packet
                && let Admit::Drop(reason) = self.shed_for_full_ring(packet, shard)
            {
                self.counters.dropped(reason);
                continue;
            }
            let is_last = shards >> shard == 1;
            let given = if is_last {
                packet.take()
            } else {
                packet.clone()
            };
            let Some(packet) = given else {
                break;
            };
            let entry = Entry {
                packet,
                at: self.now,
            };
            match self.shards[shard].inlets[class as usize].push(entry) {
                Ok(()) => woken |= 1 << shard,
                Err(_) => self.counters.dropped(DropReason::ring_full(class)),
            }
        }
        woken
    }

    /// Whether a shard's full ring costs an event of video its whole frame there.
    fn shed_for_full_ring(&mut self, packet: &Packet, shard: usize) -> Admit {
        let full = self.shards[shard].inlets[Class::Video as usize].is_full();
        if full {
            self.shed_until = self.now + SHED_FOR;
        }
        if self.now >= self.shed_until {
            return Admit::Deliver;
        }
        let snapshot = self.snapshot.clone();
        let Ok(header) = packet.header() else {
            return Admit::Drop(DropReason::Malformed);
        };
        let Some(route) = snapshot.route(header.stream) else {
            return Admit::Drop(DropReason::UnknownStream);
        };
        let (now, until) = (self.now, self.shed_until);
        let state = self.stream_state(route.index, header.stream);
        let habits = state.habits;
        state.cuts.forget_before(now);
        state
            .cuts
            .admit((&header, habits), shard, full.then_some(until))
    }
}

impl Cuts {
    fn forget_before(&mut self, now: Time) {
        if now >= self.until {
            self.shards.clear();
        }
    }

    /// `full` if there is no room in this shard's ring: the cut then counts until that time.
    /// `habits` are those of the stream.
    fn admit(
        &mut self,
        (header, habits): (&Header, Shedder),
        shard: usize,
        full: Option<Time>,
    ) -> Admit {
        let known = self.shards.iter().position(|(of, _)| *of == shard);
        let at = match (known, full) {
            (Some(at), _) => at,
            (None, Some(_)) => {
                self.shards.push((shard, habits));
                self.shards.len() - 1
            }
            (None, None) => return Admit::Deliver,
        };
        self.until = full.unwrap_or(self.until);
        let admit = self.shards[at]
            .1
            .admit(header, Duration::ZERO, full.is_some());
        if admit == Admit::Deliver {
            // A frame that decodes by itself has begun: all is well again.
            self.shards.swap_remove(at);
        }
        admit
    }
}

#[cfg(test)]
#[path = "handover_tests.rs"]
mod tests;
