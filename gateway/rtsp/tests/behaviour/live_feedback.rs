use std::net::UdpSocket;
use std::time::{Duration, Instant};

use sangam_wire::rtcp::{self, Target};

use crate::camera::{Camera, Habit, KEY, Set, USUAL, control};
use crate::live::{VIDEO, kinds, pictures};
use crate::playing::headers;
use crate::stage::PATIENCE;

const TOPIC: &str = "test/camera";
/// A camera that makes key frames when asked.
const ASKED: Habit = Habit { keys: 0, ..USUAL };

#[track_caller]
fn is_asked(camera: &Camera, least: u32) {
    let until = Instant::now() + PATIENCE;
    while camera.asked() < least {
        assert!(Instant::now() < until, "{}", camera.asked());
        std::thread::yield_now();
    }
}

/// What a player says that lost a picture (RFC 4585 section 6.3.1).
fn picture_loss() -> Vec<u8> {
    let mut compound = Vec::new();
    rtcp::receiver_report(&mut compound, 5, &[]);
    let target = Target {
        sender: 5,
        media: 6,
    };
    rtcp::picture_loss(&mut compound, target);
    compound
}

#[test]
fn who_begins_to_play_has_a_key_frame_made() {
    let set = Set::new();
    let camera = set.camera(TOPIC, ASKED);
    for asked in 1..4 {
        let (mut player, ..) = set.play(TOPIC);
        is_asked(&camera, asked);
        let packets = pictures(&mut player, 5);
        assert_eq!(kinds(&packets)[0], KEY);
    }
}

#[test]
fn a_lost_picture_reaches_the_camera_from_both_kinds_of_players() {
    let set = Set::new();
    let camera = set.camera(TOPIC, ASKED);
    let (mut player, ..) = set.play(TOPIC);
    pictures(&mut player, 5);
    let before = camera.asked();
    let report = picture_loss();
    let head = [b'$', VIDEO + 1, 0, report.len() as u8];
    let begin = Instant::now();
    // However often it is said.
    for _ in 0..50 {
        player.send(&[&head[..], &report].concat());
    }
    set.counts("live_pictures_lost", 50);
    is_asked(&camera, before + 1);
    let most = begin.elapsed().as_millis() as u32 / 300 + 2;
    assert!(camera.asked() <= before + most, "{} {most}", camera.asked());

    let url = set.url(TOPIC);
    let mut player = set.player();
    let described = player.ask("DESCRIBE", &url, &[]);
    let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let [rtp, rtcp] = sockets
        .each_ref()
        .map(|socket| socket.local_addr().unwrap().port());
    let transport = format!("Transport: RTP/AVP;unicast;client_port={rtp}-{rtcp}");
    let answer = player.ask("SETUP", &control(&described, "video"), &[&transport]);
    let mut words = answer.headers["transport"].split(';');
    let ports = words.find_map(|word| word.strip_prefix("server_port="));
    let port = ports.unwrap().split('-').nth(1).unwrap();
    let port: u16 = port.parse().unwrap();
    let session = answer.headers["session"].split(';').next().unwrap();
    let session = format!("Session: {session}");
    assert_eq!(player.ask("PLAY", &url, &[&session]).status, 200);
    sockets[0].set_read_timeout(Some(PATIENCE)).unwrap();
    for _ in 0..5 {
        sockets[0].recv(&mut [0; 2_000]).unwrap();
    }
    let before = camera.asked();
    while camera.asked() == before {
        sockets[1]
            .send_to(&picture_loss(), ("127.0.0.1", port))
            .unwrap();
        sockets[0].recv(&mut [0; 2_000]).unwrap();
        assert!(begin.elapsed() < PATIENCE + Duration::from_secs(20));
    }
    set.counts("live_pictures_lost", 51);
}

#[test]
fn who_does_not_read_loses_pictures_up_to_a_key_frame_and_delays_nobody() {
    let set = Set::new();
    // Five megabytes a second: more than any kernel keeps for a connection, soon.
    let habit = Habit {
        keys: 25,
        packets: 80,
        len: 1_200,
    };
    let _camera = set.camera(TOPIC, habit);
    let (mut slow, ..) = set.play(TOPIC);
    let (mut honest, ..) = set.play(TOPIC);
    let begin = Instant::now();
    let mut last = None;
    while set.count("live_unread") == 0 {
        let (channel, bytes) = honest.packet().unwrap();
        if channel == VIDEO {
            last = headers(&[(channel, bytes)], VIDEO).pop();
        }
        assert!(begin.elapsed() < PATIENCE, "{:?}", set.server.counts());
    }
    // A second later the other one is a second further.
    let last = last.unwrap();
    let (mut passed, begin) = (0, Instant::now());
    while passed < 90_000 {
        let (channel, bytes) = honest.packet().unwrap();
        let header = headers(&[(channel, bytes)], VIDEO).pop();
        passed = header.map_or(passed, |header| {
            header.timestamp.wrapping_sub(last.timestamp)
        });
        assert!(begin.elapsed() < PATIENCE);
    }
    // What the slow one gets behind a gap it can show.
    let mut gaps = 0;
    let mut previous: Option<u16> = None;
    let begin = Instant::now();
    while gaps == 0 {
        let packet = slow.packet().unwrap();
        assert!(begin.elapsed() < PATIENCE);
        if packet.0 != VIDEO {
            continue;
        }
        let packet = [packet];
        let header = headers(&packet, VIDEO)[0];
        let is_gap = previous.is_some_and(|last| header.sequence != last.wrapping_add(1));
        if is_gap {
            gaps += 1;
            assert_eq!(kinds(&packet), [KEY]);
        }
        previous = Some(header.sequence);
    }
    assert_eq!(set.count("connections_unread"), 0);
}
