//! Brokers with the gateway, and peers that behave as browsers do.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod bottleneck;
mod hostile;
mod layers;
mod media;
mod neighbours;
mod paths;
mod peer;
mod redundancy;
mod stage;
mod tokens;
