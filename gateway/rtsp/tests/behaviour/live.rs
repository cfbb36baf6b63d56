use std::net::{TcpListener, UdpSocket};
use std::time::{Duration, Instant};

use sangam_rtsp::Settings;
use sangam_wire::rtcp;
use sangam_wire::rtp::Packet;

use crate::camera::{Camera, KEY, Set, USUAL, control, server, track};
use crate::playing::{follow, headers, onset, until_bye};
use crate::stage::{self, Client, PATIENCE, Stage};

pub(crate) const VIDEO: u8 = 0;
const AUDIO: u8 = 2;
const TOPIC: &str = "test/camera";

/// So many packets of the picture, and what came between.
pub(crate) fn pictures(player: &mut Client, wanted: usize) -> Vec<(u8, Vec<u8>)> {
    let mut all = std::mem::take(&mut player.packets);
    while headers(&all, VIDEO).len() < wanted {
        all.push(player.packet().unwrap());
    }
    all
}

/// The first byte of what a packet of the picture carries.
pub(crate) fn kinds(packets: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let own = packets.iter().filter(|(channel, _)| *channel == VIDEO);
    own.map(|(_, bytes)| Packet::decode(bytes).unwrap().payload[0])
        .collect()
}

#[test]
fn what_is_published_is_described_and_played_from_a_key_frame_on() {
    let set = Set::new();
    let _camera = set.camera(TOPIC, USUAL);
    let mut player = set.player();
    let url = set.url(TOPIC);
    let described = player.ask("DESCRIBE", &url, &["Accept: application/sdp"]);
    for line in [
        "s=test/camera",
        "a=range:npt=now-",
        "m=video 0 RTP/AVP 96",
        "a=rtpmap:96 H264/90000",
        "m=audio 0 RTP/AVP 111",
        "a=rtpmap:111 opus/48000/2",
    ] {
        let mut lines = described.body.lines();
        assert!(lines.any(|found| found == line), "{described:?}");
    }
    let (mut player, session) = set.set_up(TOPIC);
    // Where the streams are is known.
    set.counts("live_events", 20);
    let wishes = [&session, "Range: npt=5.000-", "Scale: 4", "Speed: 2"];
    let answer = player.ask("PLAY", &url, &wishes);
    let said = ["range", "scale", "speed"].map(|name| answer.headers[name].as_str());
    assert_eq!(said, ["npt=now-", "1", "1"]);
    let packets = pictures(&mut player, 60);
    for (channel, kind, tick) in [(VIDEO, "video", 1_800), (AUDIO, "audio", 960)] {
        let found = headers(&packets, channel);
        let (sequence, _) = onset(&answer, track(&described, kind));
        follow(&found, (sequence, found[0].timestamp), tick);
        // A report comes first, so that both have one clock from the begin.
        let first = packets.iter().find(|(found, _)| found / 2 == channel / 2);
        assert_eq!(first.unwrap().0, channel + 1);
    }
    assert_eq!(kinds(&packets)[0], KEY);
    // RTP-Info is the present: the first packet is not far from it.
    let video = headers(&packets, VIDEO)[0].timestamp;
    let apart = video.wrapping_sub(onset(&answer, track(&described, "video")).1) as i32;
    assert!(apart.abs() < 90_000, "{apart}");
    assert_eq!(player.ask("TEARDOWN", &url, &[&session]).status, 200);
}

#[test]
fn two_players_share_one_subscription() {
    let set = Set::new();
    let _camera = set.camera(TOPIC, USUAL);
    let mut players = [set.play(TOPIC), set.play(TOPIC)];
    let mut kept = players.each_mut().map(|(player, ..)| pictures(player, 1));
    // From now on both play.
    let before = (set.count("packets"), set.count("live_events"));
    for ((player, ..), kept) in players.iter_mut().zip(&mut kept) {
        player.packets = std::mem::take(kept);
        let packets = pictures(player, 200);
        let found = headers(&packets, VIDEO);
        follow(&found, (found[0].sequence, found[0].timestamp), 1_800);
    }
    assert_eq!(set.count("live_topics"), 1);
    let (sent, received) = (set.count("packets"), set.count("live_events"));
    let (sent, received) = (sent - before.0, received - before.1);
    assert!(sent >= 700 && received < sent * 3 / 4, "{received} {sent}");
    // They have sources of their own.
    let sources = players.each_mut().map(|(player, ..)| {
        let packets = pictures(player, 1);
        headers(&packets, VIDEO)[0].ssrc
    });
    assert_ne!(sources[0], sources[1]);
}

#[test]
fn a_topic_is_played_by_udp() {
    let set = Set::new();
    let _camera = set.camera(TOPIC, USUAL);
    let mut player = set.player();
    let url = set.url(TOPIC);
    let described = player.ask("DESCRIBE", &url, &[]);
    let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let ports = sockets
        .each_ref()
        .map(|socket| socket.local_addr().unwrap().port());
    let [rtp, rtcp] = ports;
    let transport = format!("Transport: RTP/AVP;unicast;client_port={rtp}-{rtcp}");
    let answer = player.ask("SETUP", &control(&described, "video"), &[&transport]);
    let session = answer.headers["session"].split(';').next().unwrap();
    let session = format!("Session: {session}");
    assert_eq!(player.ask("PLAY", &url, &[&session]).status, 200);
    let mut room = [0; 2_000];
    let mut found = Vec::new();
    for socket in &sockets {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    while found.len() < 50 {
        let len = sockets[0].recv(&mut room).unwrap();
        found.push(Packet::decode(&room[..len]).unwrap().header);
    }
    follow(&found, (found[0].sequence, found[0].timestamp), 1_800);
    let len = sockets[1].recv(&mut room).unwrap();
    let first = rtcp::packets(&room[..len]).next().unwrap().unwrap();
    assert!(matches!(first, rtcp::Packet::SenderReport(..)), "{first:?}");
}

#[test]
fn where_nothing_is_published_nothing_is_found() {
    let set = Set::new();
    let mut player = set.player();
    let begin = Instant::now();
    assert_eq!(
        player.ask("DESCRIBE", &set.url("test/none"), &[]).status,
        404
    );
    // It might have been announced.
    assert!(begin.elapsed() >= Duration::from_millis(1_900));
    for topic in ["a/%23", "a/%2B/b", "$sangam/monitor", "a//b", ""] {
        let answer = player.ask("DESCRIBE", &set.url(topic), &[]);
        assert_eq!(answer.status, 404, "{topic}");
    }
    assert_eq!(set.count("not_found"), 6);
    // Without a broker, whatever the topic.
    let stage = Stage::new(10);
    let url = stage.url.replace("archive/film", "live/test");
    assert_eq!(stage.client().ask("DESCRIBE", &url, &[]).status, 404);
    // With one that is not reached, it cannot be told.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    let (server, _folder) = server(address, Settings::default());
    let mut player = Client::new(server.addresses()[0]);
    let url = format!("rtsp://{}/live/test", server.addresses()[0]);
    assert_eq!(player.ask("DESCRIBE", &url, &[]).status, 503);
    assert_eq!(stage::count(&server, "busy"), 1);
}

#[test]
fn few_of_one_address_wait_for_announcements() {
    let set = Set::new();
    let mut players: Vec<_> = (0..20).map(|_| set.player()).collect();
    for (number, player) in players.iter_mut().enumerate() {
        let url = set.url(&format!("test/none/{number}"));
        player.send(format!("DESCRIBE {url} RTSP/1.0\r\nCSeq: 1\r\n\r\n").as_bytes());
        // One after the other.
        set.counts("requests", number as u64 + 1);
    }
    let answers = players.iter_mut().map(|player| player.answer().unwrap());
    let statuses: Vec<_> = answers.map(|answer| answer.status).collect();
    assert_eq!(statuses[..16], [404; 16]);
    assert_eq!(statuses[16..], [503; 4]);
}

#[test]
fn a_pause_goes_on_with_the_present() {
    let set = Set::new();
    let _camera = set.camera(TOPIC, USUAL);
    let (mut player, session, _) = set.play(TOPIC);
    let mut packets = pictures(&mut player, 20);
    let url = set.url(TOPIC);
    let paused = player.ask("PAUSE", &url, &[&session]);
    assert_eq!(
        (paused.status, paused.headers["range"].as_str()),
        (200, "npt=now-")
    );
    packets.append(&mut player.packets);
    let last = *headers(&packets, VIDEO).last().unwrap();
    let received = set.count("live_events");
    set.counts("live_events", received + 100);
    assert_eq!(player.ask("GET_PARAMETER", &url, &[&session]).status, 200);
    assert!(player.packets.is_empty());
    player.ask("PLAY", &url, &[&session]);
    let packets = pictures(&mut player, 20);
    let found = headers(&packets, VIDEO);
    assert_eq!(kinds(&packets)[0], KEY);
    // Nothing counts as lost, and the time has passed.
    follow(
        &found,
        (last.sequence.wrapping_add(1), found[0].timestamp),
        1_800,
    );
    let passed = found[0].timestamp.wrapping_sub(last.timestamp);
    assert!(
        (45 * 1_800..45 * 1_800 + 90_000 * 10).contains(&passed),
        "{passed}"
    );
}

#[test]
fn who_says_nothing_where_nothing_comes_any_more_is_gone() {
    let set = Set::with(Settings {
        timeout: Duration::from_secs(3),
        ..Settings::default()
    });
    let camera = set.camera(TOPIC, USUAL);
    let (mut player, ..) = set.play(TOPIC);
    // Five seconds: who takes what comes needs to say nothing.
    pictures(&mut player, 250);
    assert_eq!(set.count("sessions_expired"), 0);
    drop(camera);
    set.counts("sessions_expired", 1);
}

#[test]
fn a_camera_that_comes_back_goes_on_in_the_same_streams() {
    let set = Set::new();
    let camera = set.camera(TOPIC, USUAL);
    let (mut player, ..) = set.play(TOPIC);
    let mut packets = pictures(&mut player, 20);
    drop(camera);
    let camera = set.camera(TOPIC, USUAL);
    set.counts("live_returned", 2);
    let before = headers(&packets, VIDEO).len();
    player.packets = packets;
    packets = pictures(&mut player, before + 60);
    let found = headers(&packets, VIDEO);
    for (place, pair) in found.windows(2).enumerate() {
        assert_eq!(
            pair[1].sequence,
            pair[0].sequence.wrapping_add(1),
            "{place}"
        );
        assert_eq!(pair[1].ssrc, pair[0].ssrc);
        let passed = pair[1].timestamp.wrapping_sub(pair[0].timestamp);
        assert!((1..90_000 * 10).contains(&passed), "{place}: {passed}");
    }
    // For good.
    drop(camera);
    player.packets = packets;
    until_bye(&mut player);
    set.counts("live_ended", 2);
    assert_eq!(player.ask("DESCRIBE", &set.url(TOPIC), &[]).status, 404);
    // Who stayed hears the next one.
    let _camera: Camera = set.camera(TOPIC, USUAL);
    player.packets.clear();
    assert_eq!(kinds(&pictures(&mut player, 1))[0], KEY);
}
