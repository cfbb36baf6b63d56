//! Relays for networks that let nothing else pass: in an answer of its own, and beside those of
//! WHIP and WHEP.

use std::sync::Arc;

use axum::Json;
use axum::http::header::{CACHE_CONTROL, LINK};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::IntoResponse;
use sangam_control::Problem;
use sangam_control::openapi::{Answer, Body, Routes, Who, get};
use serde_json::json;

use super::{Shared, State};
use crate::turn::{Credentials, Relays};

pub(super) fn routes() -> Routes<Arc<State>> {
    let asked = get("/v1/ice", "listRelays")
        .about("Relays that let WebRTC through where nothing else passes.")
        .by(Who::Client)
        .gives(Answer::new(200, "Them.", Body::json("ice")))
        .fails(&[401]);
    Routes::new().on(asked, servers)
}

/// What `RTCConfiguration` takes as `iceServers`, and for how long; for whoever may be a client.
async fn servers(state: Shared, headers: HeaderMap) -> Result<impl IntoResponse, Problem> {
    let token = state.access.client_token(&headers)?;
    let mut servers = Vec::new();
    let given = relays(&state, token.as_deref());
    if let Some((relays, Credentials { username, password })) = given {
        servers.push(json!({
            "urls": relays.urls, "username": username, "credential": password,
        }));
    }
    let ttl = state.relays.as_ref().map(|relays| relays.ttl.as_secs());
    let body = json!({ "ice_servers": servers, "ttl_s": ttl });
    Ok(([(CACHE_CONTROL, "no-store")], Json(body)))
}

/// RFC 9725 section 4.6: a link for each relay, for whoever showed a token.
pub(super) fn links(state: &State, token: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let Some((relays, Credentials { username, password })) = relays(state, token) else {
        return headers;
    };
    for url in &relays.urls {
        let link = format!(
            "<{url}>; rel=\"ice-server\"; username=\"{username}\"; credential=\"{password}\"; \
             credential-type=\"password\""
        );
        headers.extend(HeaderValue::try_from(link).map(|link| (LINK, link)));
    }
    headers
}

fn relays<'a>(state: &'a State, token: Option<&str>) -> Option<(&'a Relays, Credentials)> {
    let relays = state.relays.as_ref()?;
    let holder = holder(state, token);
    // Whoever shows a token is known by it.
    if token.is_some() && holder.is_none() {
        return None;
    }
    Some((relays, relays.credentials(holder.as_deref())?))
}

/// Whose token it is, if one is needed. A tenant is one level of a topic, so that no two are
/// written alike.
pub(super) fn holder(state: &State, token: Option<&str>) -> Option<String> {
    let claims = state.access.tokens.as_ref()?.claims(token?).ok()?;
    Some(format!("{}/{}", claims.tenant, claims.sub))
}
