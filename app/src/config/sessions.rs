//! The session server of this broker.

use std::path::PathBuf;

use sangam_control::monitor::webhook::Url;
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
            webhooks: Vec::new(),
            webhook_secret: None,
        }
    }
}

impl Sessions {
    /// Everything that does not fit, as (name of the key, what to do).
    pub(super) fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        if sangam_session::SessionId::new(&self.tenant, "any").is_err() {
            faults.push((
                "tenant",
                "write one level of a topic, such as meet".to_owned(),
            ));
        }
        for url in &self.webhooks {
            if let Err(wrong) = url.parse::<Url>() {
                faults.push(("webhooks", wrong));
            }
        }
        let secret = self.webhook_secret.as_deref().unwrap_or_default();
        if !self.webhooks.is_empty() && secret.len() < SECRET_LEN_MIN {
            let wrong = format!("webhooks are signed: at least {SECRET_LEN_MIN} characters");
            faults.push(("webhook_secret", wrong));
        }
        faults
    }
}
