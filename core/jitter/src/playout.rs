//! When released packets play: evenly, at an offset to their timestamps that moves slowly.
//!
//! All receivers but NetEQ, which has its own, share this: so their playout delays differ only by
//! how they release. The offset follows a cost of delay and loss; a packet that is released after
//! its time makes playout wait, as nothing else is there to be played, and moves the offset.

use core::time::Duration;
use std::collections::VecDeque;

use sangam_model::Time;

use crate::buffer::Slot;
use crate::fading::Fading;
use crate::outbox::Outbox;
use crate::window::{Base, delay_us};
use crate::{Config, HELD_MAX};

const BUCKET_US: i64 = 5_000;
/// Together 2 s above the smallest delay.
const BUCKETS: usize = 400;
/// NetEQ's for reordering: half of the weight is on the last ten seconds at 100 packets a second.
const FORGET: f32 = 0.9993;
/// Beyond the first packet's delay, until more is known; half of NetEQ's.
const START_US: i64 = 40_000;
/// The target is computed anew after so many packets.
const EVERY: u32 = 8;
/// Speech may be stretched or compressed by a tenth; four times of it when far too much waits.
const PACE: i64 = 10;
const PACE_FAR: i64 = 4;
const FAR_US: i64 = 200_000;
/// Without loss, a longer time between two timestamps is silence, in which the offset moves freely.
const SILENCE_US: i64 = 100_000;
/// A delay that differs so much from the offset is no delay: the sender's clock has jumped.
const JUMP_US: i64 = 5_000_000;
/// Released packets that wait to be played; past it they are played early and counted.
const DUE_MAX: usize = 2 * HELD_MAX;

/// Plans when packets play.
#[derive(Clone, Debug)]
pub(crate) struct Playout {
    /// From timestamps to playout, in microseconds.
    offset: i64,
    latest: Option<Latest>,
    /// Media time of one packet.
    spacing: i64,
    target: Target,
    due: VecDeque<Due>,
}

#[derive(Clone, Copy, Debug)]
struct Latest {
    seq: u64,
    sent: i64,
    at: Time,
}

#[derive(Clone, Copy, Debug)]
struct Due {
    seq: u64,
    arrived: Time,
    at: Time,
    /// For how many microseconds nothing can be played before it.
    hole_us: u64,
}

impl Playout {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            offset: 0,
            latest: None,
            spacing: 0,
            target: Target::new(config),
            due: VecDeque::with_capacity(DUE_MAX),
        }
    }

    /// Takes a packet that is released at `at`.
    pub(crate) fn plan(&mut self, slot: &Slot, at: Time, out: &mut Outbox) {
        let delay = delay_us(at, slot.sent);
        let wanted = self.target.add(at, delay);
        let mut hole = 0;
        match self.latest {
            Some(latest) if self.is_next_to(slot, &latest, delay) => {
                hole = self.follow(slot, &latest, wanted);
                let wait = (delay - self.offset).max(0);
                self.offset += wait;
                hole += wait;
            }
            _ => {
                self.target.clear();
                self.offset = delay.saturating_add(START_US);
            }
        }
        let play = Time::from_micros(slot.sent.saturating_add(self.offset).max(0) as u64);
        // Timestamps may run backwards (B-frames); playout does not.
        let play = self
            .latest
            .map_or(play, |latest| play.max(latest.at))
            .max(at);
        self.latest = Some(Latest {
            seq: slot.seq,
            sent: slot.sent,
            at: play,
        });
        if self.due.len() == DUE_MAX {
            out.stats.hurried += 1;
            self.play(at, out);
        }
        self.due.push_back(Due {
            seq: slot.seq,
            arrived: slot.arrived,
            at: play,
            hole_us: hole as u64,
        });
    }

    /// When the next packet plays.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.due.front().map(|due| due.at)
    }

    /// Plays what is due.
    pub(crate) fn advance(&mut self, now: Time, out: &mut Outbox) {
        while self.deadline().is_some_and(|at| at <= now) {
            self.play(Time::NEVER, out);
        }
    }

    fn play(&mut self, latest: Time, out: &mut Outbox) {
        if let Some(due) = self.due.pop_front() {
            let at = due.at.min(latest);
            if due.hole_us > 0 {
                let begin = at.as_micros().saturating_sub(due.hole_us);
                out.conceal(Time::from_micros(begin), Duration::from_micros(due.hole_us));
            }
            out.play(due.seq, due.arrived, at);
        }
    }

    /// Whether the same stream goes on.
    fn is_next_to(&self, slot: &Slot, latest: &Latest, delay: i64) -> bool {
        let near = slot.seq.abs_diff(latest.seq) <= HELD_MAX as u64;
        near && delay.abs_diff(self.offset) < JUMP_US as u64
    }

    /// Moves the offset towards what is wanted; returns the media time that is missing before
    /// this packet.
    fn follow(&mut self, slot: &Slot, latest: &Latest, wanted: i64) -> i64 {
        let step = slot.sent.saturating_sub(latest.sent).max(0);
        let missing = slot.seq.saturating_sub(latest.seq).saturating_sub(1) as i64;
        if missing == 0 && step > SILENCE_US {
            self.offset = wanted;
            return 0;
        }
        let excess = self.offset - wanted;
        let pace = if excess > FAR_US { PACE_FAR } else { PACE };
        let most = step.min(SILENCE_US) / pace;
        self.offset -= excess.clamp(-most, most);
        if missing == 0 {
            if step > 0 {
                self.spacing = step;
            }
            return 0;
        }
        missing
            .saturating_mul(self.spacing)
            .min(step.saturating_sub(self.spacing))
            .clamp(0, JUMP_US)
    }
}

/// The offset that is worth its delay.
#[derive(Clone, Debug)]
struct Target {
    base: Base,
    /// Delays above the smallest one of the window.
    excess: Fading,
    /// Delay that losing everything is worth, in milliseconds.
    loss_ms: f32,
    /// Above the base.
    worth_us: i64,
    since: u32,
}

impl Target {
    fn new(config: &Config) -> Self {
        Self {
            base: Base::new(),
            excess: Fading::new(BUCKETS, FORGET),
            loss_ms: config.ms_per_loss_percent as f32 * 100.0,
            worth_us: START_US,
            since: 0,
        }
    }

    /// Takes a delay and returns the offset.
    fn add(&mut self, at: Time, delay: i64) -> i64 {
        let base = self.base.add(at, delay);
        let excess = delay.saturating_sub(base) / BUCKET_US;
        self.excess.add((excess as usize).min(BUCKETS - 1));
        self.since += 1;
        if self.since >= EVERY {
            self.since = 0;
            let step_ms = BUCKET_US as f32 / 1_000.0;
            let bucket = self.excess.cheapest(step_ms, 0.0, self.loss_ms);
            self.worth_us = (bucket as i64 + 1) * BUCKET_US;
        }
        base.saturating_add(self.worth_us)
    }

    fn clear(&mut self) {
        self.base.clear();
    }
}
