//! Waiting for the rest of a frame, where a visit to a receiver costs more than a packet.
//!
//! A frame's packets come one behind the other within less than a millisecond. Whoever begins with
//! the first goes round all receivers again with the others; and behind some ports a round is
//! dear ([`Port::visit`](sangam_io::port::Port::visit)). So a burst of video waits for the end of
//! its frame, but no longer than the round takes that is saved: in the mean, receivers have their
//! packets no later, and the last of them sooner.

use std::time::Duration;

use sangam_model::{Class, Time};

use super::Shard;
use super::audience::Stream;

/// A burst waits no longer, however many receivers there are.
const LINGER_MAX: Duration = Duration::from_millis(1);

impl Shard {
    /// Takes what there is of data and video, in this order; whether it is to be delivered now.
    pub(super) fn load_bulk(&mut self, now: Time) -> bool {
        let (bulk, data) = (1, Class::Data);
        if self.jobs[bulk].is_begun() {
            return true;
        }
        let lingering = !self.jobs[bulk].is_idle();
        if !lingering && self.load(bulk, data, now) {
            return true;
        }
        self.load(bulk, Class::Video, now) && self.lingers_until().is_none_or(|end| end <= now)
    }

    /// When the rest of a frame is waited for no longer; `None` if nothing waits.
    pub(super) fn lingers_until(&self) -> Option<Time> {
        let job = self.jobs.last().filter(|job| job.may_linger())?;
        let stream = self.audience.stream(job.stream())?;
        Some(job.since() + self.round(stream).min(LINGER_MAX))
    }

    /// What a round of a stream's receivers costs beside its packets.
    fn round(&self, stream: &Stream) -> Duration {
        let lists = (0..self.ports.len()).map(|port| stream.peers(port).len());
        let costs = self.ports.iter().map(|port| port.visit());
        let rounds = lists.zip(costs).map(|(peers, cost)| cost * peers as u32);
        rounds.sum()
    }
}
