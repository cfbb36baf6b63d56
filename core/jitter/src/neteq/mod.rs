//! A receiver like WebRTC's NetEQ: every 10 ms it decides how to go on.
//!
//! What NetEQ does to samples is left out: stretching or compressing changes the length by
//! [`STRETCH_US`], concealment by nothing.

mod target;

use core::time::Duration;

use sangam_model::Time;

use crate::Packet;
use crate::buffer::Admission;
use crate::line::Line;
use crate::window::{Base, delay_us};
use target::DelayManager;

/// NetEQ's output is asked for in pieces of 10 ms.
const TICK_US: i64 = 10_000;
const TICK: Duration = Duration::from_micros(TICK_US as u64);
/// How far above the target packets are compressed.
const GRANULARITY_US: i64 = 20_000;
/// How much more than its target is held while a later packet waits for its time.
const PATIENCE_US: i64 = 50_000;
/// One pitch period of a speaking voice; in WebRTC it depends on the voice.
const STRETCH_US: i64 = 5_000;
/// Compressing fast takes out several.
const FAST_US: i64 = 2 * STRETCH_US;
/// Ticks between two changes of length, unless they are fast.
const REST_TICKS: u32 = 6;
/// Until the timestamps of two packets say more.
const SPACING_US: i64 = 20_000;
/// The longest packet of Opus; longer steps are silence.
const SPACING_MAX_US: i64 = 120_000;
/// A timestamp so far from the one expected begins a new stream.
const JUMP_US: i64 = 5_000_000;

/// Decisions and their state.
#[derive(Clone, Debug)]
pub(crate) struct NetEq {
    base: Base,
    manager: DelayManager,
    /// Of the highest sequence that came.
    newest: Option<(u64, i64)>,
    /// Media time of one packet.
    spacing: i64,
    /// When to decide next; `None` while there is nothing.
    tick: Option<Time>,
    /// When the last packet ran out, while there is nothing.
    dry: Option<Time>,
    /// Sequence and timestamp that would be next.
    expected: Option<(u64, i64)>,
    /// Decoded and not yet played at the next tick.
    surplus: i64,
    /// What was concealed since the last packet.
    concealed: i64,
    rest: u32,
}

impl NetEq {
    pub(crate) fn new() -> Self {
        Self {
            base: Base::new(),
            manager: DelayManager::new(),
            newest: None,
            spacing: SPACING_US,
            tick: None,
            dry: None,
            expected: None,
            surplus: 0,
            concealed: 0,
            rest: 0,
        }
    }

    pub(crate) fn packet(&mut self, line: &mut Line, packet: Packet, now: Time) {
        let sent = packet.sent_us();
        let delay = delay_us(now, sent);
        let arrival = delay.saturating_sub(self.base.add(now, delay)).max(0);
        let reordered = self.newest.is_some_and(|(seq, _)| packet.seq < seq);
        let admission = line.admit(packet, now, |line| line.take(now, now));
        if admission == Admission::Duplicate {
            return;
        }
        self.notice_spacing(packet.seq, sent);
        self.manager.packet(now, arrival, reordered, self.spacing);
        if !reordered {
            self.newest = Some((packet.seq, sent));
        }
        if self.tick.is_none() && line.held.len() > 0 {
            self.wake(now);
        }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.tick
    }

    /// Decides at a tick.
    pub(crate) fn expired(&mut self, line: &mut Line, at: Time) {
        self.rest = self.rest.saturating_sub(1);
        while self.surplus < TICK_US && self.decode(line, at) {}
        if self.surplus < TICK_US {
            if line.held.len() == 0 {
                self.tick = None;
                self.dry = Some(at);
                return;
            }
            self.conceal(TICK_US);
        }
        self.surplus -= TICK_US;
        self.tick = Some(at + TICK);
    }

    /// Ticks go on where they stopped; what passed meanwhile was concealed.
    fn wake(&mut self, now: Time) {
        let Some(dry) = self.dry.take() else {
            self.tick = Some(now);
            return;
        };
        let ticks = now.since(dry).as_micros().div_ceil(TICK.as_micros()) as i64;
        let passed = ticks.saturating_mul(TICK_US);
        self.conceal(passed);
        self.surplus -= passed;
        self.tick = Some(dry + Duration::from_micros(passed as u64));
    }

    fn conceal(&mut self, us: i64) {
        let gap = us - self.surplus.min(us);
        self.concealed = self.concealed.saturating_add(gap);
        self.surplus = self.surplus.max(us);
    }

    /// Decodes a packet unless it is better to conceal; false if nothing was decoded.
    fn decode(&mut self, line: &mut Line, at: Time) -> bool {
        let Some(first) = line.held.first() else {
            return false;
        };
        let (seq, sent) = (first.seq, first.sent);
        let (next, timestamp) = self.expected.unwrap_or((seq, sent));
        let leap = sent.saturating_sub(timestamp);
        let jumped = leap.abs() > JUMP_US;
        let waits = leap > self.concealed && self.span(line, sent) <= self.patience();
        if waits && !jumped {
            return false;
        }
        let play = at + Duration::from_micros(self.surplus as u64);
        // Between two packets in a row is silence, not loss.
        let silence = if seq == next { leap.max(0) } else { 0 };
        self.tell_concealed(line, play, silence);
        let change = if self.concealed > 0 || leap > 0 {
            0
        } else {
            self.change(at, sent)
        };
        self.concealed = 0;
        line.take(at, play);
        if leap < 0 && !jumped {
            // More of a video frame that was begun.
            self.expected = Some((seq.saturating_add(1), timestamp));
            return true;
        }
        self.surplus += (self.spacing + change).max(0);
        let after = sent.saturating_add(self.spacing);
        self.expected = Some((seq.saturating_add(1), after));
        true
    }

    /// By how much the next packet is stretched or, below zero, compressed.
    fn change(&mut self, at: Time, sent: i64) -> i64 {
        let target = self.manager.target_us();
        let base = self.base.get().unwrap_or(0);
        let delay = delay_us(at, sent)
            .saturating_add(self.surplus)
            .saturating_sub(base);
        let high = target + GRANULARITY_US;
        if delay >= 4 * high {
            return -FAST_US;
        }
        let change = match delay {
            _ if self.rest > 0 => return 0,
            delay if delay >= high => -STRETCH_US,
            delay if delay < target => STRETCH_US,
            _ => return 0,
        };
        self.rest = REST_TICKS;
        change
    }

    fn tell_concealed(&self, line: &mut Line, play: Time, silence: i64) {
        let us = self.concealed.saturating_sub(silence);
        if us > 0 {
            let length = Duration::from_micros(us as u64);
            let begin = play.as_micros().saturating_sub(us as u64);
            line.out.conceal(Time::from_micros(begin), length);
        }
    }

    fn patience(&self) -> i64 {
        self.manager.target_us() + PATIENCE_US
    }

    /// Media time from the first held packet to the end of the newest.
    fn span(&self, line: &Line, first: i64) -> i64 {
        let last = line.held.last().map_or(first, |slot| slot.sent);
        last.saturating_sub(first).saturating_add(self.spacing)
    }

    fn notice_spacing(&mut self, seq: u64, sent: i64) {
        if let Some((newest, timestamp)) = self.newest
            && seq == newest.wrapping_add(1)
        {
            let spacing = sent.saturating_sub(timestamp);
            if (1..=SPACING_MAX_US).contains(&spacing) {
                self.spacing = spacing;
            }
        }
    }
}
