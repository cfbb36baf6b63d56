//! Brokers that are linked by streams, as their operator writes it down: real processes.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

#[path = "common/authority.rs"]
mod authority;
mod common;
#[path = "common/proxy.rs"]
mod proxy;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use authority::Authority;
use common::{Broker, Running, sangam};
use proxy::Proxy;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);

/// A broker, and where clients and neighbours come in through TLS.
struct Member {
    broker: Broker,
    tls: SocketAddr,
}

fn member(authority: &Authority, folder: &Path, change: impl FnOnce(&mut Command)) -> Member {
    let args = "serve --dev --json --log error --listen 127.0.0.1:0 --http 127.0.0.1:0";
    let mut command = sangam(&args.split(' ').collect::<Vec<_>>());
    authority.equip(&mut command, folder);
    command.env("SANGAM_LISTEN_TLS", "127.0.0.1:0");
    change(&mut command);
    let mut process = Running::start(command);
    let ready = process.json_line();
    let address = |value: &Value| value.as_str().unwrap().parse().unwrap();
    Member {
        tls: address(&ready["tls"][0]),
        broker: Broker {
            udp: address(&ready["udp"][0]),
            tcp: address(&ready["tcp"][0]),
            http: address(&ready["http"]),
            process,
        },
    }
}

#[track_caller]
fn until_linked(member: &Member, transport: &str) {
    let end = Instant::now() + PATIENCE;
    loop {
        let facts = member.broker.get("/v1/broker").1;
        let facts: Value = serde_json::from_str(&facts).unwrap();
        let link = &facts["links"][0];
        if link["state"] == "up" && link["transport"] == transport {
            return;
        }
        assert!(Instant::now() < end, "{facts}");
        thread::park_timeout(Duration::from_millis(20));
    }
}

#[test]
fn a_link_goes_through_a_proxy_where_quic_does_not_get_through() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path());
    let [far, near] = ["far", "near"].map(|name| authority.broker(name, "127.0.0.1"));
    let far = member(&authority, &far, |_| {});
    let port = far.tls.port();
    let proxy = Proxy::start(folder.path(), port, Some("anna secret"));
    let config = folder.path().join("near.toml");
    // Nobody speaks QUIC there.
    let ways =
        format!("[[link]]\naddress = [\"quic://127.0.0.1:{port}\", \"tls://127.0.0.1:{port}\"]");
    fs::write(&config, ways).unwrap();
    let near = member(&authority, &near, |command| {
        let url = proxy.url.replace("://", "://anna:secret@");
        command
            .env("SANGAM_LINKS_PROXY", url)
            .arg("--config")
            .arg(&config);
    });
    until_linked(&near, "tls");
    until_linked(&far, "tls");
}

#[test]
fn a_network_is_joined_by_the_first_way_that_works() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path());
    let [far, near] = ["far", "near"].map(|name| authority.broker(name, "127.0.0.1"));
    let far = member(&authority, &far, |_| {});
    let near = member(&authority, &near, |command| {
        // A port at which nobody hears datagrams.
        let ways = format!(
            "127.0.0.1:{port},tls://127.0.0.1:{port}",
            port = far.tls.port()
        );
        command.env("SANGAM_LINKS_JOIN", ways);
    });
    until_linked(&near, "tls");
    until_linked(&far, "tls");
}
