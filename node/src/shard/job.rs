//! A delivery under way: one burst, and how far down the lists it has come.

use sangam_io::pool::Packet;
use sangam_model::{StreamId, limits};

use super::audience::Removal;

/// Receivers served before the shard looks whether something more urgent waits: at about 1 us
/// for each packet, audio waits for a quarter of a millisecond behind single packets.
pub(crate) const SLICE: usize = 256;

/// One burst on its way to its receivers.
#[derive(Debug, Default)]
pub(crate) struct Job {
    stream: StreamId,
    burst: Vec<Packet>,
    /// The port whose list is being served.
    pub(crate) port: usize,
    /// Receivers of that list that are done.
    pub(crate) cursor: usize,
}

impl Job {
    pub(crate) fn is_idle(&self) -> bool {
        self.burst.is_empty()
    }

    pub(crate) fn stream(&self) -> StreamId {
        self.stream
    }

    pub(crate) fn burst(&self) -> &[Packet] {
        &self.burst
    }

    /// Whether an event of `stream` may join the burst before delivery starts.
    pub(crate) fn accepts(&self, stream: StreamId) -> bool {
        self.is_idle() || (self.stream == stream && self.burst.len() < limits::BURST_MAX)
    }

    pub(crate) fn push(&mut self, stream: StreamId, packet: Packet) {
        self.stream = stream;
        self.burst.push(packet);
    }

    pub(crate) fn clear(&mut self) {
        self.burst.clear();
        self.port = 0;
        self.cursor = 0;
    }

    /// Keeps the place when somebody in front of it left.
    pub(crate) fn follow(&mut self, removal: Removal) {
        let here = self.stream == removal.stream && self.port == removal.port;
        if here && removal.index < self.cursor {
            self.cursor -= 1;
        }
    }
}
