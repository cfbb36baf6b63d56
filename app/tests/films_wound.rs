//! Films wound on and back by real servers: what a client gets is decoded by FFmpeg, and each
//! picture says by its grey from which second it is.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;
#[path = "common/rtsp.rs"]
mod rtsp;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use common::{Running, ends_well, run, sangam, text, times};
use rtsp::{Answer, Client, DATAGRAM, Packet};
use tempfile::TempDir;

/// Seconds of the film, each of one grey and with a key frame at its begin.
const SECONDS: u32 = 10;
/// The grey of the first second, and the step to the next.
const GREY: (u32, u32) = (30, 20);
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/gstreamer/wind.py");

/// An archive with a film, and its server.
struct Stage {
    folder: TempDir,
    server: Running,
    address: SocketAddr,
    film: Vec<u8>,
}

impl Stage {
    fn new(codecs: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("film.ts");
        let (first, step) = GREY;
        // One half is grey, the other one noise, so that a key frame has many datagrams.
        let luma = format!("if(lt(X,160),{first}+{step}*floor(T),random(1)*255)");
        let made = Command::new("ffmpeg")
            .args("-nostdin -y -v error -f lavfi -i".split(' '))
            .arg(format!(
                "nullsrc=s=320x180:r=25,format=yuv420p,geq=lum='{luma}':cb=128:cr=128"
            ))
            .args("-f lavfi -i sine=frequency=440 -t".split(' '))
            .arg(SECONDS.to_string())
            .args("-g 25 -b:v 1500k".split(' '))
            .args(codecs.split(' '))
            .arg(&file)
            .output();
        ends_well(&made.unwrap());
        let place = folder.path().join("archive").display().to_string();
        let add = [
            "archive",
            "--archive",
            &place,
            "add",
            file.to_str().unwrap(),
        ];
        ends_well(&run(&add));
        let serve = ["archive", "serve", "--json", "--listen", "127.0.0.1:0"];
        let mut server = Running::start(sangam(&[&serve[..], &["--archive", &place]].concat()));
        let ready = server.json_line();
        Self {
            address: ready["rtsp"][0].as_str().unwrap().parse().unwrap(),
            film: fs::read(&file).unwrap(),
            folder,
            server,
        }
    }

    /// A client that has set the film up, by UDP.
    fn client(&self) -> Client {
        let mut client = Client::connect(self.address, "film");
        assert_eq!(client.set_up(false).status, 200);
        client
    }

    /// The seconds from which the pictures of packets are, in the order in which they are shown,
    /// and when that is.
    #[track_caller]
    fn shown(&self, packets: &[Packet]) -> (Vec<u32>, Vec<f64>) {
        let file = self.folder.path().join("wound.ts");
        let bytes = packets.iter().flat_map(|packet| packet.data.clone());
        fs::write(&file, bytes.collect::<Vec<_>>()).unwrap();
        (seconds(&file), times(&file, "v"))
    }
}

/// Plays at a scale: what is answered.
#[track_caller]
fn play(client: &mut Client, scale: &str, range: Option<&str>) -> Answer {
    let range = range.map_or_else(String::new, |range| format!("Range: npt={range}\r\n"));
    let answer = client.ask("PLAY", ("/", &format!("Scale: {scale}\r\n{range}")), "");
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer
}

/// The seconds from which the pictures of a file are.
#[track_caller]
fn seconds(file: &Path) -> Vec<u32> {
    let decoded = Command::new("ffmpeg")
        .args("-nostdin -v error -i".split(' '))
        .arg(file)
        .args("-map 0:v -fps_mode passthrough -vf".split(' '))
        .arg("extractplanes=y,crop=120:160:10:10,scale=1:1:flags=area")
        .args("-f rawvideo -pix_fmt gray -".split(' '))
        .output()
        .unwrap();
    assert!(decoded.status.success(), "{}", text(&decoded.stderr));
    decoded.stdout.iter().map(|grey| second(*grey)).collect()
}

/// The second of a grey.
fn second(grey: u8) -> u32 {
    let (first, step) = GREY;
    (u32::from(grey) + step / 2).saturating_sub(first) / step
}

/// The number in RTP-Info with which a film begins is that of the first packet behind it.
#[track_caller]
fn begins(answer: &Answer, packets: &[Packet]) {
    let info = answer.header("RTP-Info").unwrap();
    let first = info
        .split("seq=")
        .nth(1)
        .unwrap()
        .split(';')
        .next()
        .unwrap();
    assert_eq!(first.parse::<u16>().unwrap(), packets[0].sequence, "{info}");
}

/// Each packet has the number behind the one before.
#[track_caller]
fn follow(packets: &[Packet]) {
    for pair in packets.windows(2) {
        assert_eq!(pair[1].sequence, pair[0].sequence.wrapping_add(1));
    }
}

#[test]
fn pictures_of_a_film_run_on_and_back_and_their_clock_runs_on() {
    let mut stage = Stage::new("-c:v libx264 -preset ultrafast -c:a aac");
    for (scale, range, answered, expected, apart) in [
        ("4", "2.2-", 2.0, (2..SECONDS).collect::<Vec<_>>(), 0.25),
        ("-2", "7.5-", 7.0, (0..=7).rev().collect(), 0.5),
        ("-4", "8.5-3", 8.0, (3..=8).rev().collect(), 0.25),
        // Five pictures in a second are enough: each fourth of sixteen, or nearly.
        ("16", "0-", 0.0, vec![0, 4, 8, 9], 0.25),
    ] {
        let mut client = stage.client();
        let answer = play(&mut client, scale, Some(range));
        assert_eq!(answer.header("Scale"), Some(scale));
        let said = answer.header("Range").unwrap();
        let from = said.trim_start_matches("npt=").split('-').next().unwrap();
        let from: f64 = from.parse().unwrap();
        // The tables stand a little before the key frame.
        assert!((answered - from).abs() < 0.2, "{said}");
        let packets = client.receive_all(|_| {});
        begins(&answer, &packets);
        follow(&packets);
        let (seen, shown) = stage.shown(&packets);
        let is_within = |seen: &[u32]| match scale {
            // The film's first key frame and the place where it begins are not quite the same.
            "16" => seen.first() == Some(&0) && seen.last() == Some(&9) && seen.is_sorted(),
            "-4" => seen == expected || seen == &expected[..expected.len() - 1],
            _ => seen == expected,
        };
        assert!(is_within(&seen), "{scale}: {seen:?}");
        let steps = shown.windows(2).map(|pair| pair[1] - pair[0]);
        for step in steps.take(seen.len().saturating_sub(2)) {
            assert!((step - apart).abs() < 0.1, "{scale}: {shown:?}");
        }
        assert!(client.ask("TEARDOWN", ("/", ""), "").status == 200);
    }
    let counts = stage.server.counts("ended", 4);
    for none in ["failed", "unreadable", "malformed", "unsent_failed"] {
        assert_eq!(counts[none], 0, "{none}: {counts}");
    }
}

#[test]
fn a_film_that_was_wound_is_played_on_as_it_lies_on_the_disks() {
    let stage = Stage::new("-c:v libx264 -preset ultrafast -c:a aac");
    let mut client = stage.client();
    let answer = client.ask("PLAY", ("/", "Range: npt=0-\r\n"), "");
    let first = client.receive().unwrap_or_else(|| client.again(|_| true));
    begins(&answer, std::slice::from_ref(&first));
    assert_eq!(first.data, stage.film[..DATAGRAM]);
    // On, quicker than it is read, and back from there.
    let answer = play(&mut client, "8", None);
    assert_eq!(answer.header("Scale"), Some("8"));
    let wound = |client: &Client, answer: &Answer| {
        let info = answer.header("RTP-Info").unwrap();
        let first = info
            .split("seq=")
            .nth(1)
            .unwrap()
            .split(';')
            .next()
            .unwrap();
        let first: u16 = first.parse().unwrap();
        client.again(|packet| packet.sequence == first)
    };
    let begun = wound(&client, &answer);
    assert!(begun.sequence.wrapping_sub(first.sequence) > 64);
    // A table stands first.
    assert_eq!(begun.data[..3], [0x47, 0x40, 0]);
    let answer = play(&mut client, "-8", None);
    wound(&client, &answer);
    let paused = client.ask("PAUSE", ("/", ""), "");
    assert_eq!(paused.status, 200);
    // And as usual, from a key frame.
    let answer = play(&mut client, "1", Some("5-"));
    assert_eq!(answer.header("Scale"), Some("1"));
    let first = wound(&client, &answer);
    let place = stage
        .film
        .chunks(DATAGRAM)
        .position(|data| data == first.data);
    let place = place.unwrap();
    let packets = client.receive_all(|_| {});
    for packet in &packets {
        let number = place + usize::from(packet.sequence.wrapping_sub(first.sequence));
        let data = stage.film.chunks(DATAGRAM).nth(number).unwrap();
        assert!(packet.data == data, "datagram {number}");
    }
    let all = stage.film.len().div_ceil(DATAGRAM) - place;
    assert!(packets.len() > all * 95 / 100, "{} of {all}", packets.len());
}

#[test]
fn a_scale_that_a_film_has_not_is_answered_with_the_nearest() {
    let stage = Stage::new("-c:v libx264 -preset ultrafast -c:a aac");
    for (wanted, answered) in [
        ("0.5", "1"),
        ("100", "16"),
        ("-0.1", "-0.25"),
        ("much", "1"),
    ] {
        let mut client = stage.client();
        let answer = play(&mut client, wanted, None);
        assert_eq!(answer.header("Scale"), Some(answered), "{wanted}");
        client.again(|_| true);
        client.ask("TEARDOWN", ("/", ""), "");
    }
    // Of a film without pictures nothing can be left out.
    let stage = Stage::new("-vn -c:a aac");
    let mut client = stage.client();
    let answer = play(&mut client, "-4", None);
    assert_eq!(answer.header("Scale"), Some("1"));
}

#[test]
fn films_of_other_codecs_are_wound_as_well() {
    for codecs in [
        "-c:v mpeg2video -sc_threshold 1000000000 -c:a mp2",
        "-c:v mpeg4 -sc_threshold 1000000000 -c:a mp2",
        "-c:v libx265 -preset ultrafast -x265-params log-level=none:open-gop=0:scenecut=0 -c:a aac",
    ] {
        let stage = Stage::new(codecs);
        let mut client = stage.client();
        let answer = play(&mut client, "-4", Some("7.5-"));
        assert_eq!(answer.header("Scale"), Some("-4"), "{codecs}");
        let packets = client.receive_all(|_| {});
        let (seen, _) = stage.shown(&packets);
        assert_eq!(seen, (0..=7).rev().collect::<Vec<_>>(), "{codecs}");
    }
}

/// GStreamer asks for what its user wants: here within the connection.
#[test]
fn gstreamer_winds_a_film() {
    let stage = Stage::new("-c:v libx264 -preset ultrafast -c:a aac");
    let url = format!("rtsp://{}/archive/film", stage.address);
    for (rate, from, expected) in [
        ("-2", "7.5", (0..=7).rev().collect::<Vec<_>>()),
        ("4", "2.5", (2..SECONDS).collect()),
    ] {
        let out = stage.folder.path().join("gstreamer.ts");
        let wind = [
            "--rate",
            rate,
            "--from",
            from,
            "--out",
            out.to_str().unwrap(),
        ];
        let mut command = Command::new("/usr/bin/python3");
        let played = command.args([SCRIPT, &url]).args(wind).output().unwrap();
        ends_well(&played);
        assert_eq!(seconds(&out), expected, "{rate}");
    }
}
