//! Who gets an event: routing, streams, routing snapshots, queue policy and feedback.
//!
//! Everything here is a plain value without clock, socket or thread. Three kinds of use:
//!
//! **Control** decides, seldom. [`Routing`] knows the map of the network, where sessions have their
//! sources, and which neighbours joined which tree; [`StreamTable`] knows who publishes what and
//! which neighbours and shards get it. Both take what happens (`handle`), say what to do (`poll`)
//! and when they want to be called again (`deadline`). The loop of a broker is:
//!
//! ```
//! use sangam_broker::{
//!     FilterIndex, LinkId, Routing, RoutingInput, RoutingOutput, StreamInput, StreamOutput,
//!     StreamTable,
//! };
//! use sangam_model::{BrokerId, Filter, Incarnation, Time, limits};
//!
//! let (id, life, now) = (BrokerId(1), Incarnation(0), Time::from_millis(5));
//! let mut routing = Routing::new(id, life);
//! let mut streams = StreamTable::new(id, life);
//! let mut shards = FilterIndex::<u16>::new(limits::FILTERS_PER_BROKER);
//!
//! // A neighbour comes up, a client of shard 0 subscribes.
//! routing.handle(now, RoutingInput::LinkUp(LinkId(0), BrokerId(2)));
//! streams.handle(now, StreamInput::LinkUp(LinkId(0)));
//! let filter = Filter::new("demo/#")?;
//! shards.insert(&filter, 0);
//! routing.add(now, &filter)?;
//! streams.handle(now, StreamInput::Interest(&sangam_broker::Change::Filter(filter)));
//!
//! // What follows from it.
//! let mut sent = 0;
//! while let Some(output) = routing.poll() {
//!     match output {
//!         RoutingOutput::Send { .. } => sent += 1,
//!         RoutingOutput::Changed(change) => streams.handle(now, StreamInput::Interest(&change)),
//!         RoutingOutput::Displaced => {}
//!     }
//! }
//! streams.route(&routing, &shards);
//! while let Some(output) = streams.poll() {
//!     match output {
//!         StreamOutput::Send { .. } => sent += 1,
//!         StreamOutput::Changed(_) => { /* tell the shards */ }
//!     }
//! }
//! if streams.take_dirty() {
//!     let snapshot = streams.snapshot(0x5eed);
//!     // publish it to the lane
//! }
//! assert_eq!(sent, 2, "what we know of the network, and what we are");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **The lane** forwards, always, without allocation: [`DuplicateWindow`], then [`Snapshot`]
//! (stream in, [`Route`] out), and [`Stamp`] for sampled traces. It leaves out the link by which
//! an event came. Windows and the hop limit make loops harmless whatever the tables say.
//!
//! **Shards** deliver: [`FilterIndex`] finds subscribers, [`Shedder`] decides what goes under
//! overload, [`PacketCache`] answers NACKs, [`FeedbackGate`] merges what goes back to the origin.
//!
//! Whatever is let go is counted under a [`DropReason`].

mod cache;
mod drops;
mod feedback;
mod filters;
mod gates;
mod links;
mod outbox;
mod routing;
mod shed;
mod snapshot;
mod streams;
mod trace;
mod window;

pub use cache::PacketCache;
pub use drops::{DropReason, Drops};
pub use feedback::{
    FEEDBACK_STREAMS_MAX, FeedbackGate, FeedbackOutput, Gate, KEY_FRAME_INTERVAL, NACK_INTERVAL,
    REPORT_INTERVAL,
};
pub use filters::{FilterIndex, Insert};
pub use gates::{GATES_MAX, Gates, OPEN_MAX, TopicGate};
pub use links::{LinkId, LinkSet};
pub use routing::{
    Change, Description, EXPIRY, Footprint, LinkRoute, ORIGINS_MAX, PINS_MAX, PLAN_FRESH, PinnedBy,
    REFRESH, Refused, Routing, RoutingError, RoutingInput, RoutingOutput, Standing,
    WIDE_FILTERS_MAX,
};
pub use shed::{Admit, Shedder};
pub use snapshot::{Parent, Route, Snapshot, hops};
pub use streams::{
    LOST_GRACE, ORPHAN_GRACE, Owner, Publication, Stream, StreamChange, StreamError, StreamInput,
    StreamOutput, StreamTable,
};
pub use trace::{Sampler, Stamp};
pub use window::{DuplicateWindow, Verdict, WINDOW};
