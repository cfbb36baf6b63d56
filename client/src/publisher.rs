//! The sending half of one stream.

use core::iter;
use std::sync::Arc;

use sangam_io::clock;
use sangam_io::pool::{Packet, Pool};
use sangam_model::limits::{EVENT_LEN_MAX, HOP_LIMIT};
use sangam_model::{Class, MediaInfo, StreamId, Topic};
use sangam_wire::{Event, ExtensionBlock, Flags, HEADER_LEN, Header, Refusal, rtp};

use crate::SendError;
use crate::shared::Shared;
use crate::state::{Link, Publication, Standing};

/// Bytes that a trace adds to an event.
const TRACE_LEN: usize = 144;

/// Sends one stream. Made by [`crate::Client::publish`]; may live in another thread. When it is
/// dropped the stream ends.
#[derive(Debug)]
pub struct Publisher {
    shared: Arc<Shared>,
    publication: Arc<Publication>,
    numbering: Numbering,
    /// Of the next event with media.
    sequence: u16,
    /// Of the next RTCP event.
    rtcp_sequence: u16,
    /// Media events since the last trace.
    untraced: u32,
}

/// One event to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// Frame bounds, key frame, discardable; the others are set as needed.
    pub flags: Flags,
    /// Simulcast or scalability layer, 0 the lowest.
    pub layer: u8,
    /// An RTP packet, or data.
    pub payload: &'a [u8],
}

/// Where the numbers of events come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbering {
    /// One after the other, from 0 or from [`Publisher::set_sequence`] on.
    #[default]
    Counted,
    /// The RTP sequence number of the payload, so that a NACK of one names the other.
    Rtp,
}

impl<'a> Outgoing<'a> {
    /// Without flags, in layer 0.
    #[must_use]
    pub fn new(payload: &'a [u8]) -> Self {
        Self {
            payload,
            ..Self::default()
        }
    }
}

impl Publisher {
    pub(crate) fn new(shared: Arc<Shared>, publication: Arc<Publication>) -> Self {
        // The first event of a stream carries a trace.
        let untraced = shared.trace_every;
        Self {
            shared,
            publication,
            numbering: Numbering::default(),
            sequence: 0,
            rtcp_sequence: 0,
            untraced,
        }
    }

    /// Where it publishes.
    #[must_use]
    pub fn topic(&self) -> &Topic {
        &self.publication.topic
    }

    /// What it publishes.
    #[must_use]
    pub fn media(&self) -> &MediaInfo {
        &self.publication.media
    }

    /// The present id of the stream; `None` while the link is down. A reconnection changes it.
    #[must_use]
    pub fn stream(&self) -> Option<StreamId> {
        self.publication.stream()
    }

    /// Whether the broker has given its leave; not yet, or not on this link, otherwise.
    ///
    /// # Errors
    /// The broker's reason to refuse it.
    pub fn is_live(&self) -> Result<bool, Refusal> {
        match self.shared.state().standing(&self.publication) {
            Standing::Live => Ok(true),
            Standing::Waiting => Ok(false),
            Standing::Refused(reason) => Err(reason),
        }
    }

    pub(crate) fn publication(&self) -> &Arc<Publication> {
        &self.publication
    }

    /// Buffers for [`Publisher::send_event`].
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.shared.pool
    }

    /// Says where the numbers of events come from.
    pub fn set_numbering(&mut self, numbering: Numbering) {
        self.numbering = numbering;
    }

    /// The number of the next event; what follows counts on from it.
    pub fn set_sequence(&mut self, sequence: u16) {
        self.sequence = sequence;
    }

    /// Sends an event and returns its number. A number is used up even if the event is dropped,
    /// so that receivers see the loss.
    ///
    /// # Errors
    /// Why the event was dropped.
    pub fn send(&mut self, event: Outgoing<'_>) -> Result<u16, SendError> {
        self.send_burst(&[event])?;
        Ok(self.sequence.wrapping_sub(1))
    }

    /// Sends the packets of a frame in a row. Those of one size leave as one message of the
    /// kernel (UDP_SEGMENT), the last of them may be shorter.
    ///
    /// # Errors
    /// Why a packet was dropped, and all behind it with it.
    pub fn send_burst(&mut self, burst: &[Outgoing<'_>]) -> Result<(), SendError> {
        let traced = self.is_trace_due(burst);
        let class = self.publication.media.class;
        let mut numbered = 0;
        let result = self.stream_id(burst.len()).and_then(|stream| {
            let shared = self.shared.clone();
            let events = burst.iter().map(|event| {
                let traced = traced && numbered == 0;
                numbered += 1;
                let header = header(stream, class, self.number(event));
                build(&shared.pool, header, (event, traced))
            });
            shared.emit(burst.len(), events)
        });
        // What was not even tried has its numbers, too.
        for event in &burst[numbered..] {
            self.number(event);
        }
        result
    }

    /// Sends an RTCP compound about the stream.
    ///
    /// # Errors
    /// Why it was dropped.
    pub fn send_rtcp(&mut self, compound: &[u8]) -> Result<(), SendError> {
        let sequence = self.rtcp_sequence;
        self.rtcp_sequence = sequence.wrapping_add(1);
        let header = header(self.stream_id(1)?, Class::Rtcp, sequence);
        let packet = build(&self.shared.pool, header, (&Outgoing::new(compound), false));
        self.shared.emit(1, iter::once(packet))
    }

    /// Sends an event that is written already, without a copy. It names the present
    /// [`Publisher::stream`]; its number is the caller's affair.
    ///
    /// # Errors
    /// Why it was dropped.
    pub fn send_event(&mut self, event: Packet) -> Result<(), SendError> {
        let stream = self.stream_id(1)?;
        let ours = event
            .header()
            .is_ok_and(|header| header.stream == stream && header.class != Class::Feedback);
        let event = if ours {
            Ok(event)
        } else {
            Err(SendError::Foreign)
        };
        self.shared.emit(1, iter::once(event))
    }

    /// The stream's id; if there is none, so many events are dropped.
    fn stream_id(&self, events: usize) -> Result<StreamId, SendError> {
        self.publication.stream().ok_or_else(|| {
            let state = self.shared.state();
            let error = match state.standing(&self.publication) {
                Standing::Refused(reason) => SendError::Refused(reason),
                _ if state.link() == Link::Closed => SendError::Closed,
                _ => SendError::Down,
            };
            self.shared.dropped(events, error)
        })
    }

    /// Draws the number of an event.
    fn number(&mut self, event: &Outgoing<'_>) -> u16 {
        let rtp = match self.numbering {
            Numbering::Counted => None,
            Numbering::Rtp => rtp::Packet::decode(event.payload).ok(),
        };
        let sequence = rtp.map_or(self.sequence, |packet| packet.header.sequence);
        self.sequence = sequence.wrapping_add(1);
        sequence
    }

    /// Whether the first event of a burst is to carry a trace: never one that the trace would
    /// make too long for a datagram.
    fn is_trace_due(&mut self, burst: &[Outgoing<'_>]) -> bool {
        let every = self.shared.trace_every;
        let Some(first) = burst.first().filter(|_| every > 0) else {
            return false;
        };
        let fits =
            HEADER_LEN + TRACE_LEN + first.payload.len() <= self.shared.measures.datagram_max();
        let due = self.untraced >= every && fits;
        let events = u32::try_from(burst.len()).unwrap_or(u32::MAX);
        self.untraced = if due {
            events
        } else {
            self.untraced.saturating_add(events)
        };
        due
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if let Some(message) = state.unpublish(&self.publication) {
            // With the link gone the stream is, too.
            let _ = self.shared.tell(message);
        }
    }
}

fn header(stream: StreamId, class: Class, sequence: u16) -> Header {
    Header {
        class,
        flags: Flags::NONE,
        stream,
        sequence,
        hop_limit: HOP_LIMIT,
        layer: 0,
    }
}

/// Writes an event, with a trace if it says so.
fn build(
    pool: &Pool,
    header: Header,
    (event, traced): (&Outgoing<'_>, bool),
) -> Result<Packet, SendError> {
    let mut block = ExtensionBlock::new();
    if traced {
        block.trace(clock::clock_domain(), clock::now().as_micros());
    }
    let flags = event.flags.without(Flags::FRAGMENT);
    let event = Event {
        header: Header {
            flags,
            layer: event.layer,
            ..header
        },
        extensions: block.extensions(),
        payload: event.payload,
    };
    let len = event.encoded_len();
    if len > EVENT_LEN_MAX {
        return Err(SendError::Oversized);
    }
    let mut packet = pool.take(len).ok_or(SendError::Exhausted)?;
    event.write(&mut packet).map_err(|_| SendError::Oversized)?;
    Ok(packet.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_takes_the_room_that_is_reckoned_with() {
        let mut block = ExtensionBlock::new();
        assert!(block.trace(1, 2));
        assert_eq!(block.extensions().bytes().len(), TRACE_LEN);
    }
}
