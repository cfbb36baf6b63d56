//! The network of the page.

use sangam_model::Random;

/// Packets of a run at most: a minute.
pub(crate) const PACKETS_MAX: u32 = 6_000;
/// Paths at most.
const PATHS_MAX: u32 = 4;
/// One packet every 10 ms, as in the paper.
pub(crate) const SPACING_US: u64 = 10_000;

/// Of the fastest path.
const DELAY_MS: f64 = 40.0;
/// Each further path is slower by this.
const PATH_STEP_MS: f64 = 25.0;

/// What the sliders say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// Equal seeds give equal networks.
    pub seed: u64,
    /// Mean of the exponential delay that comes on top, in milliseconds, 0 to 1,000.
    pub jitter_ms: f64,
    /// Share of packets that never come, 0 to 1.
    pub loss: f64,
    /// Paths that packets take by chance, 1 to 4; each is 25 ms slower than the last.
    pub paths: u32,
    /// Packets to send, at most 6,000.
    pub packets: u32,
}

/// A packet that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    /// When, in microseconds since the first was sent.
    pub at_us: u64,
    /// Which.
    pub seq: u64,
}

impl Network {
    /// What arrives, in order of time. Values outside their range count as the nearest within.
    #[must_use]
    pub fn arrivals(&self) -> Vec<Arrival> {
        let mut random = Random::new(self.seed);
        let paths = self.paths.clamp(1, PATHS_MAX);
        let jitter_ms = self.jitter_ms.clamp(0.0, 1_000.0);
        let mut arrivals = Vec::new();
        for seq in 0..u64::from(self.packets.min(PACKETS_MAX)) {
            // Always three draws, so that one slider leaves what the others decide as it was.
            let [lost, path, late] = [random.unit(), random.unit(), random.unit()];
            if lost < self.loss {
                continue;
            }
            let path = (path * f64::from(paths)).floor();
            let delay_ms = DELAY_MS + PATH_STEP_MS * path - jitter_ms * (1.0 - late).ln();
            let at_us = seq * SPACING_US + (delay_ms * 1_000.0) as u64;
            arrivals.push(Arrival { at_us, seq });
        }
        arrivals.sort_unstable();
        arrivals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Network = Network {
        seed: 1,
        jitter_ms: 0.0,
        loss: 0.0,
        paths: 1,
        packets: 500,
    };

    #[test]
    fn sliders_do_what_they_say() {
        let calm = CALM.arrivals();
        assert!(
            calm.iter()
                .all(|arrival| arrival.at_us == arrival.seq * SPACING_US + 40_000)
        );
        let lossy = Network { loss: 0.2, ..CALM }.arrivals();
        assert!((350..450).contains(&lossy.len()), "{}", lossy.len());
        let mixed = Network { paths: 3, ..CALM }.arrivals();
        assert!(!mixed.is_sorted_by_key(|arrival| arrival.seq));
        let nonsense = Network {
            jitter_ms: f64::INFINITY,
            loss: f64::NAN,
            paths: u32::MAX,
            packets: u32::MAX,
            ..CALM
        };
        assert_eq!(nonsense.arrivals().len(), PACKETS_MAX as usize);
    }
}
