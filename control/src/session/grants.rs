//! Who may do what, as tokens say it: in the shape that users of LiveKit know.

use std::net::SocketAddr;

use axum::http::HeaderMap;
use sangam_session::{Medium, Reach, Rights, Role, SessionId};
use serde::{Deserialize, Serialize};

use crate::Problem;

/// What a token grants, beside who it is for.
///
/// The names are those of LiveKit's `video` claim, so that its server SDKs make tokens for this
/// server too. What is not there is not granted, but for the three that default to true.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VideoGrant {
    /// The session's name; any of the tenant if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub room: Option<String>,
    /// May join the session.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub room_join: bool,
    /// May lead the session, and manage it over the API.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub room_admin: bool,
    /// May make sessions.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub room_create: bool,
    /// May list sessions.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub room_list: bool,
    /// May send media; true if it is not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub can_publish: Option<bool>,
    /// May receive media; true if it is not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub can_subscribe: Option<bool>,
    /// May chat, react and send data; as `can_publish` if it is not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub can_publish_data: Option<bool>,
    /// Only these: `microphone`, `camera`, `screen_share`, `screen_share_audio`, `board`; all if
    /// there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub can_publish_sources: Vec<String>,
    /// What the member is there for; a participant if it is not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
}

/// Whoever shows a token, or needs none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The tenant it is good for.
    pub tenant: String,
    /// Who it is.
    pub identity: String,
    /// What others shall call it.
    pub name: Option<String>,
    /// What it may do.
    pub video: VideoGrant,
    /// Whether it runs the server: it may do everything, in every tenant.
    pub operator: bool,
}

/// Why a token is not believed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenFault {
    /// It was good once.
    Expired,
    /// It is none of ours, or was changed.
    Invalid(String),
    /// Tokens cannot be made here: there is no key for it.
    NoKey,
}

/// What a member shows to brokers, and where it may publish and what it may receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaPass {
    /// The token; none if brokers ask for none.
    pub token: Option<String>,
    /// When it ends, in milliseconds since 1970.
    pub expires_ms: u64,
    /// Its topics.
    pub reach: Reach,
}

/// Knows whose tokens to believe, and makes new ones.
pub trait Gatekeeper: Send + Sync {
    /// What a token grants.
    ///
    /// # Errors
    /// See [`TokenFault`].
    fn read(&self, token: &str) -> Result<Pass, TokenFault>;

    /// Who calls the API: by its token, or because it is on this machine where that is enough.
    ///
    /// # Errors
    /// What to tell the caller.
    fn caller(&self, from: SocketAddr, headers: &HeaderMap) -> Result<Pass, Problem>;

    /// Makes a token of this pass, good for so many seconds; and when it ends.
    ///
    /// # Errors
    /// [`TokenFault::NoKey`].
    fn issue(&self, pass: &Pass, ttl_s: u64) -> Result<(String, u64), TokenFault>;

    /// Makes what a member shows to brokers.
    ///
    /// # Errors
    /// [`TokenFault::NoKey`].
    fn media(&self, tenant: &str, identity: &str, reach: Reach) -> Result<MediaPass, TokenFault>;
}

/// LiveKit's names of sources, and what they mean here.
const SOURCES: [(&str, Medium); 5] = [
    ("microphone", Medium::Audio),
    ("camera", Medium::Video),
    ("screen_share", Medium::Screen),
    ("screen_share_audio", Medium::Screen),
    ("board", Medium::Board),
];

impl VideoGrant {
    /// The same in a session's words.
    #[must_use]
    pub fn rights(&self) -> Rights {
        let publishes = self.can_publish.unwrap_or(true);
        let named = |medium: &Medium| {
            let sources = &self.can_publish_sources;
            let mut known = SOURCES.iter().filter(|source| source.1 == *medium);
            sources.is_empty() || known.any(|source| sources.iter().any(|one| one == source.0))
        };
        let media = Medium::ALL.into_iter().filter(|_| publishes).filter(named);
        Rights {
            publish: media.collect(),
            subscribe: self.can_subscribe.unwrap_or(true),
            chat: self.can_publish_data.unwrap_or(publishes),
            admin: self.room_admin,
        }
    }

    /// What the member is there for.
    #[must_use]
    pub fn member_role(&self) -> Role {
        let fallback = match self.room_admin {
            true => Role::Chair,
            false if self.can_publish == Some(false) => Role::Observer,
            false => Role::Participant,
        };
        self.role.unwrap_or(fallback)
    }
}

impl Pass {
    /// Whoever runs the server.
    #[must_use]
    pub fn operator() -> Self {
        Self {
            tenant: String::new(),
            identity: "operator".to_owned(),
            name: None,
            video: VideoGrant::default(),
            operator: true,
        }
    }

    /// Lets through whoever may join a session.
    ///
    /// # Errors
    /// The token is for another session, or not for joining.
    pub fn may_join(&self, id: &SessionId) -> Result<(), Problem> {
        self.is_for(id)?;
        if self.operator || self.video.room_join {
            return Ok(());
        }
        Err(denied("the token does not let you join").hint("it needs video.roomJoin"))
    }

    /// Lets through whoever may manage a session.
    ///
    /// # Errors
    /// The token is for another session, or not for this.
    pub fn may_manage(&self, id: &SessionId) -> Result<(), Problem> {
        self.is_for(id)?;
        if self.operator || self.video.room_admin {
            return Ok(());
        }
        Err(denied("only a chair may do this").hint("the token needs video.roomAdmin"))
    }

    /// Lets through whoever runs the server.
    ///
    /// # Errors
    /// The token is of somebody else.
    pub fn may_serve(&self) -> Result<(), Problem> {
        if self.operator {
            return Ok(());
        }
        Err(denied("this is for recorders").hint("they show the operator's token, api.token"))
    }

    /// Lets through whoever may see a session from outside.
    ///
    /// # Errors
    /// The token is for another session, or for none.
    pub fn may_see(&self, id: &SessionId) -> Result<(), Problem> {
        if self.video.room_list && self.tenant == id.tenant {
            return Ok(());
        }
        self.may_join(id).or_else(|_| self.may_manage(id))
    }

    /// Lets through whoever may make sessions of a tenant.
    ///
    /// # Errors
    /// The token is of another tenant, or not for this.
    pub fn may_create(&self, id: &SessionId) -> Result<(), Problem> {
        if self.operator || (self.video.room_create && self.tenant == id.tenant) {
            return Ok(());
        }
        Err(denied("the token does not let you make sessions here")
            .hint("it needs video.roomCreate and the session's tenant"))
    }

    /// Lets through whoever may list sessions, and says of which tenant; of all if none.
    ///
    /// # Errors
    /// The token is not for this.
    pub fn may_list(&self) -> Result<Option<&str>, Problem> {
        match (self.operator, self.video.room_list) {
            (true, _) => Ok(None),
            (false, true) => Ok(Some(&self.tenant)),
            _ => {
                Err(denied("the token does not let you list sessions")
                    .hint("it needs video.roomList"))
            }
        }
    }

    fn is_for(&self, id: &SessionId) -> Result<(), Problem> {
        let room = self.video.room.as_ref();
        let fits = self.tenant == id.tenant && room.is_none_or(|room| *room == id.name);
        if self.operator || fits {
            return Ok(());
        }
        Err(Problem::forbidden("the token is for another session")
            .with("code", "other_session")
            .hint("ask whoever invited you for a link to this one"))
    }
}

impl From<TokenFault> for Problem {
    fn from(fault: TokenFault) -> Self {
        match fault {
            TokenFault::Expired => Self::unauthorized("the token has expired")
                .with("code", "expired")
                .hint("ask for a new link"),
            TokenFault::Invalid(_) => Self::unauthorized("the token is not valid")
                .with("code", "invalid_token")
                .hint("it was changed on its way, or is of another server"),
            TokenFault::NoKey => Self::unavailable("this server cannot make tokens")
                .with("code", "no_key")
                .hint("name a signing key in sessions.key"),
        }
    }
}

fn denied(why: &str) -> Problem {
    Problem::forbidden(why).with("code", "forbidden")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(json: &str) -> VideoGrant {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_grant_as_livekit_writes_it_is_understood() {
        let plain = grant(r#"{"room": "weekly", "roomJoin": true, "hidden": false}"#);
        assert_eq!(plain.rights(), Rights::default());
        assert_eq!(plain.member_role(), Role::Participant);
        let viewer = grant(r#"{"roomJoin": true, "canPublish": false}"#);
        assert!(viewer.rights().publish.is_empty() && !viewer.rights().chat);
        assert_eq!(viewer.member_role(), Role::Observer);
        let some = grant(r#"{"canPublishSources": ["microphone", "screen_share"]}"#);
        let media: Vec<_> = some.rights().publish.into_iter().collect();
        assert_eq!(media, [Medium::Audio, Medium::Screen]);
        assert_eq!(grant(r#"{"roomAdmin": true}"#).member_role(), Role::Chair);
    }

    #[test]
    fn a_token_opens_its_own_session_only() {
        let pass = Pass {
            tenant: "acme".to_owned(),
            video: grant(r#"{"room": "weekly", "roomJoin": true}"#),
            operator: false,
            ..Pass::operator()
        };
        let id = |tenant, name| SessionId::new(tenant, name).unwrap();
        assert!(pass.may_join(&id("acme", "weekly")).is_ok());
        assert!(pass.may_join(&id("acme", "daily")).is_err());
        assert!(pass.may_join(&id("other", "weekly")).is_err());
        assert!(pass.may_manage(&id("acme", "weekly")).is_err());
        assert!(pass.may_list().is_err() && pass.may_create(&id("acme", "x")).is_err());
    }
}
