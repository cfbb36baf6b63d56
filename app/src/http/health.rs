//! Whether the broker lives, and whether it is ready for clients.

use std::time::Duration;

use axum::Json;
use sangam_control::Problem;
use serde_json::{Value, json};

use super::{Shared, ask};

/// Probes come every few seconds and give up about then.
const PATIENCE: Duration = Duration::from_secs(2);

/// The process runs and answers.
pub(super) async fn alive() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// The broker's threads answer. Links that are down do not make it unready: clients here still
/// reach each other, and restarting it would not help.
pub(super) async fn ready(state: Shared) -> Result<Json<Value>, Problem> {
    let answer = ask(&state, |broker| (broker.links(), broker.streams().len()));
    let answer = tokio::time::timeout(PATIENCE, answer).await;
    let (links, streams) = answer.map_err(|_| {
        Problem::unavailable("the broker's threads do not answer")
            .hint("look at its log and at the load of the machine; restart it if this stays")
    })??;
    let up = links.iter().filter(|link| link.up).count();
    let links = json!({ "up": up, "configured": state.neighbours });
    Ok(Json(
        json!({ "status": "ready", "links": links, "streams": streams }),
    ))
}
