//! Participants: tens of thousands of dialers with the real hello and keep-alive.
//!
//! Each has its own address, in 127.0.0.0/8 or in a site of the emulator. Passive ones share a few
//! sockets, which write the sender's address into each datagram; measured ones have a socket each
//! and a thread that does nothing else; publishers have a third thread. Members of sessions are in
//! [`members`]. Nothing here knows about experiments.

mod home;
mod listener;
pub(crate) mod members;
mod peer;
mod peers;
mod publisher;
mod station;
pub(crate) mod webrtc;

pub(crate) use home::Home;
pub(crate) use listener::Listener;
pub(crate) use peer::{Purpose, Spec};
pub(crate) use publisher::{Published, Publishers};
pub(crate) use station::Tally;
