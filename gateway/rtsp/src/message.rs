//! Requests in what a client sends, and answers (RFC 2326 sections 4 to 7).

use rtsp_types::headers::{self, HeaderName};
use rtsp_types::{Message, Method, ParseError, Response, StatusCode, Version};

use crate::date;
use crate::limits::REQUEST_MAX;

/// What stands first in a client's bytes, and how long it is.
#[derive(Debug)]
pub(crate) enum Found {
    /// A request.
    Request(Request, usize),
    /// An interleaved packet, or an answer to nothing.
    Other(usize),
    /// It is not whole.
    More,
    /// It is nothing.
    Broken,
}

/// A request.
#[derive(Debug)]
pub(crate) struct Request {
    /// What is asked for.
    pub(crate) method: Method,
    /// RFC 2326 section 12.17: the number of the question, repeated in the answer.
    pub(crate) sequence: Option<String>,
    /// The version that it speaks; `None` if it is not known here.
    pub(crate) version: Option<Version>,
    /// The session that it names, without parameters.
    pub(crate) session: Option<String>,
    /// The path of its URL without the first slash; empty for `*`.
    pub(crate) path: String,
    /// Its URL.
    pub(crate) url: String,
    headers: Vec<(String, String)>,
    /// Its body, which has no more bytes than a request.
    pub(crate) body: Vec<u8>,
}

/// The first message of `bytes`, of which `seen` bytes were looked through before.
pub(crate) fn find(bytes: &[u8], seen: &mut usize) -> Found {
    let blank = bytes.iter().take_while(|byte| b"\r\n".contains(byte));
    let blank = blank.count();
    match bytes.get(blank) {
        None => return Found::Other(blank),
        Some(_) if blank > 0 => return Found::Other(blank),
        // RFC 2326 section 10.12: dollar, channel, length.
        Some(b'$') => {
            let Some([_, _, high, low]) = bytes.first_chunk() else {
                return Found::More;
            };
            let len = 4 + usize::from(u16::from_be_bytes([*high, *low]));
            return match bytes.len() >= len {
                true => Found::Other(len),
                false => Found::More,
            };
        }
        Some(_) => {}
    }
    let more = match bytes.len() >= REQUEST_MAX {
        true => Found::Broken,
        false => Found::More,
    };
    // A request that comes byte by byte is looked through once.
    let from = seen.saturating_sub(3).min(bytes.len());
    if !bytes[from..].windows(4).any(|four| four == b"\r\n\r\n") {
        *seen = bytes.len();
        return more;
    }
    let other = other_version(bytes);
    let is_known = other.is_none();
    match Message::<&[u8]>::parse(other.as_deref().unwrap_or(bytes)) {
        Ok((Message::Request(request), len)) if len <= REQUEST_MAX => {
            let mut request = Request::new(&request);
            request.version = request.version.filter(|_| is_known);
            Found::Request(request, len)
        }
        Ok((_, len)) if len <= REQUEST_MAX => Found::Other(len),
        Err(ParseError::Incomplete(_)) => more,
        Ok(_) | Err(_) => Found::Broken,
    }
}

/// A request of a version that the library does not know, as if it were one that it knows: its
/// number is needed for the answer (RFC 7826 section 17.5.6).
fn other_version(bytes: &[u8]) -> Option<Vec<u8>> {
    const KNOWN: [&[u8]; 2] = [b"1.0", b"2.0"];
    let line = bytes.iter().take_while(|byte| **byte != b'\r').count();
    let (at, version) = (line.checked_sub(3)?, bytes.get(..line)?.last_chunk::<3>()?);
    let is_version = matches!(version, [b'0'..=b'9', b'.', b'0'..=b'9']);
    let is_request = bytes.get(..at)?.ends_with(b" RTSP/");
    if !is_version || !is_request || KNOWN.contains(&&version[..]) {
        return None;
    }
    let mut changed = bytes.to_vec();
    changed.get_mut(at..line)?.copy_from_slice(b"2.0");
    Some(changed)
}

impl Request {
    fn new(request: &rtsp_types::Request<&[u8]>) -> Self {
        let text = |name| request.header(name).map(|value| value.as_str().to_owned());
        let url = request.request_uri();
        let path = url.map_or("", |url| url.path());
        let all = request.headers();
        let all = all.map(|(name, value)| (name.as_str().to_owned(), value.as_str().to_owned()));
        Self {
            method: request.method().clone(),
            sequence: text(&headers::CSEQ).filter(|text| text.parse::<u32>().is_ok()),
            version: Some(request.version()),
            session: text(&headers::SESSION).map(|text| {
                let name = text.split(';').next().unwrap_or_default();
                name.trim().to_owned()
            }),
            path: decode(path.trim_start_matches('/')),
            url: url.map(ToString::to_string).unwrap_or_default(),
            headers: all.collect(),
            body: request.body().to_vec(),
        }
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &HeaderName) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(known, _)| known.eq_ignore_ascii_case(name.as_str()));
        found.map(|(_, value)| value.as_str())
    }

    /// The session that it names, without parameters.
    pub(crate) fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Whether it has a body.
    pub(crate) fn has_body(&self) -> bool {
        !self.body.is_empty()
    }

    /// Whether it speaks RTSP 2.0.
    pub(crate) fn is_second(&self) -> bool {
        self.version == Some(Version::V2_0)
    }

    /// The version of its answer: the highest, where its own is not known.
    pub(crate) fn spoken(&self) -> Version {
        self.version.unwrap_or(Version::V2_0)
    }
}

/// RFC 3986 section 2.1; what is no UTF-8 names nothing.
fn decode(path: &str) -> String {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, tail @ ..] = rest {
        let digit = |at: usize| tail.get(at).and_then(|digit| (*digit as char).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high << 4 | low) as u8);
                rest = &tail[2..];
            }
            _ => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(out).unwrap_or_default()
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    /// How it went.
    pub(crate) status: StatusCode,
    /// What stands in the headers.
    pub(crate) headers: Vec<(HeaderName, String)>,
    /// What it must know who asks (RFC 2326 section 12.44).
    pub(crate) challenges: Vec<String>,
    /// A body and its type.
    pub(crate) body: Option<(&'static str, String)>,
}

impl Answer {
    /// Without anything.
    pub(crate) fn new(status: StatusCode) -> Self {
        Self {
            status,
            headers: Vec::new(),
            challenges: Vec::new(),
            body: None,
        }
    }

    /// It went well.
    pub(crate) fn ok() -> Self {
        Self::new(StatusCode::Ok)
    }

    /// With one header more.
    pub(crate) fn with(mut self, name: HeaderName, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Appends its bytes in a version, with the number of its question.
    pub(crate) fn write(self, (version, sequence): (Version, Option<&str>), out: &mut Vec<u8>) {
        let mut answer = Response::builder(version, self.status);
        if let Some(sequence) = sequence {
            answer = answer.header(headers::CSEQ, sequence);
        }
        answer = answer.header(
            headers::SERVER,
            concat!("sangam/", env!("CARGO_PKG_VERSION")),
        );
        if version == Version::V2_0 {
            answer = answer.header(headers::DATE, date::now());
        }
        for (name, value) in self.headers {
            answer = answer.header(name, value);
        }
        let (kind, body) = self.body.unwrap_or_default();
        if !kind.is_empty() {
            answer = answer.header(headers::CONTENT_TYPE, kind);
        }
        let mut bytes = Vec::new();
        // A vector takes everything.
        let _ = answer.build(body).write(&mut bytes);
        // Each has a line of its own: what stands behind a comma many players do not see.
        let line = bytes.windows(2).position(|two| two == b"\r\n");
        let (first, rest) = bytes.split_at(line.map_or(0, |line| line + 2));
        out.extend(first);
        for challenge in self.challenges {
            out.extend(format!("WWW-Authenticate: {challenge}\r\n").as_bytes());
        }
        out.extend(rest);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request(text: &str) -> Request {
        match find(text.as_bytes(), &mut 0) {
            Found::Request(request, len) if len == text.len() => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_request_tells_what_it_wants() {
        let text = "PLAY rtsp://a:8554/archive/two%20words/ RTSP/1.0\r\nCSeq: 7\r\n\
                    session: 12ab;timeout=60\r\nRange: npt=1-\r\n\r\n";
        let request = request(text);
        assert_eq!(request.method, Method::Play);
        assert_eq!(request.sequence.as_deref(), Some("7"));
        assert_eq!(request.path, "archive/two words/");
        assert_eq!(request.session(), Some("12ab"));
        assert_eq!(request.version, Some(Version::V1_0));
        assert_eq!(request.header(&headers::RANGE), Some("npt=1-"));
    }

    #[test]
    fn a_request_of_another_version_is_one() {
        for (version, known) in [
            ("1.0", Some(Version::V1_0)),
            ("2.0", Some(Version::V2_0)),
            ("3.0", None),
            ("1.1", None),
        ] {
            let found = request(&format!("OPTIONS * RTSP/{version}\r\nCSeq: 7\r\n\r\n"));
            assert_eq!(
                (found.version, found.sequence.as_deref()),
                (known, Some("7"))
            );
        }
    }

    #[test]
    fn a_request_may_come_byte_by_byte() {
        let text = b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\nContent-Length: 3\r\n\r\nabc";
        let mut seen = 0;
        for len in 1..text.len() {
            assert!(
                matches!(find(&text[..len], &mut seen), Found::More),
                "{len}"
            );
        }
        assert!(matches!(find(text, &mut seen), Found::Request(_, len) if len == text.len()));
    }

    #[test]
    fn packets_blank_lines_and_answers_are_passed_over() {
        for (bytes, len) in [
            (&b"$\x00\x00\x02abOPTIONS"[..], 6),
            (b"\r\n\r\nOPTIONS", 4),
            (b"RTSP/1.0 200 OK\r\nCSeq: 1\r\n\r\n", 28),
        ] {
            let found = find(bytes, &mut 0);
            assert!(
                matches!(found, Found::Other(found) if found == len),
                "{found:?}"
            );
        }
        assert!(matches!(find(b"$\x00\xff\xffab", &mut 0), Found::More));
    }

    #[test]
    fn what_is_no_request_is_broken() {
        let long = format!("OPTIONS * RTSP/1.0\r\nA: {}", "b".repeat(REQUEST_MAX));
        let body = format!("OPTIONS * RTSP/1.0\r\nContent-Length: 99999\r\n\r\n{long}");
        for text in [
            "GET / HTTP/1.1\r\n\r\n",
            "PLAY not-a-url RTSP/1.0\r\n\r\n",
            "PLAY rtsp://a RTSP/1.0\r\nContent-Length: -1\r\n\r\n",
            "\u{0}\u{1}\r\n\r\n",
            &long,
            &body,
        ] {
            let found = find(text.as_bytes(), &mut 0);
            assert!(matches!(found, Found::Broken), "{text:.60}: {found:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(
            bytes: Vec<u8>,
            headers in "([A-Za-z]{1,9}: .{0,20}\r\n){0,4}",
        ) {
            let _ = find(&bytes, &mut 0);
            let text = format!("PLAY rtsp://a/%{headers} RTSP/1.0\r\n{headers}\r\n");
            let _ = find(text.as_bytes(), &mut 0);
        }
    }
}
