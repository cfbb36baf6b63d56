//! A link by QUIC over a long path that loses packets: media goes on at its own rate.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

#[path = "common/authority.rs"]
mod authority;
mod common;

use std::process::{Command, Stdio};
use std::time::Duration;

use authority::Authority;
use common::{Running, sangam};
use sangam_emulator::{Emulator, Loss, Quality, Site, with_privileges};
use serde_json::Value;

#[test]
fn four_megabits_of_video_cross_a_long_path_that_loses_one_packet_in_a_hundred() {
    let name = "four_megabits_of_video_cross_a_long_path_that_loses_one_packet_in_a_hundred";
    with_privileges(name, video_over_a_lossy_path);
}

fn serve(site: &Site, authority: &Authority, more: &[&str]) -> (Running, Value) {
    let listen = format!("{}:4600", site.v4());
    let args = "serve --json --no-auth --log error --http 127.0.0.1:0 --listen";
    let args: Vec<_> = args.split(' ').chain([listen.as_str()]).collect();
    let mut command = sangam(&args);
    command.args(more);
    let folder = authority.broker(site.name(), &site.v4().to_string());
    authority.equip(&mut command, &folder);
    command.env("SANGAM_LISTEN_QUIC_LINKS", format!("{}:4603", site.v4()));
    site.place(&mut command);
    let mut running = Running::start(command);
    let ready = running.json_line();
    (running, ready)
}

/// Encoded at a constant rate, as a camera on a fixed line does.
fn camera(site: &Site) -> Command {
    let mut command = Command::new("ffmpeg");
    command
        .args("-v error -re -f lavfi -i testsrc2=size=1280x720:rate=25 -t 30".split(' '))
        .args("-c:v libx264 -preset ultrafast -tune zerolatency -g 25 -bf 0".split(' '))
        .args("-b:v 4M -minrate 4M -maxrate 4M -bufsize 1M".split(' '))
        .args("-x264-params nal-hrd=cbr -payload_type 96 -f rtp".split(' '))
        .arg("rtp://127.0.0.1:5004?pkt_size=1200")
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    site.place(&mut command);
    command
}

fn video_over_a_lossy_path() {
    let network = Emulator::new(&["near", "far"], 1).unwrap();
    let path = Quality {
        loss: Loss::Random(0.01),
        ..Quality::delayed(Duration::from_millis(50))
    };
    network.control().set_both(0, 1, &path).unwrap();
    let [near, far] = network.sites() else {
        panic!("two sites");
    };
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path());
    let leg = "name=cam,topic=lossy/cam,receive=127.0.0.1:5004,rtcp=next-port,media=96 H264/90000";
    let _first = serve(near, &authority, &["--leg", leg]);
    let link = format!("quic://{}:4603", near.v4());
    let _second = serve(far, &authority, &["--link", &link]);
    let _camera = Running::start(camera(near));
    let from = format!("{}:4600", far.v4());
    let play = "play --json --topic lossy/# --seconds 8 --from";
    let play: Vec<_> = play.split(' ').chain([from.as_str()]).collect();
    let mut player = sangam(&play);
    far.place(&mut player);
    let (code, lines) = Running::start(player).end();
    assert_eq!(code, 0, "{lines}");
    let summary: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    let stream = &summary["streams"][0];
    let (packets, lost) = (stream["packets"].as_u64(), stream["lost"].as_u64());
    // 400 packets a second; CUBIC would carry 1.5 Mb/s of it.
    assert!(packets > Some(1_000), "{stream}");
    assert!(lost.unwrap() * 20 < packets.unwrap(), "{stream}");
}
