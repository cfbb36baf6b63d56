//! Recordings of topics by API.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Json;
use axum::extract::{ConnectInfo, Path};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use sangam_control::Problem;
use serde_json::{Value, json};

use super::sent::Sent;
use super::{Shared, State, access, waited};
use crate::commands::{Order, Orders};

/// All orders.
pub(super) async fn list(
    state: Shared,
    ConnectInfo(caller): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
) -> Result<Json<Value>, Problem> {
    state.access.may_operate(caller, &headers)?;
    let orders = orders(&state)?;
    let all = waited(move || orders.list()).await??;
    Ok(Json(json!({ "recordings": all })))
}

/// Orders a recording.
pub(super) async fn add(
    state: Shared,
    ConnectInfo(caller): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    body: Sent,
) -> Result<Response, Problem> {
    state.access.may_operate(caller, &headers)?;
    access::is_json(&headers)?;
    let orders = orders(&state)?;
    let order: Order = serde_json::from_slice(&body.0).map_err(|error| {
        Problem::bad(format!("no recording: {error}"))
            .hint("such as {\"name\": \"shift\", \"topics\": [\"plant/#\"], \"seconds\": 3600}")
    })?;
    let facts = waited(move || orders.add(order)).await??;
    tracing::info!(name = %facts["name"], %caller, "recording ordered by API");
    Ok((StatusCode::CREATED, Json(facts)).into_response())
}

/// Ends one.
pub(super) async fn remove(
    state: Shared,
    ConnectInfo(caller): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    state.access.may_operate(caller, &headers)?;
    let orders = orders(&state)?;
    let wanted = name.clone();
    if !waited(move || orders.remove(&wanted)).await?? {
        let none = Problem::not_found(format!("no recording {name:?} is ordered"));
        return Err(none.hint("GET /v1/recordings lists them"));
    }
    tracing::info!(name, %caller, "recording ended by API");
    Ok(StatusCode::NO_CONTENT)
}

fn orders(state: &State) -> Result<Arc<Orders>, Problem> {
    state.orders.clone().ok_or_else(|| {
        Problem::not_found("this broker records nothing").hint(
            "set sessions.archive to a folder, or run `sangam record` or `sangam archive recorder`",
        )
    })
}
