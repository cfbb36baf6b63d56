//! Intervals from blocks that are drawn again.

use sangam_model::Random;

use crate::replay::{Block, Outcome};

/// How often everything is drawn again.
pub const DRAWS: usize = 300;

/// Sums of one method and receiver over some blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Packets that were to be delivered.
    pub expected: f64,
    /// Packets handed on.
    pub released: f64,
    /// Packets played.
    pub played: f64,
    /// Release minus departure, in ms.
    pub release_ms: f64,
    /// Playout minus departure, in ms.
    pub playout_ms: f64,
}

/// An estimate and the interval that holds 95 % of what is found if blocks are drawn again.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// What was found.
    pub value: f64,
    /// Where the interval begins.
    pub low: f64,
    /// Where it ends.
    pub high: f64,
}

/// One method and receiver: all blocks, and all draws of them. Draws of the same number belong to
/// the same blocks in all methods and receivers.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// Of all blocks, once each.
    pub whole: Sums,
    /// Of each draw.
    pub draws: Vec<Sums>,
}

impl Sums {
    /// Mean release delay in ms.
    #[must_use]
    pub fn release(&self) -> f64 {
        self.release_ms / self.released.max(1.0)
    }

    /// Mean playout delay in ms.
    #[must_use]
    pub fn playout(&self) -> f64 {
        self.playout_ms / self.played.max(1.0)
    }

    /// The share that came too late, 0 to 1.
    #[must_use]
    pub fn loss(&self) -> f64 {
        1.0 - self.released / self.expected.max(1.0)
    }

    fn add(&mut self, other: &Self, times: f64) {
        self.expected += other.expected * times;
        self.released += other.released * times;
        self.played += other.played * times;
        self.release_ms += other.release_ms * times;
        self.playout_ms += other.playout_ms * times;
    }
}

impl Drawn {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            whole: Sums::default(),
            draws: vec![Sums::default(); DRAWS],
        }
    }

    /// Adds another session's: its blocks were drawn on their own.
    pub fn merge(&mut self, other: &Self) {
        self.whole.add(&other.whole, 1.0);
        for (mine, theirs) in self.draws.iter_mut().zip(&other.draws) {
            mine.add(theirs, 1.0);
        }
    }

    /// Something of one method and receiver.
    pub fn estimate(&self, of: impl Fn(&Sums) -> f64) -> Estimate {
        Estimate::of(of(&self.whole), self.draws.iter().map(of).collect())
    }

    /// Something of one, as a change from another: -0.2 is 20 % less.
    pub fn change(&self, from: &Self, of: impl Fn(&Sums) -> f64) -> Estimate {
        let change = |mine: &Sums, theirs: &Sums| of(mine) / of(theirs) - 1.0;
        let pairs = self.draws.iter().zip(&from.draws);
        Estimate::of(
            change(&self.whole, &from.whole),
            pairs.map(|(mine, theirs)| change(mine, theirs)).collect(),
        )
    }
}

impl Default for Drawn {
    fn default() -> Self {
        Self::new()
    }
}

impl Estimate {
    /// A value and what draws found instead; those that found nothing do not count.
    #[must_use]
    pub fn of(value: f64, mut draws: Vec<f64>) -> Self {
        draws.retain(|draw| draw.is_finite());
        draws.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * (draws.len().max(1) - 1) as f64;
            draws.get(place.round() as usize).copied().unwrap_or(value)
        };
        Self {
            value,
            low: at(0.025),
            high: at(0.975),
        }
    }
}

/// Draws the blocks of a session, all seeds in a row, again and again: by method and receiver.
#[must_use]
pub fn draw(outcome: &Outcome, seed: u64) -> Vec<Vec<Drawn>> {
    let blocks = outcome
        .streams
        .first()
        .map_or(0, |stream| stream.sent.len());
    let mut random = Random::new(seed);
    let weights: Vec<Vec<f64>> = (0..DRAWS)
        .map(|_| {
            let mut weights = vec![0.0; blocks];
            (0..blocks).for_each(|_| weights[random.below(blocks)] += 1.0);
            weights
        })
        .collect();
    let of_stream = |stream: &crate::replay::Stream| {
        let tallies = stream.tallies.iter().map(|tally| {
            let pairs = stream.sent.iter().zip(&tally.blocks);
            let sums: Vec<Sums> = pairs
                .map(|(sent, block)| sums(sent.packets, block))
                .collect();
            drawn(&sums, &weights)
        });
        tallies.collect()
    };
    outcome.streams.iter().map(of_stream).collect()
}

fn sums(expected: u32, block: &Block) -> Sums {
    Sums {
        expected: f64::from(expected),
        released: f64::from(block.released),
        played: f64::from(block.played),
        release_ms: block.release_us as f64 / 1e3,
        playout_ms: block.playout_us as f64 / 1e3,
    }
}

fn drawn(blocks: &[Sums], weights: &[Vec<f64>]) -> Drawn {
    Drawn {
        whole: total(blocks, core::iter::repeat(1.0)),
        draws: weights
            .iter()
            .map(|w| total(blocks, w.iter().copied()))
            .collect(),
    }
}

fn total(blocks: &[Sums], weights: impl Iterator<Item = f64>) -> Sums {
    let mut total = Sums::default();
    for (block, weight) in blocks.iter().zip(weights) {
        total.add(block, weight);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{Sent, Stream, Tally};

    fn stream(release_us: impl Fn(u64) -> u64) -> Stream {
        let block = |number| Block {
            released: 100,
            played: 100,
            release_us: 100 * release_us(number),
            playout_us: 200 * release_us(number),
        };
        Stream {
            sent: vec![
                Sent {
                    packets: 101,
                    transit_us: 0
                };
                400
            ],
            tallies: vec![Tally {
                blocks: (0..400).map(block).collect(),
                ..Tally::default()
            }],
            ..Stream::default()
        }
    }

    #[test]
    fn pairs_of_blocks_make_intervals_narrow() {
        // Blocks differ widely, the second method is a tenth better in each of them.
        let swing = |number: u64| 100_000 + number * 7_919 % 400 * 1_000;
        let outcome = Outcome {
            streams: vec![stream(swing), stream(|number| swing(number) * 9 / 10)],
            ..Outcome::default()
        };
        let drawn = draw(&outcome, 1);
        let (first, second) = (&drawn[0][0], &drawn[1][0]);
        let mean = first.estimate(Sums::release);
        assert!(
            (mean.value - 299.5).abs() < 0.1 && mean.high - mean.low > 10.0,
            "{mean:?}"
        );
        assert!(mean.low < mean.value && mean.value < mean.high);
        let change = second.change(first, Sums::release);
        assert!((change.value + 0.1).abs() < 1e-6, "{change:?}");
        assert!(change.high - change.low < 1e-6, "{change:?}");
        assert!((first.whole.loss() - 1.0 / 101.0).abs() < 1e-9);
        assert!((first.whole.playout() - 2.0 * first.whole.release()).abs() < 1e-6);
    }

    #[test]
    fn an_estimate_without_draws_is_its_value() {
        let lone = Estimate::of(3.0, vec![f64::NAN]);
        assert_eq!((lone.low, lone.high), (3.0, 3.0));
    }
}
