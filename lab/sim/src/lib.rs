//! The laboratory on virtual time: nothing here reads a clock, opens a socket or starts a thread,
//! and all chance comes from seeds, so a history replays exactly, in a browser as well.
//!
//! - [`brokers`]: a network of brokers with the real core, disturbed until a rule breaks.
//! - [`replay`]: sessions over a trace, by all methods of routing and all receivers.
//! - [`study`]: the experiments of a paper, what they show, and how sure that is.
//! - [`trace`]: what the links of a network did, generated or measured.

pub mod brokers;
pub mod replay;
pub mod study;
pub mod trace;
