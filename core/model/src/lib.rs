//! The words every other crate shares: identities, topics, media classes, time and limits.
//!
//! Pure and small on purpose: no clock, socket, file, thread or randomness, and no dependency.

mod grants;
pub mod hash;
mod ids;
pub mod limits;
mod measured;
mod media;
mod random;
mod scope;
mod time;
mod topic;
mod units;

pub use grants::Grants;
pub use ids::{BrokerId, Incarnation, PublisherId, StreamId};
pub use measured::Measured;
pub use media::{Class, MediaInfo, MediaInfoError};
pub use random::Random;
pub use scope::Scope;
pub use time::Time;
pub use topic::{Filter, SESSION_EVENTS, Topic, TopicError};
pub use units::Bitrate;
