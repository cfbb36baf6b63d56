//! Round trips between cities, as measured.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::error::Error;
use crate::quality::{Delay, Jitter, Quality, Shape};

/// `data/ten-cities.csv`: WonderProxy's published pings of 19 and 20 July 2020; see
/// `data/README.md`.
const TEN: &str = include_str!("../data/ten-cities.csv");
/// How long a queue on the way keeps its length, so that neighbouring packets fare alike: a
/// choice of ours, as the source gives no series.
const MEMORY: Duration = Duration::from_millis(500);

/// Round trips between named places.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundTrips(Vec<RoundTrip>);

/// One measured pair. Times are milliseconds, there and back.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundTrip {
    /// Where the pings left.
    pub from: String,
    /// Where they were answered.
    pub to: String,
    /// Smallest.
    pub min_ms: f64,
    /// Mean.
    pub mean_ms: f64,
    /// Mean deviation.
    pub deviation_ms: f64,
}

impl RoundTrips {
    /// The ten cities of the path-selection papers: Athens, BuenosAires, CapeTown, Jakarta,
    /// Kampala, NewYork, SaoPaulo, Singapore, Sydney and Vilnius.
    #[must_use]
    pub fn of_ten_cities() -> Self {
        Self::parse(TEN).unwrap_or_else(|_| unreachable!("a test reads the file"))
    }

    /// Reads a file of lines `source,destination,min,mean,max,deviation` in milliseconds, below
    /// a heading.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be read, [`Error::Trace`] with the line that is wrong.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = fs::read_to_string(path).map_err(|error| Error::File(path.into(), error))?;
        Self::parse(&text)
    }

    /// Reads the text of such a file.
    ///
    /// # Errors
    /// [`Error::Trace`] with the line that is wrong.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let lines = text.lines().enumerate().skip(1);
        let pair = |(number, line): (usize, &str)| {
            let wrong = || Error::Trace(format!("line {}: {line:?} is no pair", number + 1));
            pair(line).ok_or_else(wrong)
        };
        lines.map(pair).collect::<Result<_, _>>().map(Self)
    }

    /// The measured pair, if there is one.
    #[must_use]
    pub fn between(&self, from: &str, to: &str) -> Option<&RoundTrip> {
        self.0
            .iter()
            .find(|pair| pair.from == from && pair.to == to)
    }
}

impl RoundTrip {
    /// One way of it: half the smallest round trip, and half of what came on top of it as a queue
    /// that comes and goes.
    #[must_use]
    pub fn quality(&self) -> Quality {
        let half = |ms: f64| Duration::from_secs_f64((ms / 2e3).max(0.0));
        let jitter = Jitter {
            shape: Shape::Queue,
            spread: half(self.mean_ms - self.min_ms),
            memory: MEMORY,
        };
        Quality {
            delay: Delay::Constant(half(self.min_ms)),
            jitter: Some(jitter),
            ..Quality::default()
        }
    }
}

fn pair(line: &str) -> Option<RoundTrip> {
    let mut fields = line.split(',').map(str::trim);
    let (from, to) = (fields.next()?.to_owned(), fields.next()?.to_owned());
    let mut ms = || {
        fields
            .next()?
            .parse::<f64>()
            .ok()
            .filter(|ms| ms.is_finite())
    };
    let (min_ms, mean_ms, _, deviation_ms) = (ms()?, ms()?, ms()?, ms()?);
    Some(RoundTrip {
        from,
        to,
        min_ms,
        mean_ms,
        deviation_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_cities_are_ninety_pairs() {
        let all = RoundTrips::of_ten_cities();
        assert_eq!(all.0.len(), 90);
        let pair = all.between("Athens", "Sydney").unwrap();
        assert_eq!((pair.min_ms, pair.mean_ms), (304.838, 305.022));
        for pair in &all.0 {
            assert!(all.between(&pair.to, &pair.from).is_some());
            assert!(pair.quality().check().is_ok());
        }
        assert_eq!(all.between("Athens", "Athens"), None);
    }

    #[test]
    fn a_wrong_line_is_named() {
        let error = RoundTrips::parse("heading\nA,B,1,2\n")
            .unwrap_err()
            .to_string();
        assert!(error.contains("line 2"), "{error}");
    }
}
