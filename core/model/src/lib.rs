//! The words every other crate shares: identities, topics, media classes, time and limits.
//!
//! Pure and small on purpose: no clock, socket, file, thread or randomness, and no dependency.

mod grants;
mod ids;
pub mod limits;
mod media;
mod time;
mod topic;

pub use grants::Grants;
pub use ids::{BrokerId, Incarnation, StreamId};
pub use media::{Class, MediaInfo, MediaInfoError};
pub use time::Time;
pub use topic::{Filter, Topic, TopicError};
