//! One packet of a burst, as far as it is the same for all receivers.

use std::sync::Arc;

use sangam_io::pool::Packet;
use sangam_model::{Class, StreamId};
use sangam_wire::rtp;
use sangam_wire::{AudioLevel, Event, Flags};
use str0m::rtp::ExtensionValues;

use crate::counts::Counts;
use crate::redundancy::Wrapped;
use crate::rewrite::Picture;

/// Bytes of an RTP payload that the library takes with all that it adds.
const PAYLOAD_LEN_MAX: usize = 1_800;

/// What one packet of a burst has in common for all receivers.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) stream: StreamId,
    pub(crate) layer: u8,
    /// A frame that decodes by itself begins.
    pub(crate) begins: bool,
    pub(crate) video: bool,
    pub(crate) sequence: u16,
    pub(crate) timestamp: u32,
    pub(crate) marker: bool,
    pub(crate) level: Option<AudioLevel>,
    pub(crate) picture: Option<Picture>,
    /// With the packet before, once a receiver wanted that.
    pub(crate) wrapped: Option<Wrapped>,
    pub(crate) payload: Arc<[u8]>,
}

impl Item {
    /// Of an event of audio or video; `None` if there is no RTP in it, or it is too large.
    pub(crate) fn of(packet: &Packet, counts: &Counts) -> Option<Self> {
        let event = Event::decode(packet).ok()?;
        let header = event.header;
        let video = match header.class {
            Class::Audio => false,
            Class::Video => true,
            _ => return None,
        };
        let rtp = rtp::Packet::decode(event.payload).ok()?;
        if rtp.payload.len() > PAYLOAD_LEN_MAX {
            counts.oversized.one();
            return None;
        }
        let begins = Flags::KEY.with(Flags::FRAME_START);
        Some(Self {
            stream: header.stream,
            layer: header.layer,
            begins: header.flags.contains(begins),
            video,
            sequence: rtp.header.sequence,
            timestamp: rtp.header.timestamp,
            marker: rtp.header.marker,
            level: event.extensions.audio_level(),
            picture: None,
            wrapped: None,
            payload: rtp.payload.into(),
        })
    }

    pub(crate) fn place(&self) -> (u16, u32) {
        (self.sequence, self.timestamp)
    }

    pub(crate) fn extensions(&self) -> ExtensionValues {
        let mut values = ExtensionValues::default();
        if let Some(level) = self.level {
            values.audio_level = i8::try_from(level.below).ok().map(|below| -below);
            values.voice_activity = Some(level.voice);
        }
        values
    }
}
