//! A network of 2-64-64-64-1 with rectifiers, and its gradient, without a framework.

use sangam_model::Random;

/// Neurons of a hidden layer.
pub const WIDE: usize = 64;
/// Neurons whose sums are held in registers at a time: enough chains of additions to keep vector
/// units busy.
const HELD: usize = 32;
/// Sums that a scalar product is made of, added up one after the other at its end.
const LANES: usize = 16;

type Row = [f32; WIDE];

/// Five fully connected layers: two inputs, three hidden layers, one output without a rectifier.
/// 34 kB; it allocates nothing.
#[derive(Clone, Debug)]
pub struct Network {
    first: Layer<2>,
    second: Layer<WIDE>,
    third: Layer<WIDE>,
    last: Row,
    bias: f32,
}

/// Weights by input, so that each input's share of all neurons lies together.
#[derive(Clone, Debug)]
struct Layer<const IN: usize> {
    weights: [Row; IN],
    bias: Row,
}

impl Network {
    /// A network with random weights (He et al., 2015) and no biases.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut network = Self {
            first: Layer::zero(),
            second: Layer::zero(),
            third: Layer::zero(),
            last: [0.0; WIDE],
            bias: 0.0,
        };
        let mut fill = |row: &mut Row, inputs: usize| {
            let deviation = (2.0 / inputs as f64).sqrt();
            *row = row.map(|_| (random.normal() * deviation) as f32);
        };
        network
            .first
            .weights
            .iter_mut()
            .for_each(|row| fill(row, 2));
        let hidden = network.second.weights.iter_mut();
        hidden
            .chain(&mut network.third.weights)
            .for_each(|row| fill(row, WIDE));
        fill(&mut network.last, WIDE);
        network
    }

    /// The output for an input.
    #[must_use]
    pub fn run(&self, input: [f32; 2]) -> f32 {
        let hidden = self.first.run(&input);
        let hidden = self.second.run(&hidden);
        self.output(&self.third.run(&hidden))
    }

    /// One step of gradient descent on half the squared error, which counts as if it were at most
    /// `error_max`; returns the output before it.
    pub fn train(&mut self, input: [f32; 2], target: f32, rate: f32, error_max: f32) -> f32 {
        let first = self.first.run(&input);
        let second = self.second.run(&first);
        let third = self.third.run(&second);
        let output = self.output(&third);
        let error = (output - target).clamp(-error_max, error_max);
        let mut delta = [0.0; WIDE];
        for ((delta, weight), out) in delta.iter_mut().zip(&mut self.last).zip(&third) {
            *delta = if *out > 0.0 { error * *weight } else { 0.0 };
            *weight -= rate * error * out;
        }
        self.bias -= rate * error;
        let delta = self.third.train(&second, &delta, rate);
        let delta = self.second.train(&first, &delta, rate);
        self.first.step(&input, &delta, rate);
        output
    }

    fn output(&self, hidden: &Row) -> f32 {
        self.bias + dot(hidden, &self.last)
    }

    /// Every weight and bias, layer by layer: for each input its weights, then the biases.
    pub fn parameters(&mut self) -> impl Iterator<Item = &mut f32> {
        let first = self.first.weights.iter_mut().chain([&mut self.first.bias]);
        let second = self.second.weights.iter_mut();
        let second = second.chain([&mut self.second.bias]);
        let third = self.third.weights.iter_mut().chain([&mut self.third.bias]);
        let rows = first.chain(second).chain(third).chain([&mut self.last]);
        rows.flatten().chain([&mut self.bias])
    }
}

impl<const IN: usize> Layer<IN> {
    const fn zero() -> Self {
        Self {
            weights: [[0.0; WIDE]; IN],
            bias: [0.0; WIDE],
        }
    }
}

impl Layer<2> {
    /// What comes out, rectified.
    fn run(&self, input: &[f32; 2]) -> Row {
        let mut output = self.bias;
        for (x, row) in input.iter().zip(&self.weights) {
            for (sum, weight) in output.iter_mut().zip(row) {
                *sum += x * weight;
            }
        }
        output.map(|sum| if sum > 0.0 { sum } else { 0.0 })
    }

    /// A step against the gradient, given that of the sums that came out.
    fn step(&mut self, input: &[f32; 2], delta: &Row, rate: f32) {
        let step = delta.map(|delta| rate * delta);
        for (x, row) in input.iter().zip(&mut self.weights) {
            subtract(row, *x, &step);
        }
        subtract(&mut self.bias, 1.0, &step);
    }
}

impl Layer<WIDE> {
    /// What comes out, rectified. About half of the inputs are zero, as they come from rectifiers.
    fn run(&self, input: &Row) -> Row {
        let active = Active::of(input);
        let mut output = self.bias;
        for (block, sums) in output.as_chunks_mut::<HELD>().0.iter_mut().enumerate() {
            let mut held = *sums;
            for n in active.iter() {
                let x = input[n];
                let weights = &self.weights[n].as_chunks::<HELD>().0[block];
                for (sum, weight) in held.iter_mut().zip(weights) {
                    *sum += x * weight;
                }
            }
            *sums = held.map(|sum| if sum > 0.0 { sum } else { 0.0 });
        }
        output
    }

    /// A step as of the first layer, and the gradient of the sums that came in. A rectifier that
    /// gave nothing has none, nor do the weights behind it.
    fn train(&mut self, input: &Row, delta: &Row, rate: f32) -> Row {
        let step = delta.map(|delta| rate * delta);
        let active = Active::of(input);
        let mut products = [[0.0; LANES]; WIDE];
        for (product, n) in products.iter_mut().zip(active.iter()) {
            *product = pass(&mut self.weights[n], delta, input[n], &step);
        }
        subtract(&mut self.bias, 1.0, &step);
        let mut before = [0.0; WIDE];
        let groups = products.as_chunks::<LANES>().0.iter().map(totals);
        for (n, total) in active.iter().zip(groups.flatten()) {
            before[n] = total;
        }
        before
    }
}

/// The numbers of those that are positive, gathered without a branch: which neurons are is as
/// good as random.
struct Active {
    numbers: [u8; WIDE],
    count: usize,
}

impl Active {
    fn of(row: &Row) -> Self {
        let mut active = Self {
            numbers: [0; WIDE],
            count: 0,
        };
        for (n, x) in row.iter().enumerate() {
            active.numbers[active.count % WIDE] = n as u8;
            active.count += usize::from(*x > 0.0);
        }
        active
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        self.numbers[..self.count]
            .iter()
            .map(|n| usize::from(*n) % WIDE)
    }
}

/// The scalar product of weights and delta, in [`LANES`] sums, and the step of the weights, in one
/// go.
fn pass(row: &mut Row, delta: &Row, x: f32, step: &Row) -> [f32; LANES] {
    let mut sums = [0.0; LANES];
    let rows = row.as_chunks_mut::<LANES>().0.iter_mut();
    let deltas = delta
        .as_chunks::<LANES>()
        .0
        .iter()
        .zip(step.as_chunks::<LANES>().0);
    for (weights, (deltas, steps)) in rows.zip(deltas) {
        for (((sum, weight), delta), step) in sums.iter_mut().zip(weights).zip(deltas).zip(steps) {
            *sum += *weight * delta;
            *weight -= x * step;
        }
    }
    sums
}

/// What several products add up to: each in order, all of them side by side, as one alone would
/// wait for each addition.
fn totals(products: &[[f32; LANES]; LANES]) -> [f32; LANES] {
    let mut totals = [0.0; LANES];
    for sums in &transposed(products) {
        for (total, sum) in totals.iter_mut().zip(sums) {
            *total += sum;
        }
    }
    totals
}

/// Rows as columns: four perfect shuffles of all rows, each of which is a few instructions.
fn transposed(rows: &[[f32; LANES]; LANES]) -> [[f32; LANES]; LANES] {
    let mut rows = *rows;
    for _ in 0..LANES.ilog2() {
        let mut shuffled = [[0.0; LANES]; LANES];
        let (upper, lower) = rows.split_at(LANES / 2);
        let pairs = shuffled.as_chunks_mut::<2>().0.iter_mut();
        for ([first, second], (a, b)) in pairs.zip(upper.iter().zip(lower)) {
            [*first, *second] = shuffled_pair(a, b);
        }
        rows = shuffled;
    }
    rows
}

/// Two rows' numbers by turns. Written out: of a loop the compiler makes single loads, or not, as
/// it happens.
const fn shuffled_pair(a: &[f32; LANES], b: &[f32; LANES]) -> [[f32; LANES]; 2] {
    let [
        a0,
        a1,
        a2,
        a3,
        a4,
        a5,
        a6,
        a7,
        a8,
        a9,
        a10,
        a11,
        a12,
        a13,
        a14,
        a15,
    ] = *a;
    let [
        b0,
        b1,
        b2,
        b3,
        b4,
        b5,
        b6,
        b7,
        b8,
        b9,
        b10,
        b11,
        b12,
        b13,
        b14,
        b15,
    ] = *b;
    [
        [
            a0, b0, a1, b1, a2, b2, a3, b3, a4, b4, a5, b5, a6, b6, a7, b7,
        ],
        [
            a8, b8, a9, b9, a10, b10, a11, b11, a12, b12, a13, b13, a14, b14, a15, b15,
        ],
    ]
}

/// In an order that vector registers can keep.
fn dot(a: &Row, b: &Row) -> f32 {
    let mut sums = [0.0; LANES];
    for (a, b) in a
        .as_chunks::<LANES>()
        .0
        .iter()
        .zip(b.as_chunks::<LANES>().0)
    {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum()
}

fn subtract(from: &mut Row, times: f32, step: &Row) {
    for (from, step) in from.iter_mut().zip(step) {
        *from -= times * step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gradient_is_what_finite_differences_say() {
        let input = [0.7, -1.3];
        let target = 0.4;
        let network = Network::new(11);
        let mut stepped = network.clone();
        stepped.train(input, target, 1.0, f32::MAX);
        let loss = |at: usize, step: f32| {
            let mut moved = network.clone();
            *moved.parameters().nth(at).unwrap() += step;
            let error = f64::from(moved.run(input)) - f64::from(target);
            error * error / 2.0
        };
        let after: Vec<f32> = stepped.parameters().map(|weight| *weight).collect();
        let before: Vec<f32> = network.clone().parameters().map(|weight| *weight).collect();
        assert_eq!(before.len(), 8_577);
        let (step, mut moved) = (1e-3, 0);
        for at in (0..before.len()).step_by(13) {
            let gradient = f64::from(before[at] - after[at]);
            let difference = (loss(at, step) - loss(at, -step)) / (2.0 * f64::from(step));
            let far = (gradient - difference).abs();
            assert!(
                far < 2e-3 + 0.02 * difference.abs(),
                "{at}: {gradient} {difference}"
            );
            moved += usize::from(difference.abs() > 1e-3);
        }
        assert!(moved > 50, "only {moved} of the weights matter");
    }

    #[test]
    fn a_curve_is_learnt() {
        let mut network = Network::new(3);
        let mut random = Random::new(4);
        let curve = |a: f32, b: f32| (a * b).max(0.0) + a.abs();
        let mut worst = 0.0_f32;
        for n in 0..60_000 {
            let [a, b] = [(); 2].map(|()| random.unit() as f32 * 2.0 - 1.0);
            let output = network.train([a, b], curve(a, b), 0.01, 1.0);
            if n >= 59_000 {
                worst = worst.max((output - curve(a, b)).abs());
            }
        }
        assert!(worst < 0.2, "{worst}");
    }
}
