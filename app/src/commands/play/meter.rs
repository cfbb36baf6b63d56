//! What arrives of one stream: numbers for the table.

use std::time::Duration;

use sangam_io::clock;
use sangam_link::ReceiverStats;
use sangam_model::{Class, MediaInfo, Time};
use sangam_wire::{Event, rtp};

/// Latencies kept for percentiles; older ones make room.
const SAMPLES: usize = 16_384;

/// Counts and measures one stream.
#[derive(Debug)]
pub(super) struct Meter {
    rtp: ReceiverStats,
    latency: Latency,
    bytes: u64,
    /// The source that was heard last.
    ssrc: u32,
    /// When the first and the latest packet came.
    span: Option<(Time, Time)>,
    longest_pause: Duration,
}

/// One-way latencies of traced events.
#[derive(Debug, Default)]
pub(super) struct Latency {
    us: Vec<u32>,
    next: usize,
    hops: u8,
}

/// A meter's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::commands) struct Reading {
    /// RTP packets.
    pub(in crate::commands) packets: u64,
    /// Bytes of those packets.
    pub(in crate::commands) bytes: u64,
    /// Packets that should have come.
    pub(in crate::commands) expected: u64,
    /// Packets that did not.
    pub(in crate::commands) lost: u64,
    /// Packets that came twice.
    pub(in crate::commands) duplicates: u64,
    /// Packets that came late.
    pub(in crate::commands) reordered: u64,
    /// Interarrival jitter, RFC 3550 section 6.4.1, in milliseconds.
    pub(in crate::commands) jitter_ms: f64,
    /// Latency from the publisher: median and 99th percentile in milliseconds.
    pub(in crate::commands) latency_ms: Option<(f64, f64)>,
    /// The longest time without a packet between two, in milliseconds.
    pub(in crate::commands) longest_pause_ms: f64,
    /// Traced events behind that.
    pub(in crate::commands) traced: u64,
    /// Brokers they crossed.
    pub(in crate::commands) brokers: u8,
    /// Mean rate since the first packet in kbit/s.
    pub(in crate::commands) kbps: f64,
}

impl Meter {
    /// For a stream that carries this.
    pub(super) fn new(media: &MediaInfo) -> Self {
        Self {
            rtp: ReceiverStats::new(media.clock_rate),
            latency: Latency::default(),
            bytes: 0,
            ssrc: 0,
            span: None,
            longest_pause: Duration::ZERO,
        }
    }

    /// Takes an event that has just come.
    pub(super) fn event(&mut self, event: &Event<'_>, now: Time) {
        if event.header.class == Class::Rtcp {
            return;
        }
        match rtp::Packet::decode(event.payload) {
            Ok(packet) => {
                let header = packet.header;
                self.ssrc = header.ssrc;
                self.rtp.packet(header.sequence, header.timestamp, now);
            }
            // Data has no timestamps of its own.
            Err(_) => {
                self.rtp
                    .packet(event.header.sequence, now.as_micros() as u32, now);
            }
        }
        self.bytes += event.payload.len() as u64;
        let (first, latest) = self.span.unwrap_or((now, now));
        self.longest_pause = self.longest_pause.max(now - latest);
        self.span = Some((first, now));
        let trace = event.extensions.trace();
        if let Some(trace) = trace.filter(|trace| trace.clock_domain == clock::clock_domain()) {
            let hops = u8::try_from(trace.hops().count()).unwrap_or(u8::MAX);
            self.latency
                .add(now.as_micros().saturating_sub(trace.origin_us), hops);
        }
    }

    /// The source of the stream.
    pub(super) fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// The numbers so far.
    pub(super) fn read(&self) -> Reading {
        let us = self
            .span
            .map_or(0, |(first, last)| last.since(first).as_micros());
        Reading {
            packets: self.rtp.received(),
            bytes: self.bytes,
            expected: self.rtp.expected(),
            lost: self.rtp.lost(),
            duplicates: self.rtp.duplicates(),
            reordered: self.rtp.reordered(),
            jitter_ms: self.rtp.jitter().as_secs_f64() * 1_000.0,
            latency_ms: self.latency.percentiles(),
            longest_pause_ms: self.longest_pause.as_secs_f64() * 1_000.0,
            traced: self.latency.us.len() as u64,
            brokers: self.latency.hops,
            kbps: if us == 0 {
                0.0
            } else {
                self.bytes as f64 * 8_000.0 / us as f64
            },
        }
    }
}

impl Latency {
    fn add(&mut self, us: u64, hops: u8) {
        let us = u32::try_from(us).unwrap_or(u32::MAX);
        self.hops = hops;
        if self.us.len() < SAMPLES {
            self.us.push(us);
            return;
        }
        self.us[self.next] = us;
        self.next = (self.next + 1) % SAMPLES;
    }

    /// Median and 99th percentile in milliseconds.
    fn percentiles(&self) -> Option<(f64, f64)> {
        let mut sorted = self.us.clone();
        sorted.sort_unstable();
        let last = sorted.len().checked_sub(1)?;
        let at = |percent: usize| f64::from(sorted[(last * percent).div_ceil(100)]) / 1_000.0;
        Some((at(50), at(99)))
    }
}

#[cfg(test)]
mod tests {
    use sangam_model::StreamId;
    use sangam_wire::{ExtensionBlock, Extensions, Flags, Header};

    use super::*;

    fn event<'a>(payload: &'a [u8], extensions: Extensions<'a>) -> Event<'a> {
        let header = Header {
            class: Class::Video,
            flags: Flags::NONE,
            stream: StreamId::default(),
            sequence: 0,
            hop_limit: 15,
            layer: 0,
        };
        Event {
            header,
            extensions,
            payload,
        }
    }

    fn packet(sequence: u16) -> Vec<u8> {
        let header = rtp::Header {
            sequence,
            payload_type: 96,
            ..rtp::Header::default()
        };
        [header.encode().as_slice(), &[0; 88]].concat()
    }

    #[test]
    fn loss_and_rate_follow_the_rtp_packets() {
        let mut meter = Meter::new(&MediaInfo {
            clock_rate: 90_000,
            ..MediaInfo::data()
        });
        for (sequence, ms) in [(1, 0), (2, 10), (4, 20)] {
            let bytes = packet(sequence);
            meter.event(&event(&bytes, Extensions::NONE), Time::from_millis(ms));
        }
        let reading = meter.read();
        assert_eq!((reading.packets, reading.expected, reading.lost), (3, 4, 1));
        assert_eq!(reading.bytes, 300);
        assert!((reading.kbps - 120.0).abs() < 0.1, "{}", reading.kbps);
        assert_eq!(reading.latency_ms, None);
    }

    #[test]
    fn latency_counts_only_within_one_clock() {
        let mut meter = Meter::new(&MediaInfo {
            clock_rate: 90_000,
            ..MediaInfo::data()
        });
        let bytes = packet(1);
        for (domain, origin_us) in [(clock::clock_domain(), 1_000), (!clock::clock_domain(), 0)] {
            let mut block = ExtensionBlock::new();
            assert!(block.trace(domain, origin_us));
            meter.event(&event(&bytes, block.extensions()), Time::from_micros(4_000));
        }
        let reading = meter.read();
        assert_eq!(reading.latency_ms, Some((3.0, 3.0)));
        assert_eq!(reading.traced, 1);
    }

    #[test]
    fn percentiles_are_those_of_the_latest_samples() {
        let mut latency = Latency::default();
        for us in 0..=100 {
            latency.add(us * 1_000, 1);
        }
        assert_eq!(latency.percentiles(), Some((50.0, 99.0)));
        for _ in 0..SAMPLES {
            latency.add(7_000, 1);
        }
        assert_eq!(latency.percentiles(), Some((7.0, 7.0)));
    }
}
