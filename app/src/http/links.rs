//! What an operator says about links with certain brokers.

use std::net::SocketAddr;

use axum::Json;
use axum::extract::{ConnectInfo, Path};
use axum::http::HeaderMap;
use sangam_control::Problem;
use sangam_control::monitor::parse_id;
use sangam_model::BrokerId;
use sangam_node::{PinnedBy, RulesInForce};
use serde::Deserialize;
use serde_json::{Value, json};

use super::access::is_json;
use super::sent::Sent;
use super::{Shared, ask};

type Caller = ConnectInfo<SocketAddr>;

/// A weight to fix.
#[derive(Debug, Deserialize)]
struct Weight {
    weight: u16,
}

/// Fixed weights, forbidden links, and by whom.
pub(super) async fn rules(state: Shared) -> Result<Json<Value>, Problem> {
    let rules = ask(&state, sangam_node::Broker::rules).await?;
    Ok(Json(shown(&rules)))
}

/// Fixes what crossing the link to a broker costs.
pub(super) async fn weigh(
    state: Shared,
    Path(broker): Path<String>,
    ConnectInfo(caller): Caller,
    headers: HeaderMap,
    body: Sent,
) -> Result<Json<Value>, Problem> {
    is_json(&headers)?;
    let given = serde_json::from_slice::<Weight>(&body.0).ok();
    let Some(Weight { weight }) = given.filter(|given| given.weight > 0) else {
        return Err(Problem::bad("a weight lies between 1 and 65535")
            .hint("send it as {\"weight\": 500}; DELETE takes it back"));
    };
    let rules = changed(&state, (caller, &headers), &broker, move |broker, peer| {
        broker.weigh(peer, PinnedBy::Command, Some(weight));
    });
    let (peer, rules) = rules.await?;
    let there = |one: &(BrokerId, u16, PinnedBy)| (one.0, one.2) == (peer, PinnedBy::Command);
    taken(rules.weights.iter().any(there), &rules)
}

/// Takes that back.
pub(super) async fn unweigh(
    state: Shared,
    Path(broker): Path<String>,
    ConnectInfo(caller): Caller,
    headers: HeaderMap,
) -> Result<Json<Value>, Problem> {
    let rules = changed(&state, (caller, &headers), &broker, |broker, peer| {
        broker.weigh(peer, PinnedBy::Command, None);
    });
    Ok(Json(shown(&rules.await?.1)))
}

/// No link with a broker from now on.
pub(super) async fn forbid(
    state: Shared,
    Path(broker): Path<String>,
    ConnectInfo(caller): Caller,
    headers: HeaderMap,
) -> Result<Json<Value>, Problem> {
    let rules = changed(&state, (caller, &headers), &broker, |broker, peer| {
        broker.forbid(peer, true)
    });
    let (peer, rules) = rules.await?;
    taken(rules.forbidden.iter().any(|(id, _)| *id == peer), &rules)
}

/// Links with it are allowed.
pub(super) async fn allow(
    state: Shared,
    Path(broker): Path<String>,
    ConnectInfo(caller): Caller,
    headers: HeaderMap,
) -> Result<Json<Value>, Problem> {
    let rules = changed(&state, (caller, &headers), &broker, |broker, peer| {
        broker.forbid(peer, false)
    });
    let (peer, rules) = rules.await?;
    taken(rules.forbidden.iter().all(|(id, _)| *id != peer), &rules)
}

/// Makes an operator's change about a broker; what holds after it.
async fn changed(
    state: &Shared,
    (caller, headers): (SocketAddr, &HeaderMap),
    broker: &str,
    change: impl FnOnce(&sangam_node::Broker, BrokerId) + Send + 'static,
) -> Result<(BrokerId, RulesInForce), Problem> {
    state.access.may_operate(caller, headers)?;
    let peer = parse_id(broker).ok_or_else(|| {
        Problem::bad(format!("{broker:?} is no broker's id"))
            .hint("an id has 8 hexadecimal digits; see /v1/map")
    })?;
    let change = move |broker: &sangam_node::Broker| {
        if broker.id() == peer {
            return None;
        }
        change(broker, peer);
        Some(broker.rules())
    };
    let rules = ask(state, change).await?;
    let rules = rules.ok_or_else(|| Problem::bad("that is this broker itself"))?;
    Ok((peer, rules))
}

fn taken(taken: bool, rules: &RulesInForce) -> Result<Json<Value>, Problem> {
    match taken {
        true => Ok(Json(shown(rules))),
        false => Err(Problem::unavailable("there is no room for more such rules")
            .hint("GET /v1/links shows them; DELETE takes one back")),
    }
}

fn shown(rules: &RulesInForce) -> Value {
    let weight = |one: &(BrokerId, u16, PinnedBy)| {
        let (broker, weight, by) = (one.0.to_string(), one.1, one.2.name());
        json!({ "broker": broker, "weight": weight, "by": by })
    };
    let forbidden = |(broker, commanded): &(BrokerId, bool)| {
        let by = match commanded {
            true => PinnedBy::Command,
            false => PinnedBy::Configuration,
        };
        json!({ "broker": broker.to_string(), "by": by.name() })
    };
    json!({
        "weights": rules.weights.iter().map(weight).collect::<Vec<_>>(),
        "forbidden": rules.forbidden.iter().map(forbidden).collect::<Vec<_>>(),
    })
}
