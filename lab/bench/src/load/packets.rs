//! Frames to events: header, RTP header, stamp, and filling.

use sangam_model::limits::{BURST_MAX, HOP_LIMIT};
use sangam_model::{StreamId, Time};
use sangam_wire::{Flags, HEADER_LEN, Header, rtp};

use super::{Frame, Load, Media, OVERHEAD, Stamp, stamp};

/// RFC 3550 section 5.1: the P bit of the first byte.
const RTP_PADDING: u8 = 0x20;

/// What one publisher sends, frame by frame, in a buffer it keeps.
pub(crate) struct Packetizer {
    media: Media,
    stream: StreamId,
    sent: u32,
    timestamp: u32,
    ticks_per_frame: u32,
    buffer: Vec<u8>,
}

/// The packets of one frame, all of one size.
pub(crate) struct Burst<'a> {
    bytes: &'a [u8],
    size: usize,
}

impl Packetizer {
    /// A packetizer for a stream the broker has granted.
    pub(crate) fn new(load: &Load, stream: StreamId) -> Self {
        let largest = load
            .frames
            .iter()
            .map(|frame| usize::from(frame.bytes))
            .max();
        let packet = largest.unwrap_or(stamp::LEN) + OVERHEAD;
        let ticks = load.interval.as_secs_f64() * f64::from(load.media.clock_rate());
        Self {
            media: load.media,
            stream,
            sent: 0,
            timestamp: 0,
            ticks_per_frame: ticks.round() as u32,
            buffer: vec![0x55; packet * BURST_MAX],
        }
    }

    /// From now on the packets are this stream's.
    pub(crate) fn publish_as(&mut self, stream: StreamId) {
        self.stream = stream;
    }

    /// The next frame's packets, stamped with `now`.
    pub(crate) fn frame(&mut self, frame: Frame, now: Time) -> Burst<'_> {
        let size = usize::from(frame.datagram_len());
        let length = size * usize::from(frame.packets);
        for index in 0..frame.packets {
            let from = usize::from(index) * size;
            self.packet(frame, index, from);
            let payload = &mut self.buffer[from + OVERHEAD..from + size];
            Stamp {
                sent: now,
                number: self.sent,
            }
            .write(payload);
            self.sent = self.sent.wrapping_add(1);
        }
        self.timestamp = self.timestamp.wrapping_add(self.ticks_per_frame);
        if frame.padding > 0 {
            self.buffer[length - size + HEADER_LEN] |= RTP_PADDING;
            self.buffer[length - 1] = frame.padding;
        }
        Burst {
            bytes: &self.buffer[..length],
            size,
        }
    }

    fn packet(&mut self, frame: Frame, index: u16, from: usize) {
        let last = index + 1 == frame.packets;
        let mut flags = Flags::NONE;
        for (set, flag) in [
            (index == 0, Flags::FRAME_START),
            (last, Flags::FRAME_END),
            (frame.key, Flags::KEY),
        ] {
            flags = if set { flags.with(flag) } else { flags };
        }
        let event = Header {
            class: self.media.class(),
            flags,
            stream: self.stream,
            sequence: self.sent as u16,
            hop_limit: HOP_LIMIT,
            layer: 0,
        };
        let rtp = rtp::Header {
            marker: last && self.media.class() == sangam_model::Class::Video,
            payload_type: self.media.payload_type(),
            sequence: self.sent as u16,
            timestamp: self.timestamp,
            ssrc: self.stream.local(),
        };
        let head = &mut self.buffer[from..from + OVERHEAD];
        head[..HEADER_LEN].copy_from_slice(&event.encode());
        head[HEADER_LEN..].copy_from_slice(&rtp.encode());
    }
}

impl<'a> Burst<'a> {
    /// The packets in order.
    pub(crate) fn packets(&self) -> impl Iterator<Item = &'a [u8]> {
        self.bytes.chunks_exact(self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sangam_wire::Event;

    #[test]
    fn a_frame_s_packets_are_level_marked_and_padded() {
        let load = Load::of(Media::Video);
        let frame = Frame {
            packets: 3,
            bytes: 667,
            padding: 1,
            key: true,
        };
        let mut packetizer = Packetizer::new(&load, StreamId::from_bits(42));
        let burst = packetizer.frame(frame, Time::from_millis(5));
        let packets: Vec<&[u8]> = burst.packets().collect();
        assert_eq!(packets.len(), 3);
        let events: Vec<_> = packets
            .iter()
            .map(|p| Event::decode(p).expect("event"))
            .collect();
        let payloads: Vec<_> = events
            .iter()
            .map(|e| rtp::Packet::decode(e.payload).expect("RTP"))
            .collect();
        assert!(
            events[0]
                .header
                .flags
                .contains(Flags::FRAME_START.with(Flags::KEY))
        );
        assert!(events[2].header.flags.contains(Flags::FRAME_END));
        assert_eq!(
            payloads.iter().map(|p| p.payload.len()).sum::<usize>(),
            2_000
        );
        assert_eq!(
            payloads.iter().map(|p| p.header.marker).collect::<Vec<_>>(),
            [false, false, true]
        );
        let stamp = Stamp::of_event(packets[1]).expect("stamp");
        assert_eq!(
            stamp,
            Stamp {
                sent: Time::from_millis(5),
                number: 1
            }
        );
    }

    #[test]
    fn padding_of_one_frame_does_not_stay_for_the_next() {
        let load = Load::of(Media::Video);
        let mut packetizer = Packetizer::new(&load, StreamId::from_bits(1));
        let padded = Frame {
            packets: 1,
            bytes: 100,
            padding: 3,
            key: false,
        };
        let plain = Frame {
            padding: 0,
            ..padded
        };
        let _ = packetizer.frame(padded, Time::ZERO);
        let burst = packetizer.frame(plain, Time::ZERO);
        let event = burst
            .packets()
            .next()
            .and_then(|packet| Event::decode(packet).ok());
        let rtp = rtp::Packet::decode(event.expect("event").payload).expect("RTP");
        assert_eq!(rtp.payload.len(), 100);
    }
}
