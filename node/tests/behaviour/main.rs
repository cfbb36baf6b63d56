//! How a running broker behaves, seen from outside: real threads, real sockets on loopback, the
//! real client and one without manners. One file for each area.

mod delivery;
mod hostile;

#[path = "../support/mod.rs"]
mod support;
