//! What a token says.

use sangam_control::session::VideoGrant;
use sangam_model::{Filter, Grants, Time, Topic};
use serde::{Deserialize, Serialize};

/// The claims of a token. Others that stand in it are ignored, but for `aud`, which is checked
/// where it is expected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claims {
    /// Who it is for.
    pub(crate) sub: String,
    /// When it ends, in seconds since 1970.
    pub(crate) exp: u64,
    /// When it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) nbf: Option<u64>,
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) iat: Option<u64>,
    /// Who made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) iss: Option<String>,
    /// For which service it was made, if for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) aud: Option<Audience>,
    /// What others call whom it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// The first level of every topic it is good for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) tenant: String,
    /// Filters of topics to publish on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) publish: Vec<String>,
    /// Filters within which to subscribe.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) subscribe: Vec<String>,
    /// Whether it is good for the HTTP API, within the same topics.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) api: bool,
    /// Whether what is published by it waits until a session server has said who may speak: it is
    /// a member's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) gated: bool,
    /// What it is good for in sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) video: Option<VideoGrant>,
}

/// RFC 7519 section 4.1.3: one or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Audience {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

/// What follows from the claims of a token that is believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    /// When they end, in seconds since 1970.
    pub(crate) expires: u64,
    /// Whether they extend to the HTTP API.
    pub(crate) api: bool,
    /// Whether they wait for a session server's word.
    pub(crate) gated: bool,
    tenant: String,
    publish: Vec<Filter>,
    subscribe: Vec<Filter>,
}

impl Claims {
    /// The rights, if the claims make sense.
    ///
    /// # Errors
    /// What does not.
    pub(crate) fn rights(&self) -> Result<Rights, String> {
        let one_level = !self.tenant.contains('/');
        if !one_level || Topic::new(&self.tenant).is_err() {
            return Err(format!(
                "{:?} is no tenant: write one level of a topic",
                self.tenant
            ));
        }
        Ok(Rights {
            expires: self.exp,
            api: self.api,
            gated: self.gated,
            tenant: self.tenant.clone(),
            publish: filters("publish", &self.publish)?,
            subscribe: filters("subscribe", &self.subscribe)?,
        })
    }
}

impl Rights {
    /// The same in the broker's words, where they end at `expires` in its time.
    pub(crate) fn grants(self, expires: Time) -> Grants {
        Grants {
            tenant: self.tenant,
            publish: self.publish,
            subscribe: self.subscribe,
            gated: self.gated,
            expires,
        }
    }
}

fn filters(claim: &str, texts: &[String]) -> Result<Vec<Filter>, String> {
    let filter =
        |text: &String| Filter::new(text).map_err(|error| format!("{claim} {text:?}: {error}"));
    texts.iter().map(filter).collect()
}
