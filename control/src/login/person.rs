//! What a provider says of a person: an ID token (OpenID Connect Core 1.0 section 2).

use aws_lc_rs::digest;
use jsonwebtoken::jwk::{Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, decode};
use sangam_session::limits::{IDENTITY_LEN_MAX, NAME_CHARS_MAX};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Fault;
use crate::session::hex;

/// Bytes of a name that goes into a token of ours, which is short.
const NAME_LEN_MAX: usize = 200;
/// With a key that only the provider has: what is signed with the client's secret anybody who
/// has that could make.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// Somebody the provider knows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Person {
    /// The same whenever it comes.
    pub(super) identity: String,
    /// What others shall call it.
    pub(super) name: Option<String>,
    more: Map<String, Value>,
}

/// Who says it, to whom, and in answer to what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) client: &'a str,
    pub(super) nonce: &'a str,
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    nonce: Option<String>,
    azp: Option<String>,
    name: Option<String>,
    preferred_username: Option<String>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

/// The key that a token's header names, if there is one that fits.
pub(super) fn key<'a>(keys: &'a [Jwk], header: &Header) -> Option<&'a Jwk> {
    let signs = |key: &&Jwk| {
        let common = &key.common;
        let known = common.key_algorithm.and_then(algorithm);
        !matches!(common.public_key_use, Some(PublicKeyUse::Encryption))
            && known.is_none_or(|known| known == header.alg)
    };
    let named = |key: &&Jwk| match &header.kid {
        Some(kid) => key.common.key_id.as_ref() == Some(kid),
        None => true,
    };
    keys.iter().filter(signs).find(named)
}

fn algorithm(of_key: KeyAlgorithm) -> Option<Algorithm> {
    of_key.to_string().parse().ok()
}

impl Person {
    /// Believes an ID token, or not (OpenID Connect Core 1.0 section 3.1.3.7).
    ///
    /// # Errors
    /// [`Fault::Invalid`].
    pub(super) fn of(
        token: &str,
        (header, key): (&Header, &Jwk),
        expected: Expected<'_>,
    ) -> Result<Self, Fault> {
        let invalid = |why: String| Fault::Invalid(why);
        if !ALGORITHMS.contains(&header.alg) {
            return Err(invalid(format!("it is signed by {:?}", header.alg)));
        }
        let key = DecodingKey::from_jwk(key).map_err(|error| invalid(error.to_string()))?;
        let mut validation = Validation::new(header.alg);
        validation.validate_nbf = true;
        validation.set_issuer(&[expected.issuer]);
        validation.set_audience(&[expected.client]);
        validation.set_required_spec_claims(&["iss", "aud", "exp", "sub"]);
        let claims = decode::<Claims>(token, &key, &validation);
        let claims = claims.map_err(|error| invalid(error.to_string()))?.claims;
        if claims.nonce.as_deref() != Some(expected.nonce) {
            return Err(invalid("it answers another login".to_owned()));
        }
        let audiences = claims.more.get("aud").and_then(Value::as_array);
        let is_shared = audiences.is_some_and(|all| all.len() > 1);
        let party = claims.azp.as_deref();
        if party.map_or(is_shared, |party| party != expected.client) {
            return Err(invalid("it is made for another client".to_owned()));
        }
        Ok(Self {
            identity: identity(claims.sub),
            name: claims
                .name
                .or(claims.preferred_username)
                .map(|name| cut(&name)),
            more: claims.more,
        })
    }

    /// Whether a claim is, or lists, one of these.
    pub(super) fn has(&self, claim: &str, wanted: &[String]) -> bool {
        let is_wanted = |value: &Value| {
            let text = value.as_str();
            text.is_some_and(|text| wanted.iter().any(|one| one == text))
        };
        match self.more.get(claim) {
            Some(Value::Array(all)) => all.iter().any(is_wanted),
            Some(one) => is_wanted(one),
            None => false,
        }
    }
}

/// The subject, or its hash where it is longer than an identity may be.
fn identity(subject: String) -> String {
    if subject.len() <= IDENTITY_LEN_MAX {
        return subject;
    }
    hex(digest::digest(&digest::SHA256, subject.as_bytes()).as_ref())
}

fn cut(name: &str) -> String {
    let mut len = 0;
    let fits = |one: &char| {
        len += one.len_utf8();
        len <= NAME_LEN_MAX
    };
    name.chars().take(NAME_CHARS_MAX).take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{EncodingKey, decode_header, encode};
    use rcgen::KeyPair;
    use serde_json::json;

    use super::*;
    use crate::session::unix_ms;

    const EXPECTED: Expected<'static> = Expected {
        issuer: "https://id.example.org",
        client: "sangam",
        nonce: "n",
    };

    /// A provider's key, and what it publishes of that.
    fn pair(kid: &str) -> (EncodingKey, Jwk) {
        let key = KeyPair::generate().unwrap();
        let key = EncodingKey::from_ec_der(&key.serialize_der());
        let mut public = Jwk::from_encoding_key(&key, Algorithm::ES256).unwrap();
        public.common.key_id = Some(kid.to_owned());
        (key, public)
    }

    fn header(alg: Algorithm, kid: &str) -> Header {
        Header {
            kid: Some(kid.to_owned()),
            ..Header::new(alg)
        }
    }

    fn claims() -> Value {
        let now = unix_ms() / 1_000;
        json!({
            "iss": EXPECTED.issuer, "aud": EXPECTED.client, "nonce": EXPECTED.nonce,
            "sub": "anna", "name": "Anna", "groups": ["staff", "all"],
            "iat": now, "exp": now + 600,
        })
    }

    fn with(changes: &Value) -> Value {
        let mut claims = claims();
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims
    }

    fn read(token: &str, keys: &[Jwk]) -> Result<Person, Fault> {
        let header = decode_header(token).unwrap();
        let key = key(keys, &header).ok_or_else(|| Fault::Invalid("no key".to_owned()))?;
        Person::of(token, (&header, key), EXPECTED)
    }

    #[test]
    fn whom_the_provider_knows_is_known_here() {
        let (key, public) = pair("a");
        let token = encode(&header(Algorithm::ES256, "a"), &claims(), &key).unwrap();
        let anna = read(&token, &[pair("b").1, public]).unwrap();
        assert_eq!(
            (anna.identity.as_str(), anna.name.as_deref()),
            ("anna", Some("Anna"))
        );
        let staff = ["staff".to_owned()];
        assert!(anna.has("groups", &staff));
        assert!(!anna.has("groups", &["board".to_owned()]) && !anna.has("roles", &staff));
    }

    #[test]
    fn a_token_for_others_of_others_or_of_yesterday_is_not_believed() {
        let (key, public) = pair("a");
        for changes in [
            json!({ "nonce": "m" }),
            json!({ "nonce": null }),
            json!({ "iss": "https://id.example.com" }),
            json!({ "iss": null }),
            json!({ "aud": "other" }),
            json!({ "aud": ["sangam", "other"] }),
            json!({ "azp": "other" }),
            json!({ "exp": 1_000 }),
            json!({ "exp": null }),
            json!({ "nbf": unix_ms() }),
            json!({ "sub": null }),
        ] {
            let token = encode(&header(Algorithm::ES256, "a"), &with(&changes), &key).unwrap();
            let read = read(&token, std::slice::from_ref(&public));
            assert!(
                matches!(read, Err(Fault::Invalid(_))),
                "{changes}: {read:?}"
            );
        }
        let shared = json!({ "aud": ["sangam", "other"], "azp": "sangam" });
        let token = encode(&header(Algorithm::ES256, "a"), &with(&shared), &key).unwrap();
        assert!(read(&token, &[public]).is_ok());
    }

    #[test]
    fn only_the_provider_signs() {
        let (_, public) = pair("a");
        let (other, _) = pair("a");
        let token = encode(&header(Algorithm::ES256, "a"), &claims(), &other).unwrap();
        assert!(read(&token, std::slice::from_ref(&public)).is_err());
        // What everybody may read is no secret to sign with (RFC 8725 section 2.1).
        let published = serde_json::to_vec(&public).unwrap();
        let secret = EncodingKey::from_secret(&published);
        for alg in [Algorithm::HS256, Algorithm::HS512] {
            let token = encode(&header(alg, "a"), &claims(), &secret).unwrap();
            let mut public = public.clone();
            public.common.key_algorithm = None;
            assert!(read(&token, &[public]).is_err());
        }
    }

    #[test]
    fn what_is_too_long_is_cut_or_hashed() {
        let (key, public) = pair("a");
        let long = json!({ "sub": "s".repeat(200), "name": "\u{1f600}".repeat(90) });
        let token = encode(&header(Algorithm::ES256, "a"), &with(&long), &key).unwrap();
        let person = read(&token, &[public]).unwrap();
        assert_eq!(person.identity.len(), 64);
        assert_eq!(person.name.unwrap().chars().count(), 50);
    }
}
