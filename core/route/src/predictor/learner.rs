//! The network with its scales: what it takes to train it while it is used.

use sangam_model::Random;

use super::{Network, Sample, State};

/// Step of the training by each packet, for inputs and outputs of deviation one.
const RATE: f32 = 0.003;
/// First and last step of the training on a collected set.
const RATES: (f32, f32) = (0.01, 0.000_5);
/// Errors count as if they were at most so many deviations: one absurd packet must not undo a
/// thousand good ones.
const ERROR_MAX: f32 = 2.0;
/// Inputs further out than so many deviations are taken for this far.
const INPUT_MAX: f32 = 6.0;
/// Packets before a network that learns from nothing is asked.
const SEEN_MIN: u32 = 500;
/// Packets of which one at random is trained on with each that comes: packets in a row are alike,
/// and a network that only sees those forgets all else.
const RECENT: usize = 8_192;
/// Packets over which a scale is averaged: it must stay put for the network to learn behind it.
const SCALE_OVER: u32 = 10_000;

/// A network that learns.
#[derive(Clone, Debug)]
pub struct Learner {
    network: Network,
    transit: Scale,
    jitter: Scale,
    end_to_end: Scale,
    seen: u32,
    recent: Vec<Sample>,
    random: Random,
}

impl Learner {
    /// One that knows nothing; its first weights are drawn from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            network: Network::new(seed),
            transit: Scale::default(),
            jitter: Scale::default(),
            end_to_end: Scale::default(),
            seen: 0,
            recent: Vec::with_capacity(RECENT),
            random: Random::new(!seed),
        }
    }

    /// One trained on a collected set, going over it so many times in random order.
    #[must_use]
    pub fn fit(samples: &[Sample], epochs: u32, seed: u64) -> Self {
        let mut learner = Self::new(seed);
        for sample in samples {
            learner.scale(&sample.state, sample.end_to_end_ms);
        }
        let mut random = Random::new(!seed);
        let mut order: Vec<usize> = (0..samples.len()).collect();
        let (first, last) = RATES;
        for epoch in 0..epochs {
            super::score::shuffle(&mut order, &mut random);
            let done = epoch as f32 / epochs.max(2).saturating_sub(1) as f32;
            let rate = first * (last / first).powf(done);
            for at in &order {
                learner.train(&samples[*at].state, samples[*at].end_to_end_ms, rate);
            }
        }
        learner.seen = u32::try_from(samples.len()).unwrap_or(u32::MAX);
        learner
    }

    /// The end-to-end latency in milliseconds; none while too little was learnt.
    #[must_use]
    pub fn predict(&self, state: &State) -> Option<f32> {
        if self.seen < SEEN_MIN {
            return None;
        }
        Some(self.end_to_end.back(self.network.run(self.inputs(state))))
    }

    /// Takes one packet's end-to-end latency.
    pub fn learn(&mut self, state: &State, end_to_end_ms: f32) {
        self.scale(state, end_to_end_ms);
        let sample = Sample {
            state: *state,
            end_to_end_ms,
        };
        if self.recent.len() < RECENT {
            self.recent.push(sample);
        } else {
            self.recent[self.seen as usize % RECENT] = sample;
        }
        self.seen = self.seen.saturating_add(1);
        let any = self.recent[self.random.below(self.recent.len())];
        self.train(&any.state, any.end_to_end_ms, RATE);
    }

    fn scale(&mut self, state: &State, end_to_end_ms: f32) {
        self.transit.add(state.transit_ms);
        self.jitter.add(state.jitter_ms);
        self.end_to_end.add(end_to_end_ms);
    }

    fn train(&mut self, state: &State, end_to_end_ms: f32, rate: f32) {
        let target = self.end_to_end.of(end_to_end_ms);
        let inputs = self.inputs(state);
        self.network.train(inputs, target, rate, ERROR_MAX);
    }

    fn inputs(&self, state: &State) -> [f32; 2] {
        [
            self.transit.of(state.transit_ms),
            self.jitter.of(state.jitter_ms),
        ]
    }
}

/// From milliseconds to deviations from the mean.
#[derive(Clone, Copy, Debug, Default)]
struct Scale {
    count: u32,
    mean: f32,
    variance: f32,
}

impl Scale {
    fn add(&mut self, ms: f32) {
        self.count = (self.count + 1).min(SCALE_OVER);
        let share = 1.0 / self.count as f32;
        let step = ms - self.mean;
        self.mean += share * step;
        self.variance += share * (step * (ms - self.mean) - self.variance);
    }

    fn of(&self, ms: f32) -> f32 {
        ((ms - self.mean) / self.deviation()).clamp(-INPUT_MAX, INPUT_MAX)
    }

    fn back(&self, value: f32) -> f32 {
        self.mean + value * self.deviation()
    }

    /// At least a millisecond: less is not worth stretching.
    fn deviation(&self) -> f32 {
        self.variance.max(1.0).sqrt()
    }
}
