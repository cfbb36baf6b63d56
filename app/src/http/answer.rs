//! Errors as JSON that says what to do.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// A refused request.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    error: String,
    hint: String,
}

impl Problem {
    fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self {
            status,
            error: error.into(),
            hint: String::new(),
        }
    }

    /// 400: the request makes no sense.
    pub(super) fn bad(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    /// 401: a token is needed.
    pub(super) fn unauthorized(error: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, error)
    }

    /// 403: this is not for the caller.
    pub(super) fn forbidden(error: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, error)
    }

    /// 404: no such thing.
    pub(super) fn not_found(error: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, error)
    }

    /// 405: another method.
    pub(super) fn method(error: impl Into<String>) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, error)
    }

    /// 409: in the way of something that exists.
    pub(super) fn conflict(error: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, error)
    }

    /// 503: not now.
    pub(super) fn unavailable(error: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error)
    }

    /// 500: our fault.
    pub(super) fn internal(error: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error)
    }

    /// Adds what to do.
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = Json(json!({ "error": self.error, "hint": self.hint }));
        (self.status, body).into_response()
    }
}
