//! Two brokers in two network namespaces, joined by a path that carries 1,280 bytes, from the
//! beginning or from some moment on.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Running, sangam};
use sangam_emulator::{Emulator, Quality, Site, with_privileges};
use serde_json::Value;

/// Runs in namespaces of its own, which end with it. `$1` is the sangam binary.
///
/// FFmpeg sends RTP packets of 1,460 bytes to a leg of the near broker; a player behind the far
/// one prints what came. The last line is what IP itself had to fragment on the near side.
const SCRIPT: &str = r#"
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
SANGAM_LINKS_ACCEPT=10.77.0.0/24 "$1" serve --no-auth --json --until-stdin-closes \
    --listen 10.77.0.1:4600 --http 127.0.0.1:4680 \
    --leg 'name=cam,topic=narrow/cam,receive=127.0.0.1:5004,rtcp=next-port,media=96 H264/90000' \
    < /run/hold > /run/near &
read -r ready < /run/near
ip netns exec far "$1" serve --no-auth --json --until-stdin-closes --listen 10.77.0.2:4600 \
    --http 127.0.0.1:4680 --link 10.77.0.1:4600 < /run/hold > /run/far &
read -r ready < /run/far
ffmpeg -v error -re -f lavfi -i testsrc2=size=640x360:rate=25 -t 10 -c:v libx264 \
    -preset ultrafast -tune zerolatency -g 25 -bf 0 -b:v 2M -payload_type 96 \
    -f rtp 'rtp://127.0.0.1:5004?pkt_size=1460' > /dev/null &
ip netns exec far "$1" play --json --from 10.77.0.2:4600 --topic 'narrow/#' --seconds 5
grep '^Ip: [0-9]' /proc/net/snmp
kill $(jobs -p)
"#;

fn in_namespaces(script: &str) -> Command {
    let mut command = Command::new("unshare");
    // Without privileges a user namespace lends them.
    let flags = [
        "--user",
        "--map-root-user",
        "--net",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
    ];
    command
        .args(flags)
        .args(["sh", "-c", script, "sh", env!("CARGO_BIN_EXE_sangam")]);
    command
}

#[test]
fn packets_of_1460_bytes_cross_a_path_of_1280() {
    let output = in_namespaces(SCRIPT)
        .output()
        .expect("unshare is part of util-linux");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<Value> = text
        .lines()
        .filter_map(|l| serde_json::from_str(l).ok())
        .collect();
    let last = lines
        .last()
        .unwrap_or_else(|| panic!("nothing played: {text}\n{errors}"));
    let stream = &last["streams"][0];
    assert!(stream["packets"].as_u64() > Some(200), "{last}\n{errors}");
    assert_eq!(stream["lost"], 0, "{last}\n{errors}");

    // RFC 4293: ipSystemStatsOutFragCreates, the 19th number of the line.
    let ip = text
        .lines()
        .find(|line| line.starts_with("Ip: "))
        .expect("the kernel counts");
    let created: u64 = ip
        .split(' ')
        .nth(19)
        .and_then(|n| n.parse().ok())
        .expect("FragCreates");
    assert_eq!(created, 0, "we split, so IP does not have to: {ip}");
}

/// A broker that a site's neighbours may link to.
fn serve(site: &Site, more: &[&str]) -> Running {
    let listen = format!("{}:4600", site.v4());
    let args = "serve --json --no-auth --log warn --http 127.0.0.1:0 --listen";
    let args: Vec<_> = args.split(' ').chain([listen.as_str()]).collect();
    let mut command = sangam(&args);
    command.args(more).env("SANGAM_LINKS_ACCEPT", "10.0.0.0/8");
    site.place(&mut command);
    let mut running = Running::start(command);
    running.json_line();
    running
}

/// Packets of 1,400 bytes and more, but for the last of each frame.
fn camera(site: &Site) -> Running {
    let mut command = Command::new("ffmpeg");
    command
        .args("-v error -re -f lavfi -i testsrc2=size=640x360:rate=25 -t 60".split(' '))
        .args("-c:v libx264 -preset ultrafast -tune zerolatency -g 25 -bf 0".split(' '))
        .args("-b:v 2M -payload_type 96 -f rtp".split(' '))
        .arg("rtp://127.0.0.1:5004?pkt_size=1420")
        .stdin(Stdio::null());
    site.place(&mut command);
    Running::start(command)
}

/// How many packets a player at this site misses until it has more than `packets`.
fn missed_of(packets: u64, site: &Site) -> u64 {
    let from = format!("{}:4600", site.v4());
    let mut command = sangam(&["play", "--json", "--topic", "narrow/#", "--from", &from]);
    site.place(&mut command);
    let mut player = Running::start(command);
    let got = |line: Value| line["streams"][0]["packets"].as_u64() > Some(packets);
    let enough = (0..60).any(|_| got(player.json_line()));
    assert!(enough, "fewer than {packets} packets came");
    player.signal("INT");
    let (code, lines) = player.end();
    assert_eq!(code, 0, "{lines}");
    let summary: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    summary["streams"][0]["lost"].as_u64().unwrap()
}

#[test]
fn video_goes_on_when_a_link_is_narrowed_and_nobody_says_so() {
    let name = "video_goes_on_when_a_link_is_narrowed_and_nobody_says_so";
    with_privileges(name, narrowed_in_silence);
}

fn narrowed_in_silence() {
    let network = Emulator::new(&["near", "far"], 1).unwrap();
    let path = Quality::delayed(Duration::from_millis(10));
    network.control().set_both(0, 1, &path).unwrap();
    let [near, far] = network.sites() else {
        panic!("two sites");
    };
    let leg = "name=cam,topic=narrow/cam,receive=127.0.0.1:5004,rtcp=next-port,media=96 H264/90000";
    let mut first = serve(near, &["--leg", leg]);
    let log = first.log();
    let link = format!("{}:4600", near.v4());
    let _second = serve(far, &["--link", &link]);
    let _camera = camera(near);
    assert_eq!(missed_of(200, far), 0);

    let hole = Quality {
        mtu: 1_280,
        silent: true,
        ..path
    };
    network.control().set_both(0, 1, &hole).unwrap();
    // Found while the broker sends, so somebody has to listen.
    let mut listener = sangam(&["play", "--json", "--topic", "narrow/#", "--from"]);
    listener.args([format!("{}:4600", far.v4()).as_str(), "--seconds", "60"]);
    far.place(&mut listener);
    let _listener = Running::start(listener);
    log.says(&["carries datagrams", "\"size\":1232"]);

    assert_eq!(missed_of(300, far), 0);
    assert!(network.control().counters(0, 1).unwrap().too_big > 0);
}
