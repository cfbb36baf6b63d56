//! A session that hears what servers say, byte for byte.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

use std::time::Duration;

use rtsp_types::Method;
use sangam_film::{Failure, Options, Pace, Session, Stage, TICK};
use sangam_model::Time;

const MS: Duration = Duration::from_millis(1);

fn options() -> Options {
    Options {
        url: "rtsp://192.0.2.1:8554/archive/film".to_owned(),
        ports: (5_000, 5_001),
        from: Duration::from_millis(12_500),
        pace: Pace::Average,
        buffer: Duration::from_secs(4),
        begin: 0.5,
        thresholds: Some(7),
        repair: true,
        direct: true,
        login: None,
        fronts: Vec::new(),
    }
}

fn session() -> Session<u8> {
    Session::new(options(), Some("192.0.2.1:8554".parse().unwrap()), 7).unwrap()
}

fn said(session: &mut Session<u8>) -> String {
    String::from_utf8(session.said()).unwrap()
}

const DESCRIBED: &str = "RTSP/1.0 200 OK\r\nCSeq: 1\r\n\
    Content-Base: rtsp://192.0.2.1:8554/archive/film/\r\n\
    Content-Type: application/sdp\r\nContent-Length: 86\r\n\r\n\
    v=0\r\na=control:*\r\nm=video 0 RTP/AVPF 33\r\n\
    a=rtpmap:33 MP2T/90000\r\na=control:trackID=0\r\n";
const SET_UP: &str = "RTSP/1.0 200 OK\r\nCSeq: 2\r\nSession: 0123456789abcdef;timeout=60\r\n\
    Transport: RTP/AVPF;unicast;client_port=5000-5001;server_port=6000-6001;ssrc=0A0B0C0D\r\n\
    Sangam-Nodes: 1;rtp=\"192.0.2.1:6000\";rtcp=\"192.0.2.1:6001\";ssrc=0A0B0C0E, \
    2;rtp=\"192.0.2.2:6000\";rtcp=\"192.0.2.2:6001\";rtsp=\"192.0.2.2:8554\";ssrc=0A0B0C0F\r\n\
    Sangam-Film: datagrams=100000;block=796;seconds=200.000\r\n\r\n";
const PLAYED: &str = "RTSP/1.0 200 OK\r\nCSeq: 3\r\nRange: npt=12.000-200.000\r\n\
    RTP-Info: url=rtsp://192.0.2.1:8554/archive/film/trackID=0;seq=4464;rtptime=1080000\r\n\
    Sangam-Play: gsn=70000;datagram=6248;rate=1.000\r\n\r\n";

/// A session that plays.
fn playing() -> Session<u8> {
    let mut session = session();
    said(&mut session);
    for answer in [DESCRIBED, SET_UP, PLAYED] {
        session.hear(Time::ZERO, answer.as_bytes());
        said(&mut session);
    }
    assert_eq!(*session.stage(), Stage::Playing);
    session
}

/// A packet of two milliseconds.
fn packet(number: u32, node: u16, lsn: u32) -> Vec<u8> {
    let sequence = (70_000 + number) as u16;
    let timestamp = 1_080_000 + number * 180;
    let mut bytes = vec![0x90, 33];
    bytes.extend(sequence.to_be_bytes());
    bytes.extend(timestamp.to_be_bytes());
    bytes.extend(0x0a0b_0c0d_u32.to_be_bytes());
    bytes.extend([0xbe, 0xde, 0, 2, 0x15]);
    bytes.extend(node.to_be_bytes());
    bytes.extend(lsn.to_be_bytes());
    bytes.push(0);
    bytes.extend([number as u8; 1_316]);
    bytes
}

#[test]
fn a_film_is_asked_for_from_its_nodes() {
    let mut session = session();
    let asked = said(&mut session);
    assert!(asked.starts_with("DESCRIBE rtsp://192.0.2.1:8554/archive/film RTSP/1.0\r\n"));
    assert!(asked.contains("Sangam-Profile: AVPF\r\n"), "{asked}");
    session.hear(Time::ZERO, DESCRIBED.as_bytes());
    let asked = said(&mut session);
    let line = "SETUP rtsp://192.0.2.1:8554/archive/film/trackID=0 RTSP/1.0\r\n";
    assert!(asked.starts_with(line), "{asked}");
    assert!(asked.contains("Require: sangam.nodes\r\n"), "{asked}");
    session.hear(Time::ZERO, SET_UP.as_bytes());
    let asked = said(&mut session);
    assert!(asked.starts_with("PLAY rtsp://192.0.2.1:8554/archive/film RTSP/1.0\r\n"));
    for header in [
        "Session: 0123456789abcdef\r\n",
        "Range: npt=12.500-\r\n",
        "Sangam-Pace: average\r\n",
    ] {
        assert!(asked.contains(header), "{asked}");
    }
    session.hear(Time::ZERO, PLAYED.as_bytes());
    assert_eq!(*session.stage(), Stage::Playing);
    assert_eq!(session.place().at, Duration::from_secs(12));
    assert_eq!(session.setup().nodes.len(), 2);
}

#[test]
fn an_old_server_is_asked_as_any_player_asks() {
    let mut session = session();
    said(&mut session);
    session.hear(Time::ZERO, DESCRIBED.as_bytes());
    said(&mut session);
    let refused = "RTSP/1.0 551 Option not supported\r\nCSeq: 2\r\n\
                   Unsupported: sangam.nodes\r\n\r\n";
    session.hear(Time::ZERO, refused.as_bytes());
    let asked = said(&mut session);
    assert!(asked.starts_with("SETUP "), "{asked}");
    assert!(
        !asked.contains("Require") && asked.contains("RTP/AVP;unicast"),
        "{asked}"
    );
    let answer = "RTSP/1.0 200 OK\r\nCSeq: 3\r\nSession: 1\r\n\
                  Transport: RTP/AVP;unicast;client_port=5000-5001;server_port=6000-6001\r\n\r\n";
    session.hear(Time::ZERO, answer.as_bytes());
    assert_eq!(*session.stage(), Stage::Asking(Method::Play));
    assert!(!said(&mut session).contains("Sangam-Pace"));
}

#[test]
fn what_a_node_lost_is_asked_of_that_node_and_fills_the_gap() {
    let mut session = playing();
    let mut now = Time::ZERO;
    // Every other packet by the other node; numbers 20 and 24 of the second are lost.
    for number in 0..100_u32 {
        now = Time::ZERO + MS * (2 * number);
        if ![20, 24].contains(&number) {
            session.packet(
                now,
                &packet(number, 1 + (number % 2 == 0) as u16, number / 2),
                |b| b[0],
            );
        }
    }
    session.tick(now, |_| ());
    let asked = session.datagrams();
    let [(to, bytes)] = &asked[..] else {
        panic!("{asked:?}");
    };
    assert_eq!(*to, "192.0.2.2:6001".parse().unwrap());
    // A report, then the NACK: 10 and 12 of the second node's own numbers.
    let nack = &bytes[bytes.len() - 16..];
    assert_eq!(nack[..4], [0x81, 205, 0, 3]);
    assert_eq!(nack[8..], [0x0a, 0x0b, 0x0c, 0x0f, 0, 10, 0, 0b10]);
    for number in [20, 24] {
        session.packet(now, &packet(number, 2, number / 2), |b| b[0]);
    }
    let counts = session.counts();
    assert_eq!((counts.missed, counts.asked, counts.repaired), (2, 2, 2));
    session.tick(now + Duration::from_secs(1), |_| ());
    assert_eq!(session.datagrams(), []);
}

#[test]
fn a_film_is_played_by_its_clock_once_half_of_the_buffer_is_filled() {
    let mut session = playing();
    let mut played = Vec::new();
    // 500 packets a second: a buffer of 2,000, played from when 1,000 are there.
    for number in 0..2_000_u32 {
        let now = Time::ZERO + MS * (2 * number);
        session.packet(now, &packet(number, 1, number), |bytes| bytes[0]);
        session.tick(now, |held| played.push((number, held.at)));
    }
    let (number, at) = played[0];
    assert_eq!((number, at), (999, Duration::from_secs(12)));
    let (number, at) = played[500];
    assert_eq!((number, at), (1_499, Duration::from_secs(13)));
    assert_eq!(session.counts().rate_changes, 0);
}

#[test]
fn a_buffer_that_runs_empty_asks_for_more() {
    let mut session = playing();
    let mut now = Time::ZERO;
    for number in 0..1_000_u32 {
        session.packet(now, &packet(number, 1, number), |bytes| bytes[0]);
    }
    let mut asked = String::new();
    for _ in 0..80 {
        now += TICK;
        session.tick(now, |_| ());
        asked += &said(&mut session);
    }
    assert!(asked.starts_with("SET_PARAMETER "), "{asked}");
    let rates = asked.lines().filter_map(|line| line.strip_prefix("rate: "));
    let rates: Vec<f64> = rates.map(|rate| rate.parse().unwrap()).collect();
    assert!(rates.len() >= 2 && rates.is_sorted(), "{rates:?}");
    assert!(rates[0] > 1.0 && session.rate() == rates[rates.len() - 1]);
}

#[test]
fn what_came_is_played_to_its_end_when_the_server_says_goodbye() {
    let mut session = playing();
    for number in 0..10_u32 {
        session.packet(Time::ZERO, &packet(number, 1, number), |bytes| bytes[0]);
    }
    session.report(&[0x81, 203, 0, 1, 0x0a, 0x0b, 0x0c, 0x0d]);
    let mut played = 0;
    for tick in 0..5_u32 {
        session.tick(Time::ZERO + TICK * tick, |_| played += 1);
    }
    assert_eq!((played, session.stage()), (10, &Stage::Ended));
    assert!(said(&mut session).starts_with("TEARDOWN "));
}

#[test]
fn a_refusal_is_told_in_the_server_s_words() {
    let mut session = session();
    said(&mut session);
    session.hear(Time::ZERO, b"RTSP/1.0 404 Not Found\r\nCSeq: 1\r\n\r\n");
    let why = Stage::Failed(Failure::Refused(
        "DESCRIBE".to_owned(),
        404,
        "Not Found".to_owned(),
    ));
    assert_eq!(*session.stage(), why);
}
