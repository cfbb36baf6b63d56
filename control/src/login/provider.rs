//! The provider: where it is, what it signs with, and what it gives for a code.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jsonwebtoken::decode_header;
use jsonwebtoken::jwk::Jwk;
use reqwest::{Client, RequestBuilder, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Mutex;

use super::errand::Errand;
use super::logout::RETURN;
use super::person::{self, Expected, Person};
use super::{CALLBACK, Fault, LoginOptions, PATIENCE};
use crate::web;

/// Where its description lies (OpenID Connect Discovery 1.0 section 4).
const DESCRIPTION: &str = "/.well-known/openid-configuration";
/// Bytes of an answer.
const ANSWER_LEN_MAX: usize = 256 * 1_024;
/// Keys that are looked at.
const KEYS_MAX: usize = 64;
/// How long its description is used without another look.
const FRESH: Duration = Duration::from_secs(3_600);
/// How soon it is looked at again for a key that is not known: whoever logs in could ask for one.
const AGAIN: Duration = Duration::from_secs(60);
/// How long nobody asks a provider that did not answer.
const PAUSE: Duration = Duration::from_secs(5);

/// A provider, as far as it is known.
pub(super) struct Provider {
    issuer: String,
    client_id: String,
    client_secret: Option<String>,
    callback: String,
    /// Where it sends people who have logged out.
    farewell: String,
    scope: String,
    http: Client,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    facts: Option<(Arc<Facts>, Instant)>,
    failed: Option<(Fault, Instant)>,
}

struct Facts {
    authorization: Url,
    token: Url,
    /// Where people log out, if it has such a page.
    end_session: Option<Url>,
    /// Whether the secret goes into the request's body rather than its header.
    takes_posted: bool,
    keys: Vec<Jwk>,
}

/// Its description, as far as it matters (OpenID Connect Discovery 1.0 section 3).
#[derive(Deserialize)]
struct Description {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    /// RP-Initiated Logout 1.0 section 2.1.
    end_session_endpoint: Option<String>,
    jwks_uri: String,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Keys {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct Tokens {
    id_token: String,
}

impl Provider {
    pub(super) fn new(options: &LoginOptions) -> Self {
        let mut scope = String::from("openid");
        for one in &options.scopes {
            scope += " ";
            scope += one;
        }
        let url = options.url.trim_end_matches('/');
        Self {
            issuer: options.issuer.clone(),
            client_id: options.client_id.clone(),
            client_secret: options.client_secret.clone(),
            callback: format!("{url}{CALLBACK}"),
            farewell: format!("{url}{RETURN}"),
            scope,
            http: web::client(PATIENCE),
            known: Mutex::default(),
        }
    }

    /// Where a browser goes with this errand.
    ///
    /// # Errors
    /// See [`Fault`].
    pub(super) async fn address(&self, errand: &Errand) -> Result<Url, Fault> {
        let mut address = self.facts(FRESH).await?.authorization.clone();
        address
            .query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.client_id)
            .append_pair("redirect_uri", &self.callback)
            .append_pair("scope", &self.scope)
            .append_pair("state", &errand.state)
            .append_pair("nonce", &errand.nonce)
            .append_pair("code_challenge", &errand.challenge())
            .append_pair("code_challenge_method", "S256");
        Ok(address)
    }

    /// Where a browser logs out, to come back to the meeting at `to`; none where it has no such
    /// page.
    ///
    /// # Errors
    /// See [`Fault`].
    pub(super) async fn farewell(&self, to: &str) -> Result<Option<Url>, Fault> {
        let facts = self.facts(FRESH).await?;
        let mut address = facts.end_session.clone();
        if let Some(address) = &mut address {
            // RP-Initiated Logout 1.0 section 2. Without the ID token, which nobody keeps here, the
            // provider asks the person first: no other page can log it out.
            address
                .query_pairs_mut()
                .append_pair("client_id", &self.client_id)
                .append_pair("post_logout_redirect_uri", &self.farewell)
                .append_pair("state", to);
        }
        Ok(address)
    }

    /// The ID token that it gives for a code (OpenID Connect Core 1.0 section 3.1.3).
    ///
    /// # Errors
    /// See [`Fault`].
    pub(super) async fn exchange(&self, code: &str, verifier: &str) -> Result<String, Fault> {
        let facts = self.facts(FRESH).await?;
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &self.callback),
            ("code_verifier", verifier),
        ];
        let mut request = self.http.post(facts.token.clone());
        match &self.client_secret {
            Some(secret) if !facts.takes_posted => {
                // RFC 6749 section 2.3.1.
                request = request.basic_auth(encoded(&self.client_id), Some(encoded(secret)));
            }
            Some(secret) => {
                form.extend([
                    ("client_id", self.client_id.as_str()),
                    ("client_secret", secret),
                ]);
            }
            None => form.push(("client_id", &self.client_id)),
        }
        let tokens: Tokens = fetch(request.form(&form)).await?;
        Ok(tokens.id_token)
    }

    /// Who an ID token is about.
    ///
    /// # Errors
    /// See [`Fault`].
    pub(super) async fn person(&self, token: &str, nonce: &str) -> Result<Person, Fault> {
        let invalid = |why: &str| Fault::Invalid(why.to_owned());
        let header = decode_header(token).map_err(|error| invalid(&error.to_string()))?;
        let mut facts = self.facts(FRESH).await?;
        if person::key(&facts.keys, &header).is_none() {
            // It may have changed its keys.
            facts = self.facts(AGAIN).await?;
        }
        let key = person::key(&facts.keys, &header);
        let key = key.ok_or_else(|| invalid("its key is unknown"))?;
        let expected = Expected {
            issuer: &self.issuer,
            client: &self.client_id,
            nonce,
        };
        Person::of(token, (&header, key), expected)
    }

    /// What is known of it, if that is not older; what was known before if it does not answer.
    async fn facts(&self, age_max: Duration) -> Result<Arc<Facts>, Fault> {
        // Whoever comes meanwhile waits for the same answer.
        let mut known = self.known.lock().await;
        if let Some((facts, at)) = &known.facts
            && at.elapsed() < age_max
        {
            return Ok(Arc::clone(facts));
        }
        let paused = known
            .failed
            .as_ref()
            .filter(|failed| failed.1.elapsed() < PAUSE);
        let came = match paused {
            Some((fault, _)) => Err(fault.clone()),
            None => self.read().await,
        };
        match came {
            Ok(facts) => {
                let facts = Arc::new(facts);
                *known = Known {
                    facts: Some((Arc::clone(&facts), Instant::now())),
                    failed: None,
                };
                Ok(facts)
            }
            Err(fault) => {
                if paused.is_none() {
                    known.failed = Some((fault.clone(), Instant::now()));
                }
                let before = known.facts.as_ref().map(|(facts, _)| Arc::clone(facts));
                before.ok_or(fault)
            }
        }
    }

    async fn read(&self) -> Result<Facts, Fault> {
        let at = format!("{}{DESCRIPTION}", self.issuer.trim_end_matches('/'));
        let described: Description = fetch(self.http.get(&at)).await?;
        // Discovery 1.0 section 4.3.
        if described.issuer != self.issuer {
            let why = format!("{at} describes {}", described.issuer);
            return Err(Fault::Invalid(why));
        }
        let keys = self.endpoint(&described.jwks_uri)?;
        let keys: Keys = fetch(self.http.get(keys)).await?;
        // Some may be of a kind that nobody here understands.
        let keys = keys.keys.into_iter().take(KEYS_MAX);
        let keys = keys.filter_map(|key| serde_json::from_value(key).ok());
        let methods = described.token_endpoint_auth_methods_supported;
        let takes = |method: &str| methods.iter().flatten().any(|one| one == method);
        let end = described.end_session_endpoint.as_deref();
        Ok(Facts {
            end_session: end.map(|end| self.endpoint(end)).transpose()?,
            takes_posted: takes("client_secret_post") && !takes("client_secret_basic"),
            authorization: self.endpoint(&described.authorization_endpoint)?,
            token: self.endpoint(&described.token_endpoint)?,
            keys: keys.collect(),
        })
    }

    /// An address that it names: encrypted where its own is.
    fn endpoint(&self, text: &str) -> Result<Url, Fault> {
        let is_secure = self.issuer.starts_with("https://");
        let url = Url::parse(text).ok();
        let url = url.filter(|url| url.scheme() == "https" || !is_secure);
        url.ok_or_else(|| Fault::Invalid(format!("{text:?} is no address for this")))
    }
}

/// As `application/x-www-form-urlencoded` has it.
fn encoded(text: &str) -> String {
    let Ok(mut url) = Url::parse("http://form") else {
        return text.to_owned();
    };
    url.query_pairs_mut().append_key_only(text);
    url.query().unwrap_or_default().to_owned()
}

/// A document of JSON.
async fn fetch<T: DeserializeOwned>(request: RequestBuilder) -> Result<T, Fault> {
    let lost = |error: reqwest::Error| Fault::Unreachable(web::cause(&error));
    let mut answer = request.send().await.map_err(lost)?;
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(lost)? {
        if body.len() + chunk.len() > ANSWER_LEN_MAX {
            let why = format!("an answer of more than {ANSWER_LEN_MAX} bytes");
            return Err(Fault::Invalid(why));
        }
        body.extend_from_slice(&chunk);
    }
    let status = answer.status();
    if status.is_server_error() {
        return Err(Fault::Unreachable(status.to_string()));
    }
    if !status.is_success() {
        // RFC 6749 section 5.2.
        let said = serde_json::from_slice::<Value>(&body).unwrap_or_default();
        let said = said["error"].as_str().unwrap_or_default();
        return Err(Fault::Refused(format!("{status} {said}")));
    }
    serde_json::from_slice(&body).map_err(|error| Fault::Invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_secrets_are_encoded_as_forms_are() {
        assert_eq!(encoded("a b+c:d&é"), "a+b%2Bc%3Ad%26%C3%A9");
    }
}
