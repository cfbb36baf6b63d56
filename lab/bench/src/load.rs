//! What publishers send: the papers' loads, packet by packet.

mod packets;
mod stamp;
mod trace;

use std::time::Duration;

use sangam_model::{Class, MediaInfo};

pub(crate) use packets::Packetizer;
pub(crate) use stamp::Stamp;

/// Bytes a packet carries besides its payload: the event's header and RTP's.
pub(crate) const OVERHEAD: usize = sangam_wire::HEADER_LEN + sangam_wire::rtp::HEADER_LEN;

/// One of the papers' loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Media {
    /// 240 bytes every 30 ms, 64 kb/s (Wu et al., section 4.1).
    Audio,
    /// 15 frames/s, 280 kb/s, about 47 packets/s (Uyar & Fox, section 2).
    Video,
    /// 1 KB every 12.5 ms (Fox et al., message-level measurement).
    Cloud,
    /// 30 frames/s, 4 Mb/s: a camera of today.
    Camera,
}

/// One frame: packets of one size that leave together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// How many.
    pub(crate) packets: u16,
    /// RTP payload of each, padding included.
    pub(crate) bytes: u16,
    /// Bytes of padding in the last one.
    pub(crate) padding: u8,
    /// Whether it decodes by itself.
    pub(crate) key: bool,
}

/// A sequence of frames at even intervals, played over and over.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// Which one it is.
    pub(crate) media: Media,
    /// From one frame to the next.
    pub(crate) interval: Duration,
    /// One round.
    pub(crate) frames: Vec<Frame>,
}

impl Media {
    /// Lower-case name, as in options and reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Audio => "audio",
            Self::Video => "video",
            Self::Cloud => "cloud",
            Self::Camera => "camera",
        }
    }

    /// The class its events have. The cloud load stands for voice.
    pub(crate) const fn class(self) -> Class {
        match self {
            Self::Audio | Self::Cloud => Class::Audio,
            Self::Video | Self::Camera => Class::Video,
        }
    }

    /// RTP clock rate in Hz.
    pub(crate) const fn clock_rate(self) -> u32 {
        match self {
            Self::Audio | Self::Cloud => 8_000,
            Self::Video | Self::Camera => 90_000,
        }
    }

    /// RTP payload type (RFC 3551 table 4 and 5; dynamic for the cloud load).
    pub(crate) const fn payload_type(self) -> u8 {
        match self {
            Self::Audio => 0,
            Self::Video => 34,
            Self::Cloud | Self::Camera => 96,
        }
    }

    /// What a publisher tells its broker.
    pub(crate) fn info(self) -> MediaInfo {
        let (channels, encoding) = match self {
            Self::Audio => (1, "PCMU"),
            Self::Cloud => (1, "L8"),
            Self::Video => (0, "H263"),
            Self::Camera => (0, "H264"),
        };
        MediaInfo {
            class: self.class(),
            payload_type: self.payload_type(),
            channels,
            clock_rate: self.clock_rate(),
            encoding: encoding.to_owned(),
            fmtp: String::new(),
        }
    }
}

impl Load {
    /// The load of a medium.
    pub(crate) fn of(media: Media) -> Self {
        let single = |bytes| {
            vec![Frame {
                packets: 1,
                bytes,
                padding: 0,
                key: false,
            }]
        };
        let (interval_us, frames) = match media {
            Media::Audio => (30_000, single(240)),
            Media::Cloud => (12_500, single(1_024)),
            Media::Camera => (33_333, camera()),
            Media::Video => (1_000_000 / trace::FRAMES_PER_S, trace::frames()),
        };
        Self {
            media,
            interval: Duration::from_micros(interval_us),
            frames,
        }
    }

    /// The frame of a number; rounds follow each other.
    pub(crate) fn frame(&self, number: u64) -> Frame {
        self.frames[(number % self.frames.len() as u64) as usize]
    }

    /// The number of the next frame, this one included, that decodes by itself; this one if no
    /// frame of the load is marked so.
    pub(crate) fn next_key_frame(&self, number: u64) -> u64 {
        let numbers = number..number + self.frames.len() as u64;
        let mut keys = numbers.filter(|number| self.frame(*number).key);
        keys.next().unwrap_or(number)
    }

    /// Packets of one round.
    pub(crate) fn packets_per_round(&self) -> u64 {
        self.frames
            .iter()
            .map(|frame| u64::from(frame.packets))
            .sum()
    }

    /// Packets one publisher sends each second, in the mean.
    pub(crate) fn packets_per_s(&self) -> f64 {
        let round_s = self.interval.as_secs_f64() * self.frames.len() as f64;
        self.packets_per_round() as f64 / round_s
    }

    /// Payload bits one publisher sends each second, in the mean, headers not counted, as the
    /// papers count.
    pub(crate) fn bits_per_s(&self) -> f64 {
        let bits = |frame: &Frame| {
            let bytes = u64::from(frame.packets) * u64::from(frame.bytes);
            8 * (bytes - u64::from(frame.padding))
        };
        let round_s = self.interval.as_secs_f64() * self.frames.len() as f64;
        self.frames.iter().map(bits).sum::<u64>() as f64 / round_s
    }
}

/// Two seconds of a camera: frames of 14 packets, the first of them decodes by itself.
fn camera() -> Vec<Frame> {
    let frame = |number| Frame {
        packets: 14,
        bytes: 1_190,
        padding: 0,
        key: number == 0,
    };
    (0..60).map(frame).collect()
}

impl Frame {
    /// Bytes of each of its datagrams.
    pub(crate) fn datagram_len(&self) -> u16 {
        self.bytes + OVERHEAD as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_have_the_papers_rates() {
        let audio = Load::of(Media::Audio);
        assert_eq!(audio.bits_per_s().round(), 64_000.0);
        let video = Load::of(Media::Video);
        assert!(
            (46.0..48.0).contains(&video.packets_per_s()),
            "{}",
            video.packets_per_s()
        );
        assert!(
            (278e3..282e3).contains(&video.bits_per_s()),
            "{}",
            video.bits_per_s()
        );
        let camera = Load::of(Media::Camera);
        assert!((3.9e6..4.1e6).contains(&camera.bits_per_s()));
        let cloud = Load::of(Media::Cloud);
        assert_eq!(cloud.packets_per_s(), 80.0);
    }

    #[test]
    fn two_minutes_of_video_are_about_the_paper_s_5610_packets() {
        let packets = Load::of(Media::Video).packets_per_round();
        assert!((5_500..5_720).contains(&packets), "{packets}");
    }
}
