//! What is known of paths from long observation, and which of them are worth trying.

use core::time::Duration;

use sangam_model::Time;

/// What is known of a path before the session: how `samples` packets or pings fared.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Past {
    /// Mean one-way delay in milliseconds.
    pub mean_ms: f64,
    /// Its standard deviation in milliseconds.
    pub deviation_ms: f64,
    /// Independent measurements behind both; 0 if nothing is known.
    pub samples: u32,
}

/// Deviations that hold 95 % of a normal distribution.
const BOUND: f64 = 1.96;
/// Of a path whose deviation nobody measured: the largest of the paper's synthetic networks.
const DEVIATION_MS: f64 = 30.0;
/// Below this a deviation is the clock's grain rather than the network's.
const DEVIATION_MS_MIN: f64 = 0.5;

impl Past {
    pub(super) fn is_known(&self) -> bool {
        self.samples > 0 && self.mean_ms.is_finite()
    }

    /// The 95 % bounds of the mean; of an unknown path nothing bounds it.
    fn bounds(&self) -> (f64, f64) {
        if !self.is_known() {
            return (f64::NEG_INFINITY, f64::INFINITY);
        }
        let wide = BOUND * self.variance().sqrt() / f64::from(self.samples).sqrt();
        (self.mean_ms - wide, self.mean_ms + wide)
    }

    /// In square milliseconds, never zero.
    pub(super) fn variance(&self) -> f64 {
        let measured = self.samples > 1 && self.deviation_ms.is_finite();
        let deviation = if measured {
            self.deviation_ms.max(DEVIATION_MS_MIN)
        } else {
            DEVIATION_MS
        };
        deviation * deviation
    }
}

/// The path with the smallest mean; the direct one if nothing is known.
pub(super) fn best(history: &[Past]) -> u16 {
    let known = history
        .iter()
        .enumerate()
        .filter(|(_, past)| past.is_known());
    let best = known.min_by(|(_, a), (_, b)| a.mean_ms.total_cmp(&b.mean_ms));
    best.map_or(0, |(path, _)| path as u16)
}

/// The history of all paths, renewed from what is observed.
#[derive(Clone, Debug)]
pub(super) struct History {
    past: Vec<Past>,
    fresh: Vec<Moments>,
    top: Vec<u16>,
    /// Mean upper bound of the best paths that are known.
    pub(super) scale_ms: f64,
    every: Duration,
    renewed: Option<Time>,
}

impl History {
    pub(super) fn new(given: &[Past], paths: usize, every: Duration) -> Self {
        let mut past = given[..given.len().min(paths)].to_vec();
        past.resize(paths, Past::default());
        let mut history = Self {
            past,
            fresh: vec![Moments::default(); paths],
            top: Vec::with_capacity(paths),
            scale_ms: 0.0,
            every,
            renewed: None,
        };
        history.prune();
        history
    }

    /// The best k paths.
    pub(super) fn top(&self) -> &[u16] {
        &self.top
    }

    pub(super) fn past(&self, path: usize) -> &Past {
        &self.past[path]
    }

    /// Takes the transit of a packet that took `path`.
    pub(super) fn observe(&mut self, path: usize, transit_ms: f64) {
        self.fresh[path].add(transit_ms);
    }

    /// Renews what is known if its time has come; whether it did.
    pub(super) fn refresh(&mut self, now: Time) -> bool {
        let renewed = *self.renewed.get_or_insert(now);
        if now - renewed < self.every {
            return false;
        }
        self.renewed = Some(now);
        for (past, fresh) in self.past.iter_mut().zip(&mut self.fresh) {
            if let Some(newer) = fresh.past() {
                *past = newer;
            }
            *fresh = Moments::default();
        }
        self.prune();
        true
    }

    /// Jiang et al., section 4.3: the smallest k such that every excluded path's lower bound
    /// exceeds every included path's upper bound. In the order of lower bounds those are first.
    fn prune(&mut self) {
        let bounds = |path: u16| self.past[usize::from(path)].bounds();
        self.top.clear();
        self.top.extend(0..self.past.len() as u16);
        self.top
            .sort_by(|a, b| bounds(*a).0.total_cmp(&bounds(*b).0));
        let mut highest = f64::NEG_INFINITY;
        let cut = self.top.iter().position(|path| {
            let (lower, upper) = bounds(*path);
            let beyond = lower > highest && highest > f64::NEG_INFINITY;
            highest = highest.max(upper);
            beyond
        });
        self.top.truncate(cut.unwrap_or(self.top.len()));
        let uppers = self.top.iter().map(|path| bounds(*path).1);
        let (sum, count) = uppers
            .filter(|upper| upper.is_finite())
            .fold((0.0, 0.0), |(sum, count), upper| (sum + upper, count + 1.0));
        self.scale_ms = if count > 0.0 { sum / count } else { 0.0 };
    }
}

/// Running mean and variance (Welford, 1962).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moments {
    count: u32,
    mean: f64,
    squares: f64,
}

impl Moments {
    pub(crate) fn add(&mut self, value: f64) {
        self.count = self.count.saturating_add(1);
        let step = value - self.mean;
        self.mean += step / f64::from(self.count);
        self.squares += step * (value - self.mean);
    }

    pub(crate) fn past(&self) -> Option<Past> {
        (self.count > 1).then(|| Past {
            mean_ms: self.mean,
            deviation_ms: (self.squares / f64::from(self.count - 1)).sqrt(),
            samples: self.count,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past(mean_ms: f64, deviation_ms: f64, samples: u32) -> Past {
        Past {
            mean_ms,
            deviation_ms,
            samples,
        }
    }

    fn top(given: &[Past]) -> Vec<u16> {
        let mut top = History::new(given, given.len(), Duration::MAX)
            .top()
            .to_vec();
        top.sort_unstable();
        top
    }

    #[test]
    fn paths_that_are_surely_worse_are_left_out() {
        // Bounds: 100 +- 2, 103 +- 2, 110 +- 2, 106 +- 4.
        let all = [
            past(110.0, 10.2, 100),
            past(100.0, 10.2, 100),
            past(103.0, 10.2, 100),
        ];
        assert_eq!(top(&all), [1, 2]);
        // A vague one overlaps both and joins them.
        let vague = [all[0], all[1], all[2], past(106.0, 20.4, 100)];
        assert_eq!(top(&vague), [0, 1, 2, 3]);
        assert_eq!(best(&all), 1);
    }

    #[test]
    fn nothing_is_left_out_if_nothing_is_known() {
        assert_eq!(top(&[Past::default(); 5]), [0, 1, 2, 3, 4]);
        assert_eq!(best(&[Past::default(); 5]), 0);
        let absurd = [past(f64::NAN, f64::NAN, 9), past(50.0, f64::INFINITY, 9)];
        assert_eq!(top(&absurd), [0, 1]);
        assert_eq!(best(&absurd), 1);
    }

    #[test]
    fn the_best_of_equally_sure_paths_stands_alone() {
        let all: Vec<Past> = (0..17)
            .map(|n| past(100.0 + f64::from(n), 1.0, 1_000))
            .collect();
        assert_eq!(top(&all), [0]);
    }

    #[test]
    fn what_is_observed_replaces_what_was_known() {
        let given = [past(100.0, 5.0, 1_000), past(120.0, 5.0, 1_000)];
        let mut history = History::new(&given, 2, Duration::from_secs(60));
        assert!(!history.refresh(Time::ZERO));
        for n in 0..1_000 {
            history.observe(0, 200.0 + f64::from(n % 10));
        }
        assert!(!history.refresh(Time::from_millis(59_999)));
        assert_eq!(history.top(), [0]);
        assert!(history.refresh(Time::from_millis(60_000)));
        assert_eq!(history.top(), [1]);
        assert!((history.past(0).mean_ms - 204.5).abs() < 1e-6);
        assert_eq!(history.past(1).samples, 1_000, "nothing new is known of it");
    }
}
