//! What a durable keeper asks to be written.

use sangam_model::{PublisherId, Topic};
use sangam_wire::Record;

/// A change of what a store holds; they are made in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Records that follow each other in the log of a topic.
    Append {
        /// Whose log.
        topic: Topic,
        /// Index of the first.
        index: u64,
        /// The records.
        records: Vec<Record>,
    },
    /// Records before an index are not needed any more.
    Trim {
        /// Whose log.
        topic: Topic,
        /// Index of the first that stays.
        first: u64,
        /// How far publishers are whose records go.
        lasts: Vec<(PublisherId, u64)>,
    },
    /// Nothing of the topic is needed any more.
    Forget(Topic),
}
