//! What RTSP 2.0 tells a client unasked: that what it plays has come to its end (RFC 7826 section
//! 13.5.1).

use rtsp_types::headers::{self, HeaderName};
use rtsp_types::{Method, Request, StatusCode, Version};
use sangam_model::Time;

use crate::egress::Onset;
use crate::play::infos;
use crate::range::{self, Way};
use crate::session::{Session, Show};
use crate::turn::Engine;

impl Engine {
    /// Tells the client of a session that nothing follows, if it speaks RTSP 2.0.
    pub(crate) fn end_of_stream(&mut self, key: u64, now: Time) {
        let Some(session) = self.sessions.get(&key) else {
            return;
        };
        if session.version != Version::V2_0 {
            return;
        }
        let headers = session.ending(now);
        let number = session.connection;
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let base = session.base.trim_end_matches('/');
        connection.tell(&Method::PlayNotify, base, headers);
        self.counts.notified.one();
        self.flush(number, now);
    }
}

impl Session {
    /// The headers that tell of its end.
    fn ending(&self, now: Time) -> Vec<(HeaderName, String)> {
        let (at, range) = match &self.show {
            Show::Film(reel) => {
                let (zero, wish) = (reel.film.zero, reel.player.wish());
                let end = wish.until.unwrap_or(match range::way(wish.scale) {
                    Way::On => zero + reel.film.length,
                    Way::Back => zero,
                });
                (end, range::until(end.saturating_sub(zero)))
            }
            Show::Sent(sent) => (sent.ends(), range::until(sent.ends())),
            Show::Live(_) => (crate::live::at(now), range::NOW.to_owned()),
        };
        let onsets = self.outlets.iter().map(|outlet| {
            let onset: Onset = match &self.show {
                Show::Sent(sent) => sent.onsets().1,
                Show::Film(_) | Show::Live(_) => outlet.stream.end(at),
            };
            (outlet.number, onset)
        });
        let played = self.played.as_deref().unwrap_or("0");
        let failure = match &self.show {
            Show::Film(reel) => reel.player.failure(),
            Show::Sent(_) | Show::Live(_) => None,
        };
        let (status, reason) = match failure {
            Some(status) => (status, status.to_string()),
            None => (StatusCode::Ok, "OK".to_owned()),
        };
        let status = u16::from(status);
        let status = format!("cseq={played} status={status} reason=\"{reason}\"");
        let mut headers = vec![
            (headers::NOTIFY_REASON, "end-of-stream".to_owned()),
            (headers::REQUEST_STATUS, status),
            (headers::RANGE, range),
            (headers::SESSION, self.id.clone()),
            (headers::DATE, crate::date::now()),
        ];
        if let Some(infos) = infos(self, onsets) {
            headers.push((headers::RTP_INFO, infos));
        }
        headers
    }
}

/// Appends the bytes of a request of ours.
pub(crate) fn write(
    (method, url): (&Method, &str),
    sequence: u32,
    headers: Vec<(HeaderName, String)>,
    out: &mut Vec<u8>,
) {
    let mut request = Request::builder(method.clone(), Version::V2_0);
    if let Ok(url) = rtsp_types::Url::parse(url) {
        request = request.request_uri(url);
    }
    request = request.header(headers::CSEQ, sequence.to_string());
    for (name, value) in headers {
        request = request.header(name, value);
    }
    // A vector takes everything.
    let _ = request.build(Vec::new()).write(out);
}
