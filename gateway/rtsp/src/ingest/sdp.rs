//! What a publisher describes (RFC 8866), made by whoever reaches the port.

use rtsp_types::StatusCode;
use sangam_model::{Class, MediaInfo};

use crate::limits::TRACKS_MAX;

/// RFC 3551 section 6: static types need no mapping.
const FIXED: [(u8, &str); 14] = [
    (0, "PCMU/8000"),
    (3, "GSM/8000"),
    (8, "PCMA/8000"),
    (9, "G722/8000"),
    (10, "L16/44100/2"),
    (11, "L16/44100/1"),
    (14, "MPA/90000"),
    (18, "G729/8000"),
    (26, "JPEG/90000"),
    (31, "H261/90000"),
    (32, "MPV/90000"),
    (33, "MP2T/90000"),
    (34, "H263/90000"),
    (12, "QCELP/8000"),
];

/// One track of a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    /// How its URL ends, or all of it; empty if the description does not say.
    pub(super) control: String,
    pub(super) media: MediaInfo,
}

impl Announced {
    /// Whether the rest of a path behind the announced one means it.
    pub(super) fn is_named(&self, rest: &str) -> bool {
        let control = self.control.trim_matches('/');
        !control.is_empty() && (control == rest || control.ends_with(&format!("/{rest}")))
    }
}

/// The tracks of a description, in its order.
///
/// # Errors
/// 400: it is none. 413: it has too many tracks. 415: one of them is neither sound nor picture by
/// plain RTP, or does not say what it is.
pub(super) fn read(body: &[u8]) -> Result<Vec<Announced>, StatusCode> {
    let text = str::from_utf8(body).map_err(|_| StatusCode::BadRequest)?;
    let mut lines = text.lines().filter(|line| !line.is_empty());
    if lines.next() != Some("v=0") {
        return Err(StatusCode::BadRequest);
    }
    let mut tracks: Vec<Announced> = Vec::new();
    for line in lines {
        if let Some(media) = line.strip_prefix("m=") {
            if tracks.len() == TRACKS_MAX {
                return Err(StatusCode::RequestMessageBodyTooLarge);
            }
            tracks.push(track(media).ok_or(StatusCode::UnsupportedMediaType)?);
            continue;
        }
        let (Some(track), Some(attribute)) = (tracks.last_mut(), line.strip_prefix("a=")) else {
            continue;
        };
        describe(track, attribute);
    }
    if tracks.is_empty() {
        return Err(StatusCode::BadRequest);
    }
    let is_known = |track: &Announced| {
        let media = &track.media;
        media.clock_rate > 0 && !media.encoding.is_empty() && media.validate().is_ok()
    };
    match tracks.iter().all(is_known) {
        true => Ok(tracks),
        false => Err(StatusCode::UnsupportedMediaType),
    }
}

/// `video 0 RTP/AVP 96`: of several payload types the first is what is sent.
fn track(line: &str) -> Option<Announced> {
    let mut words = line.split_ascii_whitespace();
    let class = match words.next()? {
        "audio" => Class::Audio,
        "video" => Class::Video,
        _ => return None,
    };
    // RFC 4585: feedback changes nothing of the packets.
    let protocol = words.nth(1)?;
    if !["RTP/AVP", "RTP/AVPF"].contains(&protocol) {
        return None;
    }
    let mut media = MediaInfo {
        class,
        payload_type: words.next()?.parse().ok()?,
        ..MediaInfo::data()
    };
    let mut fixed = FIXED.iter();
    let fixed = fixed.find(|(known, _)| *known == media.payload_type);
    if let Some((_, mapping)) = fixed {
        map(mapping, &mut media);
    }
    Some(Announced {
        control: String::new(),
        media,
    })
}

fn describe(track: &mut Announced, attribute: &str) {
    let (name, value) = attribute.split_once(':').unwrap_or((attribute, ""));
    let own = || {
        let (payload_type, rest) = value.trim().split_once(' ')?;
        let is_own = payload_type.parse() == Ok(track.media.payload_type);
        is_own.then(|| rest.trim().to_owned())
    };
    match name {
        "rtpmap" => {
            if let Some(mapping) = own() {
                map(&mapping, &mut track.media);
            }
        }
        "fmtp" => {
            if let Some(parameters) = own() {
                track.media.fmtp = parameters;
            }
        }
        "control" => value.trim().clone_into(&mut track.control),
        _ => {}
    }
}

/// `encoding/clock[/channels]` into the fields.
fn map(mapping: &str, media: &mut MediaInfo) {
    let mut parts = mapping.split('/').map(str::trim);
    media.encoding = parts.next().unwrap_or_default().to_owned();
    media.clock_rate = parts.next().and_then(|rate| rate.parse().ok()).unwrap_or(0);
    let channels = parts.next().and_then(|channels| channels.parse().ok());
    media.channels = match media.class {
        Class::Audio => channels.unwrap_or(1),
        _ => 0,
    };
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_encoders_say_is_understood() {
        // As FFmpeg 5.1 and GStreamer 1.22 write it.
        let text = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=No Name\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
            a=tool:libavformat\r\nm=video 0 RTP/AVP 96\r\na=rtpmap:96 H265/90000\r\n\
            a=fmtp:96 sprop-vps=QA==; sprop-sps=Qg==\r\na=control:streamid=0\r\n\
            m=audio 0 RTP/AVP 97\r\nb=AS:128\r\na=rtpmap:97 MPEG4-GENERIC/44100/2\r\n\
            a=fmtp:97 profile-level-id=1;mode=AAC-hbr\r\na=control:streamid=1\r\n\
            m=video 0 RTP/AVP 33\r\na=control:rtsp://h:1/live/a/stream=2\r\n";
        let tracks = read(text.as_bytes()).unwrap();
        let said: Vec<_> = tracks
            .iter()
            .map(|track| {
                let MediaInfo {
                    encoding,
                    clock_rate,
                    channels,
                    ..
                } = &track.media;
                format!("{} {encoding}/{clock_rate}/{channels}", track.control)
            })
            .collect();
        assert_eq!(
            said,
            [
                "streamid=0 H265/90000/0",
                "streamid=1 MPEG4-GENERIC/44100/2",
                "rtsp://h:1/live/a/stream=2 MP2T/90000/0"
            ]
        );
        assert!(tracks[0].media.fmtp.starts_with("sprop-vps"));
        assert!(tracks[1].is_named("streamid=1") && !tracks[1].is_named("1"));
        assert!(tracks[2].is_named("stream=2"));
    }

    #[test]
    fn each_fault_has_its_status() {
        let head = "v=0\r\nt=0 0\r\n";
        let many = format!("{head}{}", "m=audio 0 RTP/AVP 0\r\n".repeat(17));
        let long = format!(
            "{head}m=audio 0 RTP/AVP 0\r\na=fmtp:0 {}\r\n",
            "a".repeat(600)
        );
        for (text, status) in [
            ("", StatusCode::BadRequest),
            ("GET / HTTP/1.1\r\n", StatusCode::BadRequest),
            (head, StatusCode::BadRequest),
            (&many, StatusCode::RequestMessageBodyTooLarge),
            (&long, StatusCode::UnsupportedMediaType),
        ] {
            assert_eq!(read(text.as_bytes()), Err(status), "{text:.40}");
        }
        assert_eq!(read(b"v=0\r\n\xff"), Err(StatusCode::BadRequest));
        for media in [
            "m=",
            "m=video",
            "m=video 0 RTP/AVP 300",
            "m=video 0 RTP/AVP 96",
            "m=video 0 RTP/SAVP 33",
            "m=application 9 RTP/AVP 0",
            "m=audio 0 RTP/AVP 96\r\na=rtpmap:96 opus",
            "m=audio 0 RTP/AVP 96\r\na=rtpmap:96 op\u{1}us/48000",
            "m=audio 0 RTP/AVP 96\r\na=rtpmap:97 opus/48000",
        ] {
            let found = read(format!("{head}{media}\r\n").as_bytes());
            assert_eq!(found, Err(StatusCode::UnsupportedMediaType), "{media}");
        }
    }

    proptest! {
        #[test]
        fn no_description_is_too_strange(
            body: Vec<u8>,
            lines in
                "(m=(audio|video) 0 RTP/AVP .{0,5}\r\n|a=(rtpmap|fmtp|control):.{0,9}\r\n){0,9}",
        ) {
            let _ = read(&body);
            let _ = read(format!("v=0\r\n{lines}").as_bytes());
        }
    }
}
