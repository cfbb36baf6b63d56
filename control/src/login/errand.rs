//! What a browser carries while it is at the provider: a cookie.

use aws_lc_rs::{digest, rand};
use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sangam_session::SessionId;
use serde::{Deserialize, Serialize};

use super::Fault;

const NAME: &str = "sangam_login";
/// How long somebody may take to log in, in seconds.
const AGE_S_MAX: u32 = 600;
/// Bytes of each of its secrets: 43 characters, as RFC 7636 section 4.1 wants them.
const SECRET_LEN: usize = 32;
/// Bytes of a cookie's value; an errand has less than 600.
const COOKIE_LEN_MAX: usize = 1_024;

/// Ties what comes back to the browser that left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Errand {
    /// The path of the meeting, `/m/TENANT/SESSION`.
    pub(super) to: String,
    /// Who comes back with it left with it (RFC 6749 section 10.12).
    pub(super) state: String,
    /// The provider puts it into what it says of the person (OpenID Connect Core section 3.1.2.1).
    pub(super) nonce: String,
    /// Proves to the provider that the code is not stolen (RFC 7636).
    pub(super) verifier: String,
}

impl Errand {
    /// A new one, back to the meeting at this path.
    ///
    /// # Errors
    /// It is no meeting's path, or the system gives no random numbers.
    pub(super) fn new(to: &str) -> Result<Self, String> {
        let errand = Self {
            to: to.to_owned(),
            state: secret()?,
            nonce: secret()?,
            verifier: secret()?,
        };
        session(to).map(|_| errand)
    }

    /// The session it leads to. Cookies can be made by others: its path leads to meetings only.
    ///
    /// # Errors
    /// It leads elsewhere.
    pub(super) fn session(&self) -> Result<SessionId, Fault> {
        session(&self.to).map_err(Fault::Invalid)
    }

    /// The errand of a browser.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let cookies = headers.get_all(COOKIE).into_iter();
        let pairs = cookies
            .filter_map(|cookie| cookie.to_str().ok())
            .flat_map(|cookie| cookie.split(';'))
            .filter_map(|pair| pair.trim().split_once('='));
        let mut named = pairs.filter(|pair| pair.0 == NAME && pair.1.len() <= COOKIE_LEN_MAX);
        let value = URL_SAFE_NO_PAD.decode(named.next()?.1).ok()?;
        let errand: Self = serde_json::from_slice(&value).ok()?;
        session(&errand.to).is_ok().then_some(errand)
    }

    /// What proves that the verifier is known (RFC 7636 section 4.2, `S256`).
    pub(super) fn challenge(&self) -> String {
        let hash = digest::digest(&digest::SHA256, self.verifier.as_bytes());
        URL_SAFE_NO_PAD.encode(hash)
    }

    /// The header that makes a browser carry it.
    pub(super) fn cookie(&self, is_secure: bool) -> String {
        // Strings only: this cannot fail.
        let text = serde_json::to_vec(self).unwrap_or_default();
        cookie(&URL_SAFE_NO_PAD.encode(text), (AGE_S_MAX, is_secure))
    }

    /// The header that makes it forget.
    pub(super) fn forgotten(is_secure: bool) -> String {
        cookie("", (0, is_secure))
    }
}

/// `Lax` lets it come with the redirect from the provider and with no request of other pages.
fn cookie(value: &str, (age_s, is_secure): (u32, bool)) -> String {
    let secure = if is_secure { "; Secure" } else { "" };
    format!("{NAME}={value}; Path=/v1/login; Max-Age={age_s}; HttpOnly; SameSite=Lax{secure}")
}

fn secret() -> Result<String, String> {
    let mut bytes = [0; SECRET_LEN];
    let filled = rand::fill(&mut bytes);
    filled.map_err(|_| "the system gives no random numbers".to_owned())?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// The session of a meeting's path.
///
/// # Errors
/// It is none.
pub(super) fn session(path: &str) -> Result<SessionId, String> {
    let parts = path
        .strip_prefix("/m/")
        .and_then(|rest| rest.split_once('/'));
    let id = parts.and_then(|(tenant, name)| SessionId::new(tenant, name).ok());
    id.ok_or_else(|| format!("{path:?} is no address of a meeting: write /m/TENANT/SESSION"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn carried(cookie: &str) -> Option<Errand> {
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, HeaderValue::from_str(cookie).unwrap());
        Errand::of(&headers)
    }

    #[test]
    fn a_browser_brings_back_what_it_was_given() {
        let errand = Errand::new("/m/meet/weekly").unwrap();
        let header = errand.cookie(true);
        assert!(
            header.ends_with("; HttpOnly; SameSite=Lax; Secure"),
            "{header}"
        );
        let pair = header.split(';').next().unwrap();
        assert_eq!(carried(&format!("a=b; {pair}; c=d")), Some(errand.clone()));
        assert_eq!(
            errand.session().unwrap(),
            SessionId::new("meet", "weekly").unwrap()
        );
        let other = Errand::new("/m/meet/weekly").unwrap();
        assert!(other.state != errand.state && other.verifier != errand.verifier);
        assert_eq!(errand.verifier.len(), 43);
    }

    #[test]
    fn an_errand_leads_to_meetings_only() {
        for path in [
            "",
            "/",
            "/m/meet",
            "/m/meet/",
            "/m/meet/a/b",
            "//evil.example/m",
            "/m/../x",
            "https://evil.example/m/meet/a",
            "/m/meet/a#token=x",
            "/m/meet/a?b",
            "/m/meet/a b",
        ] {
            assert!(Errand::new(path).is_err(), "{path}");
            let made = serde_json::json!({ "to": path, "state": "", "nonce": "", "verifier": "" });
            let value = URL_SAFE_NO_PAD.encode(made.to_string());
            assert_eq!(carried(&format!("{NAME}={value}")), None, "{path}");
        }
    }

    #[test]
    fn rubbish_is_no_errand() {
        for cookie in [
            "",
            NAME,
            "sangam_login=",
            "sangam_login=%%%",
            "sangam_login=e30",
        ] {
            assert_eq!(carried(cookie), None, "{cookie}");
        }
        assert_eq!(
            carried(&format!("{NAME}={}", "A".repeat(COOKIE_LEN_MAX + 1))),
            None
        );
    }

    /// RFC 7636 appendix B.
    #[test]
    fn the_challenge_is_that_of_the_rfc() {
        let mut errand = Errand::new("/m/meet/weekly").unwrap();
        errand.verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned();
        assert_eq!(
            errand.challenge(),
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
        );
    }
}
