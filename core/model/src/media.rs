//! Classes of events and what a stream carries.

use core::fmt;

use crate::limits;

/// What an event is; decides its place in the order of service and of sacrifice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// RTP audio. Served first, sacrificed last.
    Audio = 0,
    /// RTP video. Sacrificed first, by whole frames.
    Video = 1,
    /// RTCP that travels with the media (sender reports, source descriptions, BYE).
    Rtcp = 2,
    /// Anything else: chat, board, sensor readings. Best effort on a datagram link.
    Data = 3,
    /// Travels against the stream it names: key-frame requests, NACKs, receiver reports.
    Feedback = 4,
}

impl Class {
    /// Every class, in the order of its wire number.
    pub const ALL: [Self; 5] = [
        Self::Audio,
        Self::Video,
        Self::Rtcp,
        Self::Data,
        Self::Feedback,
    ];

    /// The class with this wire number, if there is one.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(Self::Audio),
            1 => Some(Self::Video),
            2 => Some(Self::Rtcp),
            3 => Some(Self::Data),
            4 => Some(Self::Feedback),
            _ => None,
        }
    }

    /// Lower-case name, for metrics and configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Audio => "audio",
            Self::Video => "video",
            Self::Rtcp => "rtcp",
            Self::Data => "data",
            Self::Feedback => "feedback",
        }
    }
}

/// What a stream carries, in SDP's terms (RFC 8866 section 6.6), so that a player's SDP can be
/// written from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaInfo {
    /// Audio, video or data.
    pub class: Class,
    /// RTP payload type, `0..=127`; zero and meaningless for data.
    pub payload_type: u8,
    /// Channels of audio, otherwise 0.
    pub channels: u8,
    /// RTP clock rate in Hz; 0 for data.
    pub clock_rate: u32,
    /// SDP encoding name such as `opus` or `H264`; at most 32 bytes, may be empty.
    pub encoding: String,
    /// SDP format parameters (the part after `a=fmtp:PT `); at most 512 bytes, may be empty.
    pub fmtp: String,
}

/// Why a [`MediaInfo`] is not acceptable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MediaInfoError {
    /// Only audio, video and data can be published.
    Class,
    /// Payload types end at 127.
    PayloadType,
    /// The encoding name or the format parameters are too long or hold control characters.
    Text,
}

impl MediaInfo {
    /// Plain data without a codec.
    #[must_use]
    pub fn data() -> Self {
        Self {
            class: Class::Data,
            payload_type: 0,
            channels: 0,
            clock_rate: 0,
            encoding: String::new(),
            fmtp: String::new(),
        }
    }

    /// Checks the ranges given at the fields.
    ///
    /// # Errors
    /// The first range that does not hold.
    pub fn validate(&self) -> Result<(), MediaInfoError> {
        if !matches!(self.class, Class::Audio | Class::Video | Class::Data) {
            return Err(MediaInfoError::Class);
        }
        if self.payload_type > 127 {
            return Err(MediaInfoError::PayloadType);
        }
        let clean = |text: &str, max| text.len() <= max && !text.chars().any(char::is_control);
        if clean(&self.encoding, limits::ENCODING_LEN_MAX)
            && clean(&self.fmtp, limits::FMTP_LEN_MAX)
        {
            Ok(())
        } else {
            Err(MediaInfoError::Text)
        }
    }
}

impl fmt::Display for MediaInfoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Class => "only audio, video and data can be published",
            Self::PayloadType => "an RTP payload type lies between 0 and 127",
            Self::Text => {
                "encoding names have at most 32 bytes and format parameters 512, \
                           without control characters"
            }
        })
    }
}

impl core::error::Error for MediaInfoError {}
