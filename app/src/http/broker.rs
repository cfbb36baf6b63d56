//! What the broker is and what runs through it.

use axum::Json;
use sangam_control::Problem;
use sangam_node::{LinkInfo, StreamInfo, Transport};
use serde_json::{Value, json};

use super::{Shared, ask};

/// Identity, addresses, links and numbers.
pub(super) async fn facts(state: Shared) -> Result<Json<Value>, Problem> {
    let name = state.name.clone();
    let webrtc = state
        .webrtc
        .as_ref()
        .map(|gateway| gateway.addresses())
        .unwrap_or_default();
    let (http, uptime) = (state.address, state.started.elapsed().as_secs());
    let answer = ask(&state, move |broker| {
        json!({
            "id": broker.id().to_string(),
            "incarnation": broker.incarnation().0,
            "name": name,
            "version": env!("CARGO_PKG_VERSION"),
            "uptime_s": uptime,
            "udp": broker.addresses().udp,
            "tcp": broker.addresses().tcp,
            "tls": broker.addresses().of(Transport::Tls),
            "ws": broker.addresses().of(Transport::Ws),
            "wss": broker.addresses().of(Transport::Wss),
            "quic": broker.addresses().quic,
            "quic_links": broker.addresses().quic_links,
            "webrtc": webrtc,
            "http": http,
            "links": broker.links().iter().map(link).collect::<Vec<_>>(),
            "streams": broker.streams().len(),
            "clients": broker.peers(),
        })
    });
    answer.await.map(Json)
}

/// Every stream the broker knows.
pub(super) async fn streams(state: Shared) -> Result<Json<Value>, Problem> {
    let streams = ask(&state, sangam_node::Broker::streams).await?;
    Ok(Json(
        json!({ "streams": streams.iter().map(stream).collect::<Vec<_>>() }),
    ))
}

fn link(link: &LinkInfo) -> Value {
    json!({
        "address": link.address,
        "transport": link.transport,
        "peer": link.peer.map(|(broker, _)| broker.to_string()),
        "state": if link.up { "up" } else { "down" },
        "rtt_ms": link.rtt.map(|rtt| rtt.as_secs_f64() * 1_000.0),
    })
}

fn stream(stream: &StreamInfo) -> Value {
    let media = &stream.media;
    json!({
        "id": stream.id.to_string(),
        "topic": stream.topic.as_str(),
        "local": stream.local,
        "links": stream.links,
        "media": {
            "class": media.class.name(),
            "encoding": media.encoding,
            "payload_type": media.payload_type,
            "clock_rate": media.clock_rate,
            "channels": media.channels,
            "fmtp": media.fmtp,
        },
    })
}
