//! Linear regression on transmit latency and jitter.

use super::State;

/// What an observation counts after the next one: the last few thousand decide.
const KEEP: f64 = 0.9995;
/// Keeps the equations solvable while inputs do not differ.
const RIDGE: f64 = 1e-3;
/// Inputs and outputs are in this many milliseconds.
const UNIT_MS: f32 = 100.0;
/// Packets before it is asked.
const SEEN_MIN: u32 = 30;

type Vector = [f64; 3];

/// Least squares with weights that fade: constant, transmit latency, jitter.
#[derive(Clone, Debug, Default)]
pub struct Linear {
    products: [Vector; 3],
    targets: Vector,
    weights: Vector,
    seen: u32,
}

impl Linear {
    /// The end-to-end latency in milliseconds; none while too little was learnt.
    #[must_use]
    pub fn predict(&self, state: &State) -> Option<f32> {
        let terms = inputs(state).into_iter().zip(self.weights);
        let sum: f64 = terms.map(|(x, weight)| x * weight).sum();
        (self.seen >= SEEN_MIN).then_some(sum as f32 * UNIT_MS)
    }

    /// Takes one packet's end-to-end latency.
    pub fn learn(&mut self, state: &State, end_to_end_ms: f32) {
        self.add(state, end_to_end_ms, KEEP);
        self.solve();
    }

    /// Takes it into the sums, without new weights.
    pub(super) fn add(&mut self, state: &State, end_to_end_ms: f32, keep: f64) {
        let x = inputs(state);
        let y = f64::from(end_to_end_ms / UNIT_MS);
        for (row, a) in self.products.iter_mut().zip(x) {
            for (sum, b) in row.iter_mut().zip(x) {
                *sum = *sum * keep + a * b;
            }
        }
        for (sum, a) in self.targets.iter_mut().zip(x) {
            *sum = *sum * keep + a * y;
        }
        self.seen = self.seen.saturating_add(1);
    }

    /// Cholesky's way: the products are positive definite with the ridge.
    pub(super) fn solve(&mut self) {
        let mut lower = [[0.0; 3]; 3];
        let mut half = [0.0; 3];
        for row in 0..3 {
            for column in 0..=row {
                let done: f64 = (0..column).map(|k| lower[row][k] * lower[column][k]).sum();
                let ridge = if row == column { RIDGE } else { 0.0 };
                let rest = self.products[row][column] + ridge - done;
                lower[row][column] = if row == column {
                    rest.max(f64::MIN_POSITIVE).sqrt()
                } else {
                    rest / lower[column][column]
                };
            }
            let done: f64 = (0..row).map(|k| lower[row][k] * half[k]).sum();
            half[row] = (self.targets[row] - done) / lower[row][row];
        }
        for row in (0..3).rev() {
            let done: f64 = (row + 1..3).map(|k| lower[k][row] * self.weights[k]).sum();
            self.weights[row] = (half[row] - done) / lower[row][row];
        }
    }
}

fn inputs(state: &State) -> Vector {
    [
        1.0,
        f64::from(state.transit_ms / UNIT_MS),
        f64::from(state.jitter_ms / UNIT_MS),
    ]
}

#[cfg(test)]
mod tests {
    use sangam_model::Random;

    use super::*;

    #[test]
    fn a_plane_is_found() {
        let mut linear = Linear::default();
        let mut random = Random::new(5);
        for _ in 0..5_000 {
            let state = State {
                transit_ms: 300.0 * random.unit() as f32,
                jitter_ms: 80.0 * random.unit() as f32,
                lag_ms: 0.0,
            };
            let noise = random.normal() as f32;
            linear.learn(
                &state,
                20.0 + 1.1 * state.transit_ms + 0.5 * state.jitter_ms + noise,
            );
        }
        let state = State {
            transit_ms: 200.0,
            jitter_ms: 40.0,
            lag_ms: 0.0,
        };
        let found = linear.predict(&state).unwrap();
        assert!((found - 260.0).abs() < 1.0, "{found}");
    }

    #[test]
    fn a_state_that_never_changes_predicts_what_it_always_gave() {
        let mut linear = Linear::default();
        let state = State {
            transit_ms: 100.0,
            jitter_ms: 0.0,
            lag_ms: 0.0,
        };
        for _ in 0..100_000 {
            linear.learn(&state, 130.0);
        }
        assert!((linear.predict(&state).unwrap() - 130.0).abs() < 0.1);
    }
}
