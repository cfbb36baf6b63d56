//! Where to look next for the largest number that is good.

/// How widely and how closely to look.
#[derive(Clone, Copy, Debug)]
struct Stride {
    /// The search ends when good and bad are this close.
    close: f64,
    /// Runs of a search, at most.
    runs_max: usize,
    step: f64,
}

/// By short runs, from a guess.
const COARSE: Stride = Stride {
    close: 1.05,
    runs_max: 10,
    step: 1.3,
};
/// By long runs, from what short ones found: where one late frame is too much for a short run,
/// a fifth more may be good.
const FINE: Stride = Stride {
    close: 1.025,
    runs_max: 7,
    step: 1.06,
};
/// The first guess, as a share of what the machine allows.
const FIRST: f64 = 0.7;
/// Fewer participants than are measured make no sense.
const LEAST: usize = 16;

/// Exponential steps until one is good and one is bad, then bisection.
pub(super) struct Search {
    stride: Stride,
    good: Option<usize>,
    bad: Option<usize>,
    first: usize,
    runs: usize,
}

impl Search {
    /// A search around what the machine allows.
    pub(super) fn coarse(allowed: usize) -> Self {
        Self::new(COARSE, (allowed as f64 * FIRST) as usize)
    }

    /// A search around what a coarse one found.
    pub(super) fn fine(found: usize) -> Self {
        Self::new(FINE, found)
    }

    fn new(stride: Stride, first: usize) -> Self {
        Self {
            stride,
            good: None,
            bad: None,
            first: first.max(LEAST),
            runs: 0,
        }
    }

    /// The next number to try.
    pub(super) fn next(&mut self) -> Option<usize> {
        let Stride {
            close,
            runs_max,
            step,
        } = self.stride;
        self.runs += 1;
        if self.runs > runs_max {
            return None;
        }
        match (self.good, self.bad) {
            (None, None) => Some(self.first),
            (Some(good), None) => Some((good as f64 * step) as usize),
            (None, Some(bad)) => {
                let less = (bad as f64 / step) as usize;
                (less >= LEAST).then_some(less)
            }
            (Some(good), Some(bad)) => {
                let far = bad as f64 > good as f64 * close;
                far.then(|| good + (bad - good) / 2)
            }
        }
    }

    /// Takes the result of a run.
    pub(super) fn tell(&mut self, number: usize, good: bool) {
        if good {
            self.good = Some(self.good.map_or(number, |known| known.max(number)));
        } else {
            self.bad = Some(self.bad.map_or(number, |known| known.min(number)));
        }
    }

    /// The largest number that was good; the smallest that can be tried if none was.
    pub(super) fn found(&self) -> usize {
        self.good.unwrap_or(LEAST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(mut search: Search, truth: usize) -> (usize, usize) {
        let mut runs = 0;
        while let Some(number) = search.next() {
            search.tell(number, number <= truth);
            runs += 1;
        }
        (search.found(), runs)
    }

    #[test]
    fn the_largest_good_number_is_found_within_five_percent() {
        for truth in [9_000, 20_000, 33_000, 41_000] {
            let (found, runs) = run(Search::coarse(30_000), truth);
            assert!(
                found <= truth && found as f64 * COARSE.close >= truth as f64 * 0.99,
                "{found}"
            );
            assert!(runs <= COARSE.runs_max);
        }
    }

    #[test]
    fn long_runs_look_closely_around_what_short_ones_found() {
        for truth in [8_500, 9_999, 10_000, 10_500, 12_400] {
            let (found, runs) = run(Search::fine(10_000), truth);
            assert!(
                found <= truth && found as f64 * FINE.close >= truth as f64 * 0.99,
                "{found} of {truth}"
            );
            assert!(runs <= FINE.runs_max);
        }
    }

    #[test]
    fn a_search_without_any_good_number_ends() {
        assert_eq!(run(Search::coarse(100), 0).0, LEAST);
    }
}
