//! The HTTP/1.1 in front of a WebSocket (RFC 6455 section 4) and of a tunnel through a proxy
//! (RFC 9110 section 9.3.6).

use aws_lc_rs::{digest, rand};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::error::FramedError;

/// Bytes of a request or answer, bodies aside: what browsers and proxies send fits many times.
pub(super) const HEAD_MAX: usize = 8 << 10;
/// Headers of it.
const HEADERS_MAX: usize = 64;
/// Where WebSocket clients connect.
pub(super) const PATH: &str = "/v1/connect";
/// The one subprotocol there is; nobody has to ask for it.
const SUBPROTOCOL: &str = "sangam";
/// RFC 6455 section 1.3.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A request that is not granted, as the answer says it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Denial {
    status: &'static str,
    header: &'static str,
    reason: &'static str,
}

/// Where the head of a message ends, if it is there; `searched` bytes are known not to hold it.
pub(super) fn end(bytes: &[u8], searched: usize) -> Option<usize> {
    let from = searched.saturating_sub(3);
    let found = bytes[from..]
        .windows(4)
        .position(|four| four == b"\r\n\r\n");
    found.map(|place| from + place + 4)
}

/// The answer to a client's request for a WebSocket, which pages of these origins may make.
pub(super) fn upgrade(head: &[u8], origins: &[String]) -> Result<Vec<u8>, Denial> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => return Err(TOO_LONG),
        _ => return Err(deny("400 Bad Request", "", "this is no HTTP request")),
    }
    let path = request.path.unwrap_or_default();
    if path.split('?').next() != Some(PATH) {
        return Err(deny(
            "404 Not Found",
            "",
            "WebSockets connect at /v1/connect",
        ));
    }
    if request.method != Some("GET") {
        let allow = "Allow: GET\r\n";
        return Err(deny(
            "405 Method Not Allowed",
            allow,
            "a WebSocket begins with GET",
        ));
    }
    let headers = &*request.headers;
    if !has_token(headers, "upgrade", "websocket") || !has_token(headers, "connection", "upgrade") {
        let upgrade = "Upgrade: websocket\r\nConnection: upgrade\r\n";
        return Err(deny(
            "426 Upgrade Required",
            upgrade,
            "this address is for WebSockets",
        ));
    }
    if value(headers, "sec-websocket-version") != Some("13") {
        let version = "Sec-WebSocket-Version: 13\r\n";
        return Err(deny("426 Upgrade Required", version, "the version is 13"));
    }
    if !is_welcome(headers, origins) {
        let reason = "pages of this origin may not connect here; see listen.ws_origins";
        return Err(deny("403 Forbidden", "", reason));
    }
    let key = value(headers, "sec-websocket-key").filter(|key| key.len() == 24);
    let Some(key) = key else {
        return Err(deny("400 Bad Request", "", "Sec-WebSocket-Key is missing"));
    };
    let protocol = match has_token(headers, "sec-websocket-protocol", SUBPROTOCOL) {
        true => format!("Sec-WebSocket-Protocol: {SUBPROTOCOL}\r\n"),
        false => String::new(),
    };
    let accept = accept(key);
    Ok(format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n{protocol}\r\n"
    )
    .into_bytes())
}

/// What a request earns whose head does not end.
pub(super) const TOO_LONG: Denial = deny(
    "431 Request Header Fields Too Large",
    "",
    "the request is too long",
);

impl Denial {
    /// The whole answer.
    pub(super) fn answer(&self) -> Vec<u8> {
        let Self {
            status,
            header,
            reason,
        } = self;
        let len = reason.len() + 1;
        format!(
            "HTTP/1.1 {status}\r\n{header}Content-Type: text/plain; charset=utf-8\r\n\
             Content-Length: {len}\r\nConnection: close\r\n\r\n{reason}\n"
        )
        .into_bytes()
    }

    pub(super) fn error(&self) -> FramedError {
        FramedError::Http(format!("{}: {}", self.status, self.reason))
    }
}

/// A client's request for a WebSocket, and what the answer has to say for it.
pub(super) fn request(authority: &str, path: &str) -> Result<(Vec<u8>, String), FramedError> {
    let mut nonce = [0; 16];
    rand::fill(&mut nonce).map_err(|_| {
        FramedError::Io(std::io::Error::other("the system gives no random numbers"))
    })?;
    let key = BASE64.encode(nonce);
    let text = format!(
        "GET {path} HTTP/1.1\r\nHost: {authority}\r\nUpgrade: websocket\r\n\
         Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n"
    );
    Ok((text.into_bytes(), accept(&key)))
}

/// Checks a server's answer against what [`request`] has said.
pub(super) fn check_answer(head: &[u8], accept: &str) -> Result<(), FramedError> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let (status, headers) = answer(head, &mut headers)?;
    let wrong = |what: &str| Err(FramedError::Http(what.to_owned()));
    if status.code != 101 {
        return wrong(&format!(
            "the server answers {status} instead of opening a WebSocket; check address and path"
        ));
    }
    if !has_token(headers, "upgrade", "websocket")
        || value(headers, "sec-websocket-accept") != Some(accept)
    {
        return wrong("the server's answer opens no WebSocket; something between rewrites HTTP");
    }
    Ok(())
}

/// The request for a tunnel to `authority` through a proxy.
pub(super) fn connect(authority: &str, credentials: Option<&str>) -> Vec<u8> {
    let authorization = credentials.map_or_else(String::new, |credentials| {
        // RFC 7617.
        let word = BASE64.encode(credentials);
        format!("Proxy-Authorization: Basic {word}\r\n")
    });
    format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{authorization}\r\n").into_bytes()
}

/// Checks a proxy's answer to [`connect`].
pub(super) fn check_tunnel(head: &[u8]) -> Result<(), FramedError> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let (status, _) = answer(head, &mut headers)?;
    let advice = match status.code {
        200..300 => return Ok(()),
        403 => "it forbids this address or port",
        407 => "it wants a user and password: http://USER:PASSWORD@HOST:PORT",
        _ => "it could not reach the broker",
    };
    Err(FramedError::Http(format!(
        "the proxy answers {status}: {advice}"
    )))
}

struct Status {
    code: u16,
    reason: String,
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.code, self.reason)
    }
}

type Headers<'a> = [httparse::Header<'a>];

fn answer<'h, 'b: 'h>(
    head: &'b [u8],
    headers: &'h mut Headers<'b>,
) -> Result<(Status, &'h Headers<'b>), FramedError> {
    let mut answer = httparse::Response::new(headers);
    match answer.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        _ => return Err(FramedError::Http("the answer is no HTTP".to_owned())),
    }
    let status = Status {
        code: answer.code.unwrap_or_default(),
        reason: answer.reason.unwrap_or_default().to_owned(),
    };
    Ok((status, answer.headers))
}

const fn deny(status: &'static str, header: &'static str, reason: &'static str) -> Denial {
    Denial {
        status,
        header,
        reason,
    }
}

/// RFC 6455 section 10.2: a browser tells whose page connects, which the page cannot change.
fn is_welcome(headers: &Headers<'_>, origins: &[String]) -> bool {
    let mut told = headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case("origin"));
    let known = |origin: &[u8]| {
        let is = |one: &String| one.as_bytes().eq_ignore_ascii_case(origin);
        origins.iter().any(is)
    };
    origins.is_empty() || told.all(|header| known(header.value))
}

fn accept(key: &str) -> String {
    let text = [key.as_bytes(), GUID].concat();
    // RFC 6455 section 10.8: SHA-1 guards nothing here.
    BASE64.encode(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &text))
}

fn value<'a>(headers: &'a Headers<'_>, name: &str) -> Option<&'a str> {
    let mut values = headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case(name));
    core::str::from_utf8(values.next()?.value).ok()
}

/// Whether one of the headers of this name lists a token.
fn has_token(headers: &Headers<'_>, name: &str, token: &str) -> bool {
    headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case(name))
        .filter_map(|header| core::str::from_utf8(header.value).ok())
        .flat_map(|value| value.split(','))
        .any(|word| word.trim().eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "GET /v1/connect?x=1 HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\
        \r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

    #[test]
    fn the_example_of_rfc_6455_is_accepted() {
        let answer = String::from_utf8(upgrade(GOOD.as_bytes(), &[]).unwrap()).unwrap();
        assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
        assert!(answer.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
        assert!(!answer.contains("Sec-WebSocket-Protocol"));
    }

    #[test]
    fn what_is_no_websocket_is_told_what_to_do() {
        for (from, to, status) in [
            ("/v1/connect", "/", "404"),
            ("GET", "POST", "405"),
            ("Upgrade: websocket", "Upgrade: h2c", "426"),
            ("Version: 13", "Version: 8", "426"),
            ("Key: dGhlIHNhbXBsZSBub25jZQ==", "Key: short", "400"),
            ("HTTP/1.1", "PTTH/1.1", "400"),
        ] {
            let denial = upgrade(GOOD.replacen(from, to, 1).as_bytes(), &[]).unwrap_err();
            let answer = String::from_utf8(denial.answer()).unwrap();
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{answer}"
            );
        }
        let many = format!("{}{}\r\n", &GOOD[..GOOD.len() - 2], "A: b\r\n".repeat(100));
        assert_eq!(upgrade(many.as_bytes(), &[]), Err(TOO_LONG));
    }

    #[test]
    fn pages_of_other_origins_are_sent_away() {
        let origins = ["https://meet.example.org".to_owned()];
        let from = |origin: &str| {
            let head = GOOD.replacen("\r\n\r\n", &format!("\r\nOrigin: {origin}\r\n\r\n"), 1);
            upgrade(head.as_bytes(), &origins).map(|_| ())
        };
        assert_eq!(from("https://meet.example.org"), Ok(()));
        assert_eq!(from("HTTPS://Meet.Example.org"), Ok(()));
        for other in [
            "https://meet.example.org.evil",
            "http://meet.example.org",
            "null",
        ] {
            let denial = from(other).unwrap_err();
            let answer = String::from_utf8(denial.answer()).unwrap();
            assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
            assert!(answer.contains("listen.ws_origins"), "{answer}");
        }
        // A second one does not help.
        assert!(from("https://meet.example.org\r\nOrigin: null").is_err());
        // Who is no browser names none.
        upgrade(GOOD.as_bytes(), &origins).unwrap();
    }

    #[test]
    fn an_answer_has_to_fit_its_request() {
        let (asked, accept) = request("[::1]:80", PATH).unwrap();
        let answer = upgrade(&asked, &[]).unwrap();
        check_answer(&answer, &accept).unwrap();
        let error = check_answer(&answer, "other").unwrap_err();
        assert!(error.to_string().contains("rewrites"), "{error}");
        let error = check_answer(b"HTTP/1.1 502 Bad Gateway\r\n\r\n", &accept).unwrap_err();
        assert!(error.to_string().contains("502 Bad Gateway"), "{error}");
        assert!(check_answer(b"SSH-2.0\r\n\r\n", &accept).is_err());
    }

    #[test]
    fn a_proxy_is_asked_and_understood() {
        let asked = String::from_utf8(connect("b:1", Some("anna:secret"))).unwrap();
        assert!(asked.contains("Basic YW5uYTpzZWNyZXQ=\r\n\r\n"), "{asked}");
        check_tunnel(b"HTTP/1.0 200 OK\r\nVia: x\r\n\r\n").unwrap();
        let error = check_tunnel(b"HTTP/1.1 407 No\r\n\r\n").unwrap_err();
        assert!(error.to_string().contains("password"), "{error}");
    }

    #[test]
    fn the_end_of_a_head_is_found_across_reads() {
        let head = b"a\r\n\r\nrest";
        assert_eq!(end(head, 0), Some(5));
        assert_eq!(end(head, 4), Some(5));
        assert_eq!(end(&head[..4], 0), None);
    }
}
