//! Whether the broker lives, and whether it is ready for clients.

use axum::Json;
use serde_json::{Value, json};

use super::answer::Problem;
use super::{Shared, ask};

/// The process runs and answers.
pub(super) async fn alive() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// The broker's threads answer. Links that are down do not make it unready: clients here still
/// reach each other, and restarting it would not help.
pub(super) async fn ready(state: Shared) -> Result<Json<Value>, Problem> {
    let (links, streams) = ask(&state, |broker| (broker.links(), broker.streams().len())).await?;
    let up = links.iter().filter(|link| link.up).count();
    let links = json!({ "up": up, "configured": state.neighbours });
    Ok(Json(
        json!({ "status": "ready", "links": links, "streams": streams }),
    ))
}
