//! WMJitter: what is older than a watermark is let out in order (VCRoute paper, section V).

use core::time::Duration;

use sangam_model::Time;

use crate::buffer::Admission;
use crate::line::Line;
use crate::window::{Base, Counts, delay_us};
use crate::{Config, Packet};

/// VCRoute paper, algorithm 2: `PktSize`, the paper's 10 ms of media.
const BUCKET_US: i64 = 10_000;
/// Together 2 s; a longer jitter counts as the longest.
const BUCKETS: u16 = 200;
/// When nothing has come for so long beyond the lag, the watermark passes what is held: an
/// utterance ends there. The paper's watermark moves with arrivals only, and waits for the next.
const IDLE: Duration = Duration::from_millis(100);

/// How the paper is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Algorithms 1 and 2 as printed: jitter against the last packet, of all history.
    Letter,
    /// The same over the window that the caption of `jtHistory` speaks of.
    LetterWindow,
    /// Jitter against the fastest packet of the window; losses weigh as in NetEQ; ends of
    /// utterances are let out.
    Ours,
    /// Figure 6: a lag that is given, in microseconds, and `ts <= wm`.
    Figure6(i64),
}

/// The state of algorithms 1 and 2.
#[derive(Clone, Debug)]
pub(crate) struct WmJitter {
    reading: Reading,
    percentile: f64,
    /// What losing everything costs, in milliseconds.
    loss_ms: f64,
    base: Base,
    jitter: Counts,
    last_delay: Option<i64>,
    /// Of the last packet, in microseconds.
    last_jitter: i64,
    /// `latestTS`.
    latest: i64,
    /// In microseconds.
    lag: i64,
    watermark: i64,
    arrived: Time,
}

impl WmJitter {
    pub(crate) fn new(reading: Reading, config: &Config) -> Self {
        let per_percent = match reading {
            // Algorithm 2, line 12: PktSize is the weight as well.
            Reading::Letter | Reading::LetterWindow | Reading::Figure6(_) => 10.0,
            Reading::Ours => config.ms_per_loss_percent,
        };
        Self {
            reading,
            percentile: config.percentile,
            loss_ms: per_percent * 100.0,
            base: Base::new(),
            jitter: match reading {
                Reading::Letter | Reading::Figure6(_) => Counts::ever(BUCKETS),
                Reading::LetterWindow | Reading::Ours => Counts::windowed(BUCKETS),
            },
            last_delay: None,
            last_jitter: 0,
            latest: i64::MIN,
            lag: 0,
            watermark: i64::MIN,
            arrived: Time::ZERO,
        }
    }

    /// Algorithm 1.
    pub(crate) fn packet(&mut self, line: &mut Line, packet: Packet, now: Time) {
        let sent = packet.sent_us();
        if sent < self.watermark {
            return line.refuse(packet.seq);
        }
        let admission = line.admit(packet, now, |line| line.release(now));
        if !matches!(admission, Admission::Held(_)) {
            return;
        }
        self.arrived = now;
        self.lag = self.lag(sent, now);
        // Equation 3.
        self.watermark = self.watermark.max(sent.saturating_sub(self.lag));
        while line.held.first().is_some_and(|slot| self.is_due(slot.sent)) {
            line.release(now);
        }
    }

    /// Jitter of the last packet and lag, in microseconds.
    pub(crate) const fn estimate(&self) -> (i64, i64) {
        (self.last_jitter, self.lag)
    }

    pub(crate) fn deadline(&self, line: &Line) -> Option<Time> {
        let lets_out = self.reading == Reading::Ours && line.held.len() > 0;
        lets_out.then(|| self.arrived + IDLE + Duration::from_micros(self.lag as u64))
    }

    pub(crate) fn expired(&mut self, line: &mut Line, at: Time) {
        self.watermark = self.watermark.max(self.latest);
        while line.held.len() > 0 {
            line.release(at);
        }
    }

    fn is_due(&self, sent: i64) -> bool {
        match self.reading {
            Reading::Figure6(_) => sent <= self.watermark,
            _ => sent < self.watermark,
        }
    }

    /// Algorithm 2.
    fn lag(&mut self, sent: i64, now: Time) -> i64 {
        let delay = delay_us(now, sent);
        let jitter = match self.reading {
            Reading::Ours => delay.saturating_sub(self.base.add(now, delay)),
            _ => delay
                .saturating_sub(self.last_delay.unwrap_or(delay))
                .saturating_abs(),
        };
        self.last_delay = Some(delay);
        self.last_jitter = jitter;
        self.jitter.add(now, (jitter / BUCKET_US) as usize);
        let in_order = sent > self.latest;
        self.latest = self.latest.max(sent);
        if let Reading::Figure6(lag) = self.reading {
            return lag;
        }
        if in_order {
            return self.jitter.quantile(self.percentile) as i64 * BUCKET_US;
        }
        let bucket_ms = BUCKET_US as f64 / 1_000.0;
        let lag_ms = self.lag as f64 / 1_000.0;
        let cheapest = self.jitter.cheapest(bucket_ms, lag_ms, self.loss_ms);
        self.lag.max(cheapest as i64 * BUCKET_US)
    }
}
