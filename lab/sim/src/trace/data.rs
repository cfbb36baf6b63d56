//! The measurements that traces are made from; lab/sim/data/README.md names their sources.

use core::str::FromStr;

const TEN_CITIES: &str = include_str!("../../data/ten-cities.csv");
const GCP: &str = include_str!("../../data/gcp.csv");
const SEATTLE: &[u8] = include_bytes!("../../data/seattle.bin");

/// Slices of every series.
const SLICES: usize = 688;
/// Six devices each.
pub(super) const DRAWS: usize = 25;
/// Links of a draw.
pub(super) const DRAW_LINKS: usize = 21;

/// What pings of a pair measured: round trips in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ping {
    pub(super) min: f64,
    pub(super) avg: f64,
    pub(super) dev: f64,
}

/// Pings between named places.
pub(super) struct Pings(&'static str);

impl Pings {
    pub(super) const TEN_CITIES: Self = Self(TEN_CITIES);
    pub(super) const GCP: Self = Self(GCP);

    /// The pings from one place to another.
    pub(super) fn get(&self, from: &str, to: &str) -> Option<Ping> {
        let line = self
            .0
            .lines()
            .find_map(|line| line.strip_prefix(from)?.strip_prefix(',')?.strip_prefix(to))?;
        let mut figures = line.strip_prefix(',')?.split(',').map(f64::from_str);
        let mut next = || figures.next()?.ok();
        let (min, avg, _max, dev) = (next()?, next()?, next()?, next()?);
        Some(Ping { min, avg, dev })
    }
}

/// Round trips between devices in Seattle, in units of 10 ms, a slice each.
pub(super) struct Series(Vec<Vec<u16>>);

impl Series {
    /// All 525, draw by draw.
    pub(super) fn seattle() -> Self {
        let mut bytes = SEATTLE.iter().copied();
        let mut all = Vec::with_capacity(DRAWS * DRAW_LINKS);
        while let Some(series) = next_series(&mut bytes) {
            all.push(series);
        }
        Self(all)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// One of them, counted around.
    pub(super) fn get(&self, number: usize) -> &[u16] {
        &self.0[number % self.0.len()]
    }
}

fn next_series(bytes: &mut impl Iterator<Item = u8>) -> Option<Vec<u16>> {
    let runs = next_u16(bytes)?;
    let mut series = Vec::with_capacity(SLICES);
    for _ in 0..runs {
        let value = next_u16(bytes)?;
        let count = bytes.next()?;
        series.extend((0..count).map(|_| value));
    }
    Some(series)
}

fn next_u16(bytes: &mut impl Iterator<Item = u8>) -> Option<u16> {
    Some(u16::from_le_bytes([bytes.next()?, bytes.next()?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_are_complete() {
        let all = Series::seattle();
        assert_eq!(all.len(), DRAWS * DRAW_LINKS);
        assert!(all.0.iter().all(|series| series.len() == SLICES));
    }

    #[test]
    fn pings_are_found_by_both_names() {
        let ping = Pings::TEN_CITIES.get("Athens", "Kampala").unwrap();
        assert_eq!((ping.min, ping.avg, ping.dev), (230.788, 231.135, 0.583));
        assert_eq!(Pings::TEN_CITIES.get("Athens", "Athens"), None);
        assert!(Pings::GCP.get("asia-east2", "europe-west3").is_some());
    }
}
