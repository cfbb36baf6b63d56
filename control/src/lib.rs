//! What runs beside the media and never on its way.
//!
//! [`monitor`] is the network as its brokers see it: what each of them reports, merged, watched
//! by thresholds, and shown. [`session`] is where people meet: XGSP sessions over HTTP, WebSockets
//! and XML. [`login`] lets those in whom somebody else vouches for. What all of them serve is
//! described by [`openapi`].

pub mod login;
pub mod monitor;
pub mod openapi;
mod problem;
mod refusals;
pub mod session;
mod web;
mod xml;

pub use problem::Problem;
pub use refusals::{Reason, Refusals};
