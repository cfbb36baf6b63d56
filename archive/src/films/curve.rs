//! By when each datagram of a film is sent: its cumulative curve.
//!
//! A film of variable rate is sent smoothly if its player has a buffer: datagrams go before they
//! are needed, as many as the buffer takes. Between the curve of what must have come and the one
//! of what fits, the shortest path has the least peak and the least variance of all (Salehi, Zhang,
//! Kurose & Towsley, "Supporting stored video: reducing rate variability and end-to-end resource
//! requirements through optimal smoothing", 1996).

use std::sync::Arc;
use std::time::Duration;

use super::play::{DATAGRAM, PACKETS};
use super::{Film, Index};

/// When each datagram is sent, counted from the film's begin.
#[derive(Clone, Debug)]
pub struct Curve(Kind);

#[derive(Clone, Debug)]
enum Kind {
    /// As the film's clock says.
    Clock(Arc<Film>),
    /// Even between points, in order: nanoseconds, and how many were sent by then.
    Points(Vec<(f64, f64)>),
}

impl Curve {
    /// Each when the film's clock says so.
    #[must_use]
    pub const fn clock(film: Arc<Film>) -> Self {
        Self(Kind::Clock(film))
    }

    /// All at the film's average rate.
    #[must_use]
    pub fn average(film: &Film) -> Self {
        let length = film.index.length().as_nanos().max(1) as f64;
        Self(Kind::Points(vec![
            (0.0, 0.0),
            (length, film.datagrams() as f64),
        ]))
    }

    /// All at this many bytes in a second.
    #[must_use]
    pub fn constant(film: &Film, bytes_per_second: u32) -> Self {
        let seconds = film.object.bytes as f64 / f64::from(bytes_per_second.max(1));
        let end = (seconds * 1e9).max(1.0);
        Self(Kind::Points(vec![
            (0.0, 0.0),
            (end, film.datagrams() as f64),
        ]))
    }

    /// The smoothest that neither starves nor overfills a player with a buffer of so many bytes.
    #[must_use]
    pub fn smooth(film: &Film, buffer: u64) -> Self {
        let needed = needed(&film.index, film.datagrams());
        let room = (buffer as f64 / DATAGRAM as f64).max(1.0);
        Self(Kind::Points(shortest(&needed, room)))
    }

    /// When a datagram is sent.
    #[must_use]
    pub fn at(&self, datagram: u64) -> Duration {
        let points = match &self.0 {
            Kind::Clock(film) => return film.index.at(datagram * PACKETS as u64),
            Kind::Points(points) => points,
        };
        let count = datagram as f64;
        let second = points.partition_point(|point| point.1 <= count);
        let second = second.clamp(1, points.len().saturating_sub(1).max(1));
        let (Some(from), Some(to)) = (points.get(second - 1), points.get(second)) else {
            return Duration::ZERO;
        };
        let share = match to.1 > from.1 {
            true => (count - from.1) / (to.1 - from.1),
            false => 0.0,
        };
        let at = from.0 + (to.0 - from.0) * share;
        Duration::from_nanos(at.max(0.0) as u64)
    }

    /// The first datagram that is not sent before `at`, at most `end`.
    #[must_use]
    pub fn datagram(&self, at: Duration, end: u64) -> u64 {
        let (mut low, mut high) = (0, end);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.at(middle) < at {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// The pieces of even rate: seconds that each lasts, and its datagrams in a second.
    #[must_use]
    pub fn rates(&self) -> Vec<(f64, f64)> {
        let Kind::Points(points) = &self.0 else {
            return Vec::new();
        };
        let pairs = points.windows(2).filter_map(|pair| {
            let [from, to] = pair else { return None };
            let seconds = (to.0 - from.0) / 1e9;
            (seconds > 0.0).then(|| (seconds, (to.1 - from.1) / seconds))
        });
        pairs.collect()
    }
}

/// By when how many datagrams must have come, at the index's points.
fn needed(index: &Index, datagrams: u64) -> Vec<(f64, f64)> {
    let points = index.points.iter();
    let mut needed: Vec<(f64, f64)> = points
        .map(|point| {
            let at = point.ticks as f64 * 1_000.0 / 27.0;
            (at, point.packet as f64 / PACKETS as f64)
        })
        .collect();
    let end = index.length().as_nanos() as f64;
    needed.retain(|point| point.0 < end);
    needed.push((end, datagrams as f64));
    // Where the clock stands, only the last of what comes at once counts.
    needed.dedup_by(|next, before| {
        let is_same = next.0 <= before.0;
        if is_same {
            before.1 = next.1;
        }
        is_same
    });
    needed
}

/// The shortest path from the first to the last of `needed`, above it and at most `room` higher.
fn shortest(needed: &[(f64, f64)], room: f64) -> Vec<(f64, f64)> {
    let total = needed.last().map_or(0.0, |last| last.1);
    let Some(first) = needed.first() else {
        return vec![(0.0, 0.0), (1.0, 0.0)];
    };
    let mut path = vec![*first];
    let mut begin = 0;
    while begin + 1 < needed.len() {
        let (x, y) = path.last().copied().unwrap_or(*first);
        let (at, point) = straight(needed, (begin, (x, y)), (room, total));
        path.push(point);
        begin = at;
    }
    path
}

/// How far a straight line from `(x, y)`, at the place `begin`, goes between the bounds, and where
/// it ends: at that bound which turned it.
fn straight(
    needed: &[(f64, f64)],
    (begin, (x, y)): (usize, (f64, f64)),
    (room, total): (f64, f64),
) -> (usize, (f64, f64)) {
    let last = needed.len() - 1;
    // The steepest of the lower bounds and the flattest of the upper ones, and where they are.
    let (mut low, mut low_at) = (f64::NEG_INFINITY, begin);
    let (mut high, mut high_at) = (f64::INFINITY, begin);
    let upper = |at: usize| match at == last {
        true => total,
        false => (needed[at].1 + room).min(total),
    };
    for at in begin + 1..needed.len() {
        let span = needed[at].0 - x;
        let (floor, roof) = ((needed[at].1 - y) / span, (upper(at) - y) / span);
        if floor > high {
            return (high_at, (needed[high_at].0, upper(high_at)));
        }
        if roof < low {
            return (low_at, (needed[low_at].0, needed[low_at].1));
        }
        if floor >= low {
            (low, low_at) = (floor, at);
        }
        if roof <= high {
            (high, high_at) = (roof, at);
        }
    }
    (last, (needed[last].0, total))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Peak and variance of the rates of a path.
    fn spread(path: &[(f64, f64)]) -> (f64, f64) {
        let length = path.last().unwrap().0 - path[0].0;
        let mean = (path.last().unwrap().1 - path[0].1) / length;
        let parts = path.windows(2).map(|pair| {
            let span = pair[1].0 - pair[0].0;
            (span, (pair[1].1 - pair[0].1) / span)
        });
        let peak = parts.clone().map(|(_, rate)| rate).fold(0.0, f64::max);
        let square = parts.map(|(span, rate)| span * (rate - mean) * (rate - mean));
        (peak, square.sum::<f64>() / length)
    }

    /// What a path has sent by `x`.
    fn value(path: &[(f64, f64)], x: f64) -> f64 {
        let second = path.partition_point(|point| point.0 <= x);
        let second = second.clamp(1, path.len() - 1);
        let (from, to) = (path[second - 1], path[second]);
        from.1 + (to.1 - from.1) * (x - from.0) / (to.0 - from.0)
    }

    #[test]
    fn a_burst_is_sent_before_it_is_needed() {
        // A quiet second, and one with ten times as much.
        let needed = [(0.0, 0.0), (1.0, 10.0), (2.0, 110.0)];
        assert_eq!(shortest(&needed, 1_000.0), [(0.0, 0.0), (2.0, 110.0)]);
        assert_eq!(
            shortest(&needed, 20.0),
            [(0.0, 0.0), (1.0, 30.0), (2.0, 110.0)]
        );
        // And the other way round: it must come first.
        let needed = [(0.0, 0.0), (1.0, 100.0), (2.0, 110.0)];
        assert_eq!(shortest(&needed, 1_000.0), needed);
    }

    proptest! {
        #[test]
        fn no_player_starves_or_overflows_and_rates_vary_less(
            steps in proptest::collection::vec(0_u32..1_000, 2..80),
            room in 1_u32..2_000,
        ) {
            let mut sum = 0.0;
            let mut needed = vec![(0.0, 0.0)];
            for (at, step) in (1..).zip(&steps) {
                sum += f64::from(*step);
                needed.push((f64::from(at), sum));
            }
            let room = f64::from(room);
            let path = shortest(&needed, room);
            prop_assert_eq!(path.last(), needed.last());
            for point in &needed {
                let sent = value(&path, point.0);
                prop_assert!(sent >= point.1 - 1e-6, "starves at {}", point.0);
                prop_assert!(sent <= (point.1 + room).min(sum) + 1e-6, "overflows");
            }
            let mut pairs = path.windows(2);
            prop_assert!(pairs.all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1));
            let ((peak, variance), (was_peak, was)) = (spread(&path), spread(&needed));
            prop_assert!(peak <= was_peak + 1e-6 && variance <= was + 1e-6);
        }
    }
}
