//! A greedy TCP flow: slow start, NewReno or CUBIC, fast recovery, timeouts.

use std::collections::BTreeMap;
use std::time::Duration;

use sangam_model::Time;

use super::Load;

/// What the window follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Law {
    /// RFC 5681, RFC 6582.
    NewReno,
    /// RFC 9438.
    Cubic,
}

pub(super) struct Tcp {
    law: Law,
    window: f64,
    threshold: f64,
    /// CUBIC: the window before the last loss, Reno's window, and when that was.
    most: f64,
    reno: f64,
    since: Time,
    next: u64,
    flying: BTreeMap<u64, Time>,
    /// Losses below this number belong to the last one.
    recover: u64,
    rtt: Duration,
    heard: Time,
}

impl Tcp {
    pub(super) fn new(law: Law) -> Self {
        Self {
            law,
            window: 10.0,
            threshold: f64::INFINITY,
            most: 0.0,
            reno: 0.0,
            since: Time::ZERO,
            next: 0,
            flying: BTreeMap::new(),
            recover: 0,
            rtt: Duration::from_millis(100),
            heard: Time::ZERO,
        }
    }

    pub(super) fn next(&mut self, now: Time) -> Option<Load> {
        if self.flying.len() as f64 >= self.window {
            return None;
        }
        if self.flying.is_empty() {
            self.heard = now;
        }
        self.next += 1;
        self.flying.insert(self.next, now);
        Some(Load::Data(self.next))
    }

    /// Looks for a timeout now and then.
    pub(super) fn wakes(&mut self, now: Time) -> Time {
        if now - self.heard > (self.rtt * 4).max(Duration::from_millis(400)) {
            self.flying.clear();
            self.threshold = (self.window / 2.0).max(2.0);
            self.window = 1.0;
            self.heard = now;
            self.recover = self.next;
        }
        now + Duration::from_millis(50)
    }

    pub(super) fn acknowledged(&mut self, now: Time, number: u64) {
        let Some(sent) = self.flying.remove(&number) else {
            return;
        };
        self.heard = now;
        self.rtt = (self.rtt * 7 + (now - sent)) / 8;
        // Three later ones arrived: whatever is older is lost.
        let lost: Vec<u64> = self
            .flying
            .range(..number.saturating_sub(2))
            .map(|(number, _)| *number)
            .collect();
        for number in lost {
            self.flying.remove(&number);
            if number > self.recover {
                self.recover = self.next;
                self.reduce(now);
            }
        }
        if number > self.recover {
            self.grow(now);
        }
    }

    fn reduce(&mut self, now: Time) {
        let beta = if self.law == Law::Cubic { 0.7 } else { 0.5 };
        self.most = if self.window < self.most {
            self.window * (1.0 + beta) / 2.0
        } else {
            self.window
        };
        self.window = (self.window * beta).max(2.0);
        self.threshold = self.window;
        self.reno = self.window;
        self.since = now;
    }

    fn grow(&mut self, now: Time) {
        if self.window < self.threshold {
            self.window += 1.0;
            return;
        }
        if self.law == Law::NewReno {
            self.window += 1.0 / self.window;
            return;
        }
        let step = if self.reno < self.most { 0.53 } else { 1.0 };
        self.reno += step / self.window;
        let k = (self.most * 0.3 / 0.4).cbrt();
        let t = (now - self.since).as_secs_f64() + self.rtt.as_secs_f64();
        let target = (0.4 * (t - k).powi(3) + self.most).min(1.5 * self.window);
        if target > self.window {
            self.window += (target - self.window) / self.window;
        } else {
            self.window += 0.01 / self.window;
        }
        self.window = self.window.max(self.reno);
    }
}
