//! The network as its brokers see it.
//!
//! Uyar, Pallickara and Fox's monitoring service and aggregation nodes (Wu et al., section 3.1
//! (2)): every broker measures its links and publishes a [`BrokerReport`] each second on
//! `$sangam/monitor/<broker>`; an [`Aggregate`] keeps the newest of each broker and shows them as
//! one [`Network`]. `docs/spec/monitoring.md` says what each field means.
//!
//! The way of a report: a broker fills it, [`parts::cut`] makes events of it, a [`Listener`]
//! anywhere in the network joins them into its [`Aggregate`]. An aggregation node publishes what
//! it has in turn, on `$sangam/aggregate/<name>`, and a node above it merges that the same way:
//! the newest report of a broker wins, whichever way it came.

mod aggregate;
mod cell;
mod clocks;
mod digests;
mod graph;
pub mod http;
mod listener;
mod measured;
mod measures;
mod network;
pub mod parts;
mod plans;
pub mod prometheus;
mod report;
mod reporter;
pub mod threshold;
pub mod webhook;
pub mod xml;
pub mod xpath;

pub use aggregate::{Aggregate, BROKERS_MAX, FORGET_AFTER, Refused, STALE_AFTER, Teller};
pub use cell::{CellPlan, Desk};
pub use clocks::{CLOCK_TOLERANCE, Clocks};
pub use digests::digest;
pub use graph::{Graph, Tree};
pub use listener::{FULL_MAX, Heard, Listener, Reports};
pub use measures::{BROKER, LINK, Measure, NETWORK};
pub use network::{BrokerView, Network, Summary};
pub use plans::{PlanCounts, PlanListener, Planner};
pub use report::{
    At, BrokerMap, BrokerReport, Drops, INTEREST_MAX, LINKS_MAX, LinkReport, Load, ORIGINS_MAX,
    PlannedWay, SCHEMA, StreamReport, Traffic, parse_id,
};
pub use reporter::Reporter;

/// Topic of one broker's reports, without the broker.
pub const REPORTS: &str = "$sangam/monitor";
/// Topic of one broker's digests, each second, without the broker.
pub const MEASURED: &str = "$sangam/measured";
/// Topic of what the heads of cells merge, without the cell.
pub const MERGED: &str = "$sangam/merged";
/// First two levels of the topics on which the brokers of a cell tell its head their digests,
/// without the cell.
pub const CELL: &str = "$sangam/cell-";
/// Topic of aggregation nodes, without their name.
pub const AGGREGATES: &str = "$sangam/aggregate";
/// Topic of a central scheduler's plans, without its name.
pub const PLANS: &str = "$sangam/plan";
/// Topic of one broker's alerts, without the broker.
pub const ALERTS: &str = "$sangam/alert";
