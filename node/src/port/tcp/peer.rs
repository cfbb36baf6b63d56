//! One client over a stream: its queue, and what goes first when it does not read.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use sangam_broker::{Admit, Shedder};
use sangam_io::pool::Packet;
use sangam_io::stream::Framed;
use sangam_model::{Class, StreamId};
use sangam_wire::{Flags, Hello};

use crate::port::client::Client;

/// Above this a client gets no more video, until a key frame finds room.
const VIDEO_BYTES: usize = 128 << 10;
/// A frame once begun may go on up to here.
const FRAME_BYTES: usize = 256 << 10;
/// Above this it gets no more audio.
const AUDIO_BYTES: usize = 384 << 10;

/// A connection.
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    pub(super) client: Client,
    /// Away while its units are read.
    pub(super) framed: Option<Framed>,
    /// The poller tells when the queue can go on.
    pub(super) waits_for_room: bool,
    /// Units that waited when it was last written to.
    pub(super) queued: usize,
    pub(super) shedders: HashMap<StreamId, Shedder>,
    /// Answers to the hello, until the units that came with it are read.
    pub(super) answers: Vec<Vec<u8>>,
    /// Closed once the answers are written.
    pub(super) refused: bool,
    /// It is no client but a neighbour.
    pub(super) neighbour: Option<Hello>,
}

impl Peer {
    /// Queues one packet, or sheds it; `crowded` if only those may queue who have nothing waiting.
    pub(super) fn push(&mut self, packet: &Packet, crowded: bool) -> bool {
        let Some(framed) = &mut self.framed else {
            return false;
        };
        let Ok(header) = packet.header() else {
            return false;
        };
        let queued = framed.queued().bytes;
        let full = match header.class {
            Class::Video if header.flags.contains(Flags::FRAME_START) => queued > VIDEO_BYTES,
            Class::Video => queued > FRAME_BYTES,
            Class::Audio => queued > AUDIO_BYTES,
            _ => false,
        };
        let full = full || crowded && queued > 0;
        let shedder = self.shedders.entry(header.stream).or_default();
        let admitted = shedder.admit(&header, Duration::ZERO, full) == Admit::Deliver;
        admitted && framed.push(packet.clone()).is_ok()
    }
}

impl Peer {
    /// The stream of this burst, if only a key frame lets it go on here.
    pub(super) fn wants_key_frame(&self, burst: &[Packet]) -> Option<StreamId> {
        let header = burst.first()?.header().ok()?;
        let shedder = self.shedders.get(&header.stream)?;
        shedder.wants_key_frame().then_some(header.stream)
    }
}
