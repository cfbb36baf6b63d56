//! A session whose server fails, or wants to know who asks.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

use std::time::Duration;

use sangam_film::{
    Algorithm, Credentials, Failure, Options, Pace, Session, Stage, TICK, split_login,
};
use sangam_model::Time;

const MS: Duration = Duration::from_millis(1);
/// The number of the film's datagram with which it begins.
const FIRST: u32 = 6_248;
/// A datagram's 2 ms of the film's clock.
const TICKS: u32 = 180;

fn hash(algorithm: Algorithm, text: &str) -> String {
    format!("{algorithm:?}({text})")
}

fn options() -> Options {
    Options {
        url: "rtsp://192.0.2.1:8554/archive/film".to_owned(),
        ports: (5_000, 5_001),
        from: Duration::ZERO,
        pace: Pace::Clock,
        buffer: Duration::from_secs(4),
        begin: 0.02,
        thresholds: Some(7),
        repair: true,
        direct: true,
        login: Some(Credentials {
            user: "anna".to_owned(),
            password: "secret".to_owned(),
            hash,
        }),
        fronts: vec!["192.0.2.9:8554".parse().unwrap()],
    }
}

fn begun() -> Session<u32> {
    let front = Some("192.0.2.1:8554".parse().unwrap());
    Session::new(options(), front, 7).unwrap()
}

fn said(session: &mut Session<u32>) -> String {
    String::from_utf8(session.said()).unwrap()
}

fn described(number: u32, host: &str) -> String {
    let sdp = "v=0\r\nm=video 0 RTP/AVPF 33\r\na=control:trackID=0\r\n";
    format!(
        "RTSP/1.0 200 OK\r\nCSeq: {number}\r\nContent-Base: rtsp://{host}/archive/film/\r\n\
         Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{sdp}",
        sdp.len()
    )
}

fn set_up(number: u32, ssrc: u32) -> String {
    let node = |number: u32| {
        let host = format!("192.0.2.{number}");
        format!(
            "{number};rtp=\"{host}:6000\";rtcp=\"{host}:6001\";rtsp=\"{host}:8554\";ssrc={:08X}",
            ssrc + number
        )
    };
    let (one, two) = (node(1), node(2));
    format!(
        "RTSP/1.0 200 OK\r\nCSeq: {number}\r\nSession: {ssrc}\r\n\
         Transport: RTP/AVPF;unicast;client_port=5000-5001;server_port=6000-6001;\
         ssrc={ssrc:08X}\r\nSangam-Nodes: {one}, {two}\r\n\
         Sangam-Film: datagrams=100000;block=796;seconds=200.000\r\n\r\n"
    )
}

fn played(number: u32, (gsn, datagram): (u32, u32)) -> String {
    let at = f64::from(datagram * TICKS) / 90_000.0;
    format!(
        "RTSP/1.0 200 OK\r\nCSeq: {number}\r\nRange: npt={at:.3}-200.000\r\n\
         RTP-Info: url=rtsp://h/archive/film/trackID=0;seq={};rtptime={}\r\n\
         Sangam-Play: gsn={gsn};datagram={datagram};rate=1.000\r\n\r\n",
        gsn as u16,
        datagram * TICKS
    )
}

/// A datagram under a number of a source, from a node that counts it so.
fn packet(ssrc: u32, (datagram, gsn): (u32, u32), (node, local): (u16, u32)) -> Vec<u8> {
    let mut bytes = vec![0x90, 33];
    bytes.extend((gsn as u16).to_be_bytes());
    bytes.extend((datagram * TICKS).to_be_bytes());
    bytes.extend(ssrc.to_be_bytes());
    bytes.extend([0xbe, 0xde, 0, 2, 0x15]);
    bytes.extend(node.to_be_bytes());
    bytes.extend(local.to_be_bytes());
    bytes.push(0);
    bytes.extend(datagram.to_be_bytes());
    bytes.extend([0; 1_312]);
    bytes
}

fn number(payload: &[u8]) -> u32 {
    u32::from_be_bytes(payload[..4].try_into().unwrap())
}

/// A session that plays by the source 100; its first global number is 70,000.
fn playing() -> Session<u32> {
    let mut session = begun();
    said(&mut session);
    for answer in [
        described(1, "192.0.2.1:8554"),
        set_up(2, 100),
        played(3, (70_000, FIRST)),
    ] {
        session.hear(Time::ZERO, answer.as_bytes());
        said(&mut session);
    }
    assert_eq!(*session.stage(), Stage::Playing);
    session
}

/// The first second, without the twenty datagrams of the first node behind the first hundred.
fn first_second(session: &mut Session<u32>) -> Vec<u32> {
    let mut out = Vec::new();
    for count in 0..300_u32 {
        let now = Time::ZERO + MS * (2 * count);
        if !(100..120).contains(&count) {
            let numbers = (FIRST + count, 70_000 + count);
            session.packet(now, &packet(100, numbers, (2, count)), number);
        }
        // The buffer begins to be played, and not what is missing.
        if count == 60 {
            session.tick(now, |held| out.push(held.payload));
        }
    }
    out
}

#[test]
fn a_front_that_dies_is_left_for_another_which_goes_on_where_it_was() {
    let mut session = playing();
    let mut out = first_second(&mut session);
    let now = Time::ZERO + MS * 200;
    session.hear(now, &[]);
    // Nothing is for the connection that ended.
    assert_eq!(said(&mut session), "");
    assert_eq!(session.wants(), Some("192.0.2.2:8554".parse().unwrap()));
    assert_eq!((session.wants(), session.stage()), (None, &Stage::Playing));
    let asked = said(&mut session);
    assert!(asked.starts_with("DESCRIBE rtsp://192.0.2.2:8554/archive/film RTSP/1.0\r\n"));
    assert!(
        asked.contains("CSeq: 1\r\n") && !asked.contains("Session"),
        "{asked}"
    );
    // The other node sends on for a while.
    session.packet(now, &packet(100, (FIRST + 300, 70_300), (2, 300)), number);
    session.hear(now, described(1, "192.0.2.2:8554").as_bytes());
    assert!(said(&mut session).contains("Require: sangam.nodes\r\n"));
    session.hear(now, set_up(2, 500).as_bytes());
    let asked = said(&mut session);
    let from = format!("Sangam-From: datagram={}\r\n", FIRST + 100);
    assert!(
        asked.starts_with("PLAY ") && asked.contains(&from),
        "{asked}"
    );
    // Where the last one is that comes before what is missing: 12.496 s and 99 times 2 ms.
    assert!(asked.contains("Range: npt=12.694-\r\n"), "{asked}");
    session.hear(now, played(3, (9, FIRST + 100)).as_bytes());

    // What the old ones still send, and their goodbye, is not heard any more.
    session.packet(now, &packet(100, (FIRST + 301, 70_301), (2, 301)), number);
    session.report(&[0x81, 203, 0, 1, 0, 0, 0, 100]);
    for count in 100..400_u32 {
        let numbers = (FIRST + count, 9 + count - 100);
        session.packet(now, &packet(500, numbers, (2, count - 100)), number);
    }
    for tick in 0..100 {
        session.tick(now + TICK * tick, |held| out.push(held.payload));
    }
    let all: Vec<_> = (FIRST..FIRST + 400).collect();
    assert_eq!(out, all);
    let counts = session.counts();
    assert_eq!((counts.moves, counts.strays, counts.played.lost), (1, 1, 0));
    assert_eq!(counts.played.duplicates, 181);
}

#[test]
fn fronts_that_refuse_or_do_not_answer_are_passed_over_and_then_it_ends() {
    let mut session = playing();
    let out = first_second(&mut session);
    let mut now = Time::ZERO + MS * 200;
    session.hear(now, &[]);
    assert_eq!(session.wants(), Some("192.0.2.2:8554".parse().unwrap()));
    said(&mut session);
    session.hear(now, b"RTSP/1.0 453 Not Enough Bandwidth\r\nCSeq: 1\r\n\r\n");
    // That of the option.
    assert_eq!(session.wants(), Some("192.0.2.9:8554".parse().unwrap()));
    let mut played = out.len();
    for _ in 0..400 {
        now += TICK;
        session.tick(now, |_| played += 1);
    }
    assert_eq!(session.wants(), None);
    let why = Stage::Failed(Failure::Broken("no server answers".to_owned()));
    assert_eq!(*session.stage(), why);
    // All that had come.
    assert_eq!((played, session.counts().moves), (280, 0));
}

#[test]
fn what_came_is_played_where_no_other_front_is_known() {
    let mut session = playing();
    let mut played = first_second(&mut session).len();
    let now = Time::ZERO + MS * 200;
    for front in ["192.0.2.2:8554", "192.0.2.9:8554"] {
        session.hear(now, &[]);
        assert_eq!(session.wants(), Some(front.parse().unwrap()));
    }
    session.hear(now, &[]);
    assert_eq!(session.wants(), None);
    for tick in 0..60 {
        session.tick(now + TICK * tick, |_| played += 1);
    }
    let why = Stage::Failed(Failure::Broken(
        "the server closed the connection".to_owned(),
    ));
    assert_eq!((session.stage(), played), (&why, 280));
}

#[test]
fn a_front_that_is_silent_is_asked_whether_it_is_there_and_left_if_it_is_not() {
    let mut session = playing();
    first_second(&mut session);
    let begin = Time::ZERO + MS * 600;
    let mut now = begin;
    let mut asked = String::new();
    let wait = |session: &mut Session<u32>, now: &mut Time, asked: &mut String| {
        for _ in 0..75 {
            *now += TICK;
            session.tick(*now, |_| ());
            *asked += &said(session);
        }
    };
    wait(&mut session, &mut now, &mut asked);
    assert!(asked.contains("GET_PARAMETER"), "{asked}");
    // Disks are slow, and it is there.
    let sequence = asked.rsplit("CSeq: ").next().unwrap();
    let sequence = sequence.split("\r\n").next().unwrap();
    let answer = format!("RTSP/1.0 200 OK\r\nCSeq: {sequence}\r\n\r\n");
    session.hear(now, answer.as_bytes());
    wait(&mut session, &mut now, &mut asked);
    assert_eq!(session.wants(), None);
    wait(&mut session, &mut now, &mut asked);
    assert_eq!(session.wants(), Some("192.0.2.2:8554".parse().unwrap()));
}

#[test]
fn a_challenge_is_answered_and_a_wrong_password_is_not_tried_again() {
    let mut session = begun();
    let asked = said(&mut session);
    assert!(!asked.contains("Authorization"), "{asked}");
    let challenge = |number: u32, nonce: &str, more: &str| {
        format!(
            "RTSP/1.0 401 Unauthorized\r\nCSeq: {number}\r\n\
             WWW-Authenticate: Digest realm=\"r\", nonce=\"{nonce}\", algorithm=SHA-256{more}\r\n\
             WWW-Authenticate: Digest realm=\"r\", nonce=\"{nonce}\", algorithm=MD5{more}\r\n\r\n"
        )
    };
    session.hear(Time::ZERO, challenge(1, "one", "").as_bytes());
    let asked = said(&mut session);
    assert!(
        asked.starts_with("DESCRIBE ") && asked.contains("CSeq: 2\r\n"),
        "{asked}"
    );
    let secret = "Sha256(Sha256(anna:r:secret):one:\
                  Sha256(DESCRIBE:rtsp://192.0.2.1:8554/archive/film))";
    assert!(asked.contains(secret), "{asked}");
    // The next request says at once who asks, and an old challenge is answered anew.
    session.hear(Time::ZERO, described(2, "192.0.2.1:8554").as_bytes());
    let asked = said(&mut session);
    assert!(
        asked.starts_with("SETUP ") && asked.contains("Authorization"),
        "{asked}"
    );
    session.hear(Time::ZERO, challenge(3, "two", ", stale=true").as_bytes());
    let asked = said(&mut session);
    assert!(
        asked.starts_with("SETUP ") && asked.contains("nonce=\"two\""),
        "{asked}"
    );
    assert!(asked.contains("Require: sangam.nodes\r\n"), "{asked}");
    session.hear(Time::ZERO, challenge(4, "three", "").as_bytes());
    let why = Stage::Failed(Failure::Refused(
        "SETUP".to_owned(),
        401,
        "Unauthorized".to_owned(),
    ));
    assert_eq!(*session.stage(), why);
    assert_eq!(said(&mut session), "");
}

#[test]
fn a_url_may_say_who_asks() {
    let split = |url| split_login(url).unwrap();
    let film = "rtsp://h:8554/archive/film";
    assert_eq!(split(film), (film.to_owned(), None));
    let login = Some(("an na".to_owned(), "se:cr@t".to_owned()));
    let url = "rtsp://an%20na:se%3Acr%40t@h:8554/archive/film";
    assert_eq!(split(url), (film.to_owned(), login));
    // No text.
    assert!(split_login("rtsp://%ff:x@h/film").is_err());
    assert!(split_login("film").is_err());
}
