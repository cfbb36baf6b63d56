//! Delays that somebody measured, as text, at whatever moments.

use std::io::BufRead;

use super::clocks::{self, Clocks, Correction, NONE, Samples};
use super::text::{HEAD_MAX, Head};
use super::{CHUNK_ROWS, Columns, DELAY_US_MAX, LOST, Overlay, STEP, TraceError};

const FIRST_LINE: &str = "sangam-delays 1";
/// Measurements of one recording.
const SAMPLES_MAX: usize = 50_000_000;
/// A day: no recording is longer.
const LENGTH_MS_MAX: f64 = 86_400_000.0;
/// Longer than this without a measurement is a gap.
const GAP_MS: f64 = 5_000.0;
const STEP_MS: f64 = STEP.as_millis() as f64;

/// What stands for the delays in a gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gaps {
    /// Nothing: a recording with gaps is refused.
    #[default]
    Refuse,
    /// The last delay before it.
    Hold,
    /// Every packet gets lost.
    Lost,
}

/// How a recording is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Importing {
    /// What stands for delays where nothing was measured.
    pub gaps: Gaps,
    /// What becomes of delays whose clocks drift.
    pub clocks: Clocks,
}

/// A recording, ready to be written as a trace.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Who is in it.
    pub overlay: Overlay,
    /// What was taken out of its links.
    pub corrections: Vec<Correction>,
    /// By link: moment in ms, delay in microseconds, or [`LOST`].
    samples: Vec<Vec<(f64, u32)>>,
    gaps: Gaps,
}

/// A recording as it is read.
#[derive(Clone, Debug)]
struct Recording {
    overlay: Overlay,
    clocks: Clocks,
    /// By link.
    samples: Vec<Samples>,
}

/// Reads a recording: `sangam-delays 1`, the head of a trace without `rows`, an empty line, then
/// a line `at_ms,link,delay_ms` for each measurement, in which `lost` may be the delay. Between
/// two measurements delays go straight from one to the other.
///
/// # Errors
/// If a line is not understood, a delay is negative or absurd, moments run backwards, clocks drift
/// where that is refused, or there is a gap that is.
pub fn import(input: impl BufRead, how: Importing) -> Result<Imported, TraceError> {
    let mut recording = Recording::read(input, how.clocks)?;
    recording.check_gaps(how.gaps)?;
    let overlay = recording.overlay;
    let corrections = clocks::settle(&overlay, &mut recording.samples, how.clocks)?;
    let mut samples = Vec::new();
    for (link, measured) in recording.samples.into_iter().enumerate() {
        let absurd = |us: i32| us != NONE && !(0..=DELAY_US_MAX as i32).contains(&us);
        if let Some((at, us)) = measured.iter().find(|(_, us)| absurd(*us)) {
            let (name, ms) = (overlay.link_name(link), f64::from(*us) / 1e3);
            return Err(TraceError::Overlay(format!(
                "link {name} has a delay of {ms} ms at {at} ms, once its clocks are corrected"
            )));
        }
        let kept = measured.into_iter();
        samples.push(
            kept.map(|(at, us)| (at, u32::try_from(us).unwrap_or(LOST)))
                .collect(),
        );
    }
    Ok(Imported {
        overlay,
        corrections,
        samples,
        gaps: how.gaps,
    })
}

impl Imported {
    /// All moments, chunk by chunk.
    pub fn chunks(&self) -> impl Iterator<Item = Columns> {
        let rows = self.overlay.rows;
        let starts = (0..rows).step_by(CHUNK_ROWS);
        let mut cursors = vec![0; self.samples.len()];
        starts.map(move |start| {
            let mut columns = Columns::new(self.samples.len());
            columns.set_rows((rows - start).min(CHUNK_ROWS as u64) as usize);
            for (link, cursor) in cursors.iter_mut().enumerate() {
                let samples = &self.samples[link];
                for (row, delay) in columns.link_mut(link).iter_mut().enumerate() {
                    let at = (start + row as u64) as f64 * STEP_MS;
                    *delay = value_at(samples, cursor, at, self.gaps);
                }
            }
            columns
        })
    }
}

impl Recording {
    fn read(input: impl BufRead, clocks: Clocks) -> Result<Self, TraceError> {
        let mut lines = input.lines();
        if lines.next().transpose()?.as_deref().map(str::trim) != Some(FIRST_LINE) {
            return Err(TraceError::Line {
                line: 1,
                text: format!("a recording begins with `{FIRST_LINE}`"),
            });
        }
        let (mut head, mut bytes) = (Head::new(), 0);
        loop {
            let line = lines.next().transpose()?;
            bytes += line.as_deref().map_or(0, str::len);
            let Some(line) = line.filter(|_| bytes <= HEAD_MAX) else {
                return Err(TraceError::Line {
                    line: head.line_number() + 1,
                    text: "the head has no end: an empty line is missing".to_owned(),
                });
            };
            if head.line(&line)? {
                break;
            }
        }
        let before = head.line_number();
        let overlay = head.finish()?;
        let mut recording = Self {
            samples: vec![Vec::new(); overlay.links.len()],
            overlay,
            clocks,
        };
        for (count, line) in lines.enumerate() {
            let line_number = before + count + 1;
            let wrong = |text: String| TraceError::Line {
                line: line_number,
                text,
            };
            if count >= SAMPLES_MAX {
                return Err(wrong(format!(
                    "more than {SAMPLES_MAX} measurements: split it"
                )));
            }
            recording.take(line?.trim()).map_err(wrong)?;
        }
        let all = recording.samples.iter().flatten().map(|(at, _)| *at);
        let end = all.fold(0.0, f64::max);
        recording.overlay.rows = (end / STEP_MS) as u64 + 1;
        Ok(recording)
    }

    fn take(&mut self, line: &str) -> Result<(), String> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let mut fields = line.split(',').map(str::trim);
        let (Some(at), Some(link), Some(delay), None) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(format!("`{line}` is not `at_ms,link,delay_ms`"));
        };
        let at: f64 = at.parse().map_err(|_| format!("`{at}` is no moment"))?;
        if !(0.0..=LENGTH_MS_MAX).contains(&at) {
            return Err(format!("moment {at} ms; it lies between 0 and a day"));
        }
        let number = link
            .parse()
            .ok()
            .filter(|n: &usize| *n < self.samples.len());
        let number = number.ok_or_else(|| format!("there is no link `{link}`"))?;
        let delay = match delay {
            "lost" => NONE,
            text => delay_us(text, self.clocks)?,
        };
        let samples = &mut self.samples[number];
        if samples.last().is_some_and(|(before, _)| *before >= at) {
            return Err(format!(
                "moment {at} ms of link {link} is not after the one before it"
            ));
        }
        samples.push((at, delay));
        Ok(())
    }

    fn check_gaps(&self, gaps: Gaps) -> Result<(), TraceError> {
        let end = (self.overlay.rows - 1) as f64 * STEP_MS;
        for (link, samples) in self.samples.iter().enumerate() {
            if samples.is_empty() {
                let name = self.overlay.link_name(link);
                let text = format!("link {link} ({name}) has no measurement at all");
                return Err(TraceError::Overlay(text));
            }
            if gaps != Gaps::Refuse {
                continue;
            }
            let moments = samples.iter().map(|(at, _)| *at).chain([end]);
            let mut before = 0.0;
            for at in moments {
                if at - before > GAP_MS {
                    return Err(TraceError::Gap {
                        link: self.overlay.link_name(link),
                        from_ms: before,
                        to_ms: at,
                    });
                }
                before = at;
            }
        }
        Ok(())
    }
}

fn delay_us(text: &str, clocks: Clocks) -> Result<i32, String> {
    let ms: f64 = text.parse().map_err(|_| format!("`{text}` is no delay"))?;
    if ms < 0.0 && clocks != Clocks::Correct {
        return Err(format!(
            "a delay of {ms} ms: the two clocks differ; subtract their offset first, or import \
             with `--clocks correct`"
        ));
    }
    let us = (ms * 1e3 + 0.5).floor();
    let most = f64::from(DELAY_US_MAX);
    if !(-most..=most).contains(&us) {
        return Err(format!(
            "a delay of {ms} ms; it is at most {} ms",
            DELAY_US_MAX / 1_000
        ));
    }
    Ok(us as i32)
}

/// The delay at a moment; `cursor` is the last measurement not after it, or 0.
fn value_at(samples: &[(f64, u32)], cursor: &mut usize, at: f64, gaps: Gaps) -> u32 {
    while samples
        .get(*cursor + 1)
        .is_some_and(|(next, _)| *next <= at)
    {
        *cursor += 1;
    }
    let (before, delay) = samples[*cursor];
    let after = samples.get(*cursor + 1).copied();
    let until = after.map_or(at, |(next, _)| next);
    if (before - at).max(until - before) > GAP_MS || at - before > GAP_MS {
        return if gaps == Gaps::Lost { LOST } else { delay };
    }
    match after {
        Some((next, to)) if at > before && delay != LOST && to != LOST => {
            let share = (at - before) / (next - before);
            (f64::from(delay) + (f64::from(to) - f64::from(delay)) * share + 0.5) as u32
        }
        _ => delay,
    }
}
