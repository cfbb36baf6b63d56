//! The delays of one link, drawn from a seed: a base, what wobbles, what congests, what spikes.

use sangam_model::Random;

use super::noise::{Correlated, Smooth, exponential, normals};
use super::{DELAY_US_MAX, STEP};

const STEP_US: f64 = STEP.as_micros() as f64;
/// Moments of a slice of the measured congestion: 15.7 s.
const SLICE: usize = 1_570;
/// Moments in which congestion moves from one slice's level to the next: 2 s.
const RAMP: usize = 200;
/// One-way microseconds of a unit of the measured round trips (10 ms).
const UNIT_US: f64 = 5_000.0;
/// Deviation of congestion around its level, as a share of it.
const UNREST: f64 = 0.25;
/// Correlation of that unrest over a moment: it fades with 1 s (exp -0.01).
const UNREST_KEEP: f64 = 0.990_049_833_749_168;
/// Correlation of a calm link's wobble over a moment: it fades with 0.5 s (exp -0.02).
const WOBBLE_KEEP: f64 = 0.980_198_673_306_755;
/// How heavy the tail of a calm link's wobble is: the factor of the cube.
const CUBE: f64 = 0.25;
/// Mean moments between spikes: two minutes.
const SPIKE_EVERY: f64 = 12_000.0;
/// Mean height of a spike.
const SPIKE_US: f64 = 150_000.0;
/// Moments that are made at once.
const FILLED: usize = 125;
/// Moments in which a spike rises: 0.5 s. It falls in 1 s to 5 s.
const SPIKE_RISE: usize = 50;

/// How a link is made. Times are one way and in microseconds.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    pub(super) base_us: f64,
    pub(super) wobble: Wobble,
    pub(super) congestion: Option<Level>,
    pub(super) spikes: bool,
    pub(super) seed: u64,
}

/// Short-term variation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wobble {
    /// Heavy-tailed and correlated, on average `mean_us` above the base, never below it.
    Correlated { mean_us: f64, deviation_us: f64 },
    /// A fresh normal number for each moment, never below `least_us`.
    Normal { deviation_us: f64, least_us: f64 },
}

/// Congestion as it was measured.
#[derive(Clone, Debug)]
pub(super) struct Level {
    /// Round trips above the smallest, in units of 10 ms, by slice.
    pub(super) excess: Vec<u16>,
    /// What they are multiplied by.
    pub(super) scale: f64,
}

/// The delays of one link, from its first moment on.
#[derive(Clone, Debug)]
pub struct Source {
    base_us: f64,
    wobble: Wobble,
    wobble_random: Random,
    correlated: Correlated,
    congestion: Option<Congestion>,
    spikes: Option<Spikes>,
    /// What congestion and spikes add now.
    queue_us: f64,
}

#[derive(Clone, Debug)]
struct Congestion {
    level: Level,
    random: Random,
    unrest: Smooth,
    slice: usize,
    moment: usize,
}

#[derive(Clone, Debug)]
struct Spikes {
    random: Random,
    wait: usize,
    height_us: f64,
    age: usize,
    fall: usize,
}

impl Recipe {
    /// Mean and deviation over a long time.
    pub(super) fn past(&self) -> (f64, f64) {
        let (mut mean, deviation) = match self.wobble {
            Wobble::Correlated {
                mean_us,
                deviation_us,
            } => (self.base_us + mean_us, deviation_us),
            Wobble::Normal { deviation_us, .. } => (self.base_us, deviation_us),
        };
        let mut variance = deviation * deviation;
        if let Some(level) = &self.congestion {
            let (average, square) = level.moments();
            mean += average;
            variance += square * (1.0 + UNREST * UNREST) - average * average;
        }
        (mean, variance.sqrt())
    }
}

impl Level {
    /// The means of the level and of its square, in microseconds one way.
    fn moments(&self) -> (f64, f64) {
        let unit = self.scale * UNIT_US;
        let levels = self.excess.iter().map(|excess| f64::from(*excess) * unit);
        let count = self.excess.len().max(1) as f64;
        let (sum, squares) = levels.fold((0.0, 0.0), |(a, b), l| (a + l, b + l * l));
        (sum / count, squares / count)
    }
}

impl Source {
    pub(super) fn new(recipe: &Recipe) -> Self {
        // Streams of their own: a link wobbles the same with and without congestion and spikes.
        let mut streams = Random::new(recipe.seed);
        let mut stream = || Random::new(streams.bits());
        let (mut wobble_random, congestion_random, spike_random) = (stream(), stream(), stream());
        Self {
            base_us: recipe.base_us,
            wobble: recipe.wobble,
            correlated: Correlated::new(WOBBLE_KEEP, &mut wobble_random),
            wobble_random,
            congestion: recipe
                .congestion
                .clone()
                .filter(|level| !level.excess.is_empty())
                .map(|level| Congestion::new(level, congestion_random)),
            spikes: recipe.spikes.then(|| Spikes::new(spike_random)),
            queue_us: 0.0,
        }
    }

    /// The delays of the next moments, in microseconds.
    pub fn fill(&mut self, out: &mut [u32]) {
        for part in out.chunks_mut(FILLED) {
            self.fill_part(part);
        }
    }

    fn fill_part(&mut self, out: &mut [u32]) {
        let mut drawn = [0.0; 2 * FILLED];
        let each = match self.wobble {
            Wobble::Correlated { .. } => 2,
            Wobble::Normal { .. } => 1,
        };
        let drawn = &mut drawn[..each * out.len()];
        normals(&mut self.wobble_random, drawn);
        for (delay, drawn) in out.iter_mut().zip(drawn.chunks_exact(each)) {
            let mut queue = self.congestion.as_mut().map_or(0.0, Congestion::next);
            queue += self.spikes.as_mut().map_or(0.0, Spikes::next);
            // A queue empties in order: what it holds back never overtakes.
            self.queue_us = queue.max(self.queue_us - STEP_US);
            let us = self.wobble(drawn) + self.queue_us;
            // The cast rounds towards zero and saturates; both are the same everywhere.
            *delay = ((us + 0.5) as u32).min(DELAY_US_MAX);
        }
    }

    /// The delay without queues, by the normal numbers that were drawn for it.
    fn wobble(&mut self, drawn: &[f64]) -> f64 {
        match (self.wobble, drawn) {
            (
                Wobble::Correlated {
                    mean_us,
                    deviation_us,
                },
                [slow, fresh],
            ) => {
                let both = (self.correlated.step(*slow) + fresh) * core::f64::consts::FRAC_1_SQRT_2;
                self.base_us + (mean_us + deviation_us * heavy(both)).max(0.0)
            }
            (
                Wobble::Normal {
                    deviation_us,
                    least_us,
                },
                [normal],
            ) => (self.base_us + deviation_us * normal).max(least_us),
            _ => unreachable!("as many were drawn as the wobble takes"),
        }
    }
}

/// A standard normal number with its upper tail stretched by a cube, again with mean 0 and
/// deviation 1.
fn heavy(normal: f64) -> f64 {
    // Half the moments of the normal distribution: E x+^3 = 2 / sqrt(2 pi), E x+^4 = 3/2,
    // E x+^6 = 15/2.
    const MEAN: f64 = CUBE * 0.797_884_560_802_865_4;
    const SQUARE: f64 = 1.0 + 2.0 * CUBE * 1.5 + CUBE * CUBE * 7.5;
    let tail = normal.max(0.0);
    (normal + CUBE * tail * tail * tail - MEAN) / (SQUARE - MEAN * MEAN).sqrt()
}

impl Congestion {
    fn new(level: Level, mut random: Random) -> Self {
        Self {
            slice: random.below(level.excess.len()),
            moment: random.below(SLICE),
            unrest: Smooth::new(UNREST_KEEP, &mut random),
            level,
            random,
        }
    }

    fn next(&mut self) -> f64 {
        let count = self.level.excess.len();
        let before = f64::from(self.level.excess[(self.slice + count - 1) % count]);
        let level = f64::from(self.level.excess[self.slice]);
        let share = (self.moment as f64 / RAMP as f64).min(1.0);
        self.moment += 1;
        if self.moment == SLICE {
            (self.moment, self.slice) = (0, (self.slice + 1) % count);
        }
        let now = before + (level - before) * share;
        if now <= 0.0 {
            return 0.0;
        }
        let unrest = (1.0 + UNREST * self.unrest.next(&mut self.random)).max(0.0);
        now * self.level.scale * unrest * UNIT_US
    }
}

impl Spikes {
    fn new(mut random: Random) -> Self {
        let wait = wait(&mut random);
        Self {
            random,
            wait,
            height_us: 0.0,
            age: 0,
            fall: 0,
        }
    }

    fn next(&mut self) -> f64 {
        if self.wait > 0 {
            self.wait -= 1;
            if self.wait == 0 {
                self.height_us = SPIKE_US * exponential(&mut self.random);
                self.fall = 100 + self.random.below(400);
                self.age = 0;
            }
            return 0.0;
        }
        self.age += 1;
        if self.age >= SPIKE_RISE + self.fall {
            self.wait = wait(&mut self.random);
        }
        let share = if self.age <= SPIKE_RISE {
            self.age as f64 / SPIKE_RISE as f64
        } else {
            1.0 - (self.age - SPIKE_RISE) as f64 / self.fall as f64
        };
        self.height_us * share
    }
}

fn wait(random: &mut Random) -> usize {
    1 + (SPIKE_EVERY * exponential(random)) as usize
}

const _: () = assert!(
    STEP.as_millis() == 10,
    "the constants above count moments of 10 ms"
);

#[cfg(test)]
mod tests {
    use super::*;

    fn calm(deviation_us: f64) -> Recipe {
        Recipe {
            base_us: 50_000.0,
            wobble: Wobble::Correlated {
                mean_us: 4_000.0,
                deviation_us,
            },
            congestion: None,
            spikes: false,
            seed: 7,
        }
    }

    fn moments(recipe: &Recipe, count: usize) -> Vec<f64> {
        let mut delays = vec![0; count];
        Source::new(recipe).fill(&mut delays);
        delays.into_iter().map(f64::from).collect()
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn a_calm_link_has_the_measured_mean_and_deviation() {
        let delays = moments(&calm(1_000.0), 400_000);
        let average = mean(&delays);
        let square = delays.iter().map(|d| (d - average).powi(2)).sum::<f64>();
        let deviation = (square / delays.len() as f64).sqrt();
        assert!((average - 54_000.0).abs() < 50.0, "{average}");
        assert!((deviation - 1_000.0).abs() < 50.0, "{deviation}");
        assert!(delays.iter().all(|d| *d >= 50_000.0));
        let most = delays.iter().copied().fold(0.0, f64::max);
        assert!(most > 54_000.0 + 8_000.0, "the tail is heavy: {most}");
    }

    #[test]
    fn congestion_follows_its_series_and_leaves_the_wobble_alone() {
        let excess = vec![0, 40, 40, 0];
        let level = |scale| {
            Some(Level {
                excess: excess.clone(),
                scale,
            })
        };
        let plain = moments(&calm(1_000.0), 6_280);
        let whole = moments(
            &Recipe {
                congestion: level(1.0),
                ..calm(1_000.0)
            },
            6_280,
        );
        let double = moments(
            &Recipe {
                congestion: level(2.0),
                ..calm(1_000.0)
            },
            6_280,
        );
        let added: Vec<f64> = whole.iter().zip(&plain).map(|(a, b)| a - b).collect();
        assert!(added.contains(&0.0) && added.iter().all(|a| *a >= 0.0));
        // Two slices of four at 200 ms, with an unrest of a quarter.
        assert!(
            (mean(&added) - 100_000.0).abs() < 15_000.0,
            "{}",
            mean(&added)
        );
        let twice = double.iter().zip(&plain).map(|(a, b)| a - b);
        assert!(
            twice
                .zip(&added)
                .all(|(two, one)| (two - 2.0 * one).abs() <= 2.0)
        );
    }

    #[test]
    fn packets_do_not_overtake_each_other_when_congestion_ends() {
        let excess = vec![1_000, 0, 0, 900];
        let congestion = Some(Level { excess, scale: 2.0 });
        let delays = moments(
            &Recipe {
                congestion,
                ..calm(0.0)
            },
            9_000,
        );
        assert!(
            delays
                .windows(2)
                .all(|pair| pair[1] >= pair[0] - STEP_US - 1.0)
        );
        assert!(delays.iter().any(|delay| *delay < 60_000.0));
    }

    #[test]
    fn spikes_are_rare_and_high() {
        let plain = moments(&calm(0.0), 600_000);
        let spiky = moments(
            &Recipe {
                spikes: true,
                ..calm(0.0)
            },
            600_000,
        );
        let high = spiky
            .iter()
            .zip(&plain)
            .filter(|(a, b)| *a - *b > 10_000.0)
            .count();
        assert!((1_000..50_000).contains(&high), "{high}");
    }

    #[test]
    fn delays_stay_below_the_most_a_trace_holds() {
        let mut recipe = calm(1_000.0);
        recipe.congestion = Some(Level {
            excess: vec![60_000],
            scale: 2.0,
        });
        assert!(
            moments(&recipe, 100)
                .iter()
                .all(|d| *d <= f64::from(DELAY_US_MAX))
        );
    }
}
