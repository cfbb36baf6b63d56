//! WHIP (RFC 9725) and WHEP: offers in, answers out.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Path};
use axum::http::header::{ACCEPT, ALLOW, CONTENT_TYPE, ETAG, LOCATION};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{post, put};
use sangam_control::Problem;
use sangam_model::{Filter, Topic};
use sangam_webrtc::{
    Join, JoinError, Joined, OFFER_LEN_MAX, OfferError, PeerId, Shown, WebRtc, Wish,
};
use sangam_wire::Refusal;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Shared, State, access, ice};

const SDP: &str = "application/sdp";
const FRAGMENT: &str = "application/trickle-ice-sdpfrag";
const ACCEPT_POST: HeaderName = HeaderName::from_static("accept-post");
const ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");

/// All paths; offers are longer than what else is posted.
pub(super) fn routes() -> Router<Arc<State>> {
    let peer = axum::routing::get(describe).patch(change).delete(leave);
    Router::new()
        .route("/v1/whip/{*topic}", post(publish).options(accepts))
        .route("/v1/whep/{*topic}", post(play).options(accepts))
        .route("/v1/webrtc/{id}", peer)
        .route("/v1/webrtc/{id}/token", put(renew))
        .route("/v1/webrtc/{id}/shown", put(show))
        .layer(DefaultBodyLimit::max(OFFER_LEN_MAX))
}

/// WHIP: somebody wants to publish.
async fn publish(
    state: Shared,
    ConnectInfo(caller): ConnectInfo<SocketAddr>,
    Path(topic): Path<String>,
    headers: HeaderMap,
    offer: String,
) -> Result<Response, Problem> {
    let topic = Topic::new(&topic).map_err(|error| Problem::bad(format!("{topic:?}: {error}")))?;
    join(&state, Wish::Publish(topic), (caller, &headers), offer).await
}

/// WHEP: somebody wants to play.
async fn play(
    state: Shared,
    ConnectInfo(caller): ConnectInfo<SocketAddr>,
    Path(filter): Path<String>,
    headers: HeaderMap,
    offer: String,
) -> Result<Response, Problem> {
    let filter = Filter::new(&filter);
    let filter = filter.map_err(|error| Problem::bad(format!("the topic: {error}")))?;
    join(&state, Wish::Play(filter), (caller, &headers), offer).await
}

async fn join(
    state: &Shared,
    wish: Wish,
    (caller, headers): (SocketAddr, &HeaderMap),
    offer: String,
) -> Result<Response, Problem> {
    is(headers, SDP)?;
    let token = state.access.client_token(headers)?;
    let join = Join {
        wish,
        offer,
        token: token.clone(),
        address: caller.ip(),
    };
    let joined = ask(state, move |gateway| gateway.join(join)).await?;
    let more = [
        (CONTENT_TYPE, SDP.to_owned()),
        (LOCATION, format!("/v1/webrtc/{}", joined.id)),
        (ETAG, etag(&joined)),
        (ACCEPT_PATCH, FRAGMENT.to_owned()),
    ];
    let relays = ice::links(state, token.as_deref());
    Ok((StatusCode::CREATED, more, relays, joined.answer).into_response())
}

/// Candidates that were found later, or a restart of ICE (RFC 9725 section 4.3).
async fn change(
    state: Shared,
    Path(id): Path<String>,
    headers: HeaderMap,
    fragment: String,
) -> Result<Response, Problem> {
    is(&headers, FRAGMENT)?;
    state.access.client_token(&headers)?;
    let id = id.parse().map_err(refused)?;
    let restarted = ask(&state, move |gateway| gateway.patch(id, &fragment)).await?;
    Ok(match restarted {
        None => StatusCode::NO_CONTENT.into_response(),
        Some(joined) => {
            let more = [(CONTENT_TYPE, FRAGMENT.to_owned()), (ETAG, etag(&joined))];
            (more, joined.answer).into_response()
        }
    })
}

/// The peer goes on with another token, before the one it has is over.
async fn renew(
    state: Shared,
    ConnectInfo(caller): ConnectInfo<SocketAddr>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let token = state.access.client_token(&headers)?;
    let id: PeerId = id.parse().map_err(refused)?;
    if let Some(token) = token {
        ask(&state, move |gateway| gateway.renew(id, token, caller.ip())).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// How high the peer shows a video; 0 if it does not.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Height {
    mid: String,
    height: u16,
}

/// How high the peer shows the videos that it receives.
async fn show(
    state: Shared,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<StatusCode, Problem> {
    state.access.client_token(&headers)?;
    access::is_json(&headers)?;
    let id: PeerId = id.parse().map_err(refused)?;
    let told: Vec<Height> = serde_json::from_slice(&body).map_err(|error| {
        Problem::bad(format!("the heights: {error}"))
            .hint(r#"send [{"mid": "2", "height": 360}], pixels for each video"#)
    })?;
    let shown = told.into_iter();
    let shown = shown.map(|Height { mid, height }| Shown { mid, height });
    let shown = shown.collect();
    ask(&state, move |gateway| gateway.show(id, shown)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The peer goes.
async fn leave(
    state: Shared,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    state.access.client_token(&headers)?;
    let id: PeerId = id.parse().map_err(refused)?;
    ask(&state, move |gateway| gateway.leave(id)).await?;
    Ok(StatusCode::OK)
}

/// What a peer publishes, and which topic plays in which of its media.
async fn describe(
    state: Shared,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, Problem> {
    state.access.client_token(&headers)?;
    let id: PeerId = id.parse().map_err(refused)?;
    let found = ask(&state, move |gateway| gateway.describe(id)).await?;
    let publishes = found.publishes.iter().map(Topic::as_str);
    let plays = found.plays.iter();
    let plays = plays.map(|(mid, topic)| json!({ "mid": mid, "topic": topic }));
    Ok(Json(json!({
        "connected": found.connected,
        "publishes": publishes.collect::<Vec<_>>(),
        "plays": plays.collect::<Vec<_>>(),
    })))
}

/// What may be posted.
async fn accepts() -> impl IntoResponse {
    let value = HeaderValue::from_static;
    let more = [
        (ALLOW, value("POST, OPTIONS")),
        (ACCEPT_POST, value(SDP)),
        (ACCEPT, value(SDP)),
    ];
    (StatusCode::NO_CONTENT, more)
}

/// Asks the gateway, which may take a moment, without holding up other requests.
async fn ask<T: Send + 'static>(
    state: &Shared,
    question: impl FnOnce(&WebRtc) -> Result<T, JoinError> + Send + 'static,
) -> Result<T, Problem> {
    let Some(gateway) = state.webrtc.clone() else {
        return Err(Problem::not_found("this broker serves no WebRTC")
            .hint("give it an address for that: listen.webrtc in the configuration"));
    };
    let answer = tokio::task::spawn_blocking(move || question(&gateway)).await;
    // The library may panic over an offer that nobody thought of: then this thread alone ends.
    let answer = answer.map_err(|_| Problem::bad("the offer cannot be used"))?;
    answer.map_err(refused)
}

fn etag(joined: &Joined) -> String {
    format!("\"{}\"", joined.generation)
}

fn is(headers: &HeaderMap, wanted: &'static str) -> Result<(), Problem> {
    let given = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let given = given
        .and_then(|given| given.split(';').next())
        .unwrap_or_default();
    if given.trim().eq_ignore_ascii_case(wanted) {
        return Ok(());
    }
    let error = format!("the body must be {wanted}");
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error)
        .hint(format!("send the header \"Content-Type: {wanted}\"")))
}

fn refused(error: JoinError) -> Problem {
    let message = error.to_string();
    match error {
        JoinError::Offer(OfferError::TooLong) => {
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, message)
        }
        JoinError::Refused(Refusal::Forbidden) => Problem::forbidden(message)
            .hint("the token must grant `publish` below the topic, or `subscribe` for all of it"),
        JoinError::Refused(Refusal::Unauthenticated | Refusal::Expired) => {
            Problem::unauthorized(message)
        }
        JoinError::Unknown => Problem::not_found(message),
        JoinError::TooOften => Problem::new(StatusCode::TOO_MANY_REQUESTS, message),
        JoinError::Refused(_) | JoinError::Full | JoinError::Stopping => {
            Problem::unavailable(message)
        }
        _ => Problem::bad(message),
    }
}
