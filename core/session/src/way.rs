//! Other ways into a session than its page: telephones, room systems, players.

use serde::{Deserialize, Serialize};

use crate::limits::URI_LEN_MAX;
use crate::{Refusal, SessionId, text};

/// A way in, as people are told of it. It opens nothing by itself: a gateway has to answer there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Way {
    /// What people call it, such as `Berlin, freephone`: a name like a title.
    pub label: String,
    /// Where it leads: an absolute URI (RFC 3986) of [`Way::SCHEMES`].
    pub uri: String,
}

impl Way {
    /// Schemes of URIs that may be told: telephones (RFC 3966), SIP (RFC 3261), H.323 (RFC 3508),
    /// and players of RTSP (RFC 7826), HLS and WHEP. None of them runs anything where it is opened.
    pub const SCHEMES: [&str; 7] = ["tel", "sip", "sips", "h323", "rtsp", "rtsps", "https"];

    /// The way into this session, where this one holds for all: `{session}` and `{tenant}` become
    /// its names.
    #[must_use]
    pub fn of(&self, id: &SessionId) -> Self {
        let fill = |text: &str| {
            text.replace("{session}", &id.name)
                .replace("{tenant}", &id.tenant)
        };
        Self {
            label: fill(&self.label),
            uri: fill(&self.uri),
        }
    }

    /// The same, if people may be told of it.
    ///
    /// # Errors
    /// [`Refusal::Text`] says what is wrong with it.
    pub fn checked(self) -> Result<Self, Refusal> {
        let label = text::name("the label of a way in", &self.label)?;
        uri(&self.uri).map_err(|wrong| Refusal::Text("the URI of a way in", wrong))?;
        let uri = self.uri;
        Ok(Self { label, uri })
    }

    /// The scheme, as it is written in [`Way::SCHEMES`]; none if it is not one of them.
    #[must_use]
    pub fn scheme(&self) -> Option<&'static str> {
        scheme(&self.uri)
    }
}

fn scheme(uri: &str) -> Option<&'static str> {
    let (given, _) = uri.split_once(':')?;
    // RFC 3986 section 3.1: schemes have no case.
    let is_given = |scheme: &&str| scheme.eq_ignore_ascii_case(given);
    Way::SCHEMES.into_iter().find(is_given)
}

fn uri(text: &str) -> Result<(), &'static str> {
    if text.len() > URI_LEN_MAX {
        return Err("has more than 512 bytes");
    }
    let scheme =
        scheme(text).ok_or("begins with tel:, sip:, sips:, h323:, rtsp:, rtsps: or https:")?;
    let rest = &text[scheme.len() + 1..];
    if !is_written(rest.as_bytes()) {
        return Err("holds what no URI may hold: write it as %XX (RFC 3986)");
    }
    match scheme {
        "tel" if !rest.bytes().any(|byte| byte.is_ascii_digit()) => {
            Err("is a telephone number: write tel:+49-30-1234")
        }
        "tel" => Ok(()),
        "sip" | "sips" | "h323" => {
            let user = rest.rsplit_once('@').map(|(user, _)| user);
            match user {
                _ if rest.is_empty() || rest.starts_with('/') => {
                    Err("names nobody: write USER@HOST behind the scheme")
                }
                Some(user) if user.contains(':') => Err("holds a password that all would see"),
                _ => Ok(()),
            }
        }
        _ => {
            let authority = rest.strip_prefix("//").unwrap_or_default();
            let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
            match authority {
                "" => Err("names no host: write //HOST behind the scheme"),
                // RFC 3986 section 7.6: what stands before `@` is taken for the host.
                given if given.contains('@') => Err("holds a name or password before the host"),
                _ => Ok(()),
            }
        }
    }
}

/// RFC 3986 section 2: reserved and unreserved characters, and others by their numbers.
fn is_written(text: &[u8]) -> bool {
    let mut rest = text;
    while let [first, behind @ ..] = rest {
        rest = match (first, behind) {
            (b'%', [a, b, behind @ ..]) if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => behind,
            (b'%', _) => return false,
            (byte, behind) if byte.is_ascii_alphanumeric() => behind,
            (byte, behind) if b"-._~:/?#[]@!$&'()*+,;=".contains(byte) => behind,
            _ => return false,
        };
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(label: &str, uri: &str) -> Way {
        Way {
            label: label.to_owned(),
            uri: uri.to_owned(),
        }
    }

    #[test]
    fn telephones_rooms_and_players_are_ways_in() {
        for uri in [
            "tel:+49-30-1234,,4711%23",
            "TEL:0800123;phone-context=+49",
            "sip:weekly@192.0.2.1:5060;transport=tcp",
            "sips:weekly@[2001:db8::1]",
            "h323:weekly@gk.example.org",
            "rtsp://player.example.org/weekly",
            "rtsps://[2001:db8::1]:322/weekly",
            "https://stream.example.org/weekly.m3u8?lang=de#t=1",
        ] {
            let told = way(" Berlin, freephone ", uri).checked();
            assert_eq!(told, Ok(way("Berlin, freephone", uri)));
        }
    }

    #[test]
    fn what_could_run_mislead_or_tell_secrets_is_none() {
        let long = format!("tel:{}", "1".repeat(509));
        for (uri, word) in [
            ("javascript:alert(1)", "tel:"),
            (" javascript:alert(1)", "tel:"),
            ("java\nscript:alert(1)", "tel:"),
            ("data:text/html,x", "tel:"),
            ("http://example.org/", "tel:"),
            ("//example.org/", "tel:"),
            ("", "tel:"),
            ("tel", "tel:"),
            ("tel:", "number"),
            ("tel:+x", "number"),
            ("tel:+49 30", "%XX"),
            ("tel:+49\u{202e}30", "%XX"),
            ("tel:1%2", "%XX"),
            ("tel:1%zz", "%XX"),
            ("sip:", "USER@HOST"),
            ("sip://host", "USER@HOST"),
            ("sip:weekly:secret@host", "password"),
            ("https:example.org", "//HOST"),
            ("https:///x", "//HOST"),
            ("https://bank.example@evil.example/", "before the host"),
            ("rtsp://user:secret@camera/", "before the host"),
            ("https://example.org/\"><script>", "%XX"),
            ("https://example.org/{room}", "%XX"),
            (&long, "512"),
        ] {
            let said = way("Way", uri).checked().map_err(|error| error.to_string());
            assert!(
                said.clone().is_err_and(|said| said.contains(word)),
                "{uri:?}: {said:?}"
            );
        }
        assert!(way("", "tel:1").checked().is_err());
        assert!(way("a\u{202e}b", "tel:1").checked().is_err());
        assert!(way(&"x".repeat(101), "tel:1").checked().is_err());
    }

    #[test]
    fn a_way_of_all_sessions_names_each() {
        let id = SessionId::new("acme", "weekly").unwrap();
        let all = way("Dial {session}", "sip:{tenant}.{session}@sip.example.org");
        let this = way("Dial weekly", "sip:acme.weekly@sip.example.org");
        assert_eq!(all.of(&id), this);
    }
}
