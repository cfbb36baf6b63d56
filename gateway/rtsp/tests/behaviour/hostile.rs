use std::fs;
use std::time::Duration;

use sangam_rtsp::Settings;

use crate::playing::until_bye;
use crate::stage::Stage;

/// Sessions opened and left: as many as the issue names.
const ABANDONED: usize = 10_000;

#[test]
fn ten_thousand_abandoned_sessions_leave_nothing_behind() {
    let settings = Settings {
        sessions_max: 64,
        connections_max: 64,
        ..Settings::default()
    };
    let stage = Stage::with(500, 100, settings);
    let (mut honest, session) = stage.set_up();
    assert_eq!(honest.ask("PLAY", &stage.url, &[&session]).status, 200);
    let track = format!("{}/trackID=0", stage.url);
    let mut opened = 0;
    let transports = [
        "Transport: RTP/AVP/TCP;unicast",
        "Transport: RTP/AVP;unicast;client_port=9-10",
    ];
    for number in 0..ABANDONED {
        let mut client = stage.client();
        client.send(
            format!(
                "SETUP {track} RTSP/1.0\r\nCSeq: 1\r\n{}\r\n\r\n",
                transports[number % 2]
            )
            .as_bytes(),
        );
        // Those for which there was no room were closed at once.
        opened += usize::from(client.answer().is_some_and(|answer| answer.status == 200));
    }
    assert!(
        opened > ABANDONED / 2,
        "{opened}: {:?}",
        stage.server.counts()
    );
    stage.counts("sessions_abandoned", opened as u64);
    // Whoever was there before goes on, without a gap.
    assert_eq!(
        honest.ask("GET_PARAMETER", &stage.url, &[&session]).status,
        200
    );
    let (_another, _) = stage.set_up();
}

#[test]
fn a_client_that_never_reads_is_closed_and_no_other_waits() {
    let settings = Settings {
        patience: Duration::from_secs(1),
        ..Settings::default()
    };
    // Forty megabytes: more than any kernel keeps for a connection.
    let stage = Stage::with(1_000, 40_000, settings);
    let (mut deaf, session) = stage.set_up();
    let play = [&session, "Speed: 4"];
    assert_eq!(deaf.ask("PLAY", &stage.url, &play).status, 200);
    let (mut honest, session) = stage.set_up();
    assert_eq!(honest.ask("PLAY", &stage.url, &[&session]).status, 200);
    let mut heard = 0;
    while stage.count("connections_unread") == 0 {
        honest.packet().unwrap();
        heard += 1;
    }
    assert!(stage.count("stalled") > 0 && heard > 10);
    // Film after film went on for the other.
    for _ in 0..100 {
        honest.packet().unwrap();
    }
    assert_eq!(stage.count("sessions_abandoned"), 1);
}

#[test]
fn a_client_that_reads_late_gets_all_of_it() {
    let stage = Stage::with(1_000, 40_000, Settings::default());
    let (mut client, session) = stage.set_up();
    let play = [&session, "Speed: 4"];
    assert_eq!(client.ask("PLAY", &stage.url, &play).status, 200);
    stage.counts("stalled", 1);
    // After 300 ms of another's film megabytes are due at once, but not so late that its film goes
    // on from where it is.
    let (mut another, session) = stage.set_up();
    assert_eq!(another.ask("PLAY", &stage.url, &[&session]).status, 200);
    for _ in 0..30 {
        another.packet().unwrap();
    }
    drop(another);
    let packets = until_bye(&mut client);
    let media = packets.iter().filter(|(channel, _)| channel % 2 == 0);
    assert_eq!(media.count(), 2_000);
    assert_eq!(stage.count("connections_unread"), 0);
}

/// The one segment of the stage's film.
fn segment(stage: &Stage) -> std::path::PathBuf {
    let mut files = fs::read_dir(stage.folder.path().join("log")).unwrap();
    files.next().unwrap().unwrap().path()
}

#[test]
fn a_damaged_film_is_played_around_its_damage() {
    let stage = Stage::new(200);
    let path = segment(&stage);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 1_000].fill(0x55);
    fs::write(&path, bytes).unwrap();
    let (mut client, session) = stage.set_up();
    let play = [&session, "Speed: 4"];
    assert_eq!(client.ask("PLAY", &stage.url, &play).status, 200);
    let packets = until_bye(&mut client);
    let media = packets
        .iter()
        .filter(|(channel, _)| channel % 2 == 0)
        .count();
    // Reading goes on at the next key frame: a second is gone at most, of four.
    assert!((290..400).contains(&media), "{media}");
    assert_eq!((stage.count("ended"), stage.count("failed")), (1, 0));
}

#[test]
fn an_archive_that_cannot_be_read_is_the_servers_fault() {
    let stage = Stage::new(100);
    let (mut client, session) = stage.set_up();
    // Somebody removed it.
    fs::remove_file(segment(&stage)).unwrap();
    assert_eq!(client.ask("PLAY", &stage.url, &[&session]).status, 404);
    let log = stage.folder.path().join("log");
    fs::remove_dir(&log).unwrap();
    fs::write(&log, "no folder").unwrap();
    // What there was is known for a second more.
    while client.ask("DESCRIBE", &stage.url, &[]).status == 200 {}
    assert_eq!(client.ask("DESCRIBE", &stage.url, &[]).status, 500);
    // What was removed is no failure.
    assert_eq!(stage.count("failed"), 2);
}
