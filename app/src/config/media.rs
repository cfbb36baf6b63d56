//! What a leg or a publisher carries, as people write it.

use std::str::FromStr;

use sangam_model::{Class, MediaInfo};
use serde::{Deserialize, Serialize};

/// A codec's usual values: encoding name, class, payload type, clock rate, channels.
///
/// Static payload types and clock rates: RFC 3551 section 6; G722 keeps its 8,000 Hz by RFC 3551
/// section 4.5.2. Dynamic ones are common habit and may be changed.
const USUAL: [(&str, Class, u8, u32, u8); 12] = [
    ("PCMU", Class::Audio, 0, 8_000, 1),
    ("GSM", Class::Audio, 3, 8_000, 1),
    ("PCMA", Class::Audio, 8, 8_000, 1),
    ("G722", Class::Audio, 9, 8_000, 1),
    ("L16", Class::Audio, 11, 44_100, 1),
    ("G729", Class::Audio, 18, 8_000, 1),
    ("opus", Class::Audio, 111, 48_000, 2),
    ("MPEG4-GENERIC", Class::Audio, 97, 48_000, 2),
    ("H264", Class::Video, 96, 90_000, 0),
    ("H265", Class::Video, 98, 90_000, 0),
    ("VP8", Class::Video, 100, 90_000, 0),
    ("VP9", Class::Video, 101, 90_000, 0),
];

/// Media in SDP's terms (RFC 8866 section 6.6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MediaSpec {
    /// Encoding name, such as `H264` or `opus`.
    pub(crate) encoding: String,
    /// RTP payload type.
    pub(crate) payload_type: u8,
    /// RTP clock rate in Hz.
    pub(crate) clock_rate: u32,
    /// Channels of audio.
    #[serde(default)]
    pub(crate) channels: u8,
    /// Format parameters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) fmtp: String,
    /// `audio` or `video`; needed for encodings that are not known here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) class: Option<MediaClass>,
}

/// What kind of media.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MediaClass {
    /// Sound.
    Audio,
    /// Moving pictures.
    Video,
}

impl MediaSpec {
    /// The same in the network's words.
    ///
    /// # Errors
    /// An unknown encoding without a class, or a value outside its range.
    pub(crate) fn info(&self) -> Result<MediaInfo, String> {
        let known = USUAL
            .iter()
            .find(|usual| usual.0.eq_ignore_ascii_case(&self.encoding));
        let class = match (self.class, known) {
            (Some(MediaClass::Audio), _) => Class::Audio,
            (Some(MediaClass::Video), _) => Class::Video,
            (None, Some(usual)) => usual.1,
            (None, None) => {
                let encoding = &self.encoding;
                return Err(format!(
                    "{encoding:?} may be audio or video: say which by `class`"
                ));
            }
        };
        if self.clock_rate == 0 {
            return Err("an RTP clock rate is at least 1 Hz".to_owned());
        }
        let info = MediaInfo {
            class,
            payload_type: self.payload_type,
            channels: if class == Class::Audio {
                self.channels.max(1)
            } else {
                0
            },
            clock_rate: self.clock_rate,
            encoding: self.encoding.clone(),
            fmtp: self.fmtp.clone(),
        };
        info.validate().map_err(|error| error.to_string())?;
        Ok(info)
    }

    /// The usual values of a codec, by its name in any case.
    pub(crate) fn usual(encoding: &str) -> Option<Self> {
        let usual = USUAL
            .iter()
            .find(|usual| usual.0.eq_ignore_ascii_case(encoding))?;
        Some(Self {
            encoding: usual.0.to_owned(),
            payload_type: usual.2,
            clock_rate: usual.3,
            channels: usual.4,
            fmtp: String::new(),
            class: None,
        })
    }
}

impl FromStr for MediaSpec {
    type Err = String;

    /// A codec's name (`opus`), or SDP's words:
    /// `[audio|video] PT ENCODING/CLOCK[/CHANNELS] [FMTP]`.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(usual) = Self::usual(text.trim()) {
            return Ok(usual);
        }
        let wrong = || format!("{text:?}: write a codec such as opus or h264, or 96 H264/90000");
        let mut rest = text.trim();
        let mut class = None;
        for (word, named) in [("audio ", MediaClass::Audio), ("video ", MediaClass::Video)] {
            if let Some(after) = rest.strip_prefix(word) {
                (rest, class) = (after.trim_start(), Some(named));
            }
        }
        let (payload_type, rest) = rest.split_once(' ').ok_or_else(wrong)?;
        let (map, fmtp) = rest
            .trim_start()
            .split_once(' ')
            .unwrap_or((rest.trim_start(), ""));
        let mut parts = map.split('/');
        let encoding = parts
            .next()
            .filter(|name| !name.is_empty())
            .ok_or_else(wrong)?;
        let clock_rate = parts
            .next()
            .and_then(|rate| rate.parse().ok())
            .ok_or_else(wrong)?;
        let channels = match parts.next() {
            Some(channels) => channels.parse().map_err(|_| wrong())?,
            None => 0,
        };
        let spec = Self {
            encoding: encoding.to_owned(),
            payload_type: payload_type.parse().map_err(|_| wrong())?,
            clock_rate,
            channels,
            fmtp: fmtp.trim().to_owned(),
            class,
        };
        spec.info().map(|_| spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_codec_name_is_enough() {
        let opus: MediaSpec = "opus".parse().unwrap();
        assert_eq!(
            (opus.payload_type, opus.clock_rate, opus.channels),
            (111, 48_000, 2)
        );
        let h264: MediaSpec = "h264".parse().unwrap();
        assert_eq!(h264.info().unwrap().class, Class::Video);
    }

    #[test]
    fn sdp_words_are_understood() {
        let spec: MediaSpec = "97 H264/90000 packetization-mode=1; a=b".parse().unwrap();
        assert_eq!(
            (spec.payload_type, spec.fmtp.as_str()),
            (97, "packetization-mode=1; a=b")
        );
        let spec: MediaSpec = "audio 120 speex/16000/2".parse().unwrap();
        let info = spec.info().unwrap();
        assert_eq!((info.class, info.channels), (Class::Audio, 2));
    }

    #[test]
    fn what_is_not_understood_is_refused_with_a_way_out() {
        for (text, word) in [
            ("", "opus"),
            ("96", "opus"),
            ("96 H264", "opus"),
            ("200 H264/90000", "127"),
            ("96 H264/0", "1 Hz"),
            ("96 mystery/90000", "`class`"),
        ] {
            let error = text.parse::<MediaSpec>().unwrap_err();
            assert!(error.contains(word), "{text:?}: {error}");
        }
    }
}
