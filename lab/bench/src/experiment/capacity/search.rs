//! Where to look next for the largest number that is good.

/// The search ends when good and bad are this close.
const CLOSE: f64 = 1.05;
/// Runs of a search, at most.
const RUNS_MAX: usize = 10;
/// The first guess, as a share of what the machine allows.
const FIRST: f64 = 0.7;
const STEP: f64 = 1.3;
/// Fewer participants than are measured make no sense.
const LEAST: usize = 16;

/// Exponential steps until one is good and one is bad, then bisection.
pub(super) struct Search {
    good: Option<usize>,
    bad: Option<usize>,
    first: usize,
    runs: usize,
}

impl Search {
    /// A search around what the machine allows.
    pub(super) fn new(allowed: usize) -> Self {
        let first = ((allowed as f64 * FIRST) as usize).max(LEAST);
        Self {
            good: None,
            bad: None,
            first,
            runs: 0,
        }
    }

    /// The next number to try.
    pub(super) fn next(&mut self) -> Option<usize> {
        self.runs += 1;
        if self.runs > RUNS_MAX {
            return None;
        }
        match (self.good, self.bad) {
            (None, None) => Some(self.first),
            (Some(good), None) => Some((good as f64 * STEP) as usize),
            (None, Some(bad)) => {
                let less = (bad as f64 / STEP) as usize;
                (less >= LEAST).then_some(less)
            }
            (Some(good), Some(bad)) => {
                let far = bad as f64 > good as f64 * CLOSE;
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

    fn search(allowed: usize, truth: usize) -> (usize, usize) {
        let mut search = Search::new(allowed);
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
            let (found, runs) = search(30_000, truth);
            assert!(
                found <= truth && found as f64 * CLOSE >= truth as f64 * 0.99,
                "{found}"
            );
            assert!(runs <= RUNS_MAX);
        }
    }

    #[test]
    fn a_search_without_any_good_number_ends() {
        assert_eq!(search(100, 0), (LEAST, search(100, 0).1));
    }
}
