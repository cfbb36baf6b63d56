//! What was refused of what came over HTTP and WebSockets, counted by reason.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;
use axum::response::Response;

use crate::Problem;

/// Why something was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// More than one caller's share.
    Rate,
    /// A token is needed and there is none.
    NoToken,
    /// A token that is none of ours, or was changed.
    Token,
    /// A token that was good once.
    Expired,
    /// Not for this caller, or not now.
    Forbidden,
    /// What was sent makes no sense.
    Malformed,
    /// An XML document with a document type, which could hold entities.
    DocumentType,
    /// An XML document with more attributes or elements than there are names for.
    Crowded,
    /// More bytes than are taken.
    TooLarge,
    /// Another media type than is taken.
    MediaType,
}

/// Each with its label.
const REASONS: [(Reason, &str); 10] = [
    (Reason::Rate, "rate"),
    (Reason::NoToken, "no_token"),
    (Reason::Token, "invalid_token"),
    (Reason::Expired, "expired"),
    (Reason::Forbidden, "forbidden"),
    (Reason::Malformed, "malformed"),
    (Reason::DocumentType, "document_type"),
    (Reason::Crowded, "crowded"),
    (Reason::TooLarge, "too_large"),
    (Reason::MediaType, "media_type"),
];

/// Counters of all doors of a server.
#[derive(Debug, Default)]
pub struct Refusals([AtomicU64; REASONS.len()]);

impl Refusals {
    /// Counts what a response says, if it refuses.
    pub fn see(&self, response: &Response) {
        let said = response.extensions().get::<Reason>().copied();
        self.count(said.or_else(|| Reason::of(response.status(), "")));
    }

    /// Counts a problem that is told by a WebSocket.
    pub(crate) fn problem(&self, problem: &Problem) {
        self.count(problem.reason());
    }

    /// What was counted, by the reasons' labels.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed));
        REASONS.iter().map(|(_, label)| *label).zip(counts)
    }

    fn count(&self, reason: Option<Reason>) {
        let place = REASONS.iter().position(|(known, _)| Some(*known) == reason);
        if let Some(count) = place.and_then(|place| self.0.get(place)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Reason {
    /// The reason of a problem with this status and this `code`, if it refuses anybody.
    pub(crate) fn of(status: StatusCode, code: &str) -> Option<Self> {
        if let Some((reason, _)) = REASONS.iter().find(|(_, label)| *label == code) {
            return Some(*reason);
        }
        match status {
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => Some(Self::Malformed),
            StatusCode::UNAUTHORIZED => Some(Self::Token),
            StatusCode::FORBIDDEN => Some(Self::Forbidden),
            StatusCode::PAYLOAD_TOO_LARGE => Some(Self::TooLarge),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => Some(Self::MediaType),
            StatusCode::TOO_MANY_REQUESTS => Some(Self::Rate),
            _ => None,
        }
    }
}
