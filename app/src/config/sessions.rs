//! The session server of this broker.

use std::path::PathBuf;

use sangam_control::monitor::webhook::Url;
use sangam_session::limits::{LEVEL_LEN_MAX, WAYS_MAX};
use sangam_session::{SessionId, Way};
use serde::{Deserialize, Serialize};

use super::SECRET_LEN_MIN;

/// Sessions one server may hold, unless it is told otherwise.
const LIMIT: usize = 1_000;

/// Whether there is one, and how it works.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Sessions {
    pub(crate) enabled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<PathBuf>,
    pub(crate) tenant: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) link: Option<String>,
    pub(crate) limit: usize,
    pub(crate) ways: Vec<Way>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) archive: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<String>,
    pub(crate) etcd: Vec<String>,
    pub(crate) etcd_prefix: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) etcd_ca: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) etcd_user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) etcd_password: Option<String>,
    pub(crate) webhooks: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) webhook_secret: Option<String>,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            enabled: false,
            key: None,
            tenant: "meet".to_owned(),
            link: None,
            limit: LIMIT,
            ways: Vec::new(),
            archive: None,
            url: None,
            etcd: Vec::new(),
            etcd_prefix: "/sangam/".to_owned(),
            etcd_ca: None,
            etcd_user: None,
            etcd_password: None,
            webhooks: Vec::new(),
            webhook_secret: None,
        }
    }
}

impl Sessions {
    /// Everything that does not fit, as (name of the key, what to do).
    pub(super) fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        if SessionId::new(&self.tenant, "any").is_err() {
            faults.push((
                "tenant",
                "write one level of a topic, such as meet".to_owned(),
            ));
        }
        let is_http = |url: &String| url.starts_with("http://") || url.starts_with("https://");
        if !self.etcd.iter().all(is_http) {
            let wrong = "write http://HOST:2379 or https://HOST:2379".to_owned();
            faults.push(("etcd", wrong));
        }
        if !self.url.iter().all(is_http) {
            let wrong = "write http://HOST:4680 or https://HOST, without a path".to_owned();
            faults.push(("url", wrong));
        }
        if self.etcd_user.is_some() != self.etcd_password.is_some() {
            let wrong = "etcd_user and etcd_password go together".to_owned();
            faults.push(("etcd_user", wrong));
        }
        for url in &self.webhooks {
            if let Err(wrong) = url.parse::<Url>() {
                faults.push(("webhooks", wrong));
            }
        }
        faults.extend(self.ways_fault().map(|wrong| ("ways", wrong)));
        let secret = self.webhook_secret.as_deref().unwrap_or_default();
        if !self.webhooks.is_empty() && secret.len() < SECRET_LEN_MIN {
            let wrong = format!("webhooks are signed: at least {SECRET_LEN_MIN} characters");
            faults.push(("webhook_secret", wrong));
        }
        faults
    }

    /// What is wrong with the ways in, which have to fit the longest names.
    fn ways_fault(&self) -> Option<String> {
        if self.ways.len() > WAYS_MAX {
            return Some(format!("write up to {WAYS_MAX} ways in"));
        }
        let longest = "x".repeat(LEVEL_LEN_MAX);
        let id = SessionId::new(&longest, &longest).ok()?;
        self.ways.iter().find_map(|way| {
            let wrong = way.of(&id).checked().err()?;
            Some(format!("{:?}, {:?}: {wrong}", way.label, way.uri))
        })
    }
}
