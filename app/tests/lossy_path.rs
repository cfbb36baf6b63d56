//! Links over paths that lose packets: by QUIC media goes on at its own rate; by TCP the kernel's
//! BBR is used there, and only there.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

#[path = "common/authority.rs"]
mod authority;
mod common;

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

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
    let play = "play --json --topic lossy/# --from";
    let play: Vec<_> = play.split(' ').chain([from.as_str()]).collect();
    let mut player = sangam(&play);
    far.place(&mut player);
    let mut player = Running::start(player);
    let plays = |line: Value| line["streams"][0]["packets"].as_u64() > Some(0);
    let began = (0..60).any(|_| plays(player.json_line()));
    assert!(began, "nothing came");
    // Lines come once a second.
    for _ in 0..7 {
        player.json_line();
    }
    player.signal("INT");
    let (code, lines) = player.end();
    assert_eq!(code, 0, "{lines}");
    let summary: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    let stream = &summary["streams"][0];
    let (packets, lost) = (stream["packets"].as_u64(), stream["lost"].as_u64());
    // 400 packets a second; CUBIC would carry 1.5 Mb/s of it.
    assert!(packets > Some(1_000), "{stream}");
    assert!(lost.unwrap() * 20 < packets.unwrap(), "{stream}");
}

#[test]
fn a_link_by_tcp_uses_the_hosts_bbr_only_where_its_path_loses_packets() {
    let name = "a_link_by_tcp_uses_the_hosts_bbr_only_where_its_path_loses_packets";
    with_privileges(name, bbr_over_a_lossy_path);
}

/// A broker that others may call by TCP.
fn serve_tcp(site: &Site, more: &[&str]) -> Running {
    let listen = format!("{}:4600", site.v4());
    let args = "serve --json --no-auth --log error --http 127.0.0.1:0 --listen";
    let args: Vec<_> = args.split(' ').chain([listen.as_str()]).collect();
    let mut command = sangam(&args);
    command.args(more);
    command.env("SANGAM_LINKS_ACCEPT", "0.0.0.0/0");
    site.place(&mut command);
    let mut running = Running::start(command);
    running.json_line();
    running
}

/// Waits until the connections that were accepted at a site's port use this congestion control.
fn until_it_uses(site: &Site, congestion_control: &str) {
    let wanted = format!(" {congestion_control} ");
    let end = Instant::now() + Duration::from_secs(50);
    loop {
        let args = "-tinH state established sport = :4600";
        let output = site.command("ss").args(args.split(' ')).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        if text.replace('\t', " ").contains(&wanted) {
            return;
        }
        assert!(Instant::now() < end, "no {congestion_control}: {text}");
        thread::park_timeout(Duration::from_millis(200));
    }
}

fn bbr_over_a_lossy_path() {
    let network = Emulator::new(&["near", "far"], 1).unwrap();
    let set = |quality| network.control().set_both(0, 1, &quality).unwrap();
    set(Quality::delayed(Duration::from_millis(5)));
    let [near, far] = network.sites() else {
        panic!("two sites");
    };
    let choice = "/proc/sys/net/ipv4/tcp_congestion_control";
    if near.enter(|| fs::write(choice, "bbr")).is_err() {
        return eprintln!("this kernel has no BBR, or lends it to nobody: nothing to see");
    }
    let _first = serve_tcp(near, &[]);
    let link = format!("tcp://{}:4600", near.v4());
    let _second = serve_tcp(far, &["--link", &link]);
    until_it_uses(near, "cubic");
    // A link without media sends some five segments a second: it has to lose many to be judged.
    set(Quality {
        loss: Loss::Random(0.2),
        ..Quality::delayed(Duration::from_millis(5))
    });
    until_it_uses(near, "bbr");
}
