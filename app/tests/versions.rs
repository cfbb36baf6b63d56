//! Programs of releases that do not understand each other say so, with both versions, on both
//! sides.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::net::{SocketAddr, UdpSocket};

use common::{Broker, Running, run, sangam, text};
use sangam_wire::{Capabilities, Frame, Hello, Refusal, Refuse, Role, VERSION};

/// Somebody who speaks the version before ours, and says so to whoever calls.
fn elder() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 2_048];
        while let Ok((len, from)) = socket.recv_from(&mut bytes) {
            // It reads no more than what never changes.
            let nonce = bytes[4..12].try_into().map(u64::from_be_bytes);
            let mut answer = Vec::new();
            let refuse = Refuse {
                nonce: nonce.unwrap(),
                reason: Refusal::Version,
                retry_after_ms: 0,
                speaks: VERSION - 1,
            };
            Frame::Refuse(refuse).encode(&mut answer);
            assert!(answer.len() <= len);
            socket.send_to(&answer, from).unwrap();
        }
    });
    address
}

fn serve(more: &[&str]) -> Running {
    let args = "serve --dev --json --log warn --listen 127.0.0.1:0 --http 127.0.0.1:0";
    let args: Vec<&str> = args.split(' ').chain(more.iter().copied()).collect();
    Running::start(sangam(&args))
}

#[test]
fn a_broker_whose_neighbour_is_too_old_names_both_versions_and_serves_on() {
    let elder = elder();
    let mut broker = serve(&["--link", &elder.to_string()]);
    let ready = broker.json_line();
    let (theirs, ours) = (format!("theirs={}", VERSION - 1), format!("ours={VERSION}"));
    broker
        .log()
        .says(&["ERROR", &elder.to_string(), &theirs, &ours, "upgrade"]);
    assert_eq!(ready["event"], "ready");
    assert!(broker.child.try_wait().unwrap().is_none(), "it serves on");
}

#[test]
fn a_broker_that_a_too_old_program_calls_names_both_versions() {
    let mut broker = serve(&[]);
    let at = broker.json_line()["udp"][0].as_str().unwrap().to_owned();
    let mut hello = Vec::new();
    Frame::Hello(Hello {
        role: Role::Client,
        version_min: VERSION - 2,
        version_max: VERSION - 1,
        capabilities: Capabilities::OURS,
        nonce: 77,
        datagram_max: 1_232,
        clock_domain: 1,
        cookie: None,
    })
    .encode(&mut hello);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(&hello, &at).unwrap();
    let mut bytes = [0; 64];
    let len = socket.recv(&mut bytes).unwrap();
    let Ok(Frame::Refuse(refuse)) = Frame::decode(&bytes[..len]) else {
        panic!("{:?}", &bytes[..len]);
    };
    assert_eq!((refuse.reason, refuse.speaks), (Refusal::Version, VERSION));
    let theirs = format!("theirs={} to {}", VERSION - 2, VERSION - 1);
    let ours = format!("ours={VERSION}");
    broker
        .log()
        .says(&["WARN", &theirs, &ours, "neighbouring releases"]);
}

#[test]
fn a_client_of_a_broker_that_is_too_old_names_both_versions() {
    let elder = elder().to_string();
    let output = run(&["play", "--from", &elder, "--topic", "a/#", "--seconds", "1"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for word in [
        elder,
        format!("version {} of the protocol", VERSION - 1),
        format!("this program version {VERSION}"),
        "upgrade the broker".to_owned(),
    ] {
        assert!(said.contains(&word), "{said}");
    }
}

#[test]
fn a_client_of_a_broker_of_its_own_version_is_welcome() {
    let broker = Broker::start(&[]);
    let from = broker.udp.to_string();
    let output = run(&["play", "--from", &from, "--topic", "a/#", "--seconds", "1"]);
    assert!(!text(&output.stderr).contains("version"));
}
