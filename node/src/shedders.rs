//! What may still join the queue of a QUIC connection: by how long the first that waits does.

use std::collections::HashMap;
use std::time::Duration;

use sangam_broker::{Admit, DropReason, Shedder};
use sangam_io::quic::Waiting;
use sangam_model::limits::{AUDIO_AGE_MAX, VIDEO_AGE_MAX};
use sangam_model::{Class, StreamId};
use sangam_wire::{Flags, Header};

/// A frame once begun may wait so long.
const FRAME_AGE_MAX: Duration = VIDEO_AGE_MAX.saturating_mul(2);

/// The streams of one connection.
#[derive(Debug, Default)]
pub(crate) struct Shedders(HashMap<StreamId, Shedder>);

impl Shedders {
    /// Whether a packet may join what waits; `crowded` if only those may queue who have nothing
    /// waiting.
    pub(crate) fn admit(&mut self, header: &Header, waiting: &Waiting, crowded: bool) -> Admit {
        let crowded = crowded && waiting.bytes() > 0;
        match header.class {
            Class::Video => {
                let most = match header.flags.contains(Flags::FRAME_START) {
                    true => VIDEO_AGE_MAX,
                    false => FRAME_AGE_MAX,
                };
                let full = crowded || waiting.video_age > most;
                let shedder = self.0.entry(header.stream).or_default();
                shedder.admit(header, Duration::ZERO, full)
            }
            Class::Audio if waiting.urgent_age > AUDIO_AGE_MAX => {
                Admit::Drop(DropReason::AudioLate)
            }
            _ if crowded => Admit::Drop(DropReason::PeerQueueFull),
            _ => Admit::Deliver,
        }
    }

    /// Whether only a key frame lets this stream go on.
    pub(crate) fn wants_key_frame(&self, stream: StreamId) -> bool {
        self.0.get(&stream).is_some_and(Shedder::wants_key_frame)
    }

    /// The stream has ended.
    pub(crate) fn forget(&mut self, stream: StreamId) {
        self.0.remove(&stream);
    }
}
