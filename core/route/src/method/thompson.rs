//! Thompson sampling on the predicted end-to-end latency: VCRoute (Xiao et al., section IV) and
//! its relatives that forget.

use std::collections::VecDeque;

use sangam_model::{Random, Time};

use super::history::History;
use super::report::{LOST_MS, Probe, Report, ms};
use super::{Settings, WINDOW_MAX};
use crate::Paths;
use crate::predictor::{Predictor, State};

/// Precision of the belief before the first observation, around a latency of zero: every path
/// seems better than any can be, and is tried.
const PRECISION: f64 = 0.001;

/// What is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Draw {
    /// A mean, from its posterior.
    Mean,
    /// A packet's latency, from the posterior predictive distribution: to the letter.
    Latency,
}

/// Which observations count.
#[derive(Clone, Debug)]
pub(super) enum Memory {
    All,
    /// The last so many.
    Window(usize, VecDeque<(u16, f32)>),
    /// Each by this factor less than the next.
    Discount(f64),
}

#[derive(Clone, Debug)]
pub(super) struct Thompson {
    draw: Draw,
    memory: Memory,
    arms: Vec<Arm>,
    history: History,
    predictor: Predictor,
    random: Random,
    /// By link, what the last probe found.
    links_ms: Vec<Option<f32>>,
    /// For paths that were probed and never taken.
    lag_ms: f32,
    pub(super) predicted_ms: Option<f32>,
}

#[derive(Clone, Copy, Debug)]
struct Arm {
    count: f64,
    sum_ms: f64,
    /// Of one observation: the reciprocal of the variance in the path's history.
    precision: f64,
    last: Option<State>,
}

impl Memory {
    pub(super) fn window(packets: usize) -> Self {
        let packets = packets.clamp(1, WINDOW_MAX);
        Self::Window(packets, VecDeque::with_capacity(packets + 1))
    }
}

impl Thompson {
    pub(super) fn new(draw: Draw, memory: Memory, paths: &Paths, settings: &Settings) -> Self {
        let history = History::new(&settings.history, paths.len(), settings.refresh);
        let arm = |path| Arm {
            count: 0.0,
            sum_ms: 0.0,
            precision: 1.0 / history.past(path).variance(),
            last: None,
        };
        Self {
            draw,
            memory,
            arms: (0..paths.len()).map(arm).collect(),
            history,
            predictor: settings.predictor.clone(),
            random: Random::new(settings.seed),
            links_ms: vec![None; paths.links()],
            lag_ms: 0.0,
            predicted_ms: None,
        }
    }

    /// The paths that are worth trying.
    pub(super) fn top(&self) -> &[u16] {
        self.history.top()
    }

    pub(super) fn choose(&mut self, now: Time) -> u16 {
        if self.history.refresh(now) {
            for (path, arm) in self.arms.iter_mut().enumerate() {
                arm.precision = 1.0 / self.history.past(path).variance();
            }
        }
        if let Memory::Discount(keep) = self.memory {
            for arm in &mut self.arms {
                arm.count *= keep;
                arm.sum_ms *= keep;
            }
        }
        let mut best = (0, f64::INFINITY);
        for path in self.history.top() {
            let arm = &self.arms[usize::from(*path)];
            let drawn = arm.draw(self.draw, &mut self.random);
            if drawn < best.1 {
                best = (*path, drawn);
            }
        }
        let path = best.0;
        // Feedback is late: what the path did last stands in for what this packet will find.
        let last = self.arms[usize::from(path)].last;
        self.predicted_ms = last.map(|state| self.predictor.predict(&state));
        if let Some(ms) = self.predicted_ms {
            self.observe(path, ms);
        }
        path
    }

    /// Equations 1 and 2, with sums in place of running means.
    fn observe(&mut self, path: u16, latency_ms: f32) {
        let add = |arm: &mut Arm, sign: f64, ms: f32| {
            arm.count += sign;
            arm.sum_ms += sign * f64::from(ms);
        };
        add(&mut self.arms[usize::from(path)], 1.0, latency_ms);
        if let Memory::Window(packets, last) = &mut self.memory {
            last.push_back((path, latency_ms));
            if last.len() > *packets
                && let Some((path, ms)) = last.pop_front()
            {
                add(&mut self.arms[usize::from(path)], -1.0, ms);
            }
        }
    }

    pub(super) fn feedback(&mut self, path: u16, report: &Report) {
        match report {
            Report::Arrived(arrival) => {
                let state = arrival.state();
                self.lag_ms = state.lag_ms;
                self.arms[usize::from(path)].last = Some(state);
                self.history
                    .observe(usize::from(path), state.transit_ms.into());
            }
            Report::Released {
                arrival,
                end_to_end_us,
            } => self.predictor.learn(&arrival.state(), ms(*end_to_end_us)),
            // The paper has no word on loss; to the letter it is no observation.
            Report::Lost if self.draw == Draw::Mean => self.observe(path, LOST_MS as f32),
            Report::Lost => {}
        }
    }

    /// A probe of a link is an observation of each path that crosses it.
    pub(super) fn probe(&mut self, paths: &Paths, probe: &Probe) {
        let link = usize::from(probe.link);
        self.links_ms[link] = Some(probe.delay_us.map_or(LOST_MS as f32, ms));
        for path in paths.through(link) {
            let Some(crossed) = paths.get(usize::from(*path)) else {
                continue;
            };
            let links = crossed.links().iter();
            let transit_ms: Option<f32> = links.map(|link| self.links_ms[usize::from(*link)]).sum();
            let Some(transit_ms) = transit_ms else {
                continue;
            };
            let arm = &mut self.arms[usize::from(*path)];
            let before = arm.last.unwrap_or(State {
                lag_ms: self.lag_ms,
                ..State::default()
            });
            let state = State {
                transit_ms,
                ..before
            };
            arm.last = Some(state);
            let predicted_ms = self.predictor.predict(&state);
            self.observe(*path, predicted_ms);
        }
    }
}

impl Arm {
    fn draw(&self, draw: Draw, random: &mut Random) -> f64 {
        let precision = PRECISION + self.count.max(0.0) * self.precision;
        let mean_ms = self.precision * self.sum_ms / precision;
        let variance = match draw {
            Draw::Mean => 1.0 / precision,
            Draw::Latency => 1.0 / precision + 1.0 / self.precision,
        };
        mean_ms + variance.sqrt() * random.normal()
    }
}
