//! The session server as its callers see it: the API without a network, the store, a crowd.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod api;
mod crowd;
mod documents;
mod load;
mod recorders;
mod recovery;
mod servers;
mod signalling;
mod stage;
