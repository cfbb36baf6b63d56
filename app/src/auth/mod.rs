//! Tokens: who made them, what they grant, and until when.
//!
//! A token is a JWT (RFC 7519), signed with Ed25519 or keyed with a shared secret. `key` holds the
//! keys and `claims` what a token says; [`Tokens`] believes or refuses.

mod claims;
mod key;

use std::fmt;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, SystemTime};

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Validation, dangerous, decode, decode_header};
use sangam_model::limits::TOKEN_LEN_MAX;
use sangam_model::{Grants, Time};
use sangam_node::{AuthError, Authority};

use crate::config::Auth;

pub(crate) use claims::{Audience, Claims, Rights};
pub(crate) use key::{KeyError, SigningKey, VerifyingKey, make_pair, make_secret};

/// The keys of a broker, and what it expects of tokens.
pub(crate) struct Tokens {
    keys: RwLock<Vec<VerifyingKey>>,
    issuer: Option<String>,
    audience: Option<String>,
    leeway: Duration,
}

impl Tokens {
    /// What the configuration says; `None` if clients need no tokens.
    ///
    /// # Errors
    /// No key, or one that cannot be read.
    pub(crate) fn of(auth: &Auth) -> Result<Option<Self>, KeyError> {
        auth.required.then(|| Self::with_keys(auth)).transpose()
    }

    /// What the configuration says, also if clients need no tokens.
    ///
    /// # Errors
    /// As [`Tokens::of`].
    pub(crate) fn with_keys(auth: &Auth) -> Result<Self, KeyError> {
        Ok(Self {
            keys: RwLock::new(read(auth)?),
            issuer: auth.issuer.clone(),
            audience: auth.audience.clone(),
            leeway: Duration::from_secs(auth.leeway_s.into()),
        })
    }

    /// One key, whatever a token calls it, without further expectations.
    pub(crate) fn of_key(key: VerifyingKey, kid: Option<String>) -> Self {
        Self {
            keys: RwLock::new(vec![key.named(kid)]),
            issuer: None,
            audience: None,
            leeway: Duration::ZERO,
        }
    }

    /// Reads the keys again: from now on tokens of these are believed. Who came with a token stays
    /// until that runs out.
    ///
    /// # Errors
    /// As [`Tokens::of`]; then nothing changes.
    pub(crate) fn reload(&self, auth: &Auth) -> Result<(), KeyError> {
        let keys = read(auth)?;
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
        Ok(())
    }

    /// Whether tokens of the key of this name can be verified.
    pub(crate) fn know(&self, kid: &str) -> bool {
        self.keys().iter().any(|key| key.kid() == kid)
    }

    /// What follows from a token, if it is to be believed now.
    ///
    /// # Errors
    /// See [`AuthError`].
    pub(crate) fn check(&self, token: &str) -> Result<Rights, AuthError> {
        self.claims(token)?.rights().map_err(invalid)
    }

    /// When [`Tokens::check`] ceases to believe what these follow from, in milliseconds since
    /// 1970. It compares whole seconds, of which the last one still counts.
    pub(crate) fn end_ms(&self, rights: &Rights) -> u64 {
        let end_s = rights.expires.saturating_add(self.leeway.as_secs());
        end_s.saturating_add(1).saturating_mul(1_000)
    }

    /// What a token says, if it is to be believed now.
    ///
    /// # Errors
    /// See [`AuthError`].
    pub(crate) fn claims(&self, token: &str) -> Result<Claims, AuthError> {
        if token.len() > TOKEN_LEN_MAX {
            return Err(invalid(format!(
                "it has more than {TOKEN_LEN_MAX} characters"
            )));
        }
        let header = decode_header(token).map_err(|error| refusal(&error))?;
        let keys = self.keys();
        let key = choose(&keys, header.kid.as_deref())?;
        // RFC 8725 section 3.1: the key says which algorithm it is for, never the token.
        let mut validation = Validation::new(key.algorithm());
        validation.leeway = self.leeway.as_secs();
        validation.validate_nbf = true;
        validation.validate_aud = self.audience.is_some();
        let mut required = vec!["exp", "sub"];
        if let Some(issuer) = &self.issuer {
            validation.set_issuer(&[issuer]);
            required.push("iss");
        }
        if let Some(audience) = &self.audience {
            validation.set_audience(&[audience]);
            required.push("aud");
        }
        validation.set_required_spec_claims(&required);
        let token = decode::<Claims>(token, key.decoding(), &validation);
        Ok(token.map_err(|error| refusal(&error))?.claims)
    }

    fn keys(&self) -> RwLockReadGuard<'_, Vec<VerifyingKey>> {
        // A vector is replaced as a whole or not at all.
        self.keys.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The key that a token names; it need not where there is only one.
fn choose<'a>(keys: &'a [VerifyingKey], kid: Option<&str>) -> Result<&'a VerifyingKey, AuthError> {
    match (kid, keys) {
        (None, [only]) => Ok(only),
        (None, _) => Err(invalid("it does not name its key, and there are several")),
        (Some(kid), keys) => {
            let found = keys.iter().find(|key| key.kid() == kid);
            found.ok_or_else(|| invalid(format!("it is of an unknown key, {kid:?}")))
        }
    }
}

fn read(auth: &Auth) -> Result<Vec<VerifyingKey>, KeyError> {
    let keys: Result<Vec<_>, _> = auth.keys.iter().map(VerifyingKey::of).collect();
    let keys = keys?;
    if keys.is_empty() {
        return Err(KeyError::None);
    }
    Ok(keys)
}

impl Authority for Tokens {
    fn verify(&self, token: &str, now: Time) -> Result<Grants, AuthError> {
        let rights = self.check(token)?;
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let ends = Duration::from_secs(rights.expires).saturating_add(self.leeway);
        let left = ends.saturating_sub(since_epoch.unwrap_or_default());
        Ok(rights.grants(now + left))
    }
}

impl fmt::Display for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.keys();
        let keys: Vec<_> = keys.iter().map(VerifyingKey::kid).collect();
        write!(f, "the keys {}", keys.join(", "))
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.keys();
        let keys: Vec<_> = keys.iter().map(VerifyingKey::kid).collect();
        f.debug_struct("Tokens")
            .field("keys", &keys)
            .finish_non_exhaustive()
    }
}

/// What a token says about itself, be it true or not: its key's name and its claims.
///
/// # Errors
/// It is none of ours.
pub(crate) fn peek(token: &str) -> Result<(Option<String>, Claims), String> {
    let token = dangerous::insecure_decode::<Claims>(token).map_err(|error| error.to_string())?;
    Ok((token.header.kid, token.claims))
}

fn invalid(why: impl Into<String>) -> AuthError {
    AuthError::Invalid(why.into())
}

fn refusal(error: &jsonwebtoken::errors::Error) -> AuthError {
    match error.kind() {
        ErrorKind::ExpiredSignature => AuthError::Expired,
        ErrorKind::ImmatureSignature => invalid("its time has not come; compare the clocks"),
        ErrorKind::InvalidSignature => invalid("its signature is not of the key it names"),
        ErrorKind::InvalidAlgorithm => invalid("its algorithm is not that of its key"),
        _ => invalid(error.to_string()),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
