//! End-to-end latency of a packet, predicted from what its path did last.
//!
//! Xiao et al., section IV-B2, predict it with a small neural network from transmit latency and
//! jitter. [`Predictor`] is that network, and the two plainer ways it is compared with.

mod learner;
mod linear;
mod network;
mod score;

pub use learner::Learner;
pub use linear::Linear;
pub use network::{Network, WIDE};
pub use score::{Sample, Score, fit_linear, split};

/// What a path did last, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct State {
    /// Transmit latency of the last packet heard of.
    pub transit_ms: f32,
    /// Its jitter, as the receiver calculated it.
    pub jitter_ms: f32,
    /// How long the receiver let packets wait for stragglers.
    pub lag_ms: f32,
}

/// A way to predict.
#[derive(Clone, Debug)]
pub enum Predictor {
    /// Transmit latency and lag, added. It needs no training.
    Rule,
    /// Linear regression on transmit latency and jitter, fitted to what was heard last.
    Linear(Linear),
    /// The network of 2-64-64-64-1, trained by each packet that was released.
    Online(Box<Learner>),
    /// The same network, trained before and left as it is.
    Trained(Box<Learner>),
}

impl Predictor {
    /// A linear regression that knows nothing yet.
    #[must_use]
    pub fn linear() -> Self {
        Self::Linear(Linear::default())
    }

    /// A network that knows nothing yet; its first weights are drawn from `seed`.
    #[must_use]
    pub fn online(seed: u64) -> Self {
        Self::Online(Box::new(Learner::new(seed)))
    }

    /// The end-to-end latency in milliseconds of a packet that fares as `state` says. While there
    /// is too little to predict from, the plain rule answers.
    #[must_use]
    pub fn predict(&self, state: &State) -> f32 {
        let rule = state.transit_ms + state.lag_ms;
        let learnt = match self {
            Self::Rule => None,
            Self::Linear(linear) => linear.predict(state),
            Self::Online(learner) | Self::Trained(learner) => learner.predict(state),
        };
        learnt.filter(|ms| ms.is_finite()).unwrap_or(rule)
    }

    /// Takes the end-to-end latency of a packet that fared as `state` says.
    pub fn learn(&mut self, state: &State, end_to_end_ms: f32) {
        match self {
            Self::Rule | Self::Trained(_) => {}
            Self::Linear(linear) => linear.learn(state, end_to_end_ms),
            Self::Online(learner) => learner.learn(state, end_to_end_ms),
        }
    }
}
