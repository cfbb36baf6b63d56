//! How a running broker behaves, seen from outside: real threads, real sockets on loopback, the
//! real client and one without manners. One file for each area.

mod delivery;
mod drain;
mod feedback;
mod gates;
mod hostile;
mod intruders;
mod legs;
mod lifecycle;
mod limits;
mod links;
mod multicast;
mod networks;
mod organise;
mod plans;
mod quic;
mod quic_links;
mod rules;
mod segment_links;
mod slow;
mod stage;
mod stream_links;
mod streams;
mod tokens;
mod urgency;

#[path = "../support/mod.rs"]
mod support;
