//! What a client may ask this server for by name (RFC 7826 section 11.1, RFC 2326 section 12.32).

use rtsp_types::headers;
use rtsp_types::{StatusCode, Version};

use crate::deliver::FEATURE;
use crate::message::{Answer, Request};
use crate::range;
use crate::session::{Session, Show};

/// What it can: RFC 7826 sections 11.1, 18.46 and 18.50.
const KNOWN: [&str; 4] = ["play.basic", "play.scale", "play.speed", FEATURE];
/// Features of one request that are looked at; a request has no room for many more.
const FEATURES_MAX: usize = 64;

/// What a request requires of this server, or of proxies on its way, and is not there.
pub(crate) fn missing(request: &Request) -> Vec<&str> {
    let headers = [&headers::REQUIRE, &headers::PROXY_REQUIRE];
    let headers = headers.into_iter().filter_map(|name| request.header(name));
    let wanted = headers.flat_map(|value| value.split(',')).map(str::trim);
    let wanted = wanted.filter(|wanted| !wanted.is_empty());
    wanted
        .take(FEATURES_MAX)
        .filter(|wanted| !KNOWN.contains(wanted))
        .collect()
}

/// What every answer of RTSP 2.0 tells.
pub(crate) fn dress(request: &Request, answer: Answer) -> Answer {
    if !request.is_second() {
        return answer;
    }
    let mut answer = answer;
    if request.header(&headers::SUPPORTED).is_some() {
        answer = answer.with(headers::SUPPORTED, KNOWN.join(", "));
    }
    // RFC 7826 section 18.33: the number of the pipeline comes back.
    if let Some(pipeline) = request.header(&headers::PIPELINED_REQUESTS) {
        answer = answer.with(headers::PIPELINED_REQUESTS, pipeline);
    }
    // RFC 7826 section 18.5: with which ranges it could have been.
    if answer.status == StatusCode::HeaderFieldNotValidForResource {
        answer = answer.with(headers::ACCEPT_RANGES, range::UNIT);
    }
    answer
}

/// The scales of a recording, or of a film in a transport stream.
fn scales(is_stream: bool) -> String {
    let (low, high) = (range::SCALES.start(), range::SCALES.end());
    let slowest = if is_stream { &1.0 } else { low };
    format!("Scales=\"-{high}:-{low}, {slowest}:{high}\"")
}

/// RFC 7826 section 18.5: a client that takes no range that we know cannot be told where it is.
pub(crate) fn takes_ranges(request: &Request) -> bool {
    let taken = request.header(&headers::ACCEPT_RANGES);
    let takes = |taken: &str| {
        let mut units = taken.split(',').map(str::trim);
        units.any(|unit| unit.eq_ignore_ascii_case(range::UNIT))
    };
    !request.is_second() || taken.is_none_or(takes)
}

impl Session {
    /// What RTSP 2.0 tells of what is played, when it is set up (RFC 7826 section 13.3).
    pub(crate) fn properties(&self, answer: Answer) -> Answer {
        if self.version != Version::V2_0 {
            return answer;
        }
        let (properties, range) = match &self.show {
            Show::Film(reel) => {
                let lasts = match reel.film.recording.whole {
                    true => "Immutable",
                    false => "Time-Progressing",
                };
                let scales = scales(reel.film.blocks.is_some());
                let film = format!("Random-Access, {lasts}, Unlimited, {scales}");
                (film, range::whole(reel.film.length))
            }
            Show::Sent(sent) => {
                let mut film = "Random-Access, Immutable, Unlimited".to_owned();
                if !sent.is_direct {
                    film += &format!(", {}", scales(true));
                }
                (film, range::whole(sent.film.length))
            }
            Show::Live(_) => {
                let live = "No-Seeking, Time-Progressing, Time-Duration=0.0";
                (live.to_owned(), range::NOW.to_owned())
            }
        };
        answer
            .with(headers::ACCEPT_RANGES, range::UNIT)
            .with(headers::MEDIA_PROPERTIES, properties)
            .with(headers::MEDIA_RANGE, range)
    }
}
