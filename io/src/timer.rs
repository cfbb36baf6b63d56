//! Many coarse timers: a hashed wheel, of 10 ms ticks unless said otherwise.
//!
//! Lazy on purpose. Moving a timer later or cancelling it touches only its record; the entry in
//! the wheel notices when its turn comes. So a timer that is pushed out by every packet costs one
//! table access, and the steady state allocates nothing.

use core::hash::Hash;
use core::time::Duration;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use sangam_model::Time;

/// Granularity: timers fire up to this late, never early.
pub const TICK: Duration = Duration::from_millis(10);

/// One revolution is 5.12 s, longer than every timer of a live link; what is later stays in its
/// slot for another.
const SLOTS: usize = 512;
const WORDS: usize = SLOTS / 64;

/// One timer per key.
#[derive(Debug)]
pub struct Wheel<K> {
    timers: HashMap<K, Timer>,
    slots: Box<[Vec<(K, u64)>]>,
    /// Which slots hold entries.
    occupied: [u64; WORDS],
    /// Microseconds of a tick.
    tick: u64,
    /// Everything up to this tick has been served.
    served: u64,
    /// Timers that are set and not cancelled.
    live: usize,
    /// Reused while a slot is served.
    turn: Vec<(K, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Timer {
    /// When to fire; `u64::MAX` if cancelled.
    due: u64,
    /// Tick of the one entry that counts; never after `due`.
    queued: u64,
}

const CANCELLED: u64 = u64::MAX;

impl<K: Copy + Eq + Hash> Wheel<K> {
    /// No timers yet.
    #[must_use]
    pub fn new(now: Time) -> Self {
        Self::with_tick(now, TICK)
    }

    /// The same with another granularity, at least a microsecond.
    #[must_use]
    pub fn with_tick(now: Time, tick: Duration) -> Self {
        let tick = u64::try_from(tick.as_micros()).map_or(u64::MAX, |tick| tick.max(1));
        Self {
            tick,
            timers: HashMap::new(),
            slots: (0..SLOTS).map(|_| Vec::new()).collect(),
            occupied: [0; WORDS],
            served: now.as_micros() / tick,
            live: 0,
            turn: Vec::new(),
        }
    }

    /// Sets or moves the timer of `key`; a time in the past fires with the next tick.
    /// [`Time::NEVER`] cancels.
    pub fn set(&mut self, key: K, at: Time) {
        if at == Time::NEVER {
            return self.cancel(key);
        }
        let due = at.as_micros().div_ceil(self.tick).max(self.served + 1);
        let fresh = Timer { due, queued: due };
        match self.timers.entry(key) {
            Entry::Vacant(vacant) => {
                vacant.insert(fresh);
                self.live += 1;
            }
            Entry::Occupied(mut known) => {
                let timer = known.get_mut();
                self.live += usize::from(timer.due == CANCELLED);
                if timer.queued <= due {
                    timer.due = due;
                    return;
                }
                *timer = fresh;
            }
        }
        self.queue(key, due);
    }

    /// Cancels the timer of `key`; no effect if it is not set.
    pub fn cancel(&mut self, key: K) {
        if let Some(timer) = self.timers.get_mut(&key) {
            self.live -= usize::from(timer.due != CANCELLED);
            timer.due = CANCELLED;
        }
    }

    /// Appends the keys whose time has come, and forgets their timers.
    pub fn expired(&mut self, now: Time, out: &mut Vec<K>) {
        let until = now.as_micros() / self.tick;
        if until <= self.served {
            return;
        }
        // After a long pause every slot comes once, not once per missed revolution.
        let first = self.served + 1;
        let last = until.min(self.served + SLOTS as u64);
        self.served = until;
        for tick in first..=last {
            let slot = slot_of(tick);
            if self.occupied[slot / 64] & (1 << (slot % 64)) != 0 {
                self.serve(slot, out);
            }
        }
    }

    /// A moment not after the next timer's, at which [`Wheel::expired`] should be called.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        if self.live == 0 {
            return None;
        }
        let start = slot_of(self.served + 1);
        // The word of the start comes twice: first its upper bits, at last its lower ones.
        for step in 0..=WORDS {
            let word = (start / 64 + step) % WORDS;
            let mask = match step {
                0 => u64::MAX << (start % 64),
                WORDS => !(u64::MAX << (start % 64)),
                _ => u64::MAX,
            };
            let bits = self.occupied[word] & mask;
            if bits != 0 {
                let slot = word * 64 + bits.trailing_zeros() as usize;
                let ahead = (slot + SLOTS - start) % SLOTS;
                let tick = self.served + 1 + ahead as u64;
                return Some(Time::from_micros(tick.saturating_mul(self.tick)));
            }
        }
        None
    }

    /// How many timers are set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether no timer is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    fn serve(&mut self, slot: usize, out: &mut Vec<K>) {
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        let mut turn = core::mem::take(&mut self.turn);
        core::mem::swap(&mut turn, &mut self.slots[slot]);
        for (key, tick) in turn.drain(..) {
            if tick > self.served {
                self.queue(key, tick);
            } else {
                self.fire(key, tick, out);
            }
        }
        self.turn = turn;
    }

    /// The turn of one entry: its timer fires, has moved on, or belongs to another entry.
    fn fire(&mut self, key: K, tick: u64, out: &mut Vec<K>) {
        let Entry::Occupied(mut known) = self.timers.entry(key) else {
            return;
        };
        let timer = known.get_mut();
        if timer.queued != tick {
            return;
        }
        if timer.due == CANCELLED {
            known.remove();
        } else if timer.due <= self.served {
            known.remove();
            self.live -= 1;
            out.push(key);
        } else {
            timer.queued = timer.due;
            let due = timer.due;
            self.queue(key, due);
        }
    }

    fn queue(&mut self, key: K, tick: u64) {
        let slot = slot_of(tick);
        self.slots[slot].push((key, tick));
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }
}

fn slot_of(tick: u64) -> usize {
    (tick % SLOTS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_that_moves_with_every_packet_leaves_one_entry() {
        let mut wheel = Wheel::new(Time::ZERO);
        let mut expired = Vec::new();
        for ms in 0..100_000 {
            let now = Time::from_millis(ms);
            wheel.set(1, now + Duration::from_secs(3));
            wheel.expired(now, &mut expired);
        }
        assert!(expired.is_empty());
        assert_eq!(wheel.slots.iter().map(Vec::len).sum::<usize>(), 1);
    }

    #[test]
    fn cancelling_and_setting_again_leaves_one_entry() {
        let mut wheel = Wheel::new(Time::ZERO);
        for _ in 0..100 {
            wheel.set(1, Time::from_millis(50));
            wheel.cancel(1);
        }
        assert!(wheel.is_empty());
        assert_eq!(wheel.slots.iter().map(Vec::len).sum::<usize>(), 1);
        wheel.expired(Time::from_millis(50), &mut Vec::new());
        assert!(wheel.timers.is_empty());
    }
}
