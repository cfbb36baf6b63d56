//! Who gets an event.
mod cache;
mod drops;
mod feedback;
mod filters;
mod hash;
mod interest;
mod links;
mod outbox;
mod shed;
mod snapshot;
mod streams;
mod trace;
mod window;

pub use cache::PacketCache;
pub use drops::{DropReason, Drops};
pub use feedback::*;
pub use filters::{FilterIndex, Insert};
pub use interest::*;
pub use links::{LinkId, LinkSet};
pub use shed::{Admit, Shedder};
pub use snapshot::{Parent, Route, Snapshot, hops};
pub use streams::*;
pub use trace::{Sampler, Stamp};
pub use window::{DuplicateWindow, Verdict, WINDOW};
