//! Delays as somebody recorded them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::error::Error;
use crate::quality::DELAY_MAX;

/// Steps of one trace; more would be a mistake of whoever made the file.
const STEPS_MAX: usize = 1_000_000;

/// One-way delay and loss over time, repeated for ever.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    steps: Vec<Step>,
    length: Duration,
}

/// What holds from a moment until the next step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Since the trace's begin.
    pub at: Duration,
    /// One way.
    pub delay: Duration,
    /// Share of packets lost at random, 0 to 1, besides the path's own loss.
    pub loss: f64,
}

impl Trace {
    /// A trace of these steps, the first at zero, that starts again after `length`.
    ///
    /// # Errors
    /// [`Error::Trace`] if there is none, if they are not in order or if a value is out of range.
    pub fn new(steps: Vec<Step>, length: Duration) -> Result<Self, Error> {
        let wrong = |text: &str| Err(Error::Trace(text.to_owned()));
        if steps.is_empty() || steps.len() > STEPS_MAX {
            return wrong("a trace has one to a million steps");
        }
        if steps[0].at != Duration::ZERO || !steps.is_sorted_by(|a, b| a.at < b.at) {
            return wrong("a trace begins at 0 and its times rise");
        }
        if steps[steps.len() - 1].at >= length {
            return wrong("a trace ends behind its last step");
        }
        let fits = |step: &Step| step.delay <= DELAY_MAX && (0.0..=1.0).contains(&step.loss);
        if !steps.iter().all(fits) {
            return wrong("delays of a trace are at most 10 s and losses lie between 0 and 1");
        }
        Ok(Self { steps, length })
    }

    /// Delays at even intervals.
    ///
    /// # Errors
    /// As [`Trace::new`].
    pub fn series(interval: Duration, delays: &[Duration]) -> Result<Self, Error> {
        let step = |(number, delay): (usize, &Duration)| Step {
            at: interval * number as u32,
            delay: *delay,
            loss: 0.0,
        };
        let steps = delays.iter().enumerate().map(step).collect();
        Self::new(steps, interval * delays.len() as u32)
    }

    /// Reads a file of lines `seconds,delay_ms` or `seconds,delay_ms,loss_percent` below a
    /// heading. The last step lasts as long as the one before it.
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
        let mut steps: Vec<Step> = Vec::new();
        for (number, line) in text.lines().enumerate().skip(1) {
            let wrong = || Error::Trace(format!("line {}: {line:?} is no step", number + 1));
            steps.push(step(line).ok_or_else(wrong)?);
        }
        let length = match steps[..] {
            [.., before, last] => last.at + last.at.saturating_sub(before.at),
            _ => Duration::from_secs(1),
        };
        Self::new(steps, length)
    }

    /// What holds so long after the begin.
    #[must_use]
    pub fn at(&self, elapsed: Duration) -> Step {
        let within = elapsed.as_nanos() % self.length.as_nanos();
        let later = self
            .steps
            .partition_point(|step| step.at.as_nanos() <= within);
        // The first step is at zero, so that at least one is not later.
        self.steps[later.saturating_sub(1)]
    }
}

fn step(line: &str) -> Option<Step> {
    let mut fields = line.split(',').map(|field| field.trim().parse::<f64>());
    let mut next = || fields.next().transpose().ok();
    let (at, delay, loss) = (next()??, next()??, next()?.unwrap_or(0.0));
    Some(Step {
        at: Duration::try_from_secs_f64(at).ok()?,
        delay: Duration::try_from_secs_f64(delay / 1e3).ok()?,
        loss: loss / 100.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_file_is_read_held_and_repeated() {
        let trace = Trace::parse("seconds,delay_ms,loss_percent\n0,45\n0.5,60.5,2\n").unwrap();
        let at = |ms: u32| {
            (
                trace.at(MS * ms).delay.as_secs_f64() * 1e3,
                trace.at(MS * ms).loss,
            )
        };
        assert_eq!(at(0), (45.0, 0.0));
        assert_eq!(at(499), (45.0, 0.0));
        assert_eq!(at(500), (60.5, 0.02));
        assert_eq!(at(1_000), (45.0, 0.0));
    }

    #[test]
    fn wrong_lines_are_named() {
        for (text, message) in [
            ("h\n0,1\nsoon,2\n", "line 3"),
            ("h\n0,1\n1,-2\n", "line 3"),
            ("h\n1,1\n", "begins at 0"),
            ("h\n0,1\n0,1\n", "times rise"),
            ("h\n0,99999\n", "at most 10 s"),
            ("h\n0,1,400\n", "between 0 and 1"),
            ("h\n", "one to a million"),
        ] {
            let error = Trace::parse(text).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn a_series_has_even_steps() {
        let trace = Trace::series(MS * 10, &[MS, MS * 2]).unwrap();
        assert_eq!(trace.at(MS * 19).delay, MS * 2);
        assert_eq!(trace.at(MS * 20).delay, MS);
    }
}
