//! JSON or XML: what a caller sends, and what it wants to read.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::shapes::{Shape, find};
use super::super::xml::{self, Fault};
use super::At;
use crate::Problem;

/// Characters of what is said of a body that is not understood.
const SAID_LEN_MAX: usize = 512;

/// How a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Xml,
}

impl Form {
    /// What the caller wants to read; JSON if it does not say.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let text = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
        let text = text.unwrap_or_default();
        let at = |word: &str| text.find(word).unwrap_or(usize::MAX);
        // Whichever is named first.
        let xml = at("application/xml").min(at("text/xml"));
        match xml < at("json") {
            true => Self::Xml,
            false => Self::Json,
        }
    }

    /// A document of a shape.
    pub(super) fn document(self, status: StatusCode, shape: &str, value: Value) -> Response {
        match (self, find(shape)) {
            (Self::Xml, Some(shape)) => {
                let text = xml::write(shape, &value);
                (status, [(CONTENT_TYPE, "application/xml")], text).into_response()
            }
            _ => (status, Json(value)).into_response(),
        }
    }

    pub(super) fn problem(self, problem: Problem) -> Response {
        let reason = problem.reason();
        let (status, value) = problem.into_parts();
        let at = value["at"].as_str().map(|url| At(url.to_owned()));
        let mut answer = self.document(status, "problem", value);
        if let Some(at) = at {
            answer.extensions_mut().insert(at);
        }
        if let Some(reason) = reason {
            answer.extensions_mut().insert(reason);
        }
        answer
    }
}

/// What was sent, as one of these shapes: which, and what it says. In JSON the one shape, or by
/// `tag` one of several.
pub(super) fn taken<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
    shapes: &[&'static Shape],
    tag: Option<&str>,
) -> Result<T, Problem> {
    let wrong = |text: String| {
        // It may repeat what was sent.
        let short: String = text.chars().take(SAID_LEN_MAX).collect();
        Problem::bad(short)
            .with("code", "malformed")
            .hint("GET /v1/openapi.json and /v1/xgsp.xsd describe every document")
    };
    let body = body.map_err(|_| {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the body has more bytes than are taken here: 16,384, or 262,144 of recorders",
        )
        .with("code", "too_large")
    })?;
    let value = match media_type(headers)? {
        Form::Xml => {
            let text = str::from_utf8(&body).map_err(|_| wrong("this is no UTF-8".to_owned()))?;
            let refused = |fault: Fault| wrong(fault.to_string()).counted(fault.reason());
            let (name, mut value) = xml::read(shapes, text).map_err(refused)?;
            if let Some(tag) = tag {
                value[tag] = Value::from(name);
            }
            value
        }
        Form::Json => {
            serde_json::from_slice(&body).map_err(|error| wrong(format!("no JSON: {error}")))?
        }
    };
    serde_json::from_value(value).map_err(|error| wrong(error.to_string()))
}

/// A page in a browser cannot send these elsewhere without asking first.
fn media_type(headers: &HeaderMap) -> Result<Form, Problem> {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let kind = kind
        .and_then(|kind| kind.split(';').next())
        .unwrap_or_default();
    match kind.trim() {
        "application/json" => Ok(Form::Json),
        "application/xml" | "text/xml" => Ok(Form::Xml),
        _ => {
            let text = "the body must be JSON or XML";
            Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text)
                .with("code", "media_type")
                .hint("send the header \"Content-Type: application/json\" or application/xml"))
        }
    }
}
