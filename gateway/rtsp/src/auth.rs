//! Who may watch: digest authentication (RFC 7616), by SHA-256 and, for the players that know
//! nothing else, MD5.

use std::fmt;
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::{digest, hmac, rand};
use sangam_model::Time;

use rtsp_types::headers;
use rtsp_types::{Method, StatusCode};

use crate::md5;
use crate::message::{Answer, Request};
use crate::turn::Engine;

const REALM: &str = "sangam";
/// A challenge is worth an answer for so long; then there is another.
const NONCE_AGE: Duration = Duration::from_secs(300);
/// Wrong passwords of one connection.
const FAILURES_MAX: u32 = 8;
/// Parameters of an answer that are looked at.
const PARAMETERS_MAX: usize = 16;
const ALGORITHMS: [Algorithm; 2] = [Algorithm::Sha256, Algorithm::Md5];

/// A name and its password.
#[derive(Clone)]
pub struct Credentials {
    /// The name, without colon or quotation mark.
    pub user: String,
    /// The password.
    pub password: String,
}

/// Challenges clients, and judges their answers.
pub(crate) struct Guard {
    credentials: Credentials,
    key: hmac::Key,
}

/// What is thought of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It knows the password.
    Granted,
    /// It did not try.
    Silent,
    /// It knows the password, and the challenge is old.
    Stale,
    /// It does not.
    Wrong,
}

/// What digests are made by (RFC 7616 section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// SHA-256.
    Sha256,
    /// MD5, for those that know nothing else.
    Md5,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl Guard {
    /// A guard whose challenges nobody else makes; `None` if the system gives no randomness.
    pub(crate) fn new(credentials: Credentials) -> Option<Self> {
        let mut secret = [0; 32];
        rand::fill(&mut secret).ok()?;
        Some(Self {
            credentials,
            key: hmac::Key::new(hmac::HMAC_SHA256, &secret),
        })
    }

    /// Headers for a connection, one for each algorithm. The best comes first, as RFC 7616 section
    /// 3.7 wants it; players that know MD5 only take the last.
    pub(crate) fn challenges(&self, connection: u64, (now, stale): (Time, bool)) -> Vec<String> {
        let nonce = self.nonce(connection, now.as_micros() / 1_000_000);
        let stale = if stale { ", stale=true" } else { "" };
        let challenge = |algorithm: Algorithm| {
            let name = algorithm.name();
            format!("Digest realm=\"{REALM}\", nonce=\"{nonce}\", algorithm={name}{stale}")
        };
        ALGORITHMS.map(challenge).into()
    }

    /// Judges a request of a connection.
    pub(crate) fn judge(&self, connection: u64, request: &Request, now: Time) -> Verdict {
        let Some(header) = request.header(&headers::AUTHORIZATION) else {
            return Verdict::Silent;
        };
        match self.look(connection, request, (header, now)) {
            Some(true) => Verdict::Granted,
            Some(false) => Verdict::Stale,
            None => Verdict::Wrong,
        }
    }

    /// Whether the challenge is fresh; `None` if anything else is wrong.
    fn look(
        &self,
        connection: u64,
        request: &Request,
        (header, now): (&str, Time),
    ) -> Option<bool> {
        let found = parameters(header)?;
        let get = |name: &str| {
            let mut found = found.iter();
            let found = found.find(|(known, _)| known.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.as_str())
        };
        let Credentials { user, password } = &self.credentials;
        let (uri, nonce) = (get("uri")?, get("nonce")?);
        let algorithm = get("algorithm").unwrap_or("MD5");
        let mut algorithms = ALGORITHMS.iter();
        let algorithm = algorithms.find(|known| known.name().eq_ignore_ascii_case(algorithm))?;
        let made = nonce
            .get(..16)
            .and_then(|time| u64::from_str_radix(time, 16).ok())?;
        let own = self.nonce(connection, made);
        let is_own = verify_slices_are_equal(own.as_bytes(), nonce.as_bytes()).is_ok();
        // Some name the path only.
        let is_about = request
            .url
            .trim_end_matches('/')
            .ends_with(uri.trim_end_matches('/'));
        if !is_own || !is_about || uri.is_empty() || get("realm")? != REALM {
            return None;
        }
        let who = algorithm.hash(&format!("{user}:{REALM}:{password}"));
        let what = algorithm.hash(&format!("{}:{uri}", <&str>::from(&request.method)));
        // RFC 7616 section 3.4.1; without `qop` as RFC 2069 has it.
        let expected = match get("qop") {
            Some("auth") => {
                let (count, own) = (get("nc")?, get("cnonce")?);
                algorithm.hash(&format!("{who}:{nonce}:{count}:{own}:auth:{what}"))
            }
            Some(_) => return None,
            None => algorithm.hash(&format!("{who}:{nonce}:{what}")),
        };
        let answer = get("response")?.to_ascii_lowercase();
        verify_slices_are_equal(expected.as_bytes(), answer.as_bytes()).ok()?;
        verify_slices_are_equal(user.as_bytes(), get("username")?.as_bytes()).ok()?;
        let age = (now.as_micros() / 1_000_000).checked_sub(made)?;
        Some(age < NONCE_AGE.as_secs())
    }

    /// When it was made, and a signature that binds it to its connection.
    fn nonce(&self, connection: u64, made: u64) -> String {
        let signed = [made.to_be_bytes(), connection.to_be_bytes()].concat();
        let tag = hmac::sign(&self.key, &signed);
        format!("{made:016x}{}", hex(&tag.as_ref()[..16]))
    }
}

impl Engine {
    /// What a request is answered that must not go further.
    pub(crate) fn turn_away(
        &mut self,
        number: u64,
        request: &Request,
        now: Time,
    ) -> Option<Answer> {
        // Who may publish may not watch for it.
        let publishes = request.method == Method::Announce
            || self.sets_up_feed(number, request)
            || self.feed(number, request).is_some();
        let guard = match publishes {
            true => self.publishers.as_ref()?,
            false => self.guard.as_ref()?,
        };
        // Players ask what there is before they are asked who they are.
        if request.method == Method::Options {
            return None;
        }
        let verdict = guard.judge(number, request, now);
        if verdict == Verdict::Granted {
            return None;
        }
        let connection = self.connections.get_mut(&number)?;
        if verdict == Verdict::Wrong {
            self.counts.unauthorized.one();
            connection.failures += 1;
            connection.is_closing = connection.failures >= FAILURES_MAX;
        }
        let mut answer = Answer::new(StatusCode::Unauthorized);
        answer.challenges = guard.challenges(number, (now, verdict == Verdict::Stale));
        Some(answer)
    }
}

impl Algorithm {
    const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "SHA-256",
            Self::Md5 => "MD5",
        }
    }

    /// The digest of a text, in hexadecimal digits.
    #[must_use]
    pub fn hash(self, text: &str) -> String {
        match self {
            Self::Sha256 => hex(digest::digest(&digest::SHA256, text.as_bytes()).as_ref()),
            Self::Md5 => hex(&md5::digest(text.as_bytes())),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `Digest name=value, name="value"` (RFC 7616 section 3.4); `None` if it is something else.
fn parameters(header: &str) -> Option<Vec<(String, String)>> {
    let (scheme, mut rest) = header.trim().split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("Digest") {
        return None;
    }
    let mut found = Vec::new();
    while !rest.trim().is_empty() && found.len() < PARAMETERS_MAX {
        let (name, tail) = rest.split_once('=')?;
        let (value, tail) = match tail.trim_start().strip_prefix('"') {
            // No value that counts here has a quotation mark within.
            Some(tail) => tail.split_once('"')?,
            None => match tail.find(',') {
                Some(end) => tail.split_at(end),
                None => (tail, ""),
            },
        };
        found.push((name.trim().to_owned(), value.trim().to_owned()));
        rest = tail.trim_start().trim_start_matches(',');
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_hashes_are_those_of_rfc_7616() {
        // RFC 7616 section 3.9.1.
        let nonce = "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v";
        let own = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
        for (algorithm, expected) in [
            (Algorithm::Md5, "8ca523f5e9506fed4657c9700eebdbec"),
            (
                Algorithm::Sha256,
                "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1",
            ),
        ] {
            let who = algorithm.hash("Mufasa:http-auth@example.org:Circle of Life");
            let what = algorithm.hash("GET:/dir/index.html");
            let text = format!("{who}:{nonce}:00000001:{own}:auth:{what}");
            assert_eq!(algorithm.hash(&text), expected);
        }
    }

    #[test]
    fn parameters_are_found_quoted_or_not() {
        let found =
            parameters("Digest username=\"a, b\", qop=auth,nc=00000001, uri=\"rtsp://a/b=c\"");
        let found = found.unwrap();
        let names: Vec<_> = found
            .iter()
            .map(|(name, value)| format!("{name}:{value}"))
            .collect();
        assert_eq!(
            names,
            [
                "username:a, b",
                "qop:auth",
                "nc:00000001",
                "uri:rtsp://a/b=c"
            ]
        );
        assert_eq!(parameters("Basic YTpi"), None);
        assert_eq!(parameters("Digest username=\"a"), None);
    }

    proptest! {
        #[test]
        fn no_header_is_too_strange(header in "(Digest )?([a-z]{0,5}=?\"?.{0,9}\"?,?){0,20}") {
            let _ = parameters(&header);
        }
    }
}
