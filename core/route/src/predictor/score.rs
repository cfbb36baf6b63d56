//! How well a predictor predicts a collected set.

use sangam_model::Random;

use super::{Linear, Predictor, State};

/// One packet of a collected set.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// How it fared.
    pub state: State,
    /// Release minus departure in milliseconds.
    pub end_to_end_ms: f32,
}

/// Errors over a set, gathered one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    count: u64,
    errors: f64,
    sum: f64,
    squares: f64,
    near: u64,
}

impl Score {
    /// A predictor's errors over a set.
    #[must_use]
    pub fn of(predictor: &Predictor, samples: &[Sample]) -> Self {
        let mut score = Self::default();
        for sample in samples {
            score.add(predictor.predict(&sample.state), sample.end_to_end_ms);
        }
        score
    }

    /// Takes one prediction and what came of it, in milliseconds.
    pub fn add(&mut self, predicted_ms: f32, end_to_end_ms: f32) {
        let (predicted, actual) = (f64::from(predicted_ms), f64::from(end_to_end_ms));
        self.count += 1;
        self.errors += (predicted - actual) * (predicted - actual);
        self.sum += actual;
        self.squares += actual * actual;
        self.near += u64::from((predicted - actual).abs() <= 0.1 * actual.abs());
    }

    /// Predictions made.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Root of the mean squared error, in milliseconds.
    #[must_use]
    pub fn rmse_ms(&self) -> f64 {
        (self.errors / self.count.max(1) as f64).sqrt()
    }

    /// The share of the variance that is explained: 1 at best, below 0 if the mean does better.
    #[must_use]
    pub fn r2(&self) -> f64 {
        let spread = self.squares - self.sum * self.sum / self.count.max(1) as f64;
        1.0 - self.errors / spread.max(f64::MIN_POSITIVE)
    }

    /// The share of predictions that were within 10 % of what came.
    #[must_use]
    pub fn within_tenth(&self) -> f64 {
        self.near as f64 / self.count.max(1) as f64
    }
}

/// Shuffles a set by `seed` and splits it: four fifths to train, one to test.
pub fn split(samples: &mut [Sample], seed: u64) -> (&[Sample], &[Sample]) {
    shuffle(samples, &mut Random::new(seed));
    samples.split_at(samples.len() / 5 * 4)
}

/// Linear regression over a whole set, all samples alike.
#[must_use]
pub fn fit_linear(samples: &[Sample]) -> Linear {
    let mut linear = Linear::default();
    for sample in samples {
        linear.add(&sample.state, sample.end_to_end_ms, 1.0);
    }
    linear.solve();
    linear
}

/// Fisher & Yates.
pub(super) fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for at in (1..items.len()).rev() {
        items.swap(at, random.below(at + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_perfect_prediction_scores_one_and_the_mean_zero() {
        let (mut perfect, mut mean) = (Score::default(), Score::default());
        for ms in [100.0, 200.0, 300.0] {
            perfect.add(ms, ms);
            mean.add(200.0, ms);
        }
        assert!(perfect.rmse_ms() == 0.0 && perfect.r2() == 1.0);
        assert!(mean.r2().abs() < 1e-9 && (mean.rmse_ms() - 81.65).abs() < 0.01);
        assert!((mean.within_tenth() - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_split_keeps_every_sample_once() {
        let sample = |n: u16| Sample {
            end_to_end_ms: f32::from(n),
            ..Sample::default()
        };
        let mut samples: Vec<_> = (0..100).map(sample).collect();
        let (train, test) = split(&mut samples, 1);
        assert_eq!((train.len(), test.len()), (80, 20));
        let mut all: Vec<_> = train
            .iter()
            .chain(test)
            .map(|s| s.end_to_end_ms as u16)
            .collect();
        assert!(!all.is_sorted());
        all.sort_unstable();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
    }
}
