//! The network map, where clients should go, and leaving in good order.

use std::net::SocketAddr;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{ConnectInfo, Query};
use axum::http::HeaderMap;
use sangam_control::Problem;
use sangam_model::Topic;
use sangam_node::{Addresses, MapBroker, NetworkMap, Transport};
use sangam_route::{Candidate, locate};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Shared, ask};

/// Brokers named by [`best`] unless told otherwise, and at most.
const BEST: usize = 3;
const BEST_MAX: usize = 16;

/// Who asks where to go.
#[derive(Debug, Deserialize)]
pub(super) struct Wish {
    session: String,
    region: Option<String>,
    count: Option<usize>,
}

/// Every broker on the map, with its links and their weights.
pub(super) async fn map(state: Shared) -> Result<Json<Value>, Problem> {
    let map = current(&state).await?;
    let brokers: Vec<Value> = map.brokers.iter().map(broker).collect();
    let refused = map.refused;
    Ok(Json(json!({
        "epoch": format!("{:016x}", map.epoch),
        "brokers": brokers,
        "refused": {
            "full": refused.full,
            "stale": refused.stale,
            "invalid": refused.invalid,
            "identity": refused.identity,
            "lost": refused.lost,
        },
    })))
}

/// The best brokers for a client of a session.
pub(super) async fn best(
    state: Shared,
    wish: Result<Query<Wish>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let Query(wish) = wish.map_err(|refused| {
        Problem::bad(refused.body_text())
            .hint("ask /v1/locate?session=acme/weekly, and region and count if you like")
    })?;
    let session = Topic::new(&wish.session).map_err(|error| {
        Problem::bad(format!("session {:?}: {error}", wish.session))
            .hint("name tenant and session, such as /v1/locate?session=acme/weekly&region=eu")
    })?;
    let map = current(&state).await?;
    let listens = ask(&state, |broker| broker.addresses().clone()).await?;
    let own = map.brokers.first().map(|own| own.id);
    // This broker's own place if the caller does not know its own.
    let here = map.brokers.first().map(|own| own.region.clone());
    let region = wish.region.or(here).unwrap_or_default();
    let usable = |one: &&MapBroker| one.reachable && !one.draining && !one.address.is_empty();
    let usable: Vec<&MapBroker> = map.brokers.iter().filter(usable).collect();
    let candidates: Vec<Candidate<'_>> = usable
        .iter()
        .map(|one| Candidate {
            id: one.id,
            region: &one.region,
            load: one.load,
        })
        .collect();
    let count = wish.count.unwrap_or(BEST).min(BEST_MAX);
    let chosen = locate(session.as_str(), &region, &candidates, count);
    let found = chosen
        .iter()
        .filter_map(|id| usable.iter().find(|one| one.id == *id));
    let brokers: Vec<Value> = found
        .map(|one| {
            json!({
                "id": one.id.to_string(),
                "address": one.address,
                "ways": ways(&one.address, (Some(one.id) == own).then_some(&listens)),
                "region": one.region,
                "load_percent": one.load,
            })
        })
        .collect();
    Ok(Json(
        json!({ "session": session.as_str(), "brokers": brokers }),
    ))
}

/// How clients reach a broker that is known by this address, with schemes, as far as is known here:
/// of others that is what the map tells.
fn ways(address: &str, own: Option<&Addresses>) -> Vec<String> {
    let Ok(known) = address.parse::<SocketAddr>() else {
        return Vec::new();
    };
    let mut ways = vec![format!("udp://{known}")];
    let Some(own) = own else {
        return ways;
    };
    let streams = Transport::ALL.map(|kind| (kind.name(), own.of(kind)));
    for (scheme, listens) in [("quic", own.quic.clone())].into_iter().chain(streams) {
        for at in listens {
            // Whoever listens everywhere is reached where the map says; whoever listens on
            // loopback alone is reached from this machine alone.
            let ip = match at.ip().is_unspecified() {
                true if at.is_ipv4() == known.is_ipv4() => known.ip(),
                true => continue,
                false => at.ip(),
            };
            if !ip.is_loopback() || known.ip().is_loopback() {
                ways.push(format!("{scheme}://{}", SocketAddr::new(ip, at.port())));
            }
        }
    }
    ways
}

/// Streams go around this broker from now on, and nobody is sent here; it still serves who is here.
pub(super) async fn drain(
    state: Shared,
    ConnectInfo(caller): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
) -> Result<Json<Value>, Problem> {
    state.access.may_operate(caller, &headers)?;
    ask(&state, sangam_node::Broker::drain).await?;
    Ok(Json(json!({ "draining": true })))
}

async fn current(state: &Shared) -> Result<NetworkMap, Problem> {
    let map = ask(state, sangam_node::Broker::map).await?;
    map.ok_or_else(|| Problem::unavailable("the broker is stopping"))
}

fn broker(one: &MapBroker) -> Value {
    let link = |(to, weight): &(_, u16)| {
        let to: &sangam_model::BrokerId = to;
        json!({ "to": to.to_string(), "weight": weight })
    };
    json!({
        "id": one.id.to_string(),
        "incarnation": one.incarnation.0,
        "region": one.region,
        "address": one.address,
        "load_percent": one.load,
        "draining": one.draining,
        "reachable": one.reachable,
        "links": one.links.iter().map(link).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_tells_how_clients_of_every_kind_reach_it() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let own = Addresses {
            udp: vec![at("0.0.0.0:4600")],
            tcp: vec![at("127.0.0.1:4600")],
            quic: vec![at("0.0.0.0:4602"), at("[::]:4602")],
            quic_links: vec![at("0.0.0.0:4603")],
            streams: vec![
                (Transport::Tls, at("0.0.0.0:4604")),
                (Transport::Wss, at("198.51.100.9:4605")),
            ],
        };
        let expected = [
            "udp://198.51.100.1:4600",
            "quic://198.51.100.1:4602",
            "tls://198.51.100.1:4604",
            "wss://198.51.100.9:4605",
        ];
        assert_eq!(ways("198.51.100.1:4600", Some(&own)), expected);
        assert_eq!(ways("198.51.100.1:4600", None), expected[..1]);
        assert!(ways("", None).is_empty());
    }
}
