//! Clocks that drift between the ends of a link, as they show in what was measured of it.
//!
//! Queues only add to a delay, so that the smallest delays of a link tell its length; where they
//! rise or fall along a line all the time, the clocks do (Moon, Skelly & Towsley, 1999).

use super::{Overlay, TraceError};

/// Shorter recordings cannot tell a clock from a queue.
const SPAN_MS_MIN: f64 = 60_000.0;
/// The recording is cut into so many parts, whose smallest delays are compared;
const PARTS: usize = 12;
/// so many of them must have been measured at all,
const PARTS_MIN: usize = 9;
/// and of ten of those so many must lie on the line: others may be congested throughout.
const ON_LINE: (usize, usize) = (8, 10);
/// On the line is what is no further off than this share of the whole drift.
const OFF_LINE: f64 = 0.2;
/// A smaller drift over the whole recording does no harm.
const MOVED_US_MIN: f64 = 2_000.0;
/// Quartz drifts by less: 500 parts in a million. What is steeper is the network's.
const SLOPE_MAX: f64 = 0.5;

/// Measurements of a link: moments in ms, delays in microseconds or [`NONE`].
pub(super) type Samples = Vec<(f64, i32)>;
/// Stands for a measurement that got lost.
pub(super) const NONE: i32 = i32::MIN;

/// What becomes of delays whose clocks drift.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clocks {
    /// The recording is refused.
    #[default]
    Refuse,
    /// It is taken as it is: the drift is the network's.
    Trust,
    /// The drift is taken out, and an offset where both directions of a link show it.
    Correct,
}

/// What was taken out of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Correction {
    /// The link's name.
    pub link: String,
    /// By how much its delays moved, in millionths of the time.
    pub drift_ppm: f64,
    /// What was subtracted from all of them besides, in milliseconds.
    pub offset_ms: f64,
}

/// Does to all links what is wanted; what was done, if anything was.
///
/// # Errors
/// [`TraceError::Drift`] if clocks drift and that is refused; [`TraceError::Overlay`] if delays
/// are negative and nothing tells by how much.
pub(super) fn settle(
    overlay: &Overlay,
    links: &mut [Samples],
    clocks: Clocks,
) -> Result<Vec<Correction>, TraceError> {
    if clocks == Clocks::Trust {
        return Ok(Vec::new());
    }
    let mut done: Vec<(f64, f64)> = vec![(0.0, 0.0); links.len()];
    for (link, samples) in links.iter_mut().enumerate() {
        let Some(slope) = slope(samples) else {
            continue;
        };
        if clocks == Clocks::Refuse {
            return Err(TraceError::Drift {
                link: overlay.link_name(link),
                ppm: slope * 1e3,
            });
        }
        let begin = samples.first().map_or(0.0, |(at, _)| *at);
        for (at, us) in samples.iter_mut().filter(|(_, us)| *us != NONE) {
            *us -= (slope * (*at - begin)).round() as i32;
        }
        done[link].0 = slope * 1e3;
    }
    for link in 0..links.len() {
        if let Some((back, offset_ms)) = offset(overlay, links, link)? {
            done[link].1 += offset_ms;
            done[back].1 -= offset_ms;
        }
    }
    let done = done.into_iter().enumerate();
    let done = done.filter(|(_, (drift, offset))| *drift != 0.0 || *offset != 0.0);
    Ok(done
        .map(|(link, (drift_ppm, offset_ms))| Correction {
            link: overlay.link_name(link),
            drift_ppm,
            offset_ms,
        })
        .collect())
}

/// Microseconds that the smallest delays move by in each millisecond, if clocks do that.
fn slope(samples: &[(f64, i32)]) -> Option<f64> {
    let minima = minima(samples)?;
    let pairs = minima.iter().enumerate().flat_map(|(number, (t, us))| {
        let later = minima[number + 1..].iter();
        later.map(move |(later, other)| (other - us) / (later - t))
    });
    // Theil & Sen: the median of all pairs' slopes.
    let slope = median(pairs.collect())?;
    let level = median(minima.iter().map(|(t, us)| us - slope * t).collect())?;
    let (first, last) = (samples.first()?.0, samples.last()?.0);
    let moved = (slope * (last - first)).abs();
    let off = |(t, us): &&(f64, f64)| (us - slope * t - level).abs() <= OFF_LINE * moved;
    let on_line = minima.iter().filter(off).count();
    let fits = on_line * ON_LINE.1 >= minima.len() * ON_LINE.0;
    (moved >= MOVED_US_MIN && slope.abs() <= SLOPE_MAX && fits).then_some(slope)
}

/// The smallest delay of each part of a recording, and when it was.
fn minima(samples: &[(f64, i32)]) -> Option<Vec<(f64, f64)>> {
    let (first, last) = (samples.first()?.0, samples.last()?.0);
    if last - first < SPAN_MS_MIN {
        return None;
    }
    let mut minima: [Option<(f64, f64)>; PARTS] = [None; PARTS];
    for (at, us) in samples.iter().filter(|(_, us)| *us != NONE) {
        let part = ((at - first) / (last - first) * PARTS as f64) as usize;
        let least = &mut minima[part.min(PARTS - 1)];
        let us = f64::from(*us);
        if least.is_none_or(|(_, before)| us < before) {
            *least = Some((*at, us));
        }
    }
    let minima: Vec<_> = minima.into_iter().flatten().collect();
    (minima.len() >= PARTS_MIN).then_some(minima)
}

/// Takes out of a link and of the one back what their clocks differ by, if delays are negative: as
/// if both directions were equally long. The link back, and what was taken out, in milliseconds.
fn offset(
    overlay: &Overlay,
    links: &mut [Samples],
    link: usize,
) -> Result<Option<(usize, f64)>, TraceError> {
    let Some(least) = least(&links[link]).filter(|least| *least < 0) else {
        return Ok(None);
    };
    let ends = |link: usize| (overlay.links[link].from, overlay.links[link].to);
    let (from, to) = ends(link);
    let back = (0..links.len()).find(|other| ends(*other) == (to, from));
    let there = back.and_then(|back| self::least(&links[back]));
    let (Some(back), Some(there)) = (back, there.filter(|there| *there + least >= 0)) else {
        let name = overlay.link_name(link);
        return Err(TraceError::Overlay(format!(
            "link {name} has delays down to {} ms: the two clocks differ, and no link back tells \
             by how much; subtract their offset first",
            f64::from(least) / 1e3
        )));
    };
    let offset = (least - there) / 2;
    shift(&mut links[link], -offset);
    shift(&mut links[back], offset);
    Ok(Some((back, f64::from(offset) / 1e3)))
}

fn least(samples: &[(f64, i32)]) -> Option<i32> {
    let measured = samples.iter().map(|(_, us)| *us);
    measured.filter(|us| *us != NONE).min()
}

fn shift(samples: &mut [(f64, i32)], by: i32) {
    for (_, us) in samples.iter_mut().filter(|(_, us)| *us != NONE) {
        *us += by;
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use sangam_model::Random;

    use super::*;

    /// Two minutes, ten measurements a second, of a link of 20 ms with an exponential queue.
    fn samples(more_us: impl Fn(f64) -> f64) -> Samples {
        let mut random = Random::new(5);
        let one = |n: u32| {
            let at = 100.0 * f64::from(n);
            let queue_us = -4_000.0 * (1.0 - random.unit()).ln();
            (at, (20_000.0 + queue_us + more_us(at)) as i32)
        };
        (0..1_200).map(one).collect()
    }

    #[test]
    fn a_drift_is_found_within_a_few_parts_in_a_million() {
        for ppm in [-400.0, -50.0, 50.0, 400.0] {
            let found = slope(&samples(|at| at * ppm / 1e3)).map(|slope| slope * 1e3);
            assert!(
                found.is_some_and(|found| (found - ppm).abs() < 5.0),
                "{ppm}: {found:?}"
            );
        }
    }

    #[test]
    fn what_networks_do_is_no_drift() {
        let steady = samples(|_| 0.0);
        let step = samples(|at| if at > 50_000.0 { 15_000.0 } else { 0.0 });
        let jam = samples(|at| 300.0 * (60_000.0 - (at - 60_000.0).abs()) / 1e3);
        let steep = samples(|at| at);
        let short = samples(|at| at / 10.0).drain(..500).collect();
        for samples in [steady, step, jam, steep, short] {
            assert_eq!(slope(&samples), None);
        }
    }
}
