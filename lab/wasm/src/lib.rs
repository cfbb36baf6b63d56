//! The receivers of `core/jitter` for a page: a network with sliders, and what becomes of each
//! packet in four receivers.
//!
//! The page (`web/lab/`) speaks to it through [`exports`]: numbers only, so that neither side
//! reaches into the other's memory.

pub mod exports;
mod network;
mod timeline;

pub use network::{Arrival, Network};
pub use timeline::{Fate, RECEIVERS, Timeline};
