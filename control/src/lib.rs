//! What runs beside the media and never on its way.
//!
//! [`monitor`] is the network as its brokers see it: what each of them reports, merged, watched
//! by thresholds, and shown.

pub mod monitor;
mod problem;

pub use problem::Problem;
