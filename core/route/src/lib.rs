//! Which way a stream takes: the graph of brokers, shortest ways in it, and link weights.
//!
//! [`Graph`] is what one broker knows of the network at one moment. All brokers that know the
//! same graph choose the same ways: costs are integers, weights count the same in both directions,
//! and of equally short ways the one whose next broker has the lowest id is taken. So the choices
//! of all brokers for one source are a tree, without anybody sending it to anybody.
//!
//! [`neighbours`] says which links there should be, [`nearest`] which besides as they are short,
//! [`rendezvous`] which brokers serve a name, [`locate`] where a client should go, and [`cells`]
//! whose reports are merged by whom.
//!
//! [`Router`] chooses a path of relays for each packet of one session, by one of several methods
//! that a laboratory compares ([`method`]); some of them predict end-to-end latency
//! ([`predictor`]). [`schedule`] plans with it for a whole network.
//!
//! [`Estimate`] is what a link's delay is and how sure that is; [`Weigher`] turns what a link
//! measures into its weight, slowly enough that ways do not swing.

mod cells;
mod estimate;
mod graph;
mod locate;
pub mod method;
mod nearest;
mod paths;
mod plan;
pub mod predictor;
mod rendezvous;
pub mod schedule;
mod weight;

pub use cells::{CELL_MAX, Cell, cells};
pub use estimate::Estimate;
pub use graph::{Edge, Graph, UNREACHABLE, Ways};
pub use locate::{Candidate, locate};
pub use method::{Method, Router};
pub use nearest::nearest;
pub use paths::{PATH_LINKS_MAX, PATHS_MAX, Path, Paths, RELAYS_MAX};
pub use plan::{Member, candidates, neighbours};
pub use rendezvous::rendezvous;
pub use weight::{WEIGHT_MAX, Weigher};
