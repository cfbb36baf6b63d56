//! Qualities as people write them: `delay=45ms,jitter=5ms,loss=1%,rate=10M,mtu=1300`.

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::cities::RoundTrips;
use crate::error::Error;
use crate::quality::{Delay, Jitter, Loss, Quality, Rate, Reordering, Shape, State};
use crate::trace::Trace;

/// Room of a bottleneck's queue unless told otherwise.
const QUEUE: Duration = Duration::from_millis(100);
/// How long a value of jitter lasts unless told otherwise.
const MEMORY: Duration = Duration::from_millis(100);

impl FromStr for Quality {
    type Err = Error;

    /// Properties with commas between them; what is not named is perfect.
    ///
    /// | Property | Meaning |
    /// |---|---|
    /// | `delay=45ms` | one way |
    /// | `trace=FILE` | one way, as in a file for [`Trace::read`] |
    /// | `between=Athens/Sydney` | delay and jitter as measured, see [`crate::cities`] |
    /// | `jitter=5ms`, `jitter=5ms/normal/500ms` | spread, shape (or `queue`, `uniform`), memory |
    /// | `loss=1%`, `loss=1%/8` | share, mean length of a burst in packets |
    /// | `duplicates=1%` | share |
    /// | `reorder=2%/5ms` | share, held back by |
    /// | `rate=10M`, `rate=10M/50ms` | bits per second (`k`, `M`, `G`), longest wait in the queue |
    /// | `mtu=1300`, `mtu=1300/silent` | bytes; whether what is larger vanishes without a word |
    /// | `cut`, `blackhole` | closed |
    fn from_str(text: &str) -> Result<Self, Error> {
        let mut quality = Self::default();
        for property in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (name, value) = property.split_once('=').unwrap_or((property, ""));
            let parts: Vec<&str> = value.split('/').collect();
            if name == "trace" {
                // A path has slashes of its own.
                quality.delay = Delay::Trace(Arc::new(Trace::read(Path::new(value))?));
            } else {
                let known = quality.take(name, &parts);
                known.ok_or_else(|| Error::Property(property.to_owned()))?;
            }
        }
        quality.check()?;
        Ok(quality)
    }
}

impl Quality {
    fn take(&mut self, name: &str, parts: &[&str]) -> Option<()> {
        match (name, parts) {
            ("between", [from, to]) => {
                let measured = RoundTrips::of_ten_cities().between(from, to)?.quality();
                (self.delay, self.jitter) = (measured.delay, measured.jitter);
            }
            ("delay", [delay]) => self.delay = Delay::Constant(span(delay)?),
            ("jitter", [spread, rest @ ..]) => {
                let mut words = rest.iter();
                self.jitter = Some(Jitter {
                    shape: words
                        .next()
                        .map_or(Some(Shape::Queue), |word| shape(word))?,
                    spread: span(spread)?,
                    memory: words.next().map_or(Some(MEMORY), |word| span(word))?,
                });
            }
            ("loss", [lost]) => self.loss = Loss::Random(share(lost)?),
            ("loss", [lost, length]) => {
                self.loss = Loss::Bursts {
                    share: share(lost)?,
                    length: length.parse().ok()?,
                };
            }
            ("duplicates", [twice]) => self.duplicates = share(twice)?,
            ("reorder", [late, by]) => {
                self.reordering = Some(Reordering {
                    share: share(late)?,
                    by: span(by)?,
                });
            }
            ("rate", [bits]) => self.rate = Some(Rate::with_queue_of(rate(bits)?, QUEUE)),
            ("rate", [bits, longest]) => {
                self.rate = Some(Rate::with_queue_of(rate(bits)?, span(longest)?));
            }
            ("mtu", [bytes]) => self.mtu = bytes.parse().ok()?,
            ("mtu", [bytes, "silent"]) => {
                (self.mtu, self.silent) = (bytes.parse().ok()?, true);
            }
            ("cut", [""]) => self.state = State::Cut,
            ("blackhole", [""]) => self.state = State::Blackhole,
            _ => return None,
        }
        Some(())
    }
}

fn span(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let seconds = match unit {
        "us" => number / 1e6,
        "ms" => number / 1e3,
        "s" => number,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

fn share(text: &str) -> Option<f64> {
    let (number, unit) = split(text)?;
    (unit == "%").then_some(number / 100.0)
}

fn rate(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => return None,
    };
    Some((number * factor) as u64)
}

fn shape(text: &str) -> Option<Shape> {
    match text {
        "queue" => Some(Shape::Queue),
        "normal" => Some(Shape::Normal),
        "uniform" => Some(Shape::Uniform),
        _ => None,
    }
}

/// A number and the unit behind it.
fn split(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    Some((text[..end].parse().ok()?, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn parse(text: &str) -> Quality {
        text.parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn every_property_has_its_words() {
        let all = "delay=45ms, jitter=5ms/normal/1s, loss=1%/8, duplicates=0.5%, reorder=2%/5ms, \
                   rate=10M/50ms, mtu=1300/silent, blackhole";
        let expected = Quality {
            delay: Delay::Constant(MS * 45),
            jitter: Some(Jitter {
                shape: Shape::Normal,
                spread: MS * 5,
                memory: MS * 1_000,
            }),
            loss: Loss::Bursts {
                share: 0.01,
                length: 8.0,
            },
            duplicates: 0.005,
            reordering: Some(Reordering {
                share: 0.02,
                by: MS * 5,
            }),
            rate: Some(Rate::with_queue_of(10_000_000, MS * 50)),
            mtu: 1_300,
            silent: true,
            state: State::Blackhole,
        };
        assert_eq!(parse(all), expected);
        assert_eq!(parse(""), Quality::default());
        assert_eq!(parse("loss=3%").loss, Loss::Random(0.03));
        let measured = parse("between=Athens/Sydney");
        assert_eq!(
            measured.delay,
            Delay::Constant(Duration::from_micros(152_419))
        );
        assert!(measured.jitter.is_some());
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for wrong in [
            "delay=45",
            "loss=1",
            "speed=3M",
            "cut=1",
            "jitter=1ms/odd",
            "mtu=x",
            "between=A/B",
        ] {
            let text = format!("duplicates=1%,{wrong}");
            let error = text
                .parse::<Quality>()
                .expect_err("it is wrong")
                .to_string();
            assert!(error.contains(wrong), "{error}");
        }
        assert!("mtu=500".parse::<Quality>().is_err());
        assert!("trace=/nowhere".parse::<Quality>().is_err());
    }
}
