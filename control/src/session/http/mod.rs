//! The API over HTTP: JSON, or XML where that is asked for.

mod form;
mod handlers;
mod recorders;
mod table;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{LOCATION, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};

pub(crate) use handlers::LENGTH_MS;
pub(super) use recorders::recordings;

use super::grants::Gatekeeper;
use super::limit::Limits;
use super::server::{Failure, Sessions};
use crate::openapi::Routes;
use crate::{Problem, Refusals};
use form::Form;
use sangam_session::Refusal;
use table::table;

/// What the handlers see.
#[derive(Clone)]
pub struct Api {
    /// The sessions.
    pub sessions: Sessions,
    /// Who may do what.
    pub keeper: Arc<dyn Gatekeeper>,
    /// Where people join: the session's `tenant/name` is put behind it.
    pub link: String,
    /// What was refused here, and over HTTP and WebSockets in all.
    pub refusals: Arc<Refusals>,
    limits: Arc<Limits>,
}

impl Api {
    /// The API of these sessions.
    #[must_use]
    pub fn new(sessions: Sessions, keeper: Arc<dyn Gatekeeper>, link: String) -> Self {
        Self {
            sessions,
            keeper,
            link,
            refusals: Arc::default(),
            limits: Arc::default(),
        }
    }
}

/// The server at this URL answers instead.
#[derive(Clone)]
struct At(String);

/// Everything below `/v1/sessions`, and what recorders ask.
pub fn routes<S: Clone + Send + Sync + 'static>(api: Api) -> Routes<S> {
    table().map(|router| {
        let limited = from_fn_with_state(api.clone(), limited);
        router.layer(limited).with_state(api)
    })
}

/// Lets nobody ask more than its share.
pub(crate) async fn limited(
    State(api): State<Api>,
    ConnectInfo(caller): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    if api
        .limits
        .allows(caller.ip().to_canonical(), Instant::now())
    {
        let path = request.uri().path_and_query().map(ToString::to_string);
        let mut answer = next.run(request).await;
        if let Some(At(server)) = answer.extensions().get() {
            let there = format!("{server}{}", path.unwrap_or_default());
            if let Ok(there) = HeaderValue::try_from(there) {
                answer.headers_mut().insert(LOCATION, there);
            }
        }
        return answer;
    }
    let wait = Limits::wait().as_secs();
    let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "too many requests at once")
        .with("code", "rate")
        .hint(format!("100 a second are served; try again in {wait} s"));
    let mut answer = Form::of(request.headers()).problem(problem);
    answer
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from(wait));
    answer
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        let text = failure.to_string();
        let (status, code, hint) = match &failure {
            Failure::NoSession(_) => (
                StatusCode::NOT_FOUND,
                "no_session",
                "GET /v1/sessions lists them",
            ),
            Failure::Exists(_) => (StatusCode::CONFLICT, "exists", "choose another name"),
            Failure::Refused(refusal) => (status_of(refusal), refusal.code(), ""),
            Failure::Replaced => (StatusCode::CONFLICT, "replaced", "go on there"),
            Failure::Elsewhere(url) => {
                let problem = Self::new(StatusCode::TEMPORARY_REDIRECT, text);
                return problem
                    .with("code", "elsewhere")
                    .with("at", url.as_str())
                    .hint("ask there");
            }
            Failure::Moving(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "moving",
                "another server takes it over within seconds; try again",
            ),
            Failure::Busy => {
                let hint = "try again in a moment, or at another server";
                (StatusCode::SERVICE_UNAVAILABLE, "busy", hint)
            }
            _ => (
                StatusCode::SERVICE_UNAVAILABLE,
                "unavailable",
                "try again in a moment",
            ),
        };
        Self::new(status, text).with("code", code).hint(hint)
    }
}

const fn status_of(refusal: &Refusal) -> StatusCode {
    match refusal {
        Refusal::Text(..) | Refusal::Range(_) => StatusCode::UNPROCESSABLE_ENTITY,
        Refusal::NoMember(_) | Refusal::NoRoom(_) | Refusal::NoRecording(_) => {
            StatusCode::NOT_FOUND
        }
        Refusal::RoomExists(_) | Refusal::NotNow(_) | Refusal::Full(..) => StatusCode::CONFLICT,
        Refusal::Fenced => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::FORBIDDEN,
    }
}

/// Like any other problem, but in the form that was asked for.
fn refused(form: Form, problem: impl Into<Problem>) -> Response {
    form.problem(problem.into()).into_response()
}
