//! Via (Jiang et al., SIGCOMM 2016), asked for each packet instead of each call.

use sangam_model::{Random, Time};

use super::Settings;
use super::history::History;
use super::report::{LOST_MS, Report, ms};

/// Share of packets that explore, any path alike. The 34,020 path changes in 600,000 packets that
/// Xiao et al. count imply it: each exploration changes away and back.
const EXPLORE: f64 = 0.03;
/// Weight of the bonus for paths that are tried seldom.
const BONUS: f64 = 0.1;

#[derive(Clone, Debug)]
pub(super) struct Via {
    history: History,
    arms: Vec<Arm>,
    pulls: f64,
    random: Random,
}

#[derive(Clone, Copy, Debug, Default)]
struct Arm {
    pulls: f64,
    heard: f64,
    mean_ms: f64,
}

impl Via {
    pub(super) fn new(settings: &Settings, paths: usize) -> Self {
        Self {
            history: History::new(&settings.history, paths, settings.refresh),
            arms: vec![Arm::default(); paths],
            pulls: 0.0,
            random: Random::new(settings.seed),
        }
    }

    /// The paths that are worth trying.
    pub(super) fn top(&self) -> &[u16] {
        self.history.top()
    }

    pub(super) fn choose(&mut self, now: Time) -> u16 {
        if self.history.refresh(now) {
            self.arms.fill(Arm::default());
            self.pulls = 0.0;
        }
        let path = if self.random.unit() < EXPLORE {
            self.random.below(self.arms.len()) as u16
        } else {
            self.best()
        };
        self.pulls += 1.0;
        self.arms[usize::from(path)].pulls += 1.0;
        path
    }

    /// The smallest of `mean / w - sqrt(0.1 ln T / n)`; one that was never tried comes first.
    fn best(&self) -> u16 {
        let scale = self.history.scale_ms.abs().max(1.0);
        let bonus = BONUS * self.pulls.max(1.0).ln();
        let index = |path: u16| {
            let path = usize::from(path);
            let arm = &self.arms[path];
            if arm.pulls == 0.0 {
                return f64::NEG_INFINITY;
            }
            let past = self.history.past(path);
            let mean_ms = match (arm.heard > 0.0, past.is_known()) {
                (true, _) => arm.mean_ms,
                (false, true) => past.mean_ms,
                (false, false) => scale,
            };
            mean_ms / scale - (bonus / arm.pulls).sqrt()
        };
        let mut best = (0, f64::INFINITY);
        for path in self.history.top() {
            let index = index(*path);
            if index < best.1 {
                best = (*path, index);
            }
        }
        best.0
    }

    pub(super) fn feedback(&mut self, path: u16, report: &Report) {
        let path = usize::from(path);
        let transit_ms = match report {
            Report::Arrived(arrival) => {
                let transit_ms = f64::from(ms(arrival.transit_us));
                self.history.observe(path, transit_ms);
                transit_ms
            }
            Report::Released { .. } => return,
            Report::Lost => LOST_MS,
        };
        let arm = &mut self.arms[path];
        arm.heard += 1.0;
        arm.mean_ms += (transit_ms - arm.mean_ms) / arm.heard;
    }
}
