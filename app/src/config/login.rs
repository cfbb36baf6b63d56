//! Who vouches for people that come without a token.

use std::net::IpAddr;

use sangam_control::login::LoginOptions;
use serde::{Deserialize, Serialize};

/// Hours that somebody who logged in may join meetings, unless it is told otherwise, and at most.
const HOURS: u16 = 12;
const HOURS_MAX: u16 = 30 * 24;

/// A provider of OpenID Connect, and what its people may do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Login {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) issuer: Option<String>,
    pub(crate) client_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_secret: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<String>,
    pub(crate) scopes: Vec<String>,
    pub(crate) claim: String,
    pub(crate) chairs: Vec<String>,
    pub(crate) hours: u16,
}

impl Default for Login {
    fn default() -> Self {
        Self {
            issuer: None,
            client_id: "sangam".to_owned(),
            client_secret: None,
            url: None,
            scopes: vec!["profile".to_owned()],
            claim: "groups".to_owned(),
            chairs: Vec::new(),
            hours: HOURS,
        }
    }
}

impl Login {
    /// What the way in needs, if there is one. The page and its API are at `http` where nothing
    /// else is said.
    pub(crate) fn options(&self, tenant: &str, http: &str) -> Option<LoginOptions> {
        let issuer = self.issuer.clone()?;
        Some(LoginOptions {
            issuer,
            client_id: self.client_id.clone(),
            client_secret: self.client_secret.clone(),
            url: self.url.clone().unwrap_or_else(|| http.to_owned()),
            scopes: self.scopes.clone(),
            claim: self.claim.clone(),
            chairs: self.chairs.clone(),
            tenant: tenant.to_owned(),
            ttl_s: u64::from(self.hours) * 3_600,
        })
    }

    /// Everything that does not fit, as (name of the key, what to do).
    pub(super) fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        let mut wrong = |key, what: &str| faults.push((key, what.to_owned()));
        if self
            .issuer
            .as_deref()
            .is_some_and(|issuer| !is_safe(issuer))
        {
            wrong(
                "issuer",
                "write https://HOST, with a path where the provider has one",
            );
        }
        let is_origin = |url: &str| is_safe(url) && url.matches('/').count() == 2;
        if self.url.as_deref().is_some_and(|url| !is_origin(url)) {
            wrong("url", "write https://HOST, without a path");
        }
        if self.client_id.is_empty() {
            wrong(
                "client_id",
                "write the name that the provider has for this service",
            );
        }
        let plain = |scope: &String| scope.bytes().all(|byte| byte.is_ascii_graphic());
        if !self.scopes.iter().all(plain) {
            wrong("scopes", "write one word each, such as profile");
        }
        if !(1..=HOURS_MAX).contains(&self.hours) {
            wrong("hours", "1 to 720");
        }
        faults
    }
}

/// Encrypted, or of this machine.
fn is_safe(url: &str) -> bool {
    if let Some(host) = url.strip_prefix("https://") {
        return !host.is_empty() && url.bytes().all(|byte| byte.is_ascii_graphic());
    }
    let Some(rest) = url.strip_prefix("http://") else {
        return false;
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => authority.split(':').next(),
    };
    let host = host.unwrap_or_default();
    let is_loopback = host
        .parse::<IpAddr>()
        .is_ok_and(|address| address.is_loopback());
    host == "localhost" || is_loopback
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_encrypted_stays_on_this_machine() {
        for (url, safe) in [
            ("https://id.example.org/realms/acme", true),
            ("http://127.0.0.1:3000", true),
            ("http://[::1]:3000/x", true),
            ("http://localhost:3000", true),
            ("http://id.example.org", false),
            ("http://127.0.0.1.example.org", false),
            ("https://", false),
            ("id.example.org", false),
        ] {
            assert_eq!(is_safe(url), safe, "{url}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let login = Login {
            issuer: Some("http://id.example.org".to_owned()),
            url: Some("https://meet.example.org/m".to_owned()),
            hours: 0,
            ..Login::default()
        };
        let keys: Vec<_> = login.faults().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["issuer", "url", "hours"]);
        assert!(Login::default().faults().is_empty());
        assert!(
            Login::default()
                .options("meet", "http://127.0.0.1")
                .is_none()
        );
    }
}
