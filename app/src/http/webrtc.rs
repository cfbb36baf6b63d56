//! WHIP (RFC 9725) and WHEP: offers in, answers out.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Json;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Path};
use axum::http::header::{ACCEPT, ALLOW, CONTENT_TYPE, ETAG, IF_MATCH, LOCATION};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use sangam_control::Problem;
use sangam_control::openapi::{
    Answer, Body, Operation, Routes, Who, delete, get, options, patch, post, put,
};
use sangam_model::{Filter, Topic};
use sangam_webrtc::{
    Description, Join, JoinError, Joined, OFFER_LEN_MAX, OfferError, PeerId, Shown, WebRtc, Wish,
};
use sangam_wire::Refusal;
use serde::Deserialize;
use serde_json::{Value, json};

use super::sent::Sent;
use super::{Shared, State, access, ice, waited};

const SDP: &str = "application/sdp";
const FRAGMENT: &str = "application/trickle-ice-sdpfrag";
const ACCEPT_POST: HeaderName = HeaderName::from_static("accept-post");
const ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");

/// All paths; offers are longer than what else is posted.
pub(super) fn routes() -> Routes<Arc<State>> {
    let routes = offers().merge(peers());
    routes.map(|router| router.layer(DefaultBodyLimit::max(OFFER_LEN_MAX)))
}

/// Where peers come in.
fn offers() -> Routes<Arc<State>> {
    const WHIP: &str = "/v1/whip/{*topic}";
    const WHEP: &str = "/v1/whep/{*topic}";
    let joined = Answer::new(201, "The answer.", Body::of(&[SDP])).with(&[
        ("Location", "The peer: `/v1/webrtc/{id}` at this broker."),
        ("ETag", "Names the ICE credentials in use."),
        ("Accept-Patch", "What PATCH takes there."),
        ("Link", "Relays (RFC 9725 section 4.6), if there are any."),
    ]);
    let allowed = Answer::empty(204, "POST.")
        .with(&[("Allow", "The methods."), ("Accept-Post", "What is taken.")]);
    let offered = |asked: Operation, about| {
        asked
            .about(about)
            .by(Who::Client)
            .takes(Body::of(&[SDP]))
            .gives(joined)
            .fails(&[400, 401, 403, 404, 413, 415, 503])
    };
    let publish = offered(
        post(WHIP, "publish"),
        "WHIP (RFC 9725): publishes an offer's media at `TOPIC/audio`, `TOPIC/video`, or \
         `TOPIC/video/0` and up for simulcast layers. The topic may have slashes.",
    );
    let play = offered(
        post(WHEP, "play"),
        "WHEP: plays what is published at a topic and below it. The topic may have slashes, and \
         `+` for a level.",
    );
    let asked = |asked: Operation| asked.about("What may be posted here.").gives(allowed);
    Routes::new()
        .on(publish, self::publish)
        .on(play, self::play)
        .on(asked(options(WHIP, "askWhip")), accepts)
        .on(asked(options(WHEP, "askWhep")), accepts)
}

/// What is asked of a peer.
fn peers() -> Routes<Arc<State>> {
    const PEER: &str = "/v1/webrtc/{id}";
    let show = get(PEER, "getPeer")
        .about("What a peer publishes, and which topic plays in which of its media.")
        .by(Who::Client)
        .gives(Answer::new(200, "The peer.", Body::json("peer")))
        .fails(&[401, 403, 404, 503]);
    let new = Answer::new(200, "ICE starts anew, with these.", Body::of(&[FRAGMENT]));
    let change = patch(PEER, "changePeer")
        .about(
            "Candidates that were found later, or a peer's new ICE credentials (RFC 8840, RFC \
             9725 section 4.3). `If-Match` may name the ETag that is known.",
        )
        .by(Who::Client)
        .takes(Body::of(&[FRAGMENT]))
        .gives(Answer::empty(204, "The candidates are taken."))
        .gives(new.with(&[("ETag", "Names the new credentials.")]))
        .fails(&[400, 401, 403, 404, 412, 413, 415, 503]);
    let leave = delete(PEER, "endPeer")
        .about("Ends a peer.")
        .by(Who::Client)
        .gives(Answer::empty(200, "It is gone."))
        .fails(&[401, 403, 404, 503]);
    let renew = put("/v1/webrtc/{id}/token", "renewToken")
        .about("Goes on with the token that is shown here, before the one it has is over.")
        .by(Who::Client)
        .gives(Answer::empty(204, "It is taken."))
        .fails(&[401, 403, 404, 503]);
    let heights = put("/v1/webrtc/{id}/shown", "tellHeights")
        .about("How high a peer shows the videos that it receives: no higher layer is sent.")
        .by(Who::Client)
        .takes(Body::list("height"))
        .gives(Answer::empty(204, "That holds from now on."))
        .fails(&[400, 401, 403, 404, 413, 429, 503]);
    Routes::new()
        .on(show, describe)
        .on(change, self::change)
        .on(leave, self::leave)
        .on(renew, self::renew)
        .on(heights, self::show)
}

/// WHIP: somebody wants to publish.
async fn publish(
    state: Shared,
    ConnectInfo(caller): ConnectInfo<SocketAddr>,
    Path(topic): Path<String>,
    headers: HeaderMap,
    offer: Sent,
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
    offer: Sent,
) -> Result<Response, Problem> {
    let filter = Filter::new(&filter);
    let filter = filter.map_err(|error| Problem::bad(format!("the topic: {error}")))?;
    join(&state, Wish::Play(filter), (caller, &headers), offer).await
}

async fn join(
    state: &Shared,
    wish: Wish,
    (caller, headers): (SocketAddr, &HeaderMap),
    offer: Sent,
) -> Result<Response, Problem> {
    is(headers, SDP)?;
    let token = state.access.client_token(headers)?;
    let join = Join {
        wish,
        offer: offer.text()?.to_owned(),
        holder: ice::holder(state, token.as_deref()),
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
    fragment: Sent,
) -> Result<Response, Problem> {
    is(&headers, FRAGMENT)?;
    let Own { id, found, .. } = own(&state, &id, &headers).await?;
    matches(&headers, &found.generation)?;
    let fragment = fragment.text()?.to_owned();
    let restarted = ask(&state, move |gateway| gateway.patch(id, &fragment)).await?;
    Ok(match restarted {
        None => StatusCode::NO_CONTENT.into_response(),
        Some(joined) => {
            let more = [(CONTENT_TYPE, FRAGMENT.to_owned()), (ETAG, etag(&joined))];
            (more, joined.answer).into_response()
        }
    })
}

/// RFC 9725 section 4.3.1: whoever names the generation of credentials that it knows (RFC 9110
/// section 13.1.1) changes no other. Who names none, as browsers' pages, means whichever it is.
fn matches(headers: &HeaderMap, generation: &str) -> Result<(), Problem> {
    let Some(named) = headers.get(IF_MATCH) else {
        return Ok(());
    };
    let named = named.to_str().unwrap_or_default();
    let wanted = format!("\"{generation}\"");
    if named
        .split(',')
        .any(|one| ["*", &wanted].contains(&one.trim()))
    {
        return Ok(());
    }
    let text = "the peer has other ICE credentials by now";
    Err(Problem::new(StatusCode::PRECONDITION_FAILED, text)
        .with("code", "generation")
        .hint("send the ETag of the last answer as If-Match, or * for whichever there is"))
}

/// A peer, and what its holder showed.
struct Own {
    id: PeerId,
    token: Option<String>,
    found: Description,
}

/// The peer of a path, for whoever it is: all tokens of one subject are as good as each other.
async fn own(state: &Shared, id: &str, headers: &HeaderMap) -> Result<Own, Problem> {
    let token = state.access.client_token(headers)?;
    let id: PeerId = id.parse().map_err(refused)?;
    let found = ask(state, move |gateway| gateway.describe(id)).await?;
    if found.holder != ice::holder(state, token.as_deref()) {
        return Err(Problem::forbidden("this peer is somebody else's")
            .with("code", "forbidden")
            .hint("show a token of the subject that made it"));
    }
    Ok(Own { id, token, found })
}

/// The peer goes on with another token, before the one it has is over.
async fn renew(
    state: Shared,
    ConnectInfo(caller): ConnectInfo<SocketAddr>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let Own { id, token, .. } = own(&state, &id, &headers).await?;
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
    body: Sent,
) -> Result<StatusCode, Problem> {
    access::is_json(&headers)?;
    let told: Vec<Height> = serde_json::from_slice(&body.0).map_err(|error| {
        Problem::bad(format!("the heights: {error}"))
            .hint(r#"send [{"mid": "2", "height": 360}], pixels for each video"#)
    })?;
    let shown = told.into_iter();
    let shown = shown.map(|Height { mid, height }| Shown { mid, height });
    let shown = shown.collect();
    let Own { id, .. } = own(&state, &id, &headers).await?;
    ask(&state, move |gateway| gateway.show(id, shown)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The peer goes.
async fn leave(
    state: Shared,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let Own { id, .. } = own(&state, &id, &headers).await?;
    ask(&state, move |gateway| gateway.leave(id)).await?;
    Ok(StatusCode::OK)
}

/// What a peer publishes, and which topic plays in which of its media.
async fn describe(
    state: Shared,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, Problem> {
    let Own { found, .. } = own(&state, &id, &headers).await?;
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
    let answer = waited(move || question(&gateway)).await;
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
        JoinError::TooLong | JoinError::Offer(OfferError::TooLong) => {
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
