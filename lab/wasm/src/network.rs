//! The network of the page.

use core::cmp::Ordering;

use sangam_model::Random;

use crate::routing::METHODS;

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
/// How long a path is congested, or is not, in packets: 1.5 s.
const SPELL: u64 = 150;
/// Share of spells that are.
const CONGESTED: f64 = 0.3;

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
    /// How much longer packets take by a path that is congested, in milliseconds, 0 to 1,000.
    pub congestion_ms: f64,
    /// Who chooses among the paths: a place in [`METHODS`].
    pub method: u32,
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
        if let Some(Some(method)) = METHODS.get(self.method as usize) {
            return self.routed(*method);
        }
        let mut random = Random::new(self.seed);
        let mut arrivals = Vec::new();
        for (seq, delays_us) in (0..).zip(self.delays()) {
            let path = random.below(delays_us.len());
            if let Some(delay_us) = delays_us[path] {
                let at_us = seq * SPACING_US + delay_us;
                arrivals.push(Arrival { at_us, seq });
            }
        }
        arrivals.sort_unstable();
        arrivals
    }

    pub(crate) fn paths(&self) -> u32 {
        self.paths.clamp(1, PATHS_MAX)
    }

    /// What each packet would meet on each path, in microseconds; none where it is lost.
    pub(crate) fn delays(&self) -> impl Iterator<Item = Vec<Option<u64>>> + use<> {
        let mut random = Random::new(self.seed ^ u64::MAX);
        let of_range = |ms: f64| ms.clamp(0.0, 1_000.0);
        let (jitter_ms, congestion_ms) = (of_range(self.jitter_ms), of_range(self.congestion_ms));
        let (loss, paths) = (self.loss, self.paths() as usize);
        let mut congested = [false; PATHS_MAX as usize];
        (0..u64::from(self.packets.min(PACKETS_MAX))).map(move |seq| {
            if seq.is_multiple_of(SPELL) {
                congested = congested.map(|_| random.chance(CONGESTED));
            }
            let delays_us = congested.iter().zip(0..).map(|(congested, path)| {
                // Always two draws, so that one slider leaves what the others decide as it was.
                let [lost, late] = [random.unit(), random.unit()];
                let more_ms = if *congested { congestion_ms } else { 0.0 };
                let path_ms = DELAY_MS + PATH_STEP_MS * f64::from(path) + more_ms;
                let delay_ms = path_ms - jitter_ms * (1.0 - late).ln();
                let comes = !matches!(lost.partial_cmp(&loss), Some(Ordering::Less));
                comes.then_some((delay_ms * 1_000.0) as u64)
            });
            let mut delays_us: Vec<Option<u64>> = delays_us.collect();
            delays_us.truncate(paths);
            delays_us
        })
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
        congestion_ms: 0.0,
        method: 0,
    };

    #[test]
    fn sliders_do_what_they_say() {
        let calm = CALM.arrivals();
        assert!(
            calm.iter()
                .all(|arrival| arrival.at_us == arrival.seq * SPACING_US + 40_000)
        );
        let congested = Network {
            congestion_ms: 100.0,
            ..CALM
        };
        let slow = congested.arrivals();
        let slow = slow
            .iter()
            .filter(|it| it.at_us > it.seq * SPACING_US + 100_000);
        assert!((1..400).contains(&slow.count()));
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
