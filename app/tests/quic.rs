//! Brokers and clients that speak QUIC: real processes, real media, certificates in files.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

#[path = "common/authority.rs"]
mod authority;
mod common;

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use authority::Authority;
use common::{Broker, Running, clip, sangam, text};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);

/// A broker with QUIC ports for clients and neighbours.
struct Member {
    broker: Broker,
    quic: SocketAddr,
    quic_links: SocketAddr,
}

fn member(authority: &Authority, folder: &Path, links_at: &str, more: &[&str]) -> Member {
    let args = "serve --dev --json --log error --listen 127.0.0.1:0 --http 127.0.0.1:0";
    let mut command = sangam(
        &args
            .split(' ')
            .chain(more.iter().copied())
            .collect::<Vec<_>>(),
    );
    authority.equip(&mut command, folder);
    command
        .env("SANGAM_LISTEN_QUIC", "127.0.0.1:0")
        .env("SANGAM_LISTEN_QUIC_LINKS", links_at);
    let mut process = Running::start(command);
    let ready = process.json_line();
    let address = |value: &Value| value.as_str().unwrap().parse().unwrap();
    Member {
        quic: address(&ready["quic"][0]),
        quic_links: address(&ready["quic_links"][0]),
        broker: Broker {
            udp: address(&ready["udp"][0]),
            tcp: address(&ready["tcp"][0]),
            http: address(&ready["http"]),
            process,
        },
    }
}

fn linked(authority: &Authority, folder: &Path, to: &Member) -> Member {
    let link = format!("quic://{}", to.quic_links);
    member(authority, folder, "127.0.0.1:0", &["--link", &link])
}

/// The state and transport of a broker's first link.
fn link(member: &Member) -> (String, String) {
    let facts: Value = serde_json::from_str(&member.broker.get("/v1/broker").1).unwrap();
    let of = |key: &str| facts["links"][0][key].as_str().unwrap_or("none").to_owned();
    (of("state"), of("transport"))
}

#[track_caller]
fn until_link(member: &Member, state: &str) {
    let end = Instant::now() + PATIENCE;
    while link(member) != (state.to_owned(), "quic".to_owned()) {
        assert!(Instant::now() < end, "not {state}: {:?}", link(member));
        thread::park_timeout(Duration::from_millis(20));
    }
}

fn with_ca(args: &[&str], authority: &Authority) -> Command {
    let mut command = sangam(args);
    command.args(["--ca", &authority.file()]);
    command
}

#[test]
fn a_clip_goes_by_quic_from_client_to_broker_to_broker_to_client() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path());
    let clip = clip(folder.path()).display().to_string();
    let first = authority.broker("first", "127.0.0.1");
    let second = authority.broker("second", "127.0.0.1");
    let first = member(&authority, &first, "127.0.0.1:0", &[]);
    let second = linked(&authority, &second, &first);
    until_link(&second, "up");

    let from = format!("quic://{}", second.quic);
    let play = "play --json --topic test/# --seconds 9 --from";
    let args: Vec<_> = play.split(' ').chain([from.as_str()]).collect();
    let player = Running::start(with_ca(&args, &authority));
    let to = format!("quic://{}", first.quic);
    let publish = "publish --json --loop --topic test/clip --to";
    let args: Vec<_> = publish
        .split(' ')
        .chain([to.as_str(), "--file", &clip])
        .collect();
    let _publisher = Running::start(with_ca(&args, &authority));
    let (code, lines) = player.end();
    assert_eq!(code, 0, "{lines}");
    let summary: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    let streams = summary["streams"].as_array().unwrap();
    assert_eq!(streams.len(), 2, "{summary}");
    for stream in streams {
        assert!(stream["packets"].as_u64() > Some(50), "{stream}");
        assert_eq!(
            (&stream["brokers"], &stream["lost"]),
            (&2.into(), &0.into())
        );
    }
}

#[test]
fn a_neighbour_that_was_killed_is_linked_again_when_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path());
    let home = authority.broker("first", "127.0.0.1");
    let first = member(&authority, &home, "127.0.0.1:0", &[]);
    let second = linked(&authority, &authority.broker("second", "127.0.0.1"), &first);
    until_link(&second, "up");
    let port = first.quic_links.to_string();
    // SIGKILL: nothing is said goodbye.
    drop(first);
    until_link(&second, "down");
    let _first = member(&authority, &home, &port, &[]);
    until_link(&second, "up");
}

#[test]
fn strangers_are_not_linked_and_untrusted_brokers_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Authority::new(&folder.path().join("ours"));
    let theirs = Authority::new(&folder.path().join("theirs"));
    let broker = member(&ours, &ours.broker("a", "127.0.0.1"), "127.0.0.1:0", &[]);
    let stranger = linked(&theirs, &theirs.broker("b", "127.0.0.1"), &broker);
    let friend = linked(&ours, &ours.broker("c", "127.0.0.1"), &broker);
    until_link(&friend, "up");
    assert_eq!(link(&stranger).0, "down");

    let from = format!("quic://{}", broker.quic);
    let args = ["play", "--seconds", "1", "--topic", "a", "--from", &from];
    let output = with_ca(&args, &theirs).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
}

#[test]
fn a_certificate_with_another_key_is_a_configuration_error() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path());
    let (own, other) = (
        authority.broker("own", "127.0.0.1"),
        authority.broker("other", "127.0.0.1"),
    );
    let args = "serve --dev --listen 127.0.0.1:0 --http 127.0.0.1:0";
    let mut command = sangam(&args.split(' ').collect::<Vec<_>>());
    authority.equip(&mut command, &other);
    command
        .env("SANGAM_BROKER_DATA_DIR", own)
        .env("SANGAM_LISTEN_QUIC_LINKS", "127.0.0.1:0");
    let output = command.output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("broker.key"), "{said}");
}

/// Two brokers in two network namespaces, joined by a path that carries 1,280 bytes. `$1` is the
/// sangam binary, `$2` the folder of certificates.
const NARROW: &str = r#"
set -eu
mount -t tmpfs tmpfs /run
ip link set lo up
ip netns add far
ip link add near type veth peer name far netns far
ip address add 10.77.0.1/24 dev near
ip link set near mtu 1280 up
ip -n far address add 10.77.0.2/24 dev far
ip -n far link set far mtu 1280 up
ip -n far link set lo up
mkfifo /run/near /run/far /run/hold
sleep 60 > /run/hold & # keeps the brokers' standard input open
be() {
    export SANGAM_BROKER_DATA_DIR="$2/$1" SANGAM_TLS_CA="$2/ca.pem"
    export SANGAM_TLS_CERTIFICATE="$2/$1/certificate.pem" SANGAM_TLS_KEY="$2/$1/key.pem"
}
be near "$2"
SANGAM_LISTEN_QUIC_LINKS=10.77.0.1:4603 "$1" serve --json --until-stdin-closes \
    --listen 10.77.0.1:4600 --http 127.0.0.1:4680 \
    --leg 'name=cam,topic=narrow/cam,receive=127.0.0.1:5004,rtcp=next-port,media=96 H264/90000' \
    < /run/hold > /run/near &
read -r ready < /run/near
be far "$2"
SANGAM_LISTEN_QUIC=10.77.0.2:4602 ip netns exec far "$1" serve --json --until-stdin-closes \
    --listen 10.77.0.2:4600 --http 127.0.0.1:4680 --link quic://10.77.0.1:4603 \
    < /run/hold > /run/far &
read -r ready < /run/far
ffmpeg -v error -re -f lavfi -i testsrc2=size=640x360:rate=25 -t 10 -c:v libx264 \
    -preset ultrafast -tune zerolatency -g 25 -bf 0 -b:v 2M -payload_type 96 \
    -f rtp 'rtp://127.0.0.1:5004?pkt_size=1460' > /dev/null &
"$1" play --json --ca "$2/ca.pem" --from quic://10.77.0.2:4602 --topic 'narrow/#' --seconds 5
grep '^Ip: [0-9]' /proc/net/snmp
kill $(jobs -p)
"#;

#[test]
fn packets_of_1460_bytes_cross_a_path_of_1280_by_quic() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path());
    authority.broker("near", "10.77.0.1");
    authority.broker("far", "10.77.0.2");
    let flags = "--user --map-root-user --net --mount --pid --fork --kill-child";
    let output = Command::new("unshare")
        .args(flags.split(' '))
        .args(["sh", "-c", NARROW, "sh", env!("CARGO_BIN_EXE_sangam")])
        .arg(folder.path())
        .stdin(Stdio::null())
        .output()
        .expect("unshare is part of util-linux");
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    let lines = said.lines().filter_map(|l| serde_json::from_str(l).ok());
    let lines: Vec<Value> = lines.collect();
    let last = lines
        .last()
        .unwrap_or_else(|| panic!("nothing played: {said}\n{errors}"));
    let stream = &last["streams"][0];
    assert!(stream["packets"].as_u64() > Some(200), "{last}\n{errors}");
    assert_eq!(stream["lost"], 0, "{last}\n{errors}");
    // RFC 4293: ipSystemStatsOutFragCreates, the 19th number of the line.
    let ip = said.lines().find(|line| line.starts_with("Ip: "));
    let created = ip.and_then(|ip| ip.split(' ').nth(19)).unwrap();
    assert_eq!(created, "0", "we split, so IP does not have to");
}
