//! Latency at the same loss: who waits longer loses less, so only that is a fair comparison.

use super::bootstrap::{Drawn, Estimate, Sums};

/// Losses below this are no different: a packet in 100,000.
const LOSS_MIN: f64 = 1e-5;

/// One method with several settings of its receiver: a curve of latency against loss.
#[derive(Clone, Copy, Debug)]
pub struct Curve<'a>(pub &'a [&'a Drawn]);

/// What a curve gives at a loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Matched {
    /// The latency as a change from the other's.
    pub change: Estimate,
    /// Whether a setting exists that loses no more. If not, the best one loses more.
    pub reached: bool,
}

impl Curve<'_> {
    /// The change of a latency from another method's, at that one's loss.
    pub fn against(&self, other: &Drawn, latency: impl Fn(&Sums) -> f64) -> Matched {
        let at = |loss: f64, sums: &dyn Fn(&Drawn) -> Sums| {
            let points = self.0.iter().map(|drawn| {
                let sums = sums(drawn);
                (sums.loss(), latency(&sums))
            });
            interpolate(points.collect(), loss)
        };
        let whole = at(other.whole.loss(), &|drawn: &Drawn| drawn.whole);
        let change = |value: f64, theirs: &Sums| value / latency(theirs) - 1.0;
        let draws = other.draws.iter().enumerate().map(|(number, theirs)| {
            let mine = at(theirs.loss(), &|drawn: &Drawn| drawn.draws[number]);
            change(mine, theirs)
        });
        let least = self.0.iter().map(|drawn| drawn.whole.loss());
        let least = least.fold(f64::INFINITY, f64::min);
        Matched {
            change: Estimate::of(change(whole, &other.whole), draws.collect()),
            reached: least <= other.whole.loss().max(LOSS_MIN),
        }
    }
}

/// The latency at a loss, on a line through the logarithms of losses. Beyond the ends of the curve
/// the nearest setting counts as it is.
fn interpolate(mut points: Vec<(f64, f64)>, loss: f64) -> f64 {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let log = |loss: f64| loss.max(LOSS_MIN).ln();
    let above = points.iter().position(|point| point.0 >= loss);
    let (low, high) = match above {
        None => return points.last().map_or(f64::NAN, |point| point.1),
        Some(0) => return points[0].1,
        Some(place) => (points[place - 1], points[place]),
    };
    let width = log(high.0) - log(low.0);
    if width <= 0.0 {
        return low.1.min(high.1);
    }
    low.1 + (high.1 - low.1) * (log(loss) - log(low.0)) / width
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(loss: f64, latency: f64) -> Drawn {
        let sums = Sums {
            expected: 1e6,
            released: 1e6 * (1.0 - loss),
            release_ms: 1e6 * (1.0 - loss) * latency,
            ..Sums::default()
        };
        Drawn {
            whole: sums,
            draws: vec![sums; 10],
        }
    }

    #[test]
    fn latency_is_read_where_the_losses_meet() {
        let mine = [drawn(0.1, 100.0), drawn(0.001, 200.0)];
        let mine: Vec<&Drawn> = mine.iter().collect();
        let matched = Curve(&mine).against(&drawn(0.01, 300.0), Sums::release);
        assert!(matched.reached);
        assert!((matched.change.value + 0.5).abs() < 1e-6, "{matched:?}");
        assert!((matched.change.low + 0.5).abs() < 1e-6);
    }

    #[test]
    fn beyond_its_ends_a_curve_is_what_its_ends_are() {
        let mine = [drawn(0.1, 100.0), drawn(0.01, 200.0)];
        let mine: Vec<&Drawn> = mine.iter().collect();
        // Loses less than the other anyway: its fastest setting.
        let calm = Curve(&mine).against(&drawn(0.5, 200.0), Sums::release);
        assert!(calm.reached && (calm.change.value + 0.5).abs() < 1e-6);
        // Cannot lose so little.
        let strict = Curve(&mine).against(&drawn(0.0, 200.0), Sums::release);
        assert!(!strict.reached && strict.change.value.abs() < 1e-6);
    }
}
