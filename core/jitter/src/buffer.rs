//! Packets that wait for others, by sequence, in memory that is taken once.

use sangam_model::Time;

use crate::{HELD_MAX, Packet};

const WORDS: usize = HELD_MAX / 64;
/// Packets from before the first that came are still taken if they are as close to it.
const EARLIER: u64 = 16;

/// A packet and when it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) seq: u64,
    /// Media time in microseconds of the sender's clock, any origin.
    pub(crate) sent: i64,
    /// When it came; of a missing packet, when a later one came first.
    pub(crate) arrived: Time,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Held,
    Missing,
    Gone,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is held. If a later one came first: since when it was missing.
    Held(Option<Time>),
    /// It comes too late. If that is known: since when it was missing.
    Late(Option<Time>),
    /// It has come before.
    Duplicate,
    /// It is too far ahead of what is held.
    Beyond,
}

/// A ring of packets. Everything below `floor` is done with.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    slots: Box<[Slot]>,
    /// Which slots hold a packet.
    held: [u64; WORDS],
    floor: u64,
    /// One more than the highest sequence that came.
    top: u64,
    len: usize,
    started: bool,
}

impl Held {
    pub(crate) fn new() -> Self {
        let none = Slot {
            seq: u64::MAX,
            sent: 0,
            arrived: Time::ZERO,
            state: State::Gone,
        };
        Self {
            slots: vec![none; HELD_MAX].into_boxed_slice(),
            held: [0; WORDS],
            floor: 0,
            top: 0,
            len: 0,
            started: false,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The sequence below which nothing is taken any more.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    pub(crate) fn is_started(&self) -> bool {
        self.started
    }

    pub(crate) fn admit(&mut self, packet: Packet, now: Time) -> Admission {
        let seq = packet.seq;
        if !self.started {
            self.started = true;
            self.floor = seq.saturating_sub(EARLIER);
            self.top = seq;
        }
        if seq < self.floor {
            return self.rejected(seq);
        }
        if seq - self.floor >= HELD_MAX as u64 {
            return Admission::Beyond;
        }
        let mut since = None;
        if seq < self.top {
            let slot = &self.slots[index(seq)];
            if slot.seq == seq {
                match slot.state {
                    State::Missing => since = Some(slot.arrived),
                    State::Held | State::Gone => return Admission::Duplicate,
                }
            }
        } else {
            for missing in self.top..seq {
                self.put(missing, 0, now, State::Missing);
            }
            self.top = seq.saturating_add(1);
        }
        self.put(seq, packet.sent_us(), now, State::Held);
        self.held[index(seq) / 64] |= 1 << (index(seq) % 64);
        self.len += 1;
        Admission::Held(since)
    }

    /// Why a packet that is too late is not taken.
    pub(crate) fn rejected(&self, seq: u64) -> Admission {
        let slot = &self.slots[index(seq)];
        match slot.state {
            State::Missing if slot.seq == seq => Admission::Late(Some(slot.arrived)),
            State::Held | State::Gone if slot.seq == seq => Admission::Duplicate,
            _ => Admission::Late(None),
        }
    }

    /// The held packet with the lowest sequence.
    pub(crate) fn first(&self) -> Option<&Slot> {
        if self.len == 0 {
            return None;
        }
        let start = index(self.floor);
        let from_start = self.held[start / 64] & (u64::MAX << (start % 64));
        if from_start != 0 {
            return Some(&self.slots[start / 64 * 64 + from_start.trailing_zeros() as usize]);
        }
        // The last round looks at the begin of the first word.
        let mut words = (1..=WORDS).map(|step| (start / 64 + step) % WORDS);
        let word = words.find(|word| self.held[*word] != 0)?;
        Some(&self.slots[word * 64 + self.held[word].trailing_zeros() as usize])
    }

    /// The held packet with the highest sequence, if that is the highest that came.
    pub(crate) fn last(&self) -> Option<&Slot> {
        let seq = self.top.checked_sub(1)?;
        let slot = &self.slots[index(seq)];
        (self.len > 0 && slot.seq == seq && slot.state == State::Held).then_some(slot)
    }

    /// Takes the first packet out, and gives up what is missing before it.
    pub(crate) fn take(&mut self) -> Option<Slot> {
        let slot = *self.first()?;
        self.slots[index(slot.seq)].state = State::Gone;
        self.held[index(slot.seq) / 64] &= !(1 << (index(slot.seq) % 64));
        self.len -= 1;
        self.floor = slot.seq.saturating_add(1);
        Some(slot)
    }

    /// Since when the packet at the floor is missing, if a later one has come.
    pub(crate) fn missing_since(&self) -> Option<Time> {
        let slot = &self.slots[index(self.floor)];
        (slot.seq == self.floor && slot.state == State::Missing).then_some(slot.arrived)
    }

    /// Gives up the packet at the floor.
    pub(crate) fn skip(&mut self) {
        if self.floor < self.top {
            self.floor += 1;
        }
    }

    /// Begins anew at `seq`; nothing may be held.
    pub(crate) fn restart(&mut self, seq: u64) {
        debug_assert_eq!(self.len, 0, "held packets would be lost");
        self.floor = seq;
        self.top = seq;
    }

    fn put(&mut self, seq: u64, sent: i64, arrived: Time, state: State) {
        self.slots[index(seq)] = Slot {
            seq,
            sent,
            arrived,
            state,
        };
    }
}

fn index(seq: u64) -> usize {
    seq as usize % HELD_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(seq: u64) -> Packet {
        Packet {
            seq,
            sent: Time::from_millis(10 * seq),
        }
    }

    #[test]
    fn the_first_is_found_across_the_end_of_the_ring() {
        let mut held = Held::new();
        for seq in [1_000, 1_030, 1_020, 2_000] {
            held.admit(packet(seq), Time::ZERO);
        }
        let order: Vec<_> = core::iter::from_fn(|| held.take().map(|slot| slot.seq)).collect();
        assert_eq!(order, [1_000, 1_020, 1_030, 2_000]);
        assert_eq!(held.len(), 0);
    }

    #[test]
    fn late_ones_are_told_from_duplicates() {
        let mut held = Held::new();
        let at = Time::from_millis;
        assert_eq!(held.admit(packet(100), at(0)), Admission::Held(None));
        assert_eq!(held.admit(packet(103), at(5)), Admission::Held(None));
        assert_eq!(held.admit(packet(103), at(6)), Admission::Duplicate);
        assert_eq!(held.admit(packet(101), at(7)), Admission::Held(Some(at(5))));
        while held.take().is_some() {}
        assert_eq!(held.admit(packet(101), at(8)), Admission::Duplicate);
        assert_eq!(held.admit(packet(102), at(9)), Admission::Late(Some(at(5))));
        assert_eq!(held.admit(packet(70), at(9)), Admission::Late(None));
        assert_eq!(held.admit(packet(2_000), at(9)), Admission::Beyond);
    }
}
