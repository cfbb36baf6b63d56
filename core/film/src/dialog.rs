//! The client's half of an RTSP conversation (RFC 2326, RFC 7826): requests as bytes, answers out
//! of bytes. It holds no socket.

use std::net::SocketAddr;

use percent_encoding::percent_decode_str;
use rtsp_types::headers::{self, HeaderName};
use rtsp_types::{Message, Method, ParseError, Request, Response, StatusCode, Url, Version};

use crate::digest::{Challenge, Credentials};

/// Bytes of a server that wait to be understood: the longest interleaved packet and an answer with
/// a description.
const INBOUND_MAX: usize = (64 << 10) + 4 + (64 << 10);
/// Requests that wait for their answers.
const PENDING_MAX: usize = 64;
/// A request is asked so often at most: without credentials, by an old challenge, by a new one.
const TRIES_MAX: u8 = 3;
/// 401 Unauthorized.
const UNAUTHORIZED: u16 = 401;

/// What a server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// The answer to a request of this method.
    Answer(Answer),
    /// A packet within the connection, and its channel.
    Packet(u8, Vec<u8>),
    /// A request of the server's; what it is answered goes back by [`Dialog::outgoing`].
    Asked(Method),
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Of the request it belongs to.
    pub method: Method,
    /// 200, or what is wrong.
    pub status: u16,
    /// The words of it.
    pub reason: String,
    headers: Vec<(String, String)>,
    /// What it brings.
    pub body: Vec<u8>,
}

/// Why a conversation cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DialogError {
    /// What came is no RTSP.
    Nonsense,
    /// More came than an answer may have, or more is asked than is answered.
    TooMuch,
    /// The URL is none, or names no film.
    Url,
}

/// One conversation about one film.
#[derive(Debug)]
pub struct Dialog {
    url: Url,
    session: Option<String>,
    sequence: u32,
    pending: Vec<Pending>,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    credentials: Option<Credentials>,
    challenge: Option<Challenge>,
}

/// A request that waits for its answer.
#[derive(Debug)]
struct Pending {
    number: u32,
    asked: Asked,
    tries: u8,
    /// It said who asks.
    is_signed: bool,
}

/// What is asked.
#[derive(Clone, Debug)]
struct Asked {
    url: Url,
    method: Method,
    headers: Vec<(HeaderName, String)>,
    body: Vec<u8>,
}

impl Dialog {
    /// A conversation about `url`, such as `rtsp://127.0.0.1:8554/archive/film`. Challenges are
    /// answered with `credentials`, if there are some.
    ///
    /// # Errors
    /// [`DialogError::Url`].
    pub fn new(url: &str, credentials: Option<Credentials>) -> Result<Self, DialogError> {
        let url = Url::parse(url).map_err(|_| DialogError::Url)?;
        if url.host_str().is_none() || !matches!(url.scheme(), "rtsp" | "rtsps") {
            return Err(DialogError::Url);
        }
        Ok(Self {
            url,
            session: None,
            sequence: 0,
            pending: Vec::new(),
            inbox: Vec::new(),
            outbox: Vec::new(),
            credentials,
            challenge: None,
        })
    }

    /// What the URL says: host, and port if it names one.
    #[must_use]
    pub fn server(&self) -> (&str, Option<u16>) {
        (self.url.host_str().unwrap_or_default(), self.url.port())
    }

    /// The session that SETUP gave.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Asks by `method` about the whole film, with these headers.
    ///
    /// # Errors
    /// [`DialogError::TooMuch`] if nothing is answered.
    pub fn ask(
        &mut self,
        method: Method,
        headers: &[(HeaderName, String)],
        body: &[u8],
    ) -> Result<(), DialogError> {
        self.ask_about(self.url.clone(), method, headers, body)
    }

    /// SETUP of one track, by its URL as the description has it, absolute or not.
    ///
    /// # Errors
    /// As [`Dialog::ask`]; [`DialogError::Url`].
    pub fn set_up(
        &mut self,
        control: &str,
        base: Option<&str>,
        headers: &[(HeaderName, String)],
    ) -> Result<(), DialogError> {
        let base = base.and_then(|base| Url::parse(base).ok());
        let base = base.unwrap_or_else(|| self.url.clone());
        let url = match control {
            "" | "*" => Ok(base),
            control => base.join(control),
        };
        let url = url.map_err(|_| DialogError::Url)?;
        self.ask_about(url, Method::Setup, headers, &[])
    }

    /// What is to be sent, once.
    pub fn outgoing(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.outbox)
    }

    /// Takes bytes of the server's.
    ///
    /// # Errors
    /// [`DialogError::TooMuch`].
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), DialogError> {
        self.inbox.extend_from_slice(bytes);
        match self.inbox.len() > INBOUND_MAX {
            true => Err(DialogError::TooMuch),
            false => Ok(()),
        }
    }

    /// What the server said next; `None` until more comes. A challenge that can be answered is.
    ///
    /// # Errors
    /// [`DialogError::Nonsense`].
    pub fn heard(&mut self) -> Result<Option<Said>, DialogError> {
        // Each turn takes something out of what came.
        while !self.inbox.is_empty() {
            let (message, used) = match Message::<Vec<u8>>::parse(&self.inbox) {
                Ok(parsed) => parsed,
                Err(ParseError::Incomplete(_)) => return Ok(None),
                Err(ParseError::Error) => return Err(DialogError::Nonsense),
            };
            self.inbox.drain(..used);
            match message {
                Message::Data(data) => {
                    return Ok(Some(Said::Packet(data.channel_id(), data.into_body())));
                }
                Message::Request(request) => {
                    self.answer(&request);
                    return Ok(Some(Said::Asked(request.method().clone())));
                }
                Message::Response(response) => {
                    let (answer, pending) = self.answered(&response)?;
                    if !self.signs(&answer, pending) {
                        self.learn(&answer);
                        return Ok(Some(Said::Answer(answer)));
                    }
                }
            }
        }
        Ok(None)
    }

    /// An answer and the request that it belongs to.
    fn answered(&mut self, response: &Response<Vec<u8>>) -> Result<(Answer, Pending), DialogError> {
        let number = response.header(&headers::CSEQ);
        let number = number.and_then(|number| number.as_str().trim().parse().ok());
        let place = |pending: &Pending| Some(pending.number) == number;
        let place = self.pending.iter().position(place);
        let pending = self.pending.remove(place.ok_or(DialogError::Nonsense)?);
        let all = response.headers();
        let all = all.map(|(name, value)| (name.to_string(), value.to_string()));
        let answer = Answer {
            method: pending.asked.method.clone(),
            status: response.status().into(),
            reason: response.reason_phrase().to_owned(),
            headers: all.collect(),
            body: response.body().clone(),
        };
        Ok((answer, pending))
    }

    /// Asks again by a server's challenge; false if that is in vain, or this is none.
    fn signs(&mut self, answer: &Answer, pending: Pending) -> bool {
        if answer.status != UNAUTHORIZED || self.credentials.is_none() {
            return false;
        }
        let challenge = answer.header("WWW-Authenticate").and_then(Challenge::read);
        let Some(challenge) = challenge else {
            return false;
        };
        // A password that is wrong stays wrong.
        let is_vain = pending.is_signed && !challenge.is_stale || pending.tries >= TRIES_MAX;
        self.challenge = Some(challenge);
        if !is_vain {
            self.send(pending.asked, pending.tries);
        }
        !is_vain
    }

    fn learn(&mut self, answer: &Answer) {
        if answer.method == Method::Setup && answer.is_ok() && self.session.is_none() {
            let session = answer.header("Session");
            let name = session.and_then(|session| session.split(';').next());
            self.session = name.map(|name| name.trim().to_owned());
        }
    }

    /// RFC 2326 section 10.9: nobody who asks is left without an answer.
    fn answer(&mut self, request: &Request<Vec<u8>>) {
        let status = match request.method() {
            Method::Options | Method::PlayNotify | Method::GetParameter => StatusCode::Ok,
            _ => StatusCode::NotImplemented,
        };
        let response = Response::builder(request.version(), status);
        let number = request.header(&headers::CSEQ);
        let number = number.map_or("0", |number| number.as_str());
        let response = response.header(headers::CSEQ, number).empty();
        // Writing to memory does not fail.
        let _ = response.write(&mut self.outbox);
    }

    fn ask_about(
        &mut self,
        url: Url,
        method: Method,
        headers: &[(HeaderName, String)],
        body: &[u8],
    ) -> Result<(), DialogError> {
        if self.pending.len() >= PENDING_MAX {
            return Err(DialogError::TooMuch);
        }
        let asked = Asked {
            url,
            method,
            headers: headers.to_vec(),
            body: body.to_vec(),
        };
        self.send(asked, 0);
        Ok(())
    }

    /// Sends what was tried so often before.
    fn send(&mut self, asked: Asked, tries: u8) {
        self.sequence += 1;
        let mut request = Request::builder(asked.method.clone(), Version::V1_0)
            .request_uri(asked.url.clone())
            .header(headers::CSEQ, self.sequence.to_string())
            .header(headers::USER_AGENT, "sangam");
        if let Some(session) = &self.session {
            request = request.header(headers::SESSION, session.as_str());
        }
        let mut is_signed = false;
        if let (Some(challenge), Some(who)) = (&mut self.challenge, &self.credentials) {
            let answer = challenge.answer(who, (&asked.method, &asked.url));
            request = request.header(headers::AUTHORIZATION, answer);
            is_signed = true;
        }
        for (name, value) in &asked.headers {
            request = request.header(name.clone(), value.as_str());
        }
        let request = request.build(asked.body.clone());
        // Writing to memory does not fail.
        let _ = request.write(&mut self.outbox);
        self.pending.push(Pending {
            number: self.sequence,
            asked,
            tries: tries + 1,
            is_signed,
        });
    }
}

impl Answer {
    /// Whether it is no error.
    #[must_use]
    pub const fn is_ok(&self) -> bool {
        matches!(self.status, 200..=299)
    }

    /// The value of a header, whatever its letters' case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// The same film by way of another node.
///
/// # Errors
/// [`DialogError::Url`].
pub fn at_front(url: &str, front: SocketAddr) -> Result<String, DialogError> {
    let mut url = Url::parse(url).map_err(|_| DialogError::Url)?;
    let moved = url.set_ip_host(front.ip());
    let moved = moved.and_then(|()| url.set_port(Some(front.port())));
    moved.map_err(|()| DialogError::Url)?;
    Ok(url.into())
}

/// A URL without who asks, and who that is: `rtsp://NAME:PASSWORD@HOST/...`.
///
/// # Errors
/// [`DialogError::Url`].
pub fn split_login(url: &str) -> Result<(String, Option<(String, String)>), DialogError> {
    let mut url = Url::parse(url).map_err(|_| DialogError::Url)?;
    let (user, password) = (url.username(), url.password().unwrap_or_default());
    if user.is_empty() {
        return Ok((url.into(), None));
    }
    let login = (decoded(user)?, decoded(password)?);
    let cleared = url.set_username("");
    let cleared = cleared.and_then(|()| url.set_password(None));
    cleared.map_err(|()| DialogError::Url)?;
    Ok((url.into(), Some(login)))
}

/// A part of a URL as it is meant (RFC 3986 section 2.1).
fn decoded(text: &str) -> Result<String, DialogError> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|_| DialogError::Url)
}

impl core::fmt::Display for DialogError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Nonsense => "what the server said is no RTSP",
            Self::TooMuch => "the server says more than an answer has, or answers nothing",
            Self::Url => "no URL of a film: rtsp://HOST[:PORT]/archive/FILM",
        })
    }
}

impl core::error::Error for DialogError {}
