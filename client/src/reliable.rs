//! Reliable topics: events that come once, in the order of their publisher, whatever fails.

use core::fmt;
use std::sync::Arc;

use sangam_io::clock;
use sangam_model::{PublisherId, Topic};
pub use sangam_reliable::{Event as ReliableEvent, MemberError as ReliableError};

use crate::shared::Shared;

/// Publishes on one reliable topic. What is sent is kept here until the network holds it, so it
/// outlives the link; it ends with the publisher, so ask [`ReliablePublisher::unheld`] before.
pub struct ReliablePublisher {
    shared: Arc<Shared>,
    id: PublisherId,
    topic: Topic,
}

impl ReliablePublisher {
    pub(crate) fn new(shared: Arc<Shared>, topic: Topic) -> Result<Self, ReliableError> {
        let id = shared.member().publish(topic.clone())?;
        Ok(Self { shared, id, topic })
    }

    /// Sends an event: the sequence of its last record. Never waits for the network.
    ///
    /// # Errors
    /// [`ReliableError::Full`] until more is held, which [`ReliableEvent::Held`] tells;
    /// [`ReliableError::Oversized`], [`ReliableError::Unknown`].
    pub fn send(&self, event: &[u8]) -> Result<u64, ReliableError> {
        let sequence = self.shared.member().send(self.id, event)?;
        self.shared.pump();
        Ok(sequence)
    }

    /// Records that are not held by the network yet.
    #[must_use]
    pub fn unheld(&self) -> usize {
        self.shared.member().unheld(self.id)
    }

    /// Names this publisher in what subscribers receive.
    #[must_use]
    pub const fn id(&self) -> PublisherId {
        self.id
    }

    /// Where it publishes.
    #[must_use]
    pub const fn topic(&self) -> &Topic {
        &self.topic
    }
}

impl Drop for ReliablePublisher {
    fn drop(&mut self) {
        self.shared.member().unpublish(self.id);
        self.shared.pump();
    }
}

impl fmt::Debug for ReliablePublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReliablePublisher")
            .field("id", &self.id)
            .field("topic", &self.topic)
            .field("unheld", &self.unheld())
            .finish_non_exhaustive()
    }
}

/// Asks for a topic; see [`crate::Client::subscribe_reliable`].
pub(crate) fn subscribe(shared: &Shared, topic: &Topic, replay: u32) -> Result<(), ReliableError> {
    let now = clock::now();
    shared.member().subscribe(now, topic.clone(), replay)?;
    shared.pump();
    Ok(())
}

/// Asks for no more of a topic.
pub(crate) fn unsubscribe(shared: &Shared, topic: &Topic) {
    shared.member().unsubscribe(topic);
    shared.pump();
}
