//! Feedback on its way to the origin: merged and limited at every hop.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use sangam_model::{StreamId, Time};
use sangam_wire::Header;
use sangam_wire::feedback::{Feedback, Nack, Report};

use sangam_model::hash;

/// One key-frame request per stream and layer passes in so long.
pub const KEY_FRAME_INTERVAL: Duration = Duration::from_millis(300);
/// One request for a lost event passes in so long.
pub const NACK_INTERVAL: Duration = Duration::from_millis(50);
/// One receiver report per stream passes in so long.
pub const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Streams (and layers) with feedback under way at once.
pub const FEEDBACK_STREAMS_MAX: usize = 4_096;
/// Requests for lost events remembered; one that is overwritten may pass again too early.
const NACK_SLOTS: usize = 8_192;

/// Lets through what a neighbour nearer to the origin needs to hear, and no more.
#[derive(Debug)]
pub struct FeedbackGate {
    /// Whether somebody has asked again since, and the hop limit of that.
    keys: BTreeMap<(StreamId, u8), Option<u8>>,
    /// When each of `keys` may pass again; in order, as the interval is one.
    key_timers: VecDeque<(Time, (StreamId, u8))>,
    reports: BTreeMap<StreamId, (Report, u8)>,
    report_timers: VecDeque<(Time, StreamId)>,
    nacks: Box<[Asked]>,
    outputs: VecDeque<(FeedbackOutput, u8)>,
}

/// Feedback to pass on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedbackOutput {
    /// The stream it is about.
    pub stream: StreamId,
    /// The layer; 0 for reports.
    pub layer: u8,
    /// What to say.
    pub feedback: Feedback,
}

/// What became of a piece of feedback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// It passes, at least in part.
    Passed,
    /// It was said a moment ago, or waits to be said together with others.
    Merged,
    /// The table is full; it is gone.
    Full,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    stream: StreamId,
    sequence: u16,
    at: Time,
}

impl FeedbackGate {
    /// A gate that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        let never = Asked {
            stream: StreamId::from_bits(0),
            sequence: 0,
            at: Time::NEVER,
        };
        Self {
            keys: BTreeMap::new(),
            key_timers: VecDeque::new(),
            reports: BTreeMap::new(),
            report_timers: VecDeque::new(),
            nacks: vec![never; NACK_SLOTS].into_boxed_slice(),
            outputs: VecDeque::new(),
        }
    }

    /// Takes one piece of feedback with the header it came under.
    pub fn handle(&mut self, now: Time, header: &Header, feedback: &Feedback) -> Gate {
        self.expire(now);
        match feedback {
            Feedback::KeyFrame => self.key_frame(now, header),
            Feedback::Nack(nack) => self.nack(now, header, *nack),
            Feedback::Report(report) => self.report(now, header, *report),
        }
    }

    /// A key frame of this stream and layer came by: what waited for it is content.
    pub fn key_frame_seen(&mut self, stream: StreamId, layer: u8) {
        if let Some(again) = self.keys.get_mut(&(stream, layer)) {
            *again = None;
        }
    }

    /// Lets pass what was held back until now.
    pub fn expire(&mut self, now: Time) {
        while let Some(key) = due(&mut self.key_timers, now) {
            if let Some(Some(hop_limit)) = self.keys.get(&key).copied() {
                self.keys.insert(key, None);
                self.key_timers.push_back((now + KEY_FRAME_INTERVAL, key));
                self.send(key, Feedback::KeyFrame, hop_limit);
            } else {
                self.keys.remove(&key);
            }
        }
        while let Some(stream) = due(&mut self.report_timers, now) {
            if let Some((report, hop_limit)) = self.reports.remove(&stream) {
                self.send((stream, 0), Feedback::Report(report), hop_limit);
            }
        }
    }

    /// What is to be passed on.
    pub fn poll(&mut self) -> Option<FeedbackOutput> {
        self.poll_relayed().map(|(output, _)| output)
    }

    /// The same with the hop limit it came with; of what was merged the largest.
    pub fn poll_relayed(&mut self) -> Option<(FeedbackOutput, u8)> {
        self.outputs.pop_front()
    }

    /// When [`Self::expire`] has something to do.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let key = self.key_timers.front().map(|(due, _)| *due);
        let report = self.report_timers.front().map(|(due, _)| *due);
        key.into_iter().chain(report).min()
    }

    fn key_frame(&mut self, now: Time, header: &Header) -> Gate {
        let key = (header.stream, header.layer);
        if let Some(again) = self.keys.get_mut(&key) {
            *again = (*again).max(Some(header.hop_limit));
            return Gate::Merged;
        }
        if self.keys.len() >= FEEDBACK_STREAMS_MAX {
            return Gate::Full;
        }
        self.keys.insert(key, None);
        self.key_timers.push_back((now + KEY_FRAME_INTERVAL, key));
        self.send(key, Feedback::KeyFrame, header.hop_limit);
        Gate::Passed
    }

    fn nack(&mut self, now: Time, header: &Header, nack: Nack) -> Gate {
        let lost = (0..=16_u16).filter(|i| *i == 0 || nack.also & (1 << (i - 1)) != 0);
        let mut rest: Option<Nack> = None;
        for sequence in lost.map(|i| nack.first.wrapping_add(i)) {
            if !self.ask(now, header.stream, sequence) {
                continue;
            }
            match &mut rest {
                None => {
                    rest = Some(Nack {
                        first: sequence,
                        also: 0,
                    })
                }
                Some(rest) => rest.also |= 1 << (sequence.wrapping_sub(rest.first) - 1),
            }
        }
        let Some(rest) = rest else {
            return Gate::Merged;
        };
        let about = (header.stream, header.layer);
        self.send(about, Feedback::Nack(rest), header.hop_limit);
        Gate::Passed
    }

    fn ask(&mut self, now: Time, stream: StreamId, sequence: u16) -> bool {
        let at = hash::fold(stream.bits(), hash::KEY) as usize;
        let slot = &mut self.nacks[at.wrapping_add(usize::from(sequence)) % NACK_SLOTS];
        let same = slot.stream == stream && slot.sequence == sequence && slot.at != Time::NEVER;
        if same && now.since(slot.at) < NACK_INTERVAL {
            return false;
        }
        *slot = Asked {
            stream,
            sequence,
            at: now,
        };
        true
    }

    fn report(&mut self, now: Time, header: &Header, report: Report) -> Gate {
        let stream = header.stream;
        if let Some((worst, hop_limit)) = self.reports.get_mut(&stream) {
            *worst = worse(*worst, report);
            *hop_limit = (*hop_limit).max(header.hop_limit);
        } else if self.reports.len() >= FEEDBACK_STREAMS_MAX {
            return Gate::Full;
        } else {
            self.reports.insert(stream, (report, header.hop_limit));
            self.report_timers
                .push_back((now + REPORT_INTERVAL, stream));
        }
        Gate::Merged
    }

    fn send(&mut self, (stream, layer): (StreamId, u8), feedback: Feedback, hop_limit: u8) {
        let output = FeedbackOutput {
            stream,
            layer,
            feedback,
        };
        self.outputs.push_back((output, hop_limit));
    }
}

impl Default for FeedbackGate {
    fn default() -> Self {
        Self::new()
    }
}

fn due<K>(timers: &mut VecDeque<(Time, K)>, now: Time) -> Option<K> {
    let passed = timers.front().is_some_and(|(due, _)| *due <= now);
    if passed {
        timers.pop_front().map(|(_, key)| key)
    } else {
        None
    }
}

/// The worst of both in each respect; the sequence is that of the one that loses more.
fn worse(a: Report, b: Report) -> Report {
    let capacity = match (a.capacity_kbps, b.capacity_kbps) {
        (0, known) | (known, 0) => known,
        (a, b) => a.min(b),
    };
    let loser = if a.fraction_lost >= b.fraction_lost {
        a
    } else {
        b
    };
    Report {
        fraction_lost: loser.fraction_lost,
        highest: loser.highest,
        jitter_us: a.jitter_us.max(b.jitter_us),
        capacity_kbps: capacity,
    }
}

#[cfg(test)]
#[path = "feedback_tests.rs"]
mod tests;
