//! The little of HTTP/1.1 that reading a broker's state takes (RFC 9112).

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use sangam_emulator::Site;

const PATIENCE: Duration = Duration::from_secs(2);
/// More than any broker's metrics.
const BODY_MAX: u64 = 16 << 20;

/// Status and body of a GET, inside a site if one is given.
///
/// # Errors
/// Those of the connection; `InvalidData` if the answer is no HTTP.
pub(super) fn get(
    site: Option<&Site>,
    address: SocketAddr,
    path: &str,
) -> io::Result<(u16, String)> {
    exchange(site, address, &format!("GET {path} HTTP/1.0\r\n"), "")
}

/// Status and body of a request by this verb that brings something of this kind.
///
/// # Errors
/// As [`get`].
pub(super) fn send(
    verb: &str,
    site: Option<&Site>,
    (address, path): (SocketAddr, &str),
    (kind, body): (&str, &str),
) -> io::Result<(u16, String)> {
    let len = body.len();
    let head =
        format!("{verb} {path} HTTP/1.0\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\n");
    exchange(site, address, &head, body)
}

fn exchange(
    site: Option<&Site>,
    address: SocketAddr,
    head: &str,
    body: &str,
) -> io::Result<(u16, String)> {
    let connect = || TcpStream::connect_timeout(&address, PATIENCE);
    let mut stream = site.map_or_else(connect, |site| site.enter(connect))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // HTTP/1.0 keeps the answer free of chunks and ends it with the connection.
    write!(
        stream,
        "{head}Host: {address}\r\nConnection: close\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.take(BODY_MAX).read_to_string(&mut answer)?;
    parse(&answer).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no HTTP answer"))
}

/// Status and body of an answer; `None` if it is no HTTP.
pub(crate) fn parse(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok()?;
    Some((status, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_and_body_are_found() {
        let answer = "HTTP/1.0 200 OK\r\ncontent-type: text/plain\r\n\r\nready\n";
        assert_eq!(parse(answer), Some((200, "ready\n".to_owned())));
        assert_eq!(parse("SSH-2.0-OpenSSH\r\n"), None);
    }
}
