use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use sangam_rtsp::{Credentials, Settings};

use crate::playing::until_bye;
use crate::stage::{PATIENCE, Stage};

#[test]
fn each_mistake_has_its_status_and_its_count() {
    let stage = Stage::new(500);
    let (mut client, session) = stage.set_up();
    let url = stage.url.as_str();
    let tracks = [0, 1, 7].map(|track| format!("{url}/trackID={track}"));
    let tcp = "Transport: RTP/AVP/TCP;unicast";
    let multicast = "Transport: RTP/AVP;multicast;client_port=5000-5001";
    let udp = "Transport: RTP/AVP;unicast;client_port=5000-5001";
    let no_session = "Session: 12345678";
    for (method, target, headers, status, count) in [
        ("PLAY", url, &[no_session][..], 454, "no_session"),
        ("PLAY", url, &[], 454, "no_session"),
        ("PAUSE", url, &[&session], 455, "wrong_state"),
        (
            "PLAY",
            url,
            &[&session, "Range: npt=10-"],
            457,
            "wrong_range",
        ),
        (
            "PLAY",
            url,
            &[&session, "Range: npt=5-2"],
            457,
            "wrong_range",
        ),
        (
            "PLAY",
            url,
            &[&session, "Range: furlongs=1-"],
            457,
            "wrong_range",
        ),
        ("SETUP", &tracks[0], &[multicast], 461, "wrong_transport"),
        ("SETUP", &tracks[0], &[], 461, "wrong_transport"),
        (
            "SETUP",
            &tracks[0],
            &["Transport: \""],
            461,
            "wrong_transport",
        ),
        ("SETUP", &tracks[0], &[udp, &session], 455, "wrong_state"),
        ("SETUP", &tracks[2], &[tcp], 404, "not_found"),
        ("SETUP", url, &[tcp], 459, "wrong_state"),
        ("DESCRIBE", "rtsp://a/elsewhere", &[], 404, "not_found"),
        ("RECORD", url, &[&session], 501, "unknown_method"),
        ("JUGGLE", url, &[], 501, "unknown_method"),
        (
            "OPTIONS",
            url,
            &["Require: nothing.real"],
            551,
            "unknown_option",
        ),
    ] {
        let before = stage.count(count);
        let answer = client.ask(method, target, headers);
        assert_eq!(answer.status, status, "{method} {target} {headers:?}");
        assert_eq!(
            stage.count(count),
            before + 1,
            "{method} {target} {headers:?}"
        );
    }
    // The session is none the worse for it.
    assert_eq!(client.ask("PLAY", url, &[&session]).status, 200);
    assert_eq!(stage.count("sessions"), 1);
}

#[test]
fn an_option_that_is_not_known_is_named() {
    let stage = Stage::new(10);
    let answer = stage
        .client()
        .ask("OPTIONS", "*", &["Require: nothing.real"]);
    assert_eq!(answer.headers["unsupported"], "nothing.real");
}

#[test]
fn there_are_no_parameters() {
    let stage = Stage::new(10);
    let mut client = stage.client();
    let request = format!("SET_PARAMETER {} RTSP/1.0\r\nCSeq: 1\r\n", stage.url);
    client.send(format!("{request}Content-Length: 6\r\n\r\na: b\r\n").as_bytes());
    assert_eq!(client.answer().unwrap().status, 451);
    assert_eq!(stage.count("unknown_parameter"), 1);
}

#[test]
fn another_version_and_no_number_are_refused() {
    let stage = Stage::new(10);
    let mut client = stage.client();
    client.send(b"OPTIONS * RTSP/3.0\r\nCSeq: 4\r\n\r\n");
    let answer = client.answer().unwrap();
    assert_eq!((answer.status, answer.headers["cseq"].as_str()), (505, "4"));
    client.send(b"OPTIONS * RTSP/1.0\r\n\r\n");
    assert_eq!(client.answer().unwrap().status, 400);
    // It is a request still: the next is understood.
    assert_eq!(client.ask("OPTIONS", "*", &[]).status, 200);
}

#[test]
fn what_is_no_request_ends_the_connection() {
    let stage = Stage::new(10);
    let long = format!("OPTIONS * RTSP/1.0\r\nA: {}", "b".repeat(20_000));
    for (nonsense, count) in [
        (&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], 1),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 2),
        (long.as_bytes(), 3),
    ] {
        let mut stream = TcpStream::connect(stage.server.addresses()[0]).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(nonsense).unwrap();
        let mut said = Vec::new();
        // A reset behind the answer is an end as well.
        let _ = stream.read_to_end(&mut said);
        assert!(
            said.starts_with(b"RTSP/1.0 400 "),
            "{:?}",
            String::from_utf8_lossy(&said)
        );
        stage.counts("malformed", count);
    }
}

#[test]
fn whoever_is_too_many_is_told_so() {
    let settings = Settings {
        sessions_max: 2,
        connections_max: 3,
        ..Settings::default()
    };
    let stage = Stage::with(500, 100, settings);
    let (_first, _second) = (stage.set_up(), stage.set_up());
    let mut third = stage.client();
    let transport = "Transport: RTP/AVP/TCP;unicast";
    let answer = third.ask("SETUP", &format!("{}/trackID=0", stage.url), &[transport]);
    assert_eq!((answer.status, stage.count("sessions_refused")), (453, 1));
    let mut fourth = stage.client();
    assert!(fourth.answer().is_none());
    assert_eq!(stage.count("connections_refused"), 1);
}

#[test]
fn a_silent_client_is_forgotten() {
    let settings = Settings {
        timeout: Duration::from_secs(1),
        ..Settings::default()
    };
    let stage = Stage::with(500, 100, settings);
    let (mut client, session) = stage.set_up();
    stage.counts("sessions_expired", 1);
    let mut another = stage.client();
    assert_eq!(another.ask("PLAY", &stage.url, &[&session]).status, 454);
    stage.counts("connections_idle", 1);
    assert!(client.answer().is_none());
}

#[test]
fn who_saw_a_film_to_its_end_may_think_about_it() {
    let settings = Settings {
        timeout: Duration::from_secs(3),
        ..Settings::default()
    };
    let stage = Stage::with(170, 100, settings);
    let (mut client, session) = stage.set_up();
    assert_eq!(client.ask("PLAY", &stage.url, &[&session]).status, 200);
    for _ in 0..100 {
        client.packet().unwrap();
    }
    // Somebody who says nothing since the film's first second is gone before who saw its end.
    let _silent = stage.set_up();
    until_bye(&mut client);
    stage.counts("sessions_expired", 1);
    assert_eq!(client.ask("PLAY", &stage.url, &[&session]).status, 200);
}

#[test]
fn without_the_password_nothing_is_shown() {
    let settings = Settings {
        credentials: Some(Credentials {
            user: "someone".to_owned(),
            password: "secret".to_owned(),
        }),
        ..Settings::default()
    };
    let stage = Stage::with(10, 100, settings);
    let mut client = stage.client();
    assert_eq!(client.ask("OPTIONS", &stage.url, &[]).status, 200);
    let answer = client.ask("DESCRIBE", &stage.url, &[]);
    // The last of two challenges, as players read it.
    let challenge = answer.headers["www-authenticate"].clone();
    assert_eq!(answer.status, 401);
    assert!(challenge.ends_with("algorithm=MD5"), "{challenge}");
    let nonce = challenge.split('"').nth(3).unwrap();
    let wrong = format!(
        "Authorization: Digest username=\"someone\", realm=\"sangam\", nonce=\"{nonce}\", \
         uri=\"{}\", response=\"{}\"",
        stage.url,
        "0".repeat(32)
    );
    for tries in 1..=8 {
        assert_eq!(client.ask("DESCRIBE", &stage.url, &[&wrong]).status, 401);
        assert_eq!(stage.count("unauthorized"), tries);
    }
    // Nobody guesses for ever.
    assert!(client.answer().is_none());
    let mut other = stage.client();
    let track = format!("{}/trackID=0", stage.url);
    for (method, url) in [
        ("SETUP", &track),
        ("PLAY", &stage.url),
        ("JUGGLE", &stage.url),
    ] {
        assert_eq!(other.ask(method, url, &[]).status, 401);
    }
}
