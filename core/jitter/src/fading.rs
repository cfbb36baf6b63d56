//! A histogram that forgets.

/// When the scale is smaller than this, the weights are written anew.
const SCALE_MIN: f32 = 1e-6;

/// Shares of hits, later ones counting more. All shares together are one.
#[derive(Clone, Debug)]
pub(crate) struct Fading {
    /// Each to be multiplied by `scale`: forgetting then costs one multiplication.
    weights: Box<[f32]>,
    scale: f32,
    /// By what each hit multiplies all shares; grows to `forget_max` in the beginning.
    forget: f32,
    forget_max: f32,
    hits: f32,
}

impl Fading {
    /// NetEQ's begin: half of the hits in the first bucket, half of the rest in the next, ...
    pub(crate) fn new(buckets: usize, forget_max: f32) -> Self {
        let weights = (1..=buckets).map(|power| 0.5_f32.powi(power as i32));
        Self {
            weights: weights.collect(),
            scale: 1.0,
            forget: 0.0,
            forget_max,
            hits: 0.0,
        }
    }

    /// Counts a hit, unless it is past the last bucket.
    pub(crate) fn add(&mut self, bucket: usize) {
        if bucket >= self.weights.len() {
            return;
        }
        self.scale *= self.forget;
        if self.scale < SCALE_MIN {
            let scale = self.scale;
            self.weights.iter_mut().for_each(|weight| *weight *= scale);
            self.scale = 1.0;
        }
        self.weights[bucket] += (1.0 - self.forget) / self.scale;
        // NetEQ's start weight is 2: the first hit replaces what was assumed.
        self.hits += 1.0;
        self.forget = self.forget_max.min(1.0 - 2.0 / (self.hits + 1.0));
    }

    /// The first bucket up to which at least this share of the hits fell.
    pub(crate) fn quantile(&self, share: f32) -> usize {
        let mut later = 1.0;
        let last = self.weights.len() - 1;
        let found = self.weights.iter().position(|weight| {
            later -= weight * self.scale;
            later <= 1.0 - share
        });
        found.unwrap_or(last)
    }

    /// The bucket whose cost is least, if each bucket is `step` of delay, delay up to `free` costs
    /// nothing, and losing all later packets would cost `loss`: all three in the same unit.
    pub(crate) fn cheapest(&self, step: f32, free: f32, loss: f32) -> usize {
        let (mut later, mut best) = (1.0_f32, (0, f32::INFINITY));
        for (bucket, weight) in self.weights.iter().enumerate() {
            later -= weight * self.scale;
            let delay = (bucket as f32 * step - free).max(0.0);
            let cost = delay + loss * later.max(0.0);
            if cost < best.1 {
                best = (bucket, cost);
            }
            if delay >= best.1 {
                break;
            }
        }
        best.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_hit_replaces_the_assumption() {
        let mut fading = Fading::new(100, 0.983);
        fading.add(7);
        assert_eq!(fading.quantile(0.05), 7);
        assert_eq!(fading.quantile(0.95), 7);
    }

    #[test]
    fn shares_follow_the_start_weight() {
        let mut fading = Fading::new(100, 0.983);
        // Factors 0, 0, 1/3, 1/2: the shares of the four hits are 0, 1/6, 1/3 and 1/2.
        for bucket in [1, 2, 3, 4] {
            fading.add(bucket);
        }
        assert_eq!(fading.quantile(0.16), 2);
        assert_eq!(fading.quantile(0.49), 3);
        assert_eq!(fading.quantile(0.51), 4);
    }

    #[test]
    fn forgetting_for_a_long_time_keeps_the_sum() {
        let mut fading = Fading::new(10, 0.9);
        for hit in 0..1_000_000 {
            fading.add(usize::from(hit % 10 == 0));
        }
        let sum: f32 = fading
            .weights
            .iter()
            .map(|weight| weight * fading.scale)
            .sum();
        assert!((sum - 1.0).abs() < 1e-3, "{sum}");
        fading.add(10);
        assert_eq!(fading.quantile(0.5), 0);
    }

    #[test]
    fn the_cheapest_bucket_weighs_delay_against_loss() {
        let mut fading = Fading::new(100, 0.9993);
        for hit in 0..10_000 {
            fading.add(if hit % 100 == 0 { 5 } else { 0 });
        }
        // One percent is worth 20: five buckets of 20 are too dear, unless they are free.
        assert_eq!(fading.cheapest(20.0, 0.0, 2_000.0), 0);
        assert_eq!(fading.cheapest(20.0, 100.0, 2_000.0), 5);
    }
}
