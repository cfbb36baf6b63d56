//! Who may do what in sessions: tokens, and callers on this machine.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use sangam_control::Problem;
use sangam_control::session::{Gatekeeper, MediaPass, Pass, TokenFault, unix_ms};
use sangam_node::AuthError;
use sangam_session::Reach;

use super::Access;
use super::access::{BEARER, is_local};
use crate::auth::{Claims, SigningKey, Tokens};

/// How long a member's token for brokers is good. It is renewed over the WebSocket, and whoever
/// was sent away hears no more than this.
const MEDIA_TTL: Duration = Duration::from_secs(120);

/// Knows the keys.
pub(crate) struct Keeper {
    /// Who may do what with this broker.
    pub(crate) access: Access,
    /// Whose tokens are believed in sessions.
    pub(crate) tokens: Arc<Tokens>,
    /// What tokens are made with.
    pub(crate) key: Option<SigningKey>,
    /// Tenant of tokens that name none.
    pub(crate) tenant: String,
}

impl Keeper {
    fn sign(&self, claims: Claims, ttl: Duration) -> Result<(String, u64), TokenFault> {
        let key = self.key.as_ref().ok_or(TokenFault::NoKey)?;
        let exp = unix_ms() / 1_000 + ttl.as_secs();
        let claims = Claims { exp, ..claims };
        let token = key.sign(&claims).map_err(|error| {
            tracing::error!(%error, "a token cannot be made");
            TokenFault::NoKey
        })?;
        Ok((token, exp * 1_000))
    }
}

impl Gatekeeper for Keeper {
    fn read(&self, token: &str) -> Result<Pass, TokenFault> {
        let claims = self.tokens.claims(token).map_err(|error| match error {
            AuthError::Expired => TokenFault::Expired,
            other => TokenFault::Invalid(other.to_string()),
        })?;
        let tenant = match claims.tenant {
            tenant if tenant.is_empty() => self.tenant.clone(),
            tenant => tenant,
        };
        Ok(Pass {
            tenant,
            identity: claims.sub,
            name: claims.name,
            video: claims.video.unwrap_or_default(),
            operator: false,
        })
    }

    fn caller(&self, from: SocketAddr, headers: &HeaderMap) -> Result<Pass, Problem> {
        let given = headers.get(AUTHORIZATION);
        let given = given.and_then(|value| value.as_bytes().strip_prefix(BEARER));
        let Some(given) = given else {
            if self.access.is_open() {
                return is_local(from, headers).map(|()| Pass::operator());
            }
            return Err(Problem::unauthorized("a token is needed")
                .with("code", "no_token")
                .hint("send the header \"Authorization: Bearer TOKEN\""));
        };
        if self.access.is_operator(given) {
            return Ok(Pass::operator());
        }
        let text = str::from_utf8(given).unwrap_or_default();
        self.read(text).map_err(|fault| {
            if let TokenFault::Invalid(why) = &fault {
                tracing::debug!(%why, caller = %from, "a token is refused");
            }
            Problem::from(fault)
        })
    }

    fn issue(&self, pass: &Pass, ttl_s: u64) -> Result<(String, u64), TokenFault> {
        let claims = Claims {
            sub: pass.identity.clone(),
            name: pass.name.clone(),
            tenant: pass.tenant.clone(),
            video: Some(pass.video.clone()),
            ..Claims::default()
        };
        self.sign(claims, Duration::from_secs(ttl_s))
    }

    fn media(&self, tenant: &str, identity: &str, reach: Reach) -> Result<MediaPass, TokenFault> {
        if self.access.tokens.is_none() {
            return Ok(MediaPass {
                token: None,
                expires_ms: u64::MAX,
                reach,
            });
        }
        let claims = Claims {
            sub: identity.to_owned(),
            tenant: tenant.to_owned(),
            publish: reach.publish.clone(),
            subscribe: reach.subscribe.clone(),
            // A broker that has heard nothing of the session lets nobody speak in it.
            gated: true,
            ..Claims::default()
        };
        let (token, expires_ms) = self.sign(claims, MEDIA_TTL)?;
        Ok(MediaPass {
            token: Some(token),
            expires_ms,
            reach,
        })
    }
}
