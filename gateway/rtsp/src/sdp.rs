//! The description of what is played (RFC 8866, RFC 2326 appendix C).

use std::net::IpAddr;

use sangam_model::{Class, MediaInfo};

use crate::deliver::RTX_TYPE;

/// What is said of the whole.
#[derive(Clone, Debug)]
pub(crate) struct About<'a> {
    /// Number of it and of its description.
    pub(crate) id: (u64, u64),
    pub(crate) name: &'a str,
    /// What of it can be played, as in a Range header.
    pub(crate) range: String,
    /// Lost packets are sent again (RFC 4585, RFC 4588).
    pub(crate) repeats: bool,
    /// Packets tell which node sent them (`docs/spec/film-delivery.md`).
    pub(crate) nodes: bool,
}

/// What a player is told of these tracks, each with its number, at `base`, which ends with a slash.
pub(crate) fn describe<'a>(
    about: &About<'_>,
    tracks: impl Iterator<Item = (usize, &'a MediaInfo)>,
    base: &str,
    host: IpAddr,
) -> String {
    let (family, nowhere) = match host {
        IpAddr::V4(_) => ("IP4", "0.0.0.0"),
        IpAddr::V6(_) => ("IP6", "::"),
    };
    let (id, version) = about.id;
    let name: String = about.name.chars().filter(is_text).collect();
    let mut lines = vec![
        "v=0".to_owned(),
        format!("o=- {id} {version} IN {family} {host}"),
        // RFC 8866 section 5.3: a session name may not be empty.
        format!("s={}", if name.is_empty() { "-" } else { &name }),
        format!("c=IN {family} {nowhere}"),
        "t=0 0".to_owned(),
        "a=tool:sangam".to_owned(),
        // RFC 2326 appendix C.1.1: the aggregate.
        format!("a=control:{base}"),
        format!("a=range:{}", about.range),
    ];
    for (number, info) in tracks {
        media(info, about, &mut lines);
        lines.push(format!("a=control:{}", control(base, number)));
    }
    // RFC 8866 section 5: every line ends with CRLF.
    lines
        .iter()
        .flat_map(|line| [line.as_str(), "\r\n"])
        .collect()
}

/// The URL of one track.
pub(crate) fn control(base: &str, number: usize) -> String {
    format!("{base}trackID={number}")
}

fn media(info: &MediaInfo, about: &About<'_>, lines: &mut Vec<String>) {
    let kind = match info.class {
        Class::Audio => "audio",
        _ => "video",
    };
    let (payload_type, clock_rate) = (info.payload_type, info.clock_rate);
    let channels = match info.channels {
        // RFC 8866 section 6.6: one channel is the default.
        0 | 1 => String::new(),
        more => format!("/{more}"),
    };
    lines.push(match about.repeats {
        true => format!("m={kind} 0 RTP/AVPF {payload_type} {RTX_TYPE}"),
        false => format!("m={kind} 0 RTP/AVP {payload_type}"),
    });
    lines.push(format!(
        "a=rtpmap:{payload_type} {}/{clock_rate}{channels}",
        info.encoding
    ));
    if !info.fmtp.is_empty() {
        lines.push(format!("a=fmtp:{payload_type} {}", info.fmtp));
    }
    if about.repeats {
        lines.push(format!("a=rtcp-fb:{payload_type} nack"));
        // RFC 4588 section 8.6.
        lines.push(format!("a=rtpmap:{RTX_TYPE} rtx/{clock_rate}"));
        lines.push(format!(
            "a=fmtp:{RTX_TYPE} apt={payload_type};rtx-time=2000"
        ));
    }
    if about.nodes {
        lines.push("a=extmap:1 urn:x-sangam:node-lsn".to_owned());
    }
}

/// A line of its own would be somebody else's word.
fn is_text(c: &char) -> bool {
    !c.is_control()
}
