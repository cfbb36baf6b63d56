//! RTP legs by API.

use std::net::SocketAddr;

use axum::Json;
use axum::extract::{ConnectInfo, Path};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use sangam_control::Problem;
use sangam_model::MediaInfo;
use sangam_node::{Broker, LegError, LegInfo, RtcpPort};
use serde_json::{Value, json};

use super::sent::Sent;
use super::{Shared, access, ask};
use crate::config::{self, Leg, Rtcp};
use crate::{assemble, sdp};

/// All legs.
pub(super) async fn list(state: Shared) -> Result<Json<Value>, Problem> {
    let legs = ask(&state, Broker::legs).await?;
    Ok(Json(
        json!({ "legs": legs.iter().map(facts).collect::<Vec<_>>() }),
    ))
}

/// One leg, or its description for players if the name ends in `.sdp`.
pub(super) async fn one(state: Shared, Path(name): Path<String>) -> Result<Response, Problem> {
    let plain = name.strip_suffix(".sdp").unwrap_or(&name).to_owned();
    let wants_sdp = plain != name;
    let legs = ask(&state, Broker::legs).await?;
    let leg = legs
        .into_iter()
        .find(|leg| leg.spec.name == plain)
        .ok_or_else(|| no_leg(&plain))?;
    if !wants_sdp {
        return Ok(Json(facts(&leg)).into_response());
    }
    let media = media_of(&state, &leg).await?;
    let text = sdp::write(&leg.spec.name, &[media]);
    Ok(([(CONTENT_TYPE, "application/sdp")], text).into_response())
}

/// Makes a leg as the configuration would.
pub(super) async fn add(
    state: Shared,
    ConnectInfo(caller): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    body: Sent,
) -> Result<Response, Problem> {
    let rights = state.access.may_change(caller, &headers)?;
    access::is_json(&headers)?;
    let leg: Leg = serde_json::from_slice(&body.0).map_err(|error| {
        Problem::bad(format!("no leg: {error}")).hint("see [[leg]] in `sangam config example`")
    })?;
    let wrong = config::check_leg(&leg);
    if !wrong.is_empty() {
        return Err(Problem::bad(wrong.join("; ")));
    }
    if let Some(to) = leg.send {
        state.access.may_send(to)?;
    }
    let spec = assemble::leg(&leg).map_err(Problem::bad)?;
    rights.may_use(&spec)?;
    let info = ask(&state, move |broker| broker.add_leg(spec))
        .await?
        .map_err(refused)?;
    tracing::info!(leg = info.spec.name, %caller, "leg made by API");
    Ok((StatusCode::CREATED, Json(facts(&info))).into_response())
}

/// Ends a leg.
pub(super) async fn remove(
    state: Shared,
    ConnectInfo(caller): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    let rights = state.access.may_change(caller, &headers)?;
    let wanted = name.clone();
    let removed = ask(&state, move |broker| {
        let legs = broker.legs();
        let leg = legs.iter().find(|leg| leg.spec.name == wanted);
        let leg = leg.ok_or_else(|| no_leg(&wanted))?;
        rights.may_use(&leg.spec)?;
        Ok::<_, Problem>(broker.remove_leg(&wanted))
    });
    if !removed.await?? {
        return Err(no_leg(&name));
    }
    tracing::info!(leg = name, %caller, "leg ended by API");
    Ok(StatusCode::NO_CONTENT)
}

fn no_leg(name: &str) -> Problem {
    Problem::not_found(format!("there is no leg {name:?}")).hint("GET /v1/legs lists them")
}

fn refused(error: LegError) -> Problem {
    match error {
        LegError::Nothing => Problem::bad(error.to_string()),
        LegError::Stopping => Problem::internal(error.to_string()),
        _ => Problem::conflict(error.to_string()),
    }
}

/// What the leg sends, as a player has to know it: the media of the first stream it selects.
async fn media_of(state: &Shared, leg: &LegInfo) -> Result<sdp::Media, Problem> {
    let send = leg.spec.send.clone().ok_or_else(|| {
        Problem::bad(format!("the leg {:?} sends nothing", leg.spec.name))
            .hint("only legs with `send` have a description for players")
    })?;
    let streams = ask(state, Broker::streams).await?;
    let info: Option<MediaInfo> = streams
        .into_iter()
        .find(|stream| send.filter.matches(&stream.topic))
        .map(|stream| stream.media);
    let info = info.ok_or_else(|| {
        Problem::not_found(format!("nothing is published under {}", send.filter))
            .hint("ask again once the stream runs")
    })?;
    Ok(sdp::Media {
        info,
        to: send.to,
        rtcp: rtcp(leg.spec.rtcp),
    })
}

fn rtcp(port: RtcpPort) -> Rtcp {
    match port {
        RtcpPort::Mux => Rtcp::Mux,
        RtcpPort::Next => Rtcp::NextPort,
    }
}

fn facts(leg: &LegInfo) -> Value {
    let spec = &leg.spec;
    let topic = spec
        .receive
        .as_ref()
        .map(|receive| receive.topic.as_str().to_owned());
    let filter = spec
        .send
        .as_ref()
        .map(|send| send.filter.as_str().to_owned());
    json!({
        "name": spec.name,
        "topic": topic.or(filter),
        "receive": spec.receive.as_ref().map(|_| leg.local),
        "send": spec.send.as_ref().map(|send| send.to),
        "local": leg.local,
        "rtcp": rtcp(spec.rtcp),
        "stream": leg.stream.map(|stream| stream.to_string()),
        "packets_received": leg.received,
        "packets_sent": leg.sent,
        "sdp": spec.send.as_ref().map(|_| format!("/v1/legs/{}.sdp", spec.name)),
    })
}
