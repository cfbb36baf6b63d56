//! A delivery under way: one burst, and how far down the lists it has come.

use sangam_io::pool::Packet;
use sangam_io::port::PeerKey;
use sangam_model::{StreamId, limits};

use super::audience::{Removal, Stream};

/// Receivers served before the shard looks whether something more urgent waits: at about 1 us
/// for each packet, audio waits for a quarter of a millisecond behind single packets.
pub(crate) const SLICE: usize = 256;

/// One burst on its way to its receivers.
#[derive(Debug, Default)]
pub(crate) struct Job {
    stream: StreamId,
    burst: Vec<Packet>,
    /// The last packet was shorter than the first: it ends what one segmented send can carry.
    closed: bool,
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

    /// Whether an event of `stream` may join the burst before delivery starts: only what leaves
    /// as one segmented send does, so that a delivery cut short can be resumed in its middle.
    pub(crate) fn accepts(&self, stream: StreamId, len: usize) -> bool {
        let Some(first) = self.burst.first() else {
            return true;
        };
        let fits = self.burst.len() < limits::BURST_MAX && len <= first.len();
        self.stream == stream && fits && !self.closed
    }

    pub(crate) fn push(&mut self, stream: StreamId, packet: Packet) {
        self.stream = stream;
        self.closed = self
            .burst
            .first()
            .is_some_and(|first| packet.len() < first.len());
        self.burst.push(packet);
    }

    pub(crate) fn clear(&mut self) {
        self.burst.clear();
        self.closed = false;
        self.port = 0;
        self.cursor = 0;
    }

    /// The receivers still to be served on the present port, or the next that has any.
    pub(crate) fn rest<'a>(&mut self, stream: &'a Stream, ports: usize) -> Option<&'a [PeerKey]> {
        while self.port < ports {
            match stream.peers(self.port).get(self.cursor..) {
                Some(rest) if !rest.is_empty() => return Some(rest),
                _ => {
                    self.port += 1;
                    self.cursor = 0;
                }
            }
        }
        None
    }

    /// Keeps the place when somebody in front of it left.
    pub(crate) fn follow(&mut self, removal: Removal) {
        let here = self.stream == removal.stream && self.port == removal.port;
        if here && removal.index < self.cursor {
            self.cursor -= 1;
        }
    }
}
