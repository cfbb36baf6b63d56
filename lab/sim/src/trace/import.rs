//! Delays that somebody measured, as text, at whatever moments.

use std::io::BufRead;

use super::text::{HEAD_MAX, Head};
use super::{Columns, DELAY_US_MAX, LOST, Overlay, STEP, TraceError};

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

/// A recording, ready to be written as a trace.
#[derive(Clone, Debug)]
struct Recording {
    overlay: Overlay,
    /// By link: moment in ms, delay in microseconds, or [`LOST`].
    samples: Vec<Vec<(f64, u32)>>,
}

/// Reads a recording: `sangam-delays 1`, the head of a trace without `rows`, an empty line, then
/// a line `at_ms,link,delay_ms` for each measurement, in which `lost` may be the delay. Between
/// two measurements delays go straight from one to the other.
///
/// Returns the overlay and all of its moments, chunk by chunk.
///
/// # Errors
/// If a line is not understood, a delay is negative or absurd, moments run backwards, or there is
/// a gap that `gaps` refuses.
pub fn import(
    input: impl BufRead,
    gaps: Gaps,
) -> Result<(Overlay, impl Iterator<Item = Columns>), TraceError> {
    let recording = Recording::read(input)?;
    recording.check_gaps(gaps)?;
    let rows = recording.overlay.rows;
    let overlay = recording.overlay.clone();
    let starts = (0..rows).step_by(super::CHUNK_ROWS);
    let mut cursors = vec![0; recording.samples.len()];
    let chunks = starts.map(move |start| {
        let mut columns = Columns::new(recording.samples.len());
        columns.set_rows((rows - start).min(super::CHUNK_ROWS as u64) as usize);
        for (link, cursor) in cursors.iter_mut().enumerate() {
            let samples = &recording.samples[link];
            for (row, delay) in columns.link_mut(link).iter_mut().enumerate() {
                let at = (start + row as u64) as f64 * STEP_MS;
                *delay = value_at(samples, cursor, at, gaps);
            }
        }
        columns
    });
    Ok((overlay, chunks))
}

impl Recording {
    fn read(input: impl BufRead) -> Result<Self, TraceError> {
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
            "lost" => LOST,
            text => delay_us(text)?,
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

fn delay_us(text: &str) -> Result<u32, String> {
    let ms: f64 = text.parse().map_err(|_| format!("`{text}` is no delay"))?;
    if ms < 0.0 {
        return Err(format!(
            "a delay of {ms} ms: the two clocks differ; subtract their offset first"
        ));
    }
    let us = ms * 1e3 + 0.5;
    if !(0.0..=f64::from(DELAY_US_MAX) + 0.5).contains(&us) {
        return Err(format!(
            "a delay of {ms} ms; it is at most {} ms",
            DELAY_US_MAX / 1_000
        ));
    }
    Ok(us as u32)
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
