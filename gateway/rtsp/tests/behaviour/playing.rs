use std::net::UdpSocket;
use std::time::{Duration, Instant};

use sangam_rtsp::Settings;
use sangam_wire::rtcp;
use sangam_wire::rtp::{Header, Packet};

use crate::stage::{Answer, Client, PATIENCE, Stage};

const VIDEO: u8 = 0;
const AUDIO: u8 = 2;

/// Sequence and timestamp of a track in RTP-Info.
pub(crate) fn onset(answer: &Answer, track: usize) -> (u16, u32) {
    let info = &answer.headers["rtp-info"];
    let words = info
        .split(',')
        .find(|info| info.contains(&format!("trackID={track};")));
    let mut words = words.unwrap().split(';').skip(1);
    let mut value = || {
        words
            .next()
            .unwrap()
            .split_once('=')
            .unwrap()
            .1
            .parse::<u32>()
    };
    let sequence = value().unwrap();
    (u16::try_from(sequence).unwrap(), value().unwrap())
}

/// All packets until both tracks said that they end.
pub(crate) fn until_bye(client: &mut Client) -> Vec<(u8, Vec<u8>)> {
    let mut all = std::mem::take(&mut client.packets);
    let is_bye = |(channel, bytes): &(u8, Vec<u8>)| {
        let mut packets = rtcp::packets(bytes);
        channel % 2 == 1 && packets.any(|packet| matches!(packet, Ok(rtcp::Packet::Bye(_))))
    };
    while all.iter().filter(|packet| is_bye(packet)).count() < 2 {
        all.push(client.packet().unwrap());
    }
    all
}

pub(crate) fn headers(packets: &[(u8, Vec<u8>)], channel: u8) -> Vec<Header> {
    let own = packets.iter().filter(|(found, _)| *found == channel);
    own.map(|(_, bytes)| Packet::decode(bytes).unwrap().header)
        .collect()
}

/// Sequence, timestamp without the offset that all have, and source follow each other.
#[track_caller]
pub(crate) fn follow(headers: &[Header], (sequence, timestamp): (u16, u32), tick: u32) {
    for (place, header) in (0_u32..).zip(headers) {
        assert_eq!(header.sequence, sequence.wrapping_add(place as u16));
        assert_eq!(header.timestamp, timestamp.wrapping_add(place * tick));
        assert_eq!(header.ssrc, headers[0].ssrc);
    }
}

#[test]
fn a_film_is_described() {
    let stage = Stage::new(500);
    let mut client = stage.client();
    let answer = client.ask("DESCRIBE", &stage.url, &["Accept: application/sdp"]);
    let base = format!("{}/", stage.url);
    assert_eq!(
        (answer.status, &answer.headers["content-base"]),
        (200, &base)
    );
    for line in [
        "s=film",
        "a=range:npt=0-9.980",
        "m=video 0 RTP/AVP 96",
        "a=rtpmap:96 H264/90000",
        "m=audio 0 RTP/AVP 111",
        "a=rtpmap:111 opus/48000/2",
        &format!("a=control:{base}trackID=1"),
    ] {
        assert!(
            answer.body.lines().any(|found| found == line),
            "{}",
            answer.body
        );
    }
    // By its number as well, and not by what it does not have.
    let by_number = stage.url.replace("film", "abcd");
    assert_eq!(client.ask("DESCRIBE", &by_number, &[]).status, 200);
    let other = stage.url.replace("film", "films");
    assert_eq!(client.ask("DESCRIBE", &other, &[]).status, 404);
    assert_eq!(stage.count("not_found"), 1);
}

#[test]
fn a_film_comes_at_its_pace_and_ends_with_bye() {
    let stage = Stage::new(60);
    let (mut client, session) = stage.set_up();
    let begin = Instant::now();
    let answer = client.ask("PLAY", &stage.url, &[&session, "Range: npt=0.000-"]);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.headers["range"], "npt=0.000-1.180");
    let packets = until_bye(&mut client);
    assert!(begin.elapsed() >= Duration::from_millis(1_150));
    for (channel, track, tick) in [(VIDEO, 0, 1_800), (AUDIO, 1, 960)] {
        let found = headers(&packets, channel);
        assert_eq!(found.len(), 60);
        follow(&found, onset(&answer, track), tick);
        // A report comes first, so that both have one clock from the begin.
        let first = packets.iter().find(|(found, _)| found / 2 == channel / 2);
        assert_eq!(first.unwrap().0, channel + 1);
    }
    // It may be seen again.
    let again = client.ask("PLAY", &stage.url, &[&session]);
    assert_eq!(headers(&until_bye(&mut client), VIDEO).len(), 60);
    assert_eq!(onset(&again, 0).0, onset(&answer, 0).0.wrapping_add(60));
    assert_eq!((stage.count("plays"), stage.count("ended")), (2, 2));
    assert_eq!(client.ask("TEARDOWN", &stage.url, &[&session]).status, 200);
    assert_eq!(client.ask("PLAY", &stage.url, &[&session]).status, 454);
}

#[test]
fn a_jump_leads_to_the_key_frame_before() {
    let stage = Stage::new(500);
    let (mut client, session) = stage.set_up();
    let answer = client.ask("PLAY", &stage.url, &[&session, "Range: npt=7.4-7.9"]);
    assert_eq!(answer.headers["range"], "npt=7.000-7.900");
    let packets = until_bye(&mut client);
    let found = headers(&packets, VIDEO);
    assert_eq!(found[0].timestamp, 350 * 1_800);
    assert_eq!(found.len(), 46);
    follow(&found, onset(&answer, 0), 1_800);
    follow(&headers(&packets, AUDIO), onset(&answer, 1), 960);

    // While it plays, and back.
    client.ask("PLAY", &stage.url, &[&session, "Range: npt=2-"]);
    let answer = client.ask("PLAY", &stage.url, &[&session, "Range: npt=0:00:01.5-1.7"]);
    assert_eq!(answer.headers["range"], "npt=1.000-1.700");
    // What was on its way before the answer belongs to the place before.
    client.packets.clear();
    let found = headers(&until_bye(&mut client), VIDEO);
    assert_eq!(found.len(), 36);
    follow(&found, onset(&answer, 0), 1_800);
}

#[test]
fn a_pause_loses_nothing() {
    let stage = Stage::new(100);
    let (mut client, session) = stage.set_up();
    let answer = client.ask("PLAY", &stage.url, &[&session]);
    let mut packets = Vec::new();
    while headers(&packets, VIDEO).len() < 20 {
        packets.push(client.packet().unwrap());
    }
    let paused = client.ask("PAUSE", &stage.url, &[&session]);
    assert_eq!(paused.status, 200);
    packets.append(&mut client.packets);
    let so_far = headers(&packets, VIDEO).len();
    // Whoever asks keeps it, and nothing comes meanwhile.
    assert_eq!(
        client.ask("GET_PARAMETER", &stage.url, &[&session]).status,
        200
    );
    assert!(client.packets.is_empty());
    let resumed = client.ask("PLAY", &stage.url, &[&session]);
    assert_eq!(
        onset(&resumed, 0).0,
        onset(&answer, 0).0.wrapping_add(so_far as u16)
    );
    assert_eq!(resumed.headers["range"], paused.headers["range"]);
    packets.extend(until_bye(&mut client));
    let found = headers(&packets, VIDEO);
    assert_eq!(found.len(), 100);
    follow(&found, onset(&answer, 0), 1_800);
}

#[test]
fn fast_forward_shows_the_key_frames_and_no_sound() {
    let stage = Stage::new(500);
    let (mut client, session) = stage.set_up();
    let play = [&session, "Range: npt=1-", "Scale: 10"];
    let answer = client.ask("PLAY", &stage.url, &play);
    let scale = answer.headers["scale"].as_str();
    assert_eq!((answer.status, scale), (200, "10"));
    let packets = until_bye(&mut client);
    let found = headers(&packets, VIDEO);
    assert_eq!((found.len(), headers(&packets, AUDIO).len()), (9, 0));
    // A second of film in a tenth of a second, and nothing counts as lost.
    follow(&found, onset(&answer, 0), 9_000);

    // Slow motion has all pictures.
    let play = [&session, "Range: npt=8-", "Scale: 0.5"];
    let answer = client.ask("PLAY", &stage.url, &play);
    let mut packets = std::mem::take(&mut client.packets);
    while headers(&packets, VIDEO).len() < 20 {
        packets.push(client.packet().unwrap());
    }
    follow(&headers(&packets, VIDEO), onset(&answer, 0), 3_600);
    assert_eq!(headers(&packets, AUDIO), []);

    // At the usual pace again, from a key frame.
    let answer = client.ask("PLAY", &stage.url, &[&session, "Scale: 1.0"]);
    assert_eq!(answer.headers["range"], "npt=8.000-9.980");
    client.packets.clear();
    let packets = until_bye(&mut client);
    for (channel, track, tick) in [(VIDEO, 0, 1_800), (AUDIO, 1, 960)] {
        let found = headers(&packets, channel);
        assert_eq!(found.len(), 100);
        follow(&found, onset(&answer, track), tick);
    }
}

/// The seconds of the film whose key frames these packets of the picture are.
fn seconds(packets: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let pictures = packets.iter().filter(|(channel, _)| *channel == VIDEO);
    // Packets are filled with their number, and there are 50 in a second.
    let numbers = pictures.map(|(_, bytes)| Packet::decode(bytes).unwrap().payload[0]);
    let second = |number| (0..10).find(|second| (u32::from(*second) * 50) as u8 == number);
    numbers.map(|number| second(number).unwrap()).collect()
}

#[test]
fn backwards_it_shows_the_key_frames_from_the_last_to_the_first() {
    let stage = Stage::new(500);
    let (mut client, session) = stage.set_up();
    let play = [&session, "Range: npt=7.5-2", "Scale: -4"];
    let answer = client.ask("PLAY", &stage.url, &play);
    let said = ["scale", "range"].map(|name| answer.headers[name].as_str());
    assert_eq!((answer.status, said), (200, ["-4", "npt=7.000-2.000"]));
    let packets = until_bye(&mut client);
    assert_eq!(seconds(&packets), [7, 6, 5, 4, 3, 2]);
    assert_eq!(headers(&packets, AUDIO), []);
    // Timestamps run on, a quarter of a second for each second back.
    follow(&headers(&packets, VIDEO), onset(&answer, 0), 22_500);

    // Nobody said where from: from the end, stopped between two pictures, and on from there.
    let answer = client.ask("PLAY", &stage.url, &[&session, "Scale: -2"]);
    assert_eq!(answer.headers["range"], "npt=9.000-0.000");
    let mut packets = vec![client.packet().unwrap()];
    while headers(&packets, VIDEO).len() < 2 {
        packets.push(client.packet().unwrap());
    }
    client.ask("PAUSE", &stage.url, &[&session]);
    packets.append(&mut client.packets);
    let next = 9 - headers(&packets, VIDEO).len();
    let resumed = client.ask("PLAY", &stage.url, &[&session, "Scale: -2"]);
    assert_eq!(resumed.headers["range"], format!("npt={next}.000-0.000"));
    packets.extend(until_bye(&mut client));
    assert_eq!(seconds(&packets), [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
    for range in ["Range: npt=2-7", "Range: npt=10-"] {
        let answer = client.ask("PLAY", &stage.url, &[&session, range, "Scale: -1"]);
        assert_eq!(answer.status, 457, "{range}");
    }
}

#[test]
fn who_turns_round_goes_on_from_where_he_is() {
    let stage = Stage::new(500);
    let (mut client, session) = stage.set_up();
    let play = [&session, "Range: npt=4.3-", "Scale: 16"];
    client.ask("PLAY", &stage.url, &play);
    let mut packets = Vec::new();
    while headers(&packets, VIDEO).len() < 3 {
        packets.push(client.packet().unwrap());
    }
    let answer = client.ask("PLAY", &stage.url, &[&session, "Scale: -16"]);
    assert_eq!(answer.status, 200);
    packets.append(&mut client.packets);
    let on = headers(&packets, VIDEO).len() as u8;
    packets.extend(until_bye(&mut client));
    let seen = seconds(&packets);
    let (there, back) = seen.split_at(usize::from(on));
    assert_eq!(there, (4..4 + on).collect::<Vec<_>>());
    assert!(back[0] + 1 >= 4 + on - 1, "{seen:?}");
    assert_eq!(back, (0..=back[0]).rev().collect::<Vec<_>>());
}

/// A client that has set up the picture by UDP, its sockets and the answer.
fn by_udp(stage: &Stage) -> (Client, [UdpSocket; 2], Answer) {
    let mut client = stage.client();
    let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let ports = sockets
        .each_ref()
        .map(|socket| socket.local_addr().unwrap().port());
    let transport = format!(
        "Transport: RTP/AVP;unicast;client_port={}-{}",
        ports[0], ports[1]
    );
    let video = format!("{}/trackID=0", stage.url);
    let answer = client.ask("SETUP", &video, &[&transport]);
    assert_eq!(answer.status, 200, "{answer:?}");
    (client, sockets, answer)
}

/// The session's header.
fn session(answer: &Answer) -> String {
    let session = answer.headers["session"].split(';').next().unwrap();
    format!("Session: {session}")
}

#[test]
fn reports_keep_a_film_that_comes_by_udp() {
    let settings = Settings {
        timeout: Duration::from_secs(2),
        ..Settings::default()
    };
    let stage = Stage::with(250, 100, settings);
    let (mut client, sockets, answer) = by_udp(&stage);
    let words = answer.headers["transport"].split(';');
    let port = words
        .filter_map(|word| word.strip_prefix("server_port="))
        .find_map(|ports| ports.split('-').nth(1));
    let port: u16 = port.unwrap().parse().unwrap();
    let session = session(&answer);
    assert_eq!(client.ask("PLAY", &stage.url, &[&session]).status, 200);
    sockets[0].set_read_timeout(Some(PATIENCE)).unwrap();
    for _ in 0..250 {
        sockets[0].recv(&mut [0; 2_000]).unwrap();
        sockets[1].send_to(b"report", ("127.0.0.1", port)).unwrap();
    }
    stage.counts("ended", 1);
    assert_eq!(stage.count("sessions_expired"), 0);
}

#[test]
fn a_film_comes_by_udp_and_faster() {
    let stage = Stage::new(200);
    let (mut client, sockets, answer) = by_udp(&stage);
    let session = session(&answer);
    let play = [&session, "Speed: 4.0", "Scale: 0"];
    let answer = client.ask("PLAY", &stage.url, &play);
    let played = (
        answer.headers["speed"].as_str(),
        answer.headers["scale"].as_str(),
    );
    assert_eq!(played, ("4", "1"));
    for socket in &sockets {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    let mut found = Vec::new();
    let mut room = [0; 2_000];
    while found.len() < 200 {
        let (len, source) = sockets[0].recv_from(&mut room).unwrap();
        assert_eq!(source.port() % 2, 0);
        found.push(Packet::decode(&room[..len]).unwrap().header);
    }
    follow(&found, onset(&answer, 0), 1_800);
    // One report at the begin, one with the end.
    let reports = [(); 2].map(|()| {
        let len = sockets[1].recv(&mut room).unwrap();
        rtcp::packets(&room[..len]).count()
    });
    assert_eq!(reports, [2, 3]);
}
