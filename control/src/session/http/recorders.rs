//! Recorders, and what they have.

use std::time::Duration;

use axum::extract::{ConnectInfo, DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use sangam_session::is_recorder;
use serde_json::{Value, json};

use super::super::recorders::Beat;
use super::super::server::Failure;
use super::super::shapes::BEAT;
use super::Api;
use super::form::{Form, taken};
use super::handlers::{self, Asked, Named, answer, named};
use crate::Problem;
use crate::openapi::{Answer, Body, Routes, Who, put};

/// Bytes of what a recorder tells: 500 recordings, and what was said in replays.
const BEAT_LEN_MAX: usize = 262_144;
/// How long an answer waits for something new.
const WAIT: Duration = Duration::from_secs(1);

/// What recorders ask; their bodies may be longer than others'.
pub(super) fn routes() -> Routes<Api> {
    let asks = put("/v1/recorders/{recorder}", "recorderBeat")
        .about("Says that a recorder is there, and asks what it has to do.")
        .by(Who::Operator)
        .takes(Body::both("beat"))
        .gives(Answer::new(200, "What it has to do.", Body::both("work")))
        .fails(&[400, 401, 403, 413, 415, 429, 503]);
    let routes = Routes::new().on(asks, beat);
    routes.map(|router| router.layer(DefaultBodyLimit::max(BEAT_LEN_MAX)))
}

async fn beat(
    State(api): State<Api>,
    Path(recorder): Path<String>,
    ConnectInfo(from): ConnectInfo<std::net::SocketAddr>,
    headers: HeaderMap,
    body: handlers::Body,
) -> Response {
    let form = Form::of(&headers);
    let asked = (State(api), ConnectInfo(from), headers);
    answer(form, worked(asked, recorder, body).await)
}

async fn worked(
    (State(api), ConnectInfo(from), headers): Asked,
    recorder: String,
    body: handlers::Body,
) -> handlers::Answer {
    api.keeper.caller(from, &headers)?.may_serve()?;
    if !is_recorder(&recorder) {
        let text = "a recorder's name has 1 to 32 of a-z, A-Z, 0-9, '-', '_' and '.'";
        return Err(Problem::bad(text).with("code", "malformed"));
    }
    let beat: Beat = taken(&headers, body, &[&BEAT], None)?;
    if !beat.is_sound() {
        let text = "a recorder tells of up to 64 sessions, 500 recordings and 200 annotations";
        return Err(Problem::bad(text).with("code", "malformed"));
    }
    let (known, heard) = (beat.known, beat.heard());
    let mut changes = api.sessions.changes();
    let mut work = api.sessions.beat(&recorder, beat).await?;
    if known.is_some() && work["revision"].as_u64() == known {
        let news = changes.wait_for(|now| Some(*now) != known);
        // Nothing new is an answer, too.
        let _ = tokio::time::timeout(WAIT, news).await;
        work = api.sessions.beat(&recorder, heard).await?;
    }
    Ok((StatusCode::OK, "work", work))
}

pub(super) async fn list(asked: Asked, path: Named) -> Response {
    let form = Form::of(&asked.2);
    answer(form, listed(asked, path).await)
}

async fn listed(
    (State(api), ConnectInfo(from), headers): Asked,
    Path((tenant, name)): Named,
) -> handlers::Answer {
    let pass = api.keeper.caller(from, &headers)?;
    let id = named(&tenant, &name)?;
    pass.may_see(&id)?;
    Ok((StatusCode::OK, "recordings", recordings(&api, &id).await?))
}

/// The recordings of a session, as a document.
pub(in crate::session) async fn recordings(
    api: &Api,
    id: &sangam_session::SessionId,
) -> Result<Value, Failure> {
    let recordings = api.sessions.recordings(id).await?;
    Ok(json!({ "recordings": recordings }))
}
