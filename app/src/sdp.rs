//! Session descriptions (RFC 8866): written for players, read from encoders.

use std::net::{IpAddr, SocketAddr};

use sangam_model::{Class, MediaInfo};

use crate::config::Rtcp;

/// One stream of a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Media {
    /// What it carries.
    pub(crate) info: MediaInfo,
    /// Where RTP arrives.
    pub(crate) to: SocketAddr,
    /// Where RTCP arrives.
    pub(crate) rtcp: Rtcp,
}

/// The description of what a player at these addresses will receive.
pub(crate) fn write(name: &str, media: &[Media]) -> String {
    let origin = media
        .first()
        .map_or(IpAddr::from([127, 0, 0, 1]), |media| media.to.ip());
    let mut lines = vec![
        "v=0".to_owned(),
        // The version has to change with the content only; players compare nothing else.
        format!("o=- 0 0 {}", address(origin)),
        // RFC 8866 section 5.3: a session name may not be empty.
        format!("s={}", if name.is_empty() { "-" } else { name }),
        "t=0 0".to_owned(),
    ];
    for one in media {
        stream(one, &mut lines);
    }
    // RFC 8866 section 5: every line ends with CRLF.
    lines
        .iter()
        .flat_map(|line| [line.as_str(), "\r\n"])
        .collect()
}

/// The media of a description that an encoder wrote, in order; unknown lines are skipped.
pub(crate) fn read(text: &str) -> Vec<MediaInfo> {
    let mut found: Vec<MediaInfo> = Vec::new();
    let mut known = false;
    for line in text.lines() {
        if let Some(media) = line.strip_prefix("m=") {
            let info = media_line(media);
            known = info.is_some();
            found.extend(info);
            continue;
        }
        let Some(info) = found.last_mut().filter(|_| known) else {
            continue;
        };
        let after = |key: &str| line.strip_prefix(&format!("a={key}:{} ", info.payload_type));
        if let Some(map) = after("rtpmap").map(str::to_owned) {
            mapping(&map, info);
        } else if let Some(fmtp) = after("fmtp").map(str::to_owned) {
            info.fmtp = fmtp;
        }
    }
    found.retain(|info| info.clock_rate != 0 && info.validate().is_ok());
    found
}

fn stream(media: &Media, lines: &mut Vec<String>) {
    let Media { info, to, rtcp } = media;
    let kind = if info.class == Class::Audio {
        "audio"
    } else {
        "video"
    };
    let (payload_type, port) = (info.payload_type, to.port());
    lines.push(format!("m={kind} {port} RTP/AVP {payload_type}"));
    lines.push(format!("c={}", address(to.ip())));
    let channels = match info.channels {
        // RFC 8866 section 6.6: one channel is the default. RFC 7587 section 7: Opus always says
        // two, which is what its publishers put here.
        0 | 1 => String::new(),
        more => format!("/{more}"),
    };
    let (encoding, clock_rate) = (&info.encoding, info.clock_rate);
    lines.push(format!(
        "a=rtpmap:{payload_type} {encoding}/{clock_rate}{channels}"
    ));
    if !info.fmtp.is_empty() {
        lines.push(format!("a=fmtp:{payload_type} {}", info.fmtp));
    }
    match rtcp {
        Rtcp::Mux => lines.push("a=rtcp-mux".to_owned()),
        // RFC 3605.
        Rtcp::NextPort => lines.push(format!("a=rtcp:{}", port.saturating_add(1))),
    }
    lines.push("a=recvonly".to_owned());
}

fn address(ip: IpAddr) -> String {
    match ip.to_canonical() {
        IpAddr::V4(ip) => format!("IN IP4 {ip}"),
        IpAddr::V6(ip) => format!("IN IP6 {ip}"),
    }
}

fn media_line(line: &str) -> Option<MediaInfo> {
    let mut words = line.split(' ');
    let class = match words.next()? {
        "audio" => Class::Audio,
        "video" => Class::Video,
        _ => return None,
    };
    let payload_type: u8 = words.nth(2)?.parse().ok()?;
    let mut info = MediaInfo {
        class,
        payload_type,
        ..MediaInfo::data()
    };
    // RFC 3551 section 6: static types need no mapping.
    let fixed = match payload_type {
        0 => "PCMU/8000",
        8 => "PCMA/8000",
        9 => "G722/8000",
        26 => "JPEG/90000",
        _ => "",
    };
    mapping(fixed, &mut info);
    Some(info)
}

/// `encoding/clock[/channels]` into the fields.
fn mapping(map: &str, info: &mut MediaInfo) {
    let mut parts = map.trim().split('/');
    info.encoding = parts.next().unwrap_or_default().to_owned();
    info.clock_rate = parts.next().and_then(|rate| rate.parse().ok()).unwrap_or(0);
    let channels = parts.next().and_then(|channels| channels.parse().ok());
    info.channels = if info.class == Class::Audio {
        channels.unwrap_or(1)
    } else {
        0
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::MediaSpec;

    fn media(spec: &str, to: &str, rtcp: Rtcp) -> Media {
        let info = spec.parse::<MediaSpec>().unwrap().info().unwrap();
        Media {
            info,
            to: to.parse().unwrap(),
            rtcp,
        }
    }

    #[test]
    fn a_description_holds_what_a_player_needs() {
        let text = write(
            "demo",
            &[
                media(
                    "96 H264/90000 packetization-mode=1",
                    "127.0.0.1:5004",
                    Rtcp::NextPort,
                ),
                media("opus", "[::1]:5006", Rtcp::Mux),
            ],
        );
        let expected = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=demo\r\nt=0 0\r\n\
            m=video 5004 RTP/AVP 96\r\nc=IN IP4 127.0.0.1\r\na=rtpmap:96 H264/90000\r\n\
            a=fmtp:96 packetization-mode=1\r\na=rtcp:5005\r\na=recvonly\r\n\
            m=audio 5006 RTP/AVP 111\r\nc=IN IP6 ::1\r\na=rtpmap:111 opus/48000/2\r\n\
            a=rtcp-mux\r\na=recvonly\r\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_was_written_reads_back() {
        let streams = [
            media("96 H264/90000 a=1; b=2", "127.0.0.1:5004", Rtcp::NextPort),
            media("opus", "127.0.0.1:5006", Rtcp::Mux),
            media("pcmu", "127.0.0.1:5008", Rtcp::Mux),
        ];
        let infos: Vec<_> = streams.iter().map(|media| media.info.clone()).collect();
        assert_eq!(read(&write("x", &streams)), infos);
    }

    #[test]
    fn an_encoders_description_is_understood() {
        let text = "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=No Name\nc=IN IP4 127.0.0.1\nt=0 0\n\
            a=tool:libavformat 59\nm=video 5004 RTP/AVP 96\nb=AS:400\na=rtpmap:96 H264/90000\n\
            a=fmtp:96 packetization-mode=1; sprop-parameter-sets=Z0LA,aM4G\n\
            m=application 9 X 0\nm=audio 5006 RTP/AVP 0\n";
        let found = read(text);
        assert_eq!(found.len(), 2);
        assert!(found[0].fmtp.contains("sprop-parameter-sets"));
        assert_eq!(
            (found[1].encoding.as_str(), found[1].clock_rate),
            ("PCMU", 8_000)
        );
    }

    #[test]
    fn nonsense_yields_nothing() {
        for text in [
            "",
            "m=",
            "m=video x RTP/AVP 300",
            "a=rtpmap:96 H264/90000",
            "m=audio 1 R 96",
        ] {
            assert_eq!(read(text), [], "{text:?}");
        }
    }
}
