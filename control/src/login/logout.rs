//! Logging out: here, and at the provider where it can be asked to
//! (OpenID Connect RP-Initiated Logout 1.0).
//!
//! Nothing is kept here of a login; the page throws its tokens away before it comes. So this only
//! sends the browser to the provider, and from there back to the meeting.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::Response;

use super::errand::{Errand, session};
use super::{Login, redirect};
use crate::Problem;

/// Where the provider sends people back to, below [`super::LoginOptions::url`].
pub(super) const RETURN: &str = "/v1/logout/end";

type Asks = Query<HashMap<String, String>>;

/// Sends a browser to the provider, or back at once where that has no such page.
pub(super) async fn begin(
    State(login): State<Arc<Login>>,
    Query(asks): Asks,
) -> Result<Response, Problem> {
    let to = meeting(&asks, "to")?;
    match login.provider.farewell(to).await {
        Ok(Some(address)) => Ok(login.sent(address.as_str())),
        Ok(None) => Ok(login.parted(to)),
        Err(fault) => {
            // Whoever leaves is not held up; the provider may remember the person.
            tracing::warn!(%fault, "somebody is logged out here only");
            Ok(login.parted(to))
        }
    }
}

/// Takes a browser that comes back.
pub(super) async fn end(
    State(login): State<Arc<Login>>,
    Query(asks): Asks,
) -> Result<Response, Problem> {
    Ok(login.parted(meeting(&asks, "state")?))
}

/// Addresses can be made by others: they lead to meetings only.
fn meeting<'a>(asks: &'a HashMap<String, String>, name: &str) -> Result<&'a str, Problem> {
    let to = asks.get(name).map(String::as_str).unwrap_or_default();
    session(to).map_err(Problem::bad)?;
    Ok(to)
}

impl Login {
    /// Back to the meeting, as somebody whom nobody knows.
    fn parted(&self, to: &str) -> Response {
        self.sent(&format!("{to}#login=left"))
    }

    /// A login that was begun is over, too.
    fn sent(&self, to: &str) -> Response {
        redirect(to, &Errand::forgotten(self.is_secure()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_back_leads_to_meetings_only() {
        let asks = |to: &str| HashMap::from([("to".to_owned(), to.to_owned())]);
        assert_eq!(
            meeting(&asks("/m/meet/weekly"), "to").unwrap(),
            "/m/meet/weekly"
        );
        for to in [
            "",
            "/",
            "//evil.example/m/a/b",
            "https://evil.example/",
            "/m/meet/a#b",
            "/m/meet/a\r\nb",
        ] {
            assert!(meeting(&asks(to), "to").is_err(), "{to}");
        }
        assert!(meeting(&HashMap::new(), "to").is_err());
    }
}
