//! Our receiver: what is next goes at once, what is missing is waited for while that pays.
//!
//! Whoever waits for a quantile of the jitter makes every packet wait. Here only packets behind a
//! gap wait, and for how long follows from what past gaps have taught: how many were filled, and
//! how late ([`Patience`]).

use core::time::Duration;

use sangam_model::Time;

use crate::buffer::Admission;
use crate::line::Line;
use crate::{Config, HELD_MAX, Packet};

const BUCKET_US: u64 = 5_000;
/// Together 2 s; what is later is as good as lost.
const BUCKETS: usize = 400;
/// Half of the weight is on the last 140 gaps.
const FORGET: f32 = 0.995;
/// The wait is computed anew after so many missing packets.
const EVERY: u32 = 16;
/// Until gaps have taught more.
const START_US: u64 = 60_000;
/// The assumption has the weight of so many gaps.
const START_WEIGHT: f32 = 4.0;

/// Releases in order, with an eye on gaps.
#[derive(Clone, Debug)]
pub(crate) struct Ours {
    patience: Patience,
    /// One more than the highest sequence that came.
    top: u64,
    /// The timestamp of that.
    newest: Option<i64>,
}

impl Ours {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            patience: Patience::new(config),
            top: 0,
            newest: None,
        }
    }

    pub(crate) fn packet(&mut self, line: &mut Line, packet: Packet, now: Time) {
        let started = line.held.is_started();
        match line.admit(packet, now, |line| line.release(now)) {
            Admission::Held(since) => {
                if let Some(since) = since {
                    self.patience.filled(now.since(since));
                }
                self.notice(packet, started);
            }
            Admission::Late(Some(since)) => self.patience.filled(now.since(since)),
            _ => {}
        }
        if !started {
            line.release(now);
        }
        self.go_on(line, now);
    }

    pub(crate) fn deadline(&self, line: &Line) -> Option<Time> {
        let since = line.held.missing_since()?;
        (line.held.len() > 0).then(|| since + self.patience.wait)
    }

    /// Gives up what is missing.
    pub(crate) fn expired(&mut self, line: &mut Line, at: Time) {
        line.held.skip();
        self.go_on(line, at);
    }

    /// Releases what is next in sequence.
    fn go_on(&mut self, line: &mut Line, at: Time) {
        let next = |line: &Line| line.held.first().map(|slot| slot.seq);
        while next(line) == Some(line.held.floor()) {
            line.release(at);
        }
    }

    /// Learns how often packets come, and that some are missing.
    fn notice(&mut self, packet: Packet, started: bool) {
        let sent = packet.sent_us();
        if packet.seq >= self.top {
            let missing = packet.seq - self.top;
            if started && (1..HELD_MAX as u64).contains(&missing) {
                self.patience.opened(missing);
            }
            self.top = packet.seq.saturating_add(1);
            if let Some(timestamp) = self.newest.filter(|_| missing == 0) {
                self.patience.spaced(sent.saturating_sub(timestamp));
            }
            self.newest = Some(sent);
        }
    }
}

/// For how long to wait for what is missing.
///
/// Waiting for `w` costs the delay of all packets that come meanwhile and brings those that fill
/// their gap within `w`; each of them is worth the price of a loss.
#[derive(Clone, Debug)]
struct Patience {
    /// Weights of missing packets that came, by how late.
    came: Box<[f32]>,
    /// Weight of all missing packets, and of the gaps in which they were missing.
    missing: f32,
    gaps: f32,
    /// Between two packets, in milliseconds.
    spacing_ms: f32,
    price_ms: f32,
    wait: Duration,
    /// Events since that was computed, and by what weights are to be multiplied then.
    since: u32,
    forget: f32,
}

impl Patience {
    fn new(config: &Config) -> Self {
        let known = (START_US / BUCKET_US) as usize;
        let share = START_WEIGHT / known as f32;
        let weight = |bucket| if bucket < known { share } else { 0.0 };
        Self {
            came: (0..BUCKETS).map(weight).collect(),
            missing: START_WEIGHT,
            gaps: START_WEIGHT,
            spacing_ms: 10.0,
            price_ms: config.ms_per_loss_percent as f32 * 100.0,
            wait: Duration::from_micros(START_US),
            since: 0,
            forget: 1.0,
        }
    }

    /// A gap of so many packets has opened.
    fn opened(&mut self, missing: u64) {
        self.forget *= FORGET;
        self.missing += missing as f32;
        self.gaps += 1.0;
        self.learn();
    }

    /// A missing packet has come so late.
    fn filled(&mut self, late: Duration) {
        let bucket = (late.as_micros() as u64 / BUCKET_US) as usize;
        if let Some(weight) = self.came.get_mut(bucket) {
            *weight += 1.0;
        }
        self.learn();
    }

    fn spaced(&mut self, us: i64) {
        if (1_000..200_000).contains(&us) {
            self.spacing_ms = us as f32 / 1_000.0;
        }
    }

    fn learn(&mut self) {
        self.since += 1;
        if self.since >= EVERY {
            self.since = 0;
            self.fade();
            self.wait = Duration::from_micros(self.cheapest() * BUCKET_US);
        }
    }

    /// Gaps of long ago count less.
    fn fade(&mut self) {
        let forget = core::mem::replace(&mut self.forget, 1.0);
        self.came.iter_mut().for_each(|weight| *weight *= forget);
        self.missing *= forget;
        self.gaps *= forget;
    }

    /// The buckets to wait for. One gap makes the same packets wait however many are missing.
    fn cheapest(&self) -> u64 {
        let gap = self.gaps / self.missing.max(1e-6);
        let (mut best, mut least) = (0, f32::INFINITY);
        let (mut cost_of_filled, mut open) = (0.0, self.missing);
        let mut lost: f32 = self.came.iter().sum();
        for wait in 0..=self.came.len() {
            let delay = gap * (cost_of_filled + open * self.held(wait));
            if delay >= least {
                // It only grows with the wait.
                break;
            }
            let cost = delay + self.price_ms * lost;
            if cost < least {
                (best, least) = (wait as u64, cost);
            }
            if let Some(weight) = self.came.get(wait) {
                cost_of_filled += weight * self.held(wait + 1);
                open -= weight;
                lost -= weight;
            }
        }
        best
    }

    /// Milliseconds that packets wait together if the first waits for so many buckets.
    fn held(&self, buckets: usize) -> f32 {
        let ms = buckets as f32 * BUCKET_US as f32 / 1_000.0;
        ms + ms * ms / (2.0 * self.spacing_ms)
    }
}
