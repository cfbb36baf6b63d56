//! One client over QUIC: its session, and what goes first when its path takes less than it wants.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use sangam_broker::{Admit, Shedder};
use sangam_io::pool::Packet;
use sangam_io::quic::Waiting;
use sangam_link::Session;
use sangam_model::{Class, StreamId};
use sangam_wire::{Flags, Header};

/// Above this a client gets no more video, until a key frame finds room.
const VIDEO_BYTES: usize = 128 << 10;
/// A frame once begun may go on up to here.
const FRAME_BYTES: usize = 256 << 10;
/// Above this it gets no more audio: four seconds of ten calls.
const AUDIO_BYTES: usize = 96 << 10;

/// A connection.
pub(super) struct Peer {
    /// Whence it came; it may have moved since.
    pub(super) address: IpAddr,
    /// Its address has all the clients it may have.
    pub(super) surplus: bool,
    /// None until the hello.
    pub(super) session: Option<Session>,
    pub(super) shedders: HashMap<StreamId, Shedder>,
}

impl Peer {
    pub(super) fn new(address: IpAddr, surplus: bool) -> Self {
        Self {
            address,
            surplus,
            session: None,
            shedders: HashMap::new(),
        }
    }

    /// Whether a packet may join what waits already; `crowded` if only those may queue who have
    /// nothing waiting.
    pub(super) fn admits(&mut self, header: &Header, waiting: Waiting, crowded: bool) -> bool {
        let full = match header.class {
            Class::Video if header.flags.contains(Flags::FRAME_START) => {
                waiting.video > VIDEO_BYTES
            }
            Class::Video => waiting.video > FRAME_BYTES,
            Class::Audio => waiting.urgent > AUDIO_BYTES,
            _ => false,
        };
        let full = full || crowded && waiting.total() > 0;
        let shedder = self.shedders.entry(header.stream).or_default();
        shedder.admit(header, Duration::ZERO, full) == Admit::Deliver
    }

    /// The stream of this burst, if only a key frame lets it go on here.
    pub(super) fn wants_key_frame(&self, burst: &[Packet]) -> Option<StreamId> {
        let header = burst.first()?.header().ok()?;
        let shedder = self.shedders.get(&header.stream)?;
        shedder.wants_key_frame().then_some(header.stream)
    }
}
