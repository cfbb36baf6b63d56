//! Whose tokens are believed.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Bytes of a shared secret at least: as many as the hash it keys (RFC 7518 section 3.2).
pub(crate) const SECRET_LEN_MIN: usize = 32;
/// Seconds a broker's clock may be wrong before good tokens are refused.
const LEEWAY_S: u16 = 60;

/// What clients need to be let in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Auth {
    pub(crate) required: bool,
    pub(crate) keys: Vec<AuthKey>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) issuer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) audience: Option<String>,
    pub(crate) leeway_s: u16,
}

/// A key that tokens are verified with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum AuthKey {
    /// A file that `sangam token key` has made.
    File(PathBuf),
    /// One with a name of its own, or without a file.
    Named(NamedKey),
}

/// A key as others name and keep it. One of `file` and `secret` is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NamedKey {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<String>,
}

impl Default for Auth {
    fn default() -> Self {
        Self {
            required: true,
            keys: Vec::new(),
            issuer: None,
            audience: None,
            leeway_s: LEEWAY_S,
        }
    }
}

impl AuthKey {
    /// What is wrong with it, if anything.
    pub(super) fn fault(&self) -> Option<String> {
        let Self::Named(key) = self else {
            return None;
        };
        match (&key.file, &key.secret) {
            (Some(_), None) => None,
            (None, Some(secret)) if secret.len() >= SECRET_LEN_MIN => None,
            (None, Some(_)) => Some(format!(
                "a secret has at least {SECRET_LEN_MIN} characters; `sangam token key --shared` \
                 makes one"
            )),
            _ => Some("a key has either a `file` or a `secret`".to_owned()),
        }
    }

    /// Hides what nobody should see.
    pub(crate) fn redact(&mut self, shown: &str) {
        if let Self::Named(NamedKey {
            secret: Some(secret),
            ..
        }) = self
        {
            shown.clone_into(secret);
        }
    }
}
