//! Two brokers in two network namespaces, joined by a path that carries 1,280 bytes.

use std::process::Command;

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
