//! Ours: what each link does, rather than each path; and no change without a reason.

use core::time::Duration;

use sangam_model::Time;

use super::history;
use super::report::{Probe, Report, ms};
use super::{Choice, Settings};
use crate::Paths;
use crate::estimate::{DEVIATIONS, Estimate, Run, cost_ms};

/// What a packet's transit counts in the levels of the links it crossed. Packets come a hundred
/// times a second, so the last fifth of a second decides.
const GAIN: f64 = 0.05;
/// A packet whose transit is further out than so many deviations is an outlier.
const OUTLIER: f64 = 4.0;
/// From so many outliers or losses in a row on, the path is suspect, and copies are sent.
const SUSPECT: u8 = 2;
/// So many are a change: 50 ms of packets.
const OUTLIERS: u8 = 5;
/// What each link of a path is doubted by when packets vanish, until its own probe comes back.
const VANISHED_MS: f64 = 200.0;
/// A suspicion that nothing confirms or refutes ends.
const SUSPICION: Duration = Duration::from_millis(500);
/// A link that nothing was heard of for so long is not known.
const SILENT: Duration = Duration::from_secs(5);
/// Levels drift slowly; without news, paths are compared so often.
const COMPARE_EVERY: Duration = Duration::from_millis(20);
/// Copies in a row, if none were sent for a while: a second of 10 ms packets.
const BURST: f64 = 100.0;

/// How links and paths are weighed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkStateSettings {
    /// Deviations that count beside a path's mean delay.
    pub deviations: f64,
    /// Another path must be better by at least so many milliseconds
    pub margin_ms: f64,
    /// and by this share of the cost,
    pub margin_share: f64,
    /// for so long, unless it is better by four times that;
    pub patience: Duration,
    /// and not sooner after the last change than this.
    pub rest: Duration,
    /// Copies for each packet, at most, over time; 0 sends none.
    pub duplicates: f64,
}

impl Default for LinkStateSettings {
    fn default() -> Self {
        Self {
            deviations: DEVIATIONS,
            margin_ms: 1.0,
            margin_share: 0.03,
            patience: Duration::from_millis(300),
            rest: Duration::from_millis(200),
            duplicates: 0.02,
        }
    }
}

/// A gap of so many margins needs no patience.
const PLAIN: f64 = 4.0;

#[derive(Clone, Debug)]
pub(super) struct LinkState {
    settings: LinkStateSettings,
    links: Vec<Estimate>,
    current: u16,
    /// The best beside the current one, if any other is known.
    second: Option<u16>,
    compared: Option<Time>,
    /// Something happened that may change the order of paths.
    news: bool,
    /// Since when another path has been better.
    better: Option<Time>,
    changed: Option<Time>,
    outliers: Run,
    losses: u8,
    suspected: Option<Time>,
    credit: f64,
}

impl LinkState {
    pub(super) fn new(settings: &Settings, paths: &Paths) -> Self {
        Self {
            settings: settings.link_state,
            links: vec![Estimate::default(); paths.links()],
            current: history::best(&settings.history[..settings.history.len().min(paths.len())]),
            second: None,
            compared: None,
            news: false,
            better: None,
            changed: None,
            outliers: Run::default(),
            losses: 0,
            suspected: None,
            credit: 0.0,
        }
    }

    pub(super) fn choose(&mut self, now: Time, paths: &Paths) -> Choice {
        let due = self.compared.is_none_or(|at| now - at >= COMPARE_EVERY);
        if self.news || due {
            (self.news, self.compared) = (false, Some(now));
            self.compare(now, paths);
        }
        self.credit = (self.credit + self.settings.duplicates).min(BURST);
        let suspect = self.suspected.is_some_and(|at| now - at < SUSPICION);
        let duplicate = self.second.filter(|_| suspect && self.credit >= 1.0);
        self.credit -= f64::from(u8::from(duplicate.is_some()));
        Choice {
            path: self.current,
            duplicate,
        }
    }

    fn compare(&mut self, now: Time, paths: &Paths) {
        let (mut best, mut second) = (None, None);
        let mut current = f64::INFINITY;
        for (number, path) in paths.iter().enumerate() {
            let links = path
                .links()
                .iter()
                .map(|link| &self.links[usize::from(*link)]);
            let known = |link: &Estimate| link.heard().is_some_and(|at| now - at < SILENT);
            if !links.clone().all(known) {
                continue;
            }
            let candidate = (cost_ms(links, self.settings.deviations), number as u16);
            if candidate.1 == self.current {
                current = candidate.0;
            }
            if best.is_none_or(|best| candidate < best) {
                (best, second) = (Some(candidate), best);
            } else if second.is_none_or(|second| candidate < second) {
                second = Some(candidate);
            }
        }
        let Some((cost, path)) = best else { return };
        let other = |(_, path): &(f64, u16)| *path != self.current;
        self.second = best.filter(other).or(second).map(|(_, path)| path);
        if self.is_worth(now, current - cost, cost) {
            self.second = Some(self.current);
            self.current = path;
            self.changed = Some(now);
            self.calm();
        }
    }

    /// Whether a path of this cost, cheaper by `gap`, is worth a change now.
    fn is_worth(&mut self, now: Time, gap: f64, cost: f64) -> bool {
        let settings = &self.settings;
        let margin = settings.margin_ms.max(settings.margin_share * cost.abs());
        if gap <= margin {
            self.better = None;
            return false;
        }
        let since = *self.better.get_or_insert(now);
        let rested = self.changed.is_none_or(|at| now - at >= settings.rest);
        rested && (gap > PLAIN * margin || now - since >= settings.patience)
    }

    /// What was suspected of the old path says nothing of the new one.
    fn calm(&mut self) {
        self.better = None;
        self.suspected = None;
        self.outliers = Run::default();
        self.losses = 0;
    }

    pub(super) fn probe(&mut self, now: Time, probe: &Probe) {
        let link = &mut self.links[usize::from(probe.link)];
        match probe.delay_us {
            Some(delay_us) => _ = link.observe(now, f64::from(ms(delay_us))),
            None => link.lose(now),
        }
        self.news = true;
    }

    pub(super) fn feedback(&mut self, now: Time, path: u16, paths: &Paths, report: &Report) {
        let Some(crossed) = paths.get(usize::from(path)) else {
            return;
        };
        match report {
            Report::Arrived(arrival) => {
                let transit_ms = f64::from(ms(arrival.transit_us));
                self.arrived(now, crossed.links(), transit_ms, path == self.current);
            }
            Report::Lost if path == self.current => self.lost(now, crossed.links()),
            Report::Lost | Report::Released { .. } => {}
        }
    }

    fn arrived(&mut self, now: Time, crossed: &[u16], transit_ms: f64, is_current: bool) {
        self.start(now, crossed, transit_ms);
        let (mut level, mut spread, mut uncertainty) = (0.0, 0.0, 0.0);
        for link in crossed {
            let link = &mut self.links[usize::from(*link)];
            link.advance(now);
            level += link.mean_ms();
            spread += link.spread();
            uncertainty += link.uncertainty();
        }
        let error = transit_ms - level;
        let far = OUTLIER * spread.sqrt();
        let mut changed = false;
        if is_current {
            self.losses = 0;
            let outliers = self.outliers.count(error, far);
            self.suspect(now, outliers);
            changed = outliers >= OUTLIERS;
        }
        if changed {
            self.outliers = Run::default();
            self.news = true;
        }
        for link in crossed {
            let link = &mut self.links[usize::from(*link)];
            if changed {
                let step = link.nudge(error, uncertainty);
                link.doubt(step);
            } else {
                link.nudge(GAIN * error.clamp(-far, far), uncertainty);
            }
        }
    }

    /// Links that nothing is known of share what the known ones leave.
    fn start(&mut self, now: Time, crossed: &[u16], transit_ms: f64) {
        let (mut known_ms, mut unknown) = (0.0, 0.0);
        for link in crossed {
            let link = &self.links[usize::from(*link)];
            match link.heard() {
                Some(_) => known_ms += link.mean_ms(),
                None => unknown += 1.0,
            }
        }
        for link in crossed {
            let link = &mut self.links[usize::from(*link)];
            if link.heard().is_none() {
                link.start(now, (transit_ms - known_ms) / unknown);
                self.news = true;
            }
        }
    }

    fn lost(&mut self, now: Time, crossed: &[u16]) {
        self.losses = self.losses.saturating_add(1);
        self.suspect(now, self.losses);
        if self.losses == OUTLIERS {
            for link in crossed {
                self.links[usize::from(*link)].doubt(VANISHED_MS);
            }
            self.news = true;
        }
    }

    fn suspect(&mut self, now: Time, signs: u8) {
        if signs >= SUSPECT {
            self.suspected = Some(now);
        } else if signs == 0 {
            self.suspected = None;
        }
    }
}
