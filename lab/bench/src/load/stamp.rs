//! What the bench writes at the head of each RTP payload, to measure by.

use sangam_model::Time;
use sangam_wire::{Event, rtp};

/// Bytes of a stamp.
pub(crate) const LEN: usize = 12;

/// When a packet left its publisher, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// CLOCK_MONOTONIC, which all processes of the host share.
    pub(crate) sent: Time,
    /// Counts the publisher's packets from 0.
    pub(crate) number: u32,
}

impl Stamp {
    /// Writes the stamp to the head of a payload.
    pub(crate) fn write(self, payload: &mut [u8]) {
        payload[..8].copy_from_slice(&self.sent.as_micros().to_be_bytes());
        payload[8..LEN].copy_from_slice(&self.number.to_be_bytes());
    }

    /// Reads the stamp of an event as it was received; `None` if it is not one of the bench's.
    pub(crate) fn of_event(event: &[u8]) -> Option<Self> {
        let packet = Event::payload_of(event).ok()?;
        Self::of_payload(packet.get(rtp::HEADER_LEN..)?)
    }

    /// Reads the stamp at the head of a payload; `None` if that is too short.
    pub(crate) fn of_payload(payload: &[u8]) -> Option<Self> {
        let stamp: &[u8; LEN] = payload.first_chunk()?;
        let [t0, t1, t2, t3, t4, t5, t6, t7, n0, n1, n2, n3] = *stamp;
        Some(Self {
            sent: Time::from_micros(u64::from_be_bytes([t0, t1, t2, t3, t4, t5, t6, t7])),
            number: u32::from_be_bytes([n0, n1, n2, n3]),
        })
    }
}
