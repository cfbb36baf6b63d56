//! One request of the API at a time, over HTTP/1.1.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde_json::Value;

use crate::exit::{Exit, Failure};

/// How long the server may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of an answer: a full page of members has a tenth of it.
const ANSWER_LEN_MAX: u64 = 4 << 20;

/// A session server.
#[derive(Clone, Debug)]
pub(in crate::commands) struct Server {
    /// Host and port.
    pub(in crate::commands) authority: String,
    token: Option<String>,
}

impl Server {
    /// The server at `http://host[:port]`.
    pub(in crate::commands) fn new(url: &str, token: Option<&str>) -> Result<Self, Failure> {
        let wrong = || {
            Failure::new(
                Exit::Usage,
                format!("{url:?} is no address of a session server"),
            )
            .hint("write http://host:port; https is not spoken yet")
        };
        let authority = url.strip_prefix("http://").ok_or_else(wrong)?;
        let authority = authority.trim_end_matches('/');
        let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b'@');
        if authority.is_empty() || !authority.bytes().all(plain) {
            return Err(wrong());
        }
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| {
            !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
        });
        let token = token.map(str::trim).filter(|token| !token.is_empty());
        if token.is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(Failure::new(Exit::Usage, "a token holds no spaces"));
        }
        Ok(Self {
            authority: if has_port {
                authority.to_owned()
            } else {
                format!("{authority}:80")
            },
            token: token.map(str::to_owned),
        })
    }

    pub(in crate::commands) fn get(&self, path: &str) -> Result<Value, Failure> {
        self.call("GET", path, "")
    }

    pub(in crate::commands) fn post(&self, path: &str, json: &str) -> Result<Value, Failure> {
        self.call("POST", path, json)
    }

    pub(in crate::commands) fn put(&self, path: &str, json: &str) -> Result<Value, Failure> {
        self.call("PUT", path, json)
    }

    pub(in crate::commands) fn delete(&self, path: &str) -> Result<Value, Failure> {
        self.call("DELETE", path, "")
    }

    /// A connection to it.
    pub(in crate::commands) fn connect(&self) -> Result<TcpStream, Failure> {
        let unreachable = |why: String| {
            Failure::new(
                Exit::Unreachable,
                format!("http://{}: {why}", self.authority),
            )
            .hint("`sangam serve --dev` hosts sessions; say --server for another machine")
        };
        let addresses = self.authority.to_socket_addrs();
        let addresses = addresses.map_err(|error| unreachable(error.to_string()))?;
        let mut why = "has no address".to_owned();
        for address in addresses {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => return Ok(stream),
                Err(error) => why = error.to_string(),
            }
        }
        Err(unreachable(why))
    }

    /// Asks, and once more where it is sent to.
    fn call(&self, method: &str, path: &str, body: &str) -> Result<Value, Failure> {
        let answer = self.exchange((method, path), body)?;
        match self.other(&answer) {
            Some(other) => read(&other?.exchange((method, path), body)?),
            None => read(&answer),
        }
    }

    /// The server that has what was asked of this one; `None` if that is this one.
    fn other(&self, answer: &str) -> Option<Result<Self, Failure>> {
        let problem = document(answer);
        let at = problem["at"].as_str().filter(|_| status(answer) == 307)?;
        Some(Self::new(at, self.token.as_deref()))
    }

    fn exchange(&self, (method, path): (&str, &str), body: &str) -> Result<String, Failure> {
        let mut stream = self.connect()?;
        let broken =
            |error: std::io::Error| Failure::new(Exit::Unreachable, format!("no answer: {error}"));
        stream.set_read_timeout(Some(PATIENCE)).map_err(broken)?;
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAccept: application/json\
             \r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
            self.authority,
            body.len()
        );
        if let Some(token) = &self.token {
            head += &format!("Authorization: Bearer {token}\r\n");
        }
        let request = format!("{head}\r\n{body}");
        stream.write_all(request.as_bytes()).map_err(broken)?;
        let mut answer = String::new();
        let mut stream = stream.take(ANSWER_LEN_MAX);
        stream.read_to_string(&mut answer).map_err(broken)?;
        Ok(answer)
    }
}

fn status(answer: &str) -> u16 {
    let status = answer.split(' ').nth(1).and_then(|text| text.parse().ok());
    status.unwrap_or_default()
}

fn document(answer: &str) -> Value {
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).unwrap_or_default()
}

/// The document of an answer, or the problem it tells.
fn read(answer: &str) -> Result<Value, Failure> {
    let (status, document) = (status(answer), document(answer));
    if matches!(status, 200..=299) {
        return Ok(document);
    }
    let said = document["error"].as_str().map(str::to_owned);
    let message = said.unwrap_or_else(|| format!("the server answers with status {status}"));
    let exit = match status {
        401 | 403 => Exit::Authentication,
        400 | 404 | 422 => Exit::Usage,
        0 => Exit::Unreachable,
        _ => Exit::Failure,
    };
    let hint = document["hint"].as_str().unwrap_or_default();
    Err(Failure::new(exit, message).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_understood_or_refused() {
        let authority = |url: &str| Server::new(url, None).map(|server| server.authority);
        assert_eq!(
            authority("http://a.example.org").unwrap(),
            "a.example.org:80"
        );
        assert_eq!(authority("http://[::1]:4680/").unwrap(), "[::1]:4680");
        for wrong in ["https://x", "http://", "http://a/b", "http://u@h", "a:1"] {
            assert_eq!(authority(wrong).unwrap_err().exit, Exit::Usage, "{wrong}");
        }
    }

    #[test]
    fn a_refusal_is_told_with_its_hint_and_exit_code() {
        let answer = "HTTP/1.1 403 Forbidden\r\nX: y\r\n\r\n{\"error\":\"no\",\"hint\":\"ask\"}";
        let failure = read(answer).unwrap_err();
        assert_eq!(
            (failure.exit, failure.hint.as_str()),
            (Exit::Authentication, "ask")
        );
        assert_eq!(read("").unwrap_err().exit, Exit::Unreachable);
        assert_eq!(
            read("HTTP/1.1 204 No Content\r\n\r\n").unwrap(),
            Value::Null
        );
    }
}
