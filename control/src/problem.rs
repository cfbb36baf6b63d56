//! Errors of HTTP as JSON that says what to do.

use std::fmt;

use axum::Json;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use crate::Reason;

/// A refused request.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    error: String,
    hint: String,
    more: Map<String, Value>,
    reason: Option<Reason>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error)
    }
}

impl Problem {
    /// Any status.
    pub fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self {
            status,
            error: error.into(),
            hint: String::new(),
            more: Map::new(),
            reason: None,
        }
    }

    /// 400: the request makes no sense.
    pub fn bad(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    /// 401: a token is needed.
    pub fn unauthorized(error: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, error)
    }

    /// 403: this is not for the caller.
    pub fn forbidden(error: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, error)
    }

    /// 404: no such thing.
    pub fn not_found(error: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, error)
    }

    /// 405: another method.
    pub fn method(error: impl Into<String>) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, error)
    }

    /// 409: in the way of something that exists.
    pub fn conflict(error: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, error)
    }

    /// 422: understood, but it costs more than it may.
    pub fn too_dear(error: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, error)
    }

    /// 503: not now.
    pub fn unavailable(error: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error)
    }

    /// 500: our fault.
    pub fn internal(error: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error)
    }

    /// Adds what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Adds a field for programs.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// Counted as this, and not as its status and `code` say.
    #[must_use]
    pub(crate) fn counted(mut self, reason: Reason) -> Self {
        self.reason = Some(reason);
        self
    }

    /// As what it is counted.
    pub(crate) fn reason(&self) -> Option<Reason> {
        let code = self.more.get("code").and_then(Value::as_str);
        let told = || Reason::of(self.status, code.unwrap_or_default());
        self.reason.or_else(told)
    }

    /// Its status and its document.
    #[must_use]
    pub fn into_parts(self) -> (StatusCode, Value) {
        let mut body = self.more;
        body.insert("error".to_owned(), json!(self.error));
        body.insert("hint".to_owned(), json!(self.hint));
        (self.status, Value::Object(body))
    }
}

impl From<WebSocketUpgradeRejection> for Problem {
    fn from(refused: WebSocketUpgradeRejection) -> Self {
        Self::new(refused.status(), refused.body_text())
            .with("code", "malformed")
            .hint("open a WebSocket here (RFC 6455)")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let reason = self.reason();
        let (status, body) = self.into_parts();
        let mut answer = (status, Json(body)).into_response();
        if let Some(reason) = reason {
            answer.extensions_mut().insert(reason);
        }
        answer
    }
}
