//! Senders of real media: FFmpeg encodes, this makes RTP packets of it.

use std::process::Command;

use sangam_model::{Class, MediaInfo, Topic};
use sangam_wire::rtcp::{self, SenderInfo};
use sangam_wire::rtp::Header;

const MS: u64 = 1_000_000;
/// The sender's clock when the first frame was taken, seconds since 1900: any will do.
const WALL: u64 = 3_900_000_000;
/// How often reports are sent.
const REPORT_EVERY: u64 = 1_000 * MS;
/// Bytes of a payload.
const PAYLOAD_MAX: usize = 1_000;
const VIDEO: &str = "-f lavfi -i testsrc2=size=320x180:rate=25 -t 4 -pix_fmt yuv420p";
const AUDIO: &str = "-f lavfi -i sine=frequency=440:sample_rate=48000 -t 4";

/// One stream.
pub(crate) struct Sender {
    pub(crate) topic: Topic,
    pub(crate) media: MediaInfo,
    pub(crate) packets: Vec<Sent>,
    pub(crate) frames: u64,
    name: String,
    sequence: u16,
    first: u32,
}

/// A packet and when it came, in nanoseconds since the first frame was taken.
#[derive(Clone)]
pub(crate) struct Sent {
    pub(crate) arrival: u64,
    pub(crate) is_rtcp: bool,
    pub(crate) bytes: Vec<u8>,
}

fn ffmpeg(words: &str) -> Vec<u8> {
    let output = Command::new("ffmpeg")
        .args("-nostdin -v error".split(' '))
        .args(words.split_whitespace())
        .arg("-")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}: {said}");
    output.stdout
}

impl Sender {
    pub(crate) fn h264(topic: &str) -> Self {
        let options = "-c:v libx264 -preset ultrafast -tune zerolatency -g 25 \
                       -x264-params aud=1:sliced-threads=0:threads=1 -b:v 1M -f h264";
        let stream = ffmpeg(&format!("{VIDEO} {options}"));
        let mut sender = Self::new(topic, Class::Video, (96, "H264", 90_000, 0));
        sender.media.fmtp = "packetization-mode=1".to_owned();
        let units = units(&stream);
        let mut frame: Vec<&[u8]> = Vec::new();
        for unit in units {
            // A delimiter begins a frame.
            if unit[0] & 0x1f == 9 {
                sender.h264_frame(&frame);
                frame.clear();
            } else {
                frame.push(unit);
            }
        }
        sender.h264_frame(&frame);
        assert_eq!(sender.frames, 100);
        sender
    }

    pub(crate) fn h265(topic: &str) -> Self {
        let options = "-c:v libx265 -preset ultrafast -tune zerolatency \
                       -x265-params aud=1:keyint=25:bframes=0:log-level=none -b:v 1M -f hevc";
        let stream = ffmpeg(&format!("{VIDEO} {options}"));
        let mut sender = Self::new(topic, Class::Video, (99, "H265", 90_000, 0));
        let mut frame: Vec<&[u8]> = Vec::new();
        for unit in units(&stream) {
            // A delimiter begins a frame.
            if unit[0] >> 1 == 35 {
                sender.h265_frame(&frame);
                frame.clear();
            }
            frame.push(unit);
        }
        sender.h265_frame(&frame);
        assert_eq!(sender.frames, 100);
        sender
    }

    pub(crate) fn vp8(topic: &str) -> Self {
        let mut sender = Self::new(topic, Class::Video, (97, "VP8", 90_000, 0));
        for frame in ivf("libvpx -deadline realtime -cpu-used 8 -auto-alt-ref 0") {
            let pieces = frame.chunks(PAYLOAD_MAX).enumerate();
            let pieces = pieces.map(|(place, piece)| {
                let descriptor = if place == 0 { 0x10 } else { 0 };
                [&[descriptor], piece].concat()
            });
            sender.frame(pieces.collect(), 3_600);
        }
        sender
    }

    /// RFC 9628 section 4.2, with picture ids of 15 bits.
    pub(crate) fn vp9(topic: &str) -> Self {
        let mut sender = Self::new(topic, Class::Video, (101, "VP9", 90_000, 0));
        let options = "libvpx-vp9 -deadline realtime -cpu-used 8 -auto-alt-ref 0 -lag-in-frames 0";
        for frame in ivf(options) {
            let last = frame.chunks(PAYLOAD_MAX).count() - 1;
            let inter = if frame[0] & 0x04 == 0 { 0 } else { 0x40 };
            let id = (0x8000 | sender.frames as u16).to_be_bytes();
            let pieces = frame.chunks(PAYLOAD_MAX).enumerate();
            let pieces = pieces.map(|(place, piece)| {
                let begin = if place == 0 { 0x08 } else { 0 };
                let end = if place == last { 0x04 } else { 0 };
                [&[0x80 | inter | begin | end], &id[..], piece].concat()
            });
            sender.frame(pieces.collect(), 3_600);
        }
        sender
    }

    /// AOMedia's payload format: one unit after the other, none with a size of its own.
    pub(crate) fn av1(topic: &str) -> Self {
        let mut sender = Self::new(topic, Class::Video, (102, "AV1", 90_000, 0));
        for frame in ivf("libaom-av1 -usage realtime -cpu-used 8 -lag-in-frames 0") {
            let units = av1_units(&frame);
            let has_header = units.iter().any(|unit| unit[0] >> 3 & 0x0f == 1);
            let mut payloads = Vec::new();
            for unit in &units {
                let pieces: Vec<_> = unit.chunks(PAYLOAD_MAX).collect();
                for (place, piece) in pieces.iter().enumerate() {
                    let continues = if place == 0 { 0 } else { 0x80 };
                    let goes_on = if place + 1 == pieces.len() { 0 } else { 0x40 };
                    let first = if has_header && payloads.is_empty() {
                        8
                    } else {
                        0
                    };
                    payloads.push([&[continues | goes_on | 0x10 | first], *piece].concat());
                }
            }
            sender.frame(payloads, 3_600);
        }
        sender
    }

    pub(crate) fn opus(topic: &str) -> Self {
        let stream = ffmpeg(&format!("{AUDIO} -c:a libopus -ac 2 -f ogg"));
        let mut sender = Self::new(topic, Class::Audio, (111, "opus", 48_000, 2));
        // The first two packets are the head and the tags.
        for packet in ogg_packets(&stream).into_iter().skip(2) {
            sender.frame(vec![packet], 960);
        }
        sender
    }

    pub(crate) fn aac(topic: &str) -> Self {
        let stream = ffmpeg(&format!("{AUDIO} -c:a aac -ac 1 -f adts"));
        let mut sender = Self::new(topic, Class::Audio, (98, "MPEG4-GENERIC", 48_000, 1));
        sender.media.fmtp = "streamtype=5;profile-level-id=1;mode=AAC-hbr;sizelength=13;\
                             indexlength=3;indexdeltalength=3;config=1188"
            .to_owned();
        let mut rest = &stream[..];
        while !rest.is_empty() {
            // ISO/IEC 13818-7 section 6.2: length of 13 bits, a head of seven bytes.
            let len = usize::from(rest[3] & 3) << 11 | usize::from(rest[4]) << 3;
            let len = len | usize::from(rest[5] >> 5);
            let (frame, tail) = rest.split_at(len);
            rest = tail;
            let unit = &frame[7..];
            let head = [0, 16, (unit.len() >> 5) as u8, (unit.len() << 3) as u8];
            sender.frame(vec![[&head, unit].concat()], 1_024);
        }
        sender
    }

    pub(crate) fn pcmu(topic: &str) -> Self {
        let stream = ffmpeg(&format!("{AUDIO} -ar 8000 -ac 1 -f mulaw"));
        let mut sender = Self::new(topic, Class::Audio, (0, "PCMU", 8_000, 1));
        for piece in stream.chunks(160) {
            sender.frame(vec![piece.to_vec()], 160);
        }
        sender
    }

    /// The same with reports or without, `delay` milliseconds later.
    pub(crate) fn sent_with(mut self, reported: bool, delay: u64) -> Self {
        self.packets
            .iter_mut()
            .for_each(|sent| sent.arrival += delay * MS);
        if reported {
            let rate = u64::from(self.media.clock_rate);
            let at = (0..4).map(|count| 500 * MS + count * REPORT_EVERY);
            let reports: Vec<_> = at.map(|at| (at, self.report(at, rate))).collect();
            self.packets
                .extend(reports.into_iter().map(|(at, bytes)| Sent {
                    arrival: at + delay * MS,
                    is_rtcp: true,
                    bytes,
                }));
        }
        self
    }

    /// Swaps neighbours and repeats packets.
    pub(crate) fn disturb(&mut self) {
        let packets = &mut self.packets;
        for place in (3..packets.len() - 1).step_by(7) {
            let (first, second) = (
                packets[place].bytes.clone(),
                packets[place + 1].bytes.clone(),
            );
            packets[place].bytes = second;
            packets[place + 1].bytes = first;
        }
        let twice: Vec<_> = packets.iter().step_by(5).cloned().collect();
        packets.extend(twice);
        packets.sort_by_key(|sent| sent.arrival);
    }

    /// Takes out a packet with others of its frame on both sides, of no key frame.
    pub(crate) fn lose_inside_a_frame(&mut self) {
        let at = |place: usize| self.packets[place].arrival;
        let inside = |place: &usize| {
            at(place - 1) == at(*place)
                && at(place + 1) == at(*place)
                && !at(*place).is_multiple_of(1_000 * MS)
        };
        let place = (1..self.packets.len() - 1).rev().find(inside).unwrap();
        self.packets.remove(place);
    }

    fn new(topic: &str, class: Class, media: (u8, &str, u32, u8)) -> Self {
        let (payload_type, encoding, clock_rate, channels) = media;
        Self {
            topic: Topic::new(topic).unwrap(),
            media: MediaInfo {
                class,
                payload_type,
                channels,
                clock_rate,
                encoding: encoding.to_owned(),
                fmtp: String::new(),
            },
            packets: Vec::new(),
            frames: 0,
            name: "anna".to_owned(),
            // Both wrap early.
            sequence: 65_500,
            first: u32::MAX - 10_000,
        }
    }

    fn ssrc(&self) -> u32 {
        0x1000 + u32::from(self.media.payload_type)
    }

    /// RFC 6184 section 5.8.
    fn h264_frame(&mut self, units: &[&[u8]]) {
        let head = |unit: &[u8], ends| vec![unit[0] & 0xe0 | 28, ends | unit[0] & 0x1f];
        self.frame_of_units(units, 1, head);
    }

    /// RFC 7798 section 4.4.3.
    fn h265_frame(&mut self, units: &[&[u8]]) {
        let head = |unit: &[u8], ends| vec![unit[0] & 0x81 | 49 << 1, unit[1], ends | unit[0] >> 1];
        self.frame_of_units(units, 2, head);
    }

    /// A unit alone in its packet, or in pieces behind heads of their own instead of its `header`
    /// bytes.
    fn frame_of_units(
        &mut self,
        units: &[&[u8]],
        header: usize,
        head: impl Fn(&[u8], u8) -> Vec<u8>,
    ) {
        let mut payloads = Vec::new();
        for unit in units {
            if unit.len() <= PAYLOAD_MAX {
                payloads.push(unit.to_vec());
                continue;
            }
            let pieces = unit[header..].chunks(PAYLOAD_MAX).collect::<Vec<_>>();
            for (place, piece) in pieces.iter().enumerate() {
                let begin = if place == 0 { 0x80 } else { 0 };
                let end = if place + 1 == pieces.len() { 0x40 } else { 0 };
                payloads.push([&head(unit, begin | end), *piece].concat());
            }
        }
        if !payloads.is_empty() {
            self.frame(payloads, 3_600);
        }
    }

    /// A frame that lasts so many ticks; all frames of a sender last as long.
    fn frame(&mut self, payloads: Vec<Vec<u8>>, ticks: u64) {
        let ticks = self.frames * ticks;
        let arrival = ticks * 1_000 * MS / u64::from(self.media.clock_rate);
        let count = payloads.len();
        for (place, payload) in payloads.into_iter().enumerate() {
            let header = Header {
                marker: self.media.class == Class::Video && place + 1 == count,
                payload_type: self.media.payload_type,
                sequence: self.sequence,
                timestamp: self.first.wrapping_add(ticks as u32),
                ssrc: self.ssrc(),
            };
            self.sequence = self.sequence.wrapping_add(1);
            self.packets.push(Sent {
                arrival,
                is_rtcp: false,
                bytes: [&header.encode()[..], &payload].concat(),
            });
        }
        self.frames += 1;
    }

    fn report(&self, at: u64, rate: u64) -> Vec<u8> {
        let mut compound = Vec::new();
        let fraction = ((at % (1_000 * MS)) << 32) / (1_000 * MS);
        let info = SenderInfo {
            ssrc: self.ssrc(),
            ntp: (WALL + at / (1_000 * MS)) << 32 | fraction,
            timestamp: self.first.wrapping_add((at * rate / (1_000 * MS)) as u32),
            ..SenderInfo::default()
        };
        rtcp::sender_report(&mut compound, &info, &[]);
        rtcp::source_name(&mut compound, self.ssrc(), &self.name);
        compound
    }
}

/// The frames of a file of IVF: behind a head of 32 bytes, each behind one of 12.
fn ivf(encoder: &str) -> Vec<Vec<u8>> {
    let stream = ffmpeg(&format!("{VIDEO} -c:v {encoder} -g 25 -b:v 1M -f ivf"));
    let (mut rest, mut frames) = (&stream[32..], Vec::new());
    while !rest.is_empty() {
        let len = u32::from_le_bytes(rest[..4].try_into().unwrap()) as usize;
        let (frame, tail) = rest[12..].split_at(len);
        frames.push(frame.to_vec());
        rest = tail;
    }
    frames
}

/// The units of a picture but its delimiter, without their sizes (AV1 bitstream specification
/// sections 5.3 and 4.10.5).
fn av1_units(mut rest: &[u8]) -> Vec<Vec<u8>> {
    let mut units = Vec::new();
    while let Some((head, tail)) = rest.split_first() {
        let (mut len, mut bytes) = (0, 0);
        while bytes == 0 || tail[bytes - 1] & 0x80 != 0 {
            len |= usize::from(tail[bytes] & 0x7f) << (7 * bytes);
            bytes += 1;
        }
        let (body, tail) = tail[bytes..].split_at(len);
        if head >> 3 != 2 {
            units.push([&[head & !0x02], body].concat());
        }
        rest = tail;
    }
    units
}

/// The units of a stream with start codes.
fn units(stream: &[u8]) -> Vec<&[u8]> {
    let starts: Vec<_> = (0..stream.len() - 3)
        .filter(|at| stream[*at..].starts_with(&[0, 0, 1]))
        .collect();
    let ends = starts.iter().skip(1).copied().chain([stream.len()]);
    let units = starts.iter().zip(ends).map(|(start, end)| {
        let unit = &stream[start + 3..end];
        let zeros = unit.iter().rev().take_while(|byte| **byte == 0).count();
        &unit[..unit.len() - zeros]
    });
    units.collect()
}

/// RFC 3533 section 6: packets are runs of segments up to one below 255 bytes.
fn ogg_packets(stream: &[u8]) -> Vec<Vec<u8>> {
    let (mut rest, mut packets, mut open) = (stream, Vec::new(), Vec::new());
    while rest.len() > 27 {
        let count = usize::from(rest[26]);
        let (lengths, tail) = rest[27..].split_at(count);
        let mut data = tail;
        for len in lengths {
            let (piece, tail) = data.split_at(usize::from(*len));
            open.extend(piece);
            data = tail;
            if *len < 255 {
                packets.push(std::mem::take(&mut open));
            }
        }
        rest = data;
    }
    packets
}
