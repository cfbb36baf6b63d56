//! Publishers that speak RTSP by hand.

use std::net::UdpSocket;

use sangam_rtsp::{Credentials, Settings};
use sangam_wire::rtcp;
use sangam_wire::rtp::{Header, Packet};

use crate::camera::Set;
use crate::stage::{Answer, Client, Stage};

const TYPE: &str = "Content-Type: application/sdp";
const ONE: &str = "v=0\r\ns=-\r\nt=0 0\r\nm=audio 0 RTP/AVP 0\r\na=control:streamid=0\r\n";
const TCP: &str = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1;mode=record";

/// A request with a body.
fn send(client: &mut Client, (method, url): (&str, &str), headers: &[&str], body: &str) -> Answer {
    let headers: String = headers
        .iter()
        .map(|header| format!("{header}\r\n"))
        .collect();
    let head = format!("{method} {url} RTSP/1.0\r\nCSeq: 1\r\n{headers}");
    client.send(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
    client.answer().unwrap()
}

/// A publisher of sound that has set up its track as it wants.
#[track_caller]
fn set_up(set: &Set, topic: &str, transport: &str) -> (Client, String, Answer) {
    set.counts("ingest_links", 1);
    let (mut client, url) = (set.player(), set.url(topic));
    let announced = send(&mut client, ("ANNOUNCE", &url), &[TYPE], ONE);
    assert_eq!(announced.status, 200, "{announced:?}");
    let answer = client.ask("SETUP", &format!("{url}/streamid=0"), &[transport]);
    assert_eq!(answer.status, 200, "{answer:?}");
    let session = answer.headers["session"].split(';').next().unwrap();
    let session = format!("Session: {session}");
    (client, session, answer)
}

fn sound(sequence: u16) -> Vec<u8> {
    let header = Header {
        marker: false,
        payload_type: 0,
        sequence,
        timestamp: u32::from(sequence) * 160,
        ssrc: 7,
    };
    [&header.encode()[..], &[3; 160]].concat()
}

fn framed(channel: u8, packet: &[u8]) -> Vec<u8> {
    let len = (packet.len() as u16).to_be_bytes();
    [&[b'$', channel], &len[..], packet].concat()
}

#[test]
fn what_is_published_is_played_and_reported_on() {
    let set = Set::new();
    let (mut client, session, _) = set_up(&set, "test/cam", TCP);
    let url = set.url("test/cam");
    // What comes before RECORD is nobody's.
    client.send(&framed(0, &sound(1)));
    assert_eq!(client.ask("RECORD", &url, &[&session]).status, 200);
    assert_eq!(
        (set.count("ingest_early"), set.count("ingest_published")),
        (1, 1)
    );
    let mut player = set.player();
    let described = player.ask("DESCRIBE", &url, &[]);
    assert!(
        described.body.contains("a=rtpmap:0 PCMU/8000"),
        "{described:?}"
    );
    let control = crate::camera::control(&described, "audio");
    let transport = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1";
    let answer = player.ask("SETUP", &control, &[transport]);
    let watching = answer.headers["session"].split(';').next().unwrap();
    let watching = format!("Session: {watching}");
    assert_eq!(player.ask("PLAY", &url, &[&watching]).status, 200);
    for sequence in 2..50 {
        client.send(&framed(0, &sound(sequence)));
    }
    let (channel, packet) = loop {
        let found = player.packet().unwrap();
        if found.0 == 0 {
            break found;
        }
    };
    let packet = Packet::decode(&packet).unwrap();
    assert_eq!((channel, packet.payload), (0, &[3; 160][..]));
    // Of another payload type, and no RTP at all.
    client.send(&framed(0, &[0x80, 99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 1]));
    client.send(&framed(0, b"nonsense"));
    set.counts("ingest_malformed", 2);
    // How it comes is told within five seconds.
    let (channel, report) = client.packet().unwrap();
    let first = rtcp::packets(&report).next().unwrap().unwrap();
    let rtcp::Packet::ReceiverReport(_, blocks) = first else {
        panic!("{first:?}");
    };
    let block = blocks.iter().next().unwrap();
    assert_eq!((channel, block.ssrc, block.lost), (1, 7, 0));
    assert_eq!(client.ask("PAUSE", &url, &[&session]).status, 200);
    client.send(&framed(0, &sound(50)));
    set.counts("ingest_early", 2);
    assert_eq!(client.ask("TEARDOWN", &url, &[&session]).status, 200);
    assert_eq!(client.ask("RECORD", &url, &[&session]).status, 454);
}

#[test]
fn datagrams_of_others_are_not_published() {
    let set = Set::new();
    let [rtp, stranger] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let port = rtp.local_addr().unwrap().port();
    let transport = format!("Transport: RTP/AVP;unicast;client_port={port}-{port};mode=record");
    let (mut client, session, answer) = set_up(&set, "test/udp", &transport);
    let granted = &answer.headers["transport"];
    let own = granted.split_once("server_port=").unwrap().1;
    let own: u16 = own.split('-').next().unwrap().parse().unwrap();
    let url = set.url("test/udp");
    assert_eq!(client.ask("RECORD", &url, &[&session]).status, 200);
    for sequence in 0..10 {
        stranger
            .send_to(&sound(sequence), ("127.0.0.1", own))
            .unwrap();
        rtp.send_to(&sound(sequence), ("127.0.0.1", own)).unwrap();
    }
    set.counts("ingest_packets", 10);
    assert_eq!(set.count("ingest_malformed"), 0);
    drop(client);
    set.counts("sessions_abandoned", 1);
    assert_eq!(set.count("ingest_packets"), 10);
}

#[test]
fn each_mistake_of_a_publisher_has_its_status() {
    let set = Set::new();
    set.counts("ingest_links", 1);
    let (mut client, url) = (set.player(), set.url("test/a"));
    let elsewhere = url.replace("/live/", "/archive/");
    let many = format!("v=0\r\n{}", "m=audio 0 RTP/AVP 0\r\n".repeat(17));
    let data = "v=0\r\nm=application 9 UDP/DTLS/SCTP x\r\n";
    for (to, kind, body, status) in [
        (&url, "Content-Type: text/plain", ONE, 415),
        (&url, "A: b", ONE, 415),
        (&url, TYPE, "", 400),
        (&url, TYPE, "m=audio 0 RTP/AVP 0\r\n", 400),
        (&url, TYPE, &many, 413),
        (&url, TYPE, data, 415),
        (&elsewhere, TYPE, ONE, 404),
        (&set.url("a/+/b"), TYPE, ONE, 404),
    ] {
        let answer = send(&mut client, ("ANNOUNCE", to), &[kind], body);
        assert_eq!(answer.status, status, "{to} {kind} {body:.40}");
        if status == 415 {
            assert_eq!(answer.headers["accept"], "application/sdp");
        }
    }
    // Nothing was announced.
    let track = format!("{url}/streamid=0");
    assert_eq!(client.ask("SETUP", &track, &[TCP]).status, 404);
    assert_eq!(client.ask("RECORD", &url, &[]).status, 454);
    let (mut client, session, _) = set_up(&set, "test/a", TCP);
    let other = format!("{url}/streamid=1");
    let again = send(&mut client, ("ANNOUNCE", &url), &[TYPE], ONE);
    assert_eq!(again.status, 455);
    for (method, to, headers, status) in [
        ("SETUP", &other, &[TCP, &session][..], 404),
        ("SETUP", &track, &[TCP, &session], 455),
        ("SETUP", &track, &["Transport: RTP/AVP/TCP", &session], 461),
        ("PLAY", &url, &[&session], 455),
        ("PAUSE", &url, &[&session], 455),
        ("GET_PARAMETER", &url, &[&session], 200),
        ("OPTIONS", &url, &[&session], 200),
    ] {
        let answer = client.ask(method, to, headers);
        assert_eq!(answer.status, status, "{method} {to} {headers:?}");
    }
    // Who took another's session has none.
    let mut thief = set.player();
    assert_eq!(thief.ask("RECORD", &url, &[&session]).status, 454);
    assert_eq!(set.count("ingest_published"), 0);
}

#[test]
fn where_nothing_may_be_published_it_is_said_and_too_many_are_refused() {
    let stage = Stage::new(10);
    let mut client = stage.client();
    let url = stage.url.replace("/archive/", "/live/");
    let answer = send(&mut client, ("ANNOUNCE", &url), &[TYPE], ONE);
    assert_eq!((answer.status, stage.count("not_allowed")), (405, 1));
    assert!(!answer.headers["allow"].contains("ANNOUNCE"));
    let set = Set::with(Settings {
        sessions_max: 1,
        ..Settings::default()
    });
    let (_first, ..) = set_up(&set, "test/a", TCP);
    let (mut second, url) = (set.player(), set.url("test/b"));
    assert_eq!(
        send(&mut second, ("ANNOUNCE", &url), &[TYPE], ONE).status,
        200
    );
    let track = format!("{url}/streamid=0");
    assert_eq!(second.ask("SETUP", &track, &[TCP]).status, 453);
}

#[test]
fn who_may_publish_may_not_watch_for_it() {
    let set = Set::with(Settings {
        credentials: Some(Credentials {
            user: "someone".to_owned(),
            password: "secret".to_owned(),
        }),
        ..Settings::default()
    });
    let (mut client, session, _) = set_up(&set, "test/a", TCP);
    let url = set.url("test/a");
    assert_eq!(client.ask("RECORD", &url, &[&session]).status, 200);
    assert_eq!(client.ask("DESCRIBE", &url, &[]).status, 401);
    let track = set.url("test/b/trackID=0");
    assert_eq!(client.ask("SETUP", &track, &[TCP]).status, 401);
}
