//! What is to happen soon, in its order: a ring of moments, and a heap for what is further off.
//!
//! Nearly everything happens within a few seconds, so that putting in and taking out cost a look
//! at a short list each, where a heap of everything would be walked through.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::trace::STEP;

const STEP_US: u64 = STEP.as_micros() as u64;
/// Moments of the ring: 5 s.
const RING: u64 = 512;

/// Something that happens at a time.
pub(super) trait Timed: Ord + Copy {
    /// When, in microseconds. Equal orders never differ in it, and it decides first.
    fn due_us(&self) -> u64;
}

/// A queue by [`Ord`], of things that become due moment by moment.
#[derive(Debug)]
pub(super) struct Wheel<T> {
    /// By moment, around and around: what is due until then, in any order.
    ring: Vec<Vec<T>>,
    far: BinaryHeap<Reverse<T>>,
    /// The moment until which everything was taken out.
    now: u64,
    /// What is due, the last first.
    due: Vec<T>,
}

impl<T: Timed> Wheel<T> {
    pub(super) fn new() -> Self {
        Self {
            ring: (0..RING).map(|_| Vec::new()).collect(),
            far: BinaryHeap::new(),
            now: 0,
            due: Vec::new(),
        }
    }

    /// Puts something in, late or not.
    pub(super) fn push(&mut self, one: T) {
        let moment = one.due_us().div_ceil(STEP_US);
        if moment <= self.now {
            let place = self.due.partition_point(|other| *other > one);
            self.due.insert(place, one);
        } else if moment - self.now < RING {
            self.ring[(moment % RING) as usize].push(one);
        } else {
            self.far.push(Reverse(one));
        }
    }

    /// Lets everything become due until a moment, counted in steps; it never goes back.
    pub(super) fn advance(&mut self, moment: u64) {
        while self.now < moment {
            self.now += 1;
            let slot = &mut self.ring[(self.now % RING) as usize];
            self.due.append(slot);
        }
        while let Some(Reverse(one)) = self.far.peek().copied()
            && one.due_us().div_ceil(STEP_US) <= self.now
        {
            self.far.pop();
            self.due.push(one);
        }
        self.due.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// The next that is due.
    pub(super) fn pop(&mut self) -> Option<T> {
        self.due.pop()
    }

    /// Lets everything become due, however far off.
    pub(super) fn end(&mut self) {
        self.ring.iter_mut().for_each(|slot| self.due.append(slot));
        self.due.extend(self.far.drain().map(|Reverse(one)| one));
        self.due.sort_unstable_by(|a, b| b.cmp(a));
    }
}

#[cfg(test)]
mod tests {
    use sangam_model::Random;

    use super::*;

    impl Timed for (u64, u64) {
        fn due_us(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn everything_comes_out_as_from_a_heap() {
        let mut random = Random::new(3);
        let (mut wheel, mut heap) = (Wheel::new(), BinaryHeap::new());
        for moment in 0..5_000_u64 {
            for _ in 0..random.below(5) {
                // Some is late already, some further off than the ring is long.
                let most = if random.chance(0.05) {
                    20_000_000
                } else {
                    700_000
                };
                let us = (moment * STEP_US + random.below(most) as u64).saturating_sub(9_000);
                let one = (us, random.bits() % 3);
                wheel.push(one);
                heap.push(Reverse(one));
            }
            wheel.advance(moment);
            while let Some(Reverse(next)) = heap.peek().copied()
                && next.0 <= moment * STEP_US
            {
                assert_eq!(wheel.pop(), Some(next));
                heap.pop();
            }
            assert_eq!(wheel.pop(), None);
        }
        wheel.end();
        while let Some(Reverse(next)) = heap.pop() {
            assert_eq!(wheel.pop(), Some(next));
        }
        assert_eq!(wheel.pop(), None);
    }
}
