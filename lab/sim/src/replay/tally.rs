//! What one receiver made of one session.

use core::ops::Range;

use sangam_jitter::{Config, Discard, Input, Kind, Output, Packet, Receiver};
use sangam_model::Time;

use super::Histogram;
use crate::trace::STEP;

const STEP_US: u64 = STEP.as_micros() as u64;

/// Some time of one receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Packets handed on.
    pub released: u32,
    /// Packets played.
    pub played: u32,
    /// Release minus departure, summed, in microseconds.
    pub release_us: u64,
    /// Playout minus departure, summed, in microseconds.
    pub playout_us: u64,
}

/// Everything of one receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Release minus departure.
    pub release: Histogram,
    /// Playout minus departure.
    pub playout: Histogram,
    /// In order; the last may be shorter.
    pub blocks: Vec<Block>,
    /// Time for which there was nothing to play, in microseconds.
    pub concealed_us: u64,
    /// Time that its decisions took, in nanoseconds, by the clock that was given.
    pub spent_ns: u64,
}

impl Tally {
    /// Adds what the same receiver made of something else.
    pub(super) fn append(&mut self, other: Self) {
        self.release.merge(&other.release);
        self.playout.merge(&other.playout);
        self.blocks.extend(other.blocks);
        self.concealed_us += other.concealed_us;
        self.spent_ns += other.spent_ns;
    }

    pub(super) fn put(&self, out: &mut Vec<u64>) {
        self.release.put(out);
        self.playout.put(out);
        out.extend([self.concealed_us, self.spent_ns, self.blocks.len() as u64]);
        for block in &self.blocks {
            out.extend([block.released, block.played].map(u64::from));
            out.extend([block.release_us, block.playout_us]);
        }
    }

    pub(super) fn take(numbers: &mut impl Iterator<Item = u64>) -> Option<Self> {
        let (release, playout) = (Histogram::take(numbers)?, Histogram::take(numbers)?);
        let (concealed_us, spent_ns) = (numbers.next()?, numbers.next()?);
        let count = numbers.next().filter(|count| *count <= 1 << 20)?;
        let mut blocks = Vec::new();
        for _ in 0..count {
            blocks.push(Block {
                released: next_u32(numbers)?,
                played: next_u32(numbers)?,
                release_us: numbers.next()?,
                playout_us: numbers.next()?,
            });
        }
        Some(Self {
            release,
            playout,
            blocks,
            concealed_us,
            spent_ns,
        })
    }
}

fn next_u32(numbers: &mut impl Iterator<Item = u64>) -> Option<u32> {
    u32::try_from(numbers.next()?).ok()
}

/// A receiver and what it has made until now.
#[derive(Clone, Debug)]
pub(super) struct Sink {
    receiver: Receiver,
    span: Span,
    /// The packets of the block that was counted last, and that: the next packet is near.
    near: (Range<u64>, usize),
    pub(super) tally: Tally,
}

/// Which packets count, and in which block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) warm_up: u64,
    pub(super) block: u64,
    pub(super) blocks: usize,
}

impl Span {
    /// The block of a packet; none in the warm-up and behind the end.
    pub(super) fn place(&self, seq: u64) -> Option<usize> {
        let place = (seq.checked_sub(self.warm_up)? / self.block) as usize;
        (place < self.blocks).then_some(place)
    }
}

impl Sink {
    pub(super) fn new(kind: Kind, config: &Config, span: Span) -> Self {
        Self {
            receiver: Receiver::new(kind, config),
            span,
            near: (0..0, 0),
            tally: Tally {
                blocks: vec![Block::default(); span.blocks],
                ..Tally::default()
            },
        }
    }

    /// Takes a packet that came.
    pub(super) fn arrive(&mut self, now: Time, seq: u64) {
        let sent = Time::from_micros(seq * STEP_US);
        self.receiver
            .handle(now, Input::Packet(Packet { seq, sent }));
        self.drain();
    }

    /// Nothing more will come.
    pub(super) fn end(&mut self, now: Time) {
        self.receiver.handle(now, Input::Timer);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.receiver.poll() {
            match output {
                Output::Release { seq, at } => {
                    let us = age(seq, at);
                    if let Some(block) = self.block(seq) {
                        block.released += 1;
                        block.release_us += us;
                        self.tally.release.add(us);
                    }
                }
                Output::Play { seq, at } => {
                    let us = age(seq, at);
                    if let Some(block) = self.block(seq) {
                        block.played += 1;
                        block.playout_us += us;
                        self.tally.playout.add(us);
                    }
                }
                Output::Conceal { length, .. } => {
                    self.tally.concealed_us += length.as_micros() as u64;
                }
                Output::Discard {
                    reason: Discard::Late | Discard::Duplicate,
                    ..
                } => {}
            }
        }
    }

    fn block(&mut self, seq: u64) -> Option<&mut Block> {
        if !self.near.0.contains(&seq) {
            let place = self.span.place(seq)?;
            let from = self.span.warm_up + place as u64 * self.span.block;
            self.near = (from..from + self.span.block, place);
        }
        self.tally.blocks.get_mut(self.near.1)
    }
}

/// Microseconds from a packet's departure to a moment.
pub(super) fn age(seq: u64, at: Time) -> u64 {
    at.as_micros().saturating_sub(seq * STEP_US)
}
