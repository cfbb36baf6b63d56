//! Who asks: the client's half of digest authentication (RFC 7616).

use rtsp_types::{Method, Url};

/// Parameters of one challenge, and challenges of one answer, that are looked at.
const PARAMETERS_MAX: usize = 16;
const CHALLENGES_MAX: usize = 8;

/// What a digest is made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// For servers that know nothing else.
    Md5,
    /// The better one of both.
    Sha256,
}

/// The digest of a text, in hexadecimal digits. Whoever plays has a library for it.
pub type Hash = fn(Algorithm, &str) -> String;

/// A name and its password.
#[derive(Clone)]
pub struct Credentials {
    /// The name.
    pub user: String,
    /// The password.
    pub password: String,
    /// How digests are made.
    pub hash: Hash,
}

/// What a server wants to be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Challenge {
    algorithm: Algorithm,
    realm: String,
    nonce: String,
    opaque: Option<String>,
    /// The answer counts itself (`qop=auth`).
    is_counted: bool,
    /// The answer before was right, and its challenge old.
    pub(crate) is_stale: bool,
    count: u32,
}

impl core::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl Challenge {
    /// The best of the challenges in a header's value; `None` if none can be answered.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut found: Vec<Vec<(&str, &str)>> = Vec::new();
        let mut is_digest = false;
        for part in parts(text) {
            // A challenge begins with its scheme and the first parameter.
            let (head, _) = part.split_once('=').unwrap_or((part, ""));
            let scheme = head.split_once(' ').map(|(scheme, _)| scheme);
            let part = match scheme {
                Some(scheme) => {
                    is_digest = scheme.eq_ignore_ascii_case("Digest");
                    if is_digest && found.len() < CHALLENGES_MAX {
                        found.push(Vec::new());
                    }
                    part.get(scheme.len()..).unwrap_or_default().trim()
                }
                None => part,
            };
            let own = found.last_mut().filter(|_| is_digest);
            if let (Some(own), Some((name, value))) = (own, part.split_once('='))
                && own.len() < PARAMETERS_MAX
            {
                own.push((name.trim(), value.trim().trim_matches('"')));
            }
        }
        let challenges = found.iter().filter_map(|parameters| Self::of(parameters));
        challenges.max_by_key(|challenge| challenge.algorithm)
    }

    fn of(parameters: &[(&str, &str)]) -> Option<Self> {
        let get = |name: &str| {
            let mut all = parameters.iter();
            let found = all.find(|(known, _)| known.eq_ignore_ascii_case(name));
            found.map(|(_, value)| *value)
        };
        let algorithm = match get("algorithm") {
            None => Algorithm::Md5,
            Some(name) if name.eq_ignore_ascii_case("MD5") => Algorithm::Md5,
            Some(name) if name.eq_ignore_ascii_case("SHA-256") => Algorithm::Sha256,
            Some(_) => return None,
        };
        let is_counted = match get("qop") {
            None => false,
            Some(all) => {
                let mut all = all.split(',').map(str::trim);
                // What protects bodies as well is not known here.
                all.any(|one| one.eq_ignore_ascii_case("auth"))
                    .then_some(())?;
                true
            }
        };
        Some(Self {
            algorithm,
            realm: get("realm")?.to_owned(),
            nonce: get("nonce")?.to_owned(),
            opaque: get("opaque").map(str::to_owned),
            is_counted,
            is_stale: get("stale").is_some_and(|stale| stale.eq_ignore_ascii_case("true")),
            count: 0,
        })
    }

    /// What a request by this method for this URL says of who asks (RFC 7616 section 3.4).
    pub(crate) fn answer(&mut self, who: &Credentials, (method, url): (&Method, &Url)) -> String {
        let Credentials {
            user,
            password,
            hash,
        } = who;
        let hash = |text: String| hash(self.algorithm, &text);
        let (realm, nonce, method) = (&self.realm, &self.nonce, <&str>::from(method));
        let secret = hash(format!("{user}:{realm}:{password}"));
        let about = hash(format!("{method}:{url}"));
        self.count = self.count.wrapping_add(1);
        let (response, counted) = if self.is_counted {
            let count = format!("{:08x}", self.count);
            // It need not be secret, and differs from challenge to challenge.
            let own = hash(format!("{nonce}:{count}"));
            let response = hash(format!("{secret}:{nonce}:{count}:{own}:auth:{about}"));
            (
                response,
                format!(", qop=auth, nc={count}, cnonce=\"{own}\""),
            )
        } else {
            // As RFC 2069 has it.
            (hash(format!("{secret}:{nonce}:{about}")), String::new())
        };
        let opaque = self.opaque.as_ref();
        let opaque = opaque.map_or_else(String::new, |opaque| format!(", opaque=\"{opaque}\""));
        let algorithm = match self.algorithm {
            Algorithm::Md5 => "MD5",
            Algorithm::Sha256 => "SHA-256",
        };
        format!(
            "Digest username=\"{user}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"{url}\", \
             response=\"{response}\", algorithm={algorithm}{opaque}{counted}"
        )
    }
}

/// What stands between commas that are in no quotation.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    let parts = text.split(move |letter: char| {
        is_quoted ^= letter == '"';
        letter == ',' && !is_quoted
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As good as a digest to see what goes into it.
    fn plain(algorithm: Algorithm, text: &str) -> String {
        format!("<{algorithm:?} {text}>")
    }

    fn answer(challenge: &str) -> Option<String> {
        let who = Credentials {
            user: "anna".to_owned(),
            password: "secret".to_owned(),
            hash: plain,
        };
        let url = Url::parse("rtsp://h/f").unwrap();
        let mut challenge = Challenge::read(challenge)?;
        Some(challenge.answer(&who, (&Method::Play, &url)))
    }

    #[test]
    fn the_best_algorithm_that_is_known_is_taken() {
        let two = "Digest realm=\"a, b\", nonce=\"n1\", algorithm=MD5, \
                   Digest realm=\"a, b\", nonce=\"n2\", algorithm=SHA-256, stale=true, \
                   Digest realm=\"a, b\", nonce=\"n3\", algorithm=SHA-512-256, Basic realm=\"x\"";
        let expected = "Digest username=\"anna\", realm=\"a, b\", nonce=\"n2\", \
            uri=\"rtsp://h/f\", \
            response=\"<Sha256 <Sha256 anna:a, b:secret>:n2:<Sha256 PLAY:rtsp://h/f>>\", \
            algorithm=SHA-256";
        assert_eq!(answer(two).as_deref(), Some(expected));
        assert!(Challenge::read(two).unwrap().is_stale);
    }

    #[test]
    fn answers_count_where_the_server_wants_it() {
        let text = "Digest realm=\"r\",nonce=\"n\",qop=\"auth-int,auth\",opaque=\"o\"";
        let said = answer(text).unwrap();
        assert!(
            said.contains(
                ":n:00000001:<Md5 n:00000001>:auth:<Md5 PLAY:rtsp://h/f>>\", \
                 algorithm=MD5, opaque=\"o\", qop=auth, nc=00000001, cnonce=\"<Md5 n:00000001>\""
            ),
            "{said}"
        );
    }

    #[test]
    fn what_cannot_be_answered_is_not() {
        for text in [
            "",
            "Basic realm=\"r\"",
            "Digest realm=\"r\"",
            "Digest nonce=\"n\"",
            "Digest realm=\"r\", nonce=\"n\", qop=\"auth-int\"",
            "Digest realm=\"r\", nonce=\"n\", algorithm=SHA-512-256",
        ] {
            assert_eq!(answer(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_challenge_is_too_strange(
            text in "(Digest |Basic )?([a-z]{0,5}=?\"?.{0,9}\"?,?){0,20}",
        ) {
            let _ = answer(&text);
        }
    }
}
