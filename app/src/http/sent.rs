//! What a request holds.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use sangam_control::Problem;

/// The body, if it is not longer than is taken.
pub(super) struct Sent(pub(super) Bytes);

impl Sent {
    /// The same as text.
    pub(super) fn text(&self) -> Result<&str, Problem> {
        let text = str::from_utf8(&self.0);
        text.map_err(|_| Problem::bad("the body is no UTF-8").with("code", "malformed"))
    }
}

impl<S: Send + Sync> FromRequest<S> for Sent {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let taken = Bytes::from_request(request, state).await;
        // It is too long, or its sender went away.
        taken.map(Self).map_err(|refused| {
            Problem::new(refused.status(), refused.body_text())
                .hint("GET /v1/openapi.json describes every body")
        })
    }
}
