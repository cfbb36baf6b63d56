//! What every receiver has besides its own decisions: packets held, playout, outputs.

use sangam_model::Time;

use crate::buffer::{Admission, Held};
use crate::outbox::Outbox;
use crate::playout::Playout;
use crate::{Config, Discard, Packet};

/// The way of a packet from arrival to playout.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) held: Held,
    pub(crate) playout: Playout,
    pub(crate) out: Outbox,
}

impl Line {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            held: Held::new(),
            playout: Playout::new(config),
            out: Outbox::new(),
        }
    }

    /// Holds a packet, or discards it. One that is too far ahead ends what was before it: all that
    /// is held is released by `let_go`.
    pub(crate) fn admit(
        &mut self,
        packet: Packet,
        now: Time,
        mut let_go: impl FnMut(&mut Self),
    ) -> Admission {
        let mut admission = self.held.admit(packet, now);
        if admission == Admission::Beyond {
            while self.held.len() > 0 {
                let_go(self);
            }
            self.held.restart(packet.seq);
            admission = self.held.admit(packet, now);
        }
        self.note(packet.seq, admission);
        admission
    }

    /// Discards a packet that the receiver's own rule does not let in.
    pub(crate) fn refuse(&mut self, seq: u64) {
        self.note(seq, self.held.rejected(seq));
    }

    /// Hands on the first held packet and plans when it plays.
    pub(crate) fn release(&mut self, at: Time) {
        if let Some(slot) = self.held.take() {
            self.out.release(&slot, at);
            self.playout.plan(&slot, at, &mut self.out);
        }
    }

    /// Hands on the first held packet, which plays at `play`: where the receiver decides on that.
    pub(crate) fn take(&mut self, at: Time, play: Time) {
        if let Some(slot) = self.held.take() {
            self.out.release(&slot, at);
            self.out.play(slot.seq, slot.arrived, play);
        }
    }

    fn note(&mut self, seq: u64, admission: Admission) {
        match admission {
            Admission::Held(_) | Admission::Beyond => {}
            Admission::Late(_) => self.out.discard(seq, Discard::Late),
            Admission::Duplicate => self.out.discard(seq, Discard::Duplicate),
        }
    }
}
