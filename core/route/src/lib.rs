//! Which way a stream takes: the graph of brokers, shortest ways in it, and link weights.
//!
//! [`Graph`] is what one broker knows of the network at one moment. All brokers that know the
//! same graph choose the same ways: costs are integers, weights count the same in both directions,
//! and of equally short ways the one whose next broker has the lowest id is taken. So the choices
//! of all brokers for one source are a tree, without anybody sending it to anybody.
//!
//! [`neighbours`] says which links there should be, [`rendezvous`] which brokers serve a name, and
//! [`locate`] where a client should go.
//!
//! [`Weigher`] turns what a link measures into its weight, slowly enough that ways do not swing.

mod graph;
mod locate;
mod plan;
mod rendezvous;
mod weight;

pub use graph::{Edge, Graph, UNREACHABLE, Ways};
pub use locate::{Candidate, locate};
pub use plan::{Member, neighbours};
pub use rendezvous::rendezvous;
pub use weight::{WEIGHT_MAX, Weigher};
