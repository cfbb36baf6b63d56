//! The receivers of `core/jitter` and the methods of `core/route` for a page: a network with
//! sliders, and what becomes of each packet in four receivers.
//!
//! The page (`web/lab/`) speaks to it through [`exports`]: numbers only, so that neither side
//! reaches into the other's memory.

pub mod exports;
mod network;
mod routing;
mod timeline;

pub use network::{Arrival, Network};
pub use routing::METHODS;
pub use timeline::{Fate, RECEIVERS, Timeline};
