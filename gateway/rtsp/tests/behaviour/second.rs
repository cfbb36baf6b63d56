//! RTSP 2.0 (RFC 7826).

use std::net::UdpSocket;

use sangam_wire::rtp::Packet;

use crate::camera::{Set, USUAL, control};
use crate::playing::until_bye;
use crate::stage::{Answer, Client, Stage};

const TCP: &str = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1";

fn client(stage: &Stage) -> Client {
    let mut client = stage.client();
    client.version = "2.0";
    client
}

fn session(answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{answer:?}");
    let session = answer.headers["session"].split(';').next().unwrap();
    format!("Session: {session}")
}

/// The next thing that the server asks.
fn asked(client: &mut Client) -> Answer {
    let asked = client.answer().unwrap();
    assert_eq!(asked.status, 0, "{asked:?}");
    asked
}

#[test]
fn a_client_is_told_what_it_may_ask_for() {
    let stage = Stage::new(10);
    let mut client = client(&stage);
    let answer = client.ask("OPTIONS", &stage.url, &["Supported: play.basic"]);
    assert_eq!(answer.headers[""], "RTSP/2.0 200 Ok");
    assert!(answer.headers["supported"].contains("play.scale"));
    assert!(answer.headers["date"].ends_with(" GMT"), "{answer:?}");
    assert!(answer.headers["public"].contains("PLAY"));
    let known = "Require: play.basic, play.speed";
    assert_eq!(client.ask("OPTIONS", &stage.url, &[known]).status, 200);
    let headers = ["Require: play.basic, a.b", "Proxy-Require: c.d"];
    let answer = client.ask("OPTIONS", &stage.url, &headers);
    let unsupported = answer.headers["unsupported"].as_str();
    assert_eq!((answer.status, unsupported), (551, "a.b, c.d"));
    // What publishes belongs to 1.0 alone.
    let announced = client.ask("ANNOUNCE", &stage.url, &[]);
    assert_eq!(announced.status, 501);
}

#[test]
fn a_film_is_set_up_in_one_go_and_its_end_is_told() {
    let stage = Stage::new(60);
    let mut client = client(&stage);
    let (video, audio) = ("trackID=0", "trackID=1");
    let pipeline = "Pipelined-Requests: 7654";
    let mut text = String::new();
    // Nobody waits for the session's name.
    for (number, (method, what, more)) in [
        (
            "SETUP",
            video,
            TCP.to_owned() + "\r\nAccept-Ranges: npt, clock",
        ),
        ("SETUP", audio, TCP.replace("0-1", "2-3")),
        ("PLAY", "", "Range: npt=0-\r\nSeek-Style: RAP".to_owned()),
    ]
    .into_iter()
    .enumerate()
    {
        let url = format!("{}/{what}", stage.url);
        text +=
            &format!("{method} {url} RTSP/2.0\r\nCSeq: {number}\r\n{pipeline}\r\n{more}\r\n\r\n");
    }
    client.send(text.as_bytes());
    let first = client.answer().unwrap();
    assert_eq!(first.headers["accept-ranges"], "npt");
    assert_eq!(first.headers["media-range"], "npt=0-1.180");
    assert_eq!(first.headers["pipelined-requests"], "7654");
    let properties = &first.headers["media-properties"];
    assert_eq!(
        properties,
        "Random-Access, Immutable, Unlimited, Scales=\"-16:-0.25, 0.25:16\""
    );
    let named = session(&first);
    assert_eq!(session(&client.answer().unwrap()), named);
    let played = client.answer().unwrap();
    assert_eq!((played.status, session(&played)), (200, named));
    assert_eq!(played.headers["seek-style"], "RAP");
    assert_eq!(played.headers["range"], "npt=0.000-1.180");
    let info = &played.headers["rtp-info"];
    let url = format!("url=\"{}/{video}\" ssrc=", stage.url);
    assert!(info.starts_with(&url), "{info}");
    let packets = until_bye(&mut client);
    assert!(packets.len() >= 120);
    let source = Packet::decode(&packets.iter().find(|(channel, _)| *channel == 0).unwrap().1);
    let ssrc = format!("ssrc={:08X}:seq=", source.unwrap().header.ssrc);
    assert!(info.contains(&ssrc), "{info} {ssrc}");
    let told = asked(&mut client);
    assert!(
        told.headers[""].starts_with("PLAY_NOTIFY rtsp://"),
        "{told:?}"
    );
    assert_eq!(told.headers["notify-reason"], "end-of-stream");
    assert_eq!(
        told.headers["request-status"],
        "cseq=2 status=200 reason=\"OK\""
    );
    assert_eq!(told.headers["range"], "npt=-1.180");
    assert!(told.headers["rtp-info"].contains("ssrc="), "{told:?}");
    let name = session(&first).replace("Session: ", "");
    assert_eq!(told.headers["session"], name);
    client.send(b"RTSP/2.0 200 OK\r\nCSeq: 1\r\n\r\n");
    // The connection goes on.
    let again = client.ask("PLAY", &stage.url, &[&session(&first), "Range: npt=1-"]);
    assert_eq!(again.status, 200);
    assert_eq!(stage.count("notified"), 1);
}

#[test]
fn addresses_are_in_the_words_of_the_second_version() {
    let stage = Stage::new(60);
    let mut client = client(&stage);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let track = format!("{}/trackID=0", stage.url);
    let foreign = format!("Transport: RTP/AVP;unicast;dest_addr=\"192.0.2.1:{port}\"");
    assert_eq!(client.ask("SETUP", &track, &[&foreign]).status, 461);
    let own = format!("Transport: RTP/AVP;unicast;dest_addr=\":{port}\"/\":{port}\"");
    let answer = client.ask("SETUP", &track, &[&own]);
    let named = session(&answer);
    let transport = &answer.headers["transport"];
    let to = format!("dest_addr=\"127.0.0.1:{port}\"/\"127.0.0.1:{port}\"");
    assert!(transport.contains(&to), "{transport}");
    assert!(transport.contains(";src_addr=\"127.0.0.1:"), "{transport}");
    assert_eq!(client.ask("PLAY", &stage.url, &[&named]).status, 200);
    socket.recv(&mut [0; 2_000]).unwrap();
    let told = asked(&mut client);
    assert_eq!(told.headers["notify-reason"], "end-of-stream");
}

#[test]
fn ranges_of_other_units_and_beyond_the_end_have_their_own_answers() {
    let stage = Stage::new(60);
    let mut client = client(&stage);
    let track = format!("{}/trackID=0", stage.url);
    let answer = client.ask("SETUP", &track, &[TCP, "Accept-Ranges: smpte"]);
    let ranges = answer.headers["accept-ranges"].as_str();
    assert_eq!((answer.status, ranges), (456, "npt"));
    let named = session(&client.ask("SETUP", &track, &[TCP]));
    for (range, status) in [("clock=19961108T142300Z-", 456), ("npt=10-", 457)] {
        let range = format!("Range: {range}");
        let answer = client.ask("PLAY", &stage.url, &[&named, &range]);
        assert_eq!(answer.status, status, "{range}");
    }
    // Before it plays, it tells where it would begin.
    let answer = client.ask("PAUSE", &stage.url, &[&named]);
    assert_eq!(
        (answer.status, &*answer.headers["range"]),
        (200, "npt=0.000-1.180")
    );
    // What is not possible is answered with what is.
    let answer = client.ask("PLAY", &stage.url, &[&named, "Scale: -200"]);
    assert_eq!(answer.headers["scale"], "-16");
    assert_eq!(stage.count("wrong_range"), 3);
}

#[test]
fn what_is_live_has_the_properties_of_the_live() {
    let set = Set::new();
    let camera = set.camera("test/hall", USUAL);
    let mut player = set.player();
    player.version = "2.0";
    let described = player.ask("DESCRIBE", &set.url("test/hall"), &[]);
    let answer = player.ask("SETUP", &control(&described, "video"), &[TCP]);
    let named = session(&answer);
    let properties = answer.headers["media-properties"].as_str();
    assert_eq!(
        properties,
        "No-Seeking, Time-Progressing, Time-Duration=0.0"
    );
    let answer = player.ask("PLAY", &set.url("test/hall"), &[&named]);
    assert_eq!(
        (answer.status, &*answer.headers["range"]),
        (200, "npt=now-")
    );
    player.packet().unwrap();
    drop(camera);
    // Five seconds later it will not come back.
    let told = asked(&mut player);
    assert_eq!(told.headers["notify-reason"], "end-of-stream");
}
