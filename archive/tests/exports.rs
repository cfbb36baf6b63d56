//! Real media through the log into files, judged by FFmpeg: every frame there, nothing damaged,
//! picture and sound in step.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod sender;

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use sangam_archive::export::{ExportError, Exported, Format, export};
use sangam_archive::record::{Kind, Record, TrackInfo};
use sangam_archive::{Archive, Log, RecordingId, Replay};
use sangam_wire::rtp::Packet;
use sender::{Sender, Sent};
use serde_json::Value;
use tempfile::TempDir;

const BEGIN: u64 = 1_700_000_000_000_000_000;
const MS: u64 = 1_000_000;
/// How far apart picture and sound may be.
const STEP: f64 = 0.040;

/// A folder with one recording of these senders, in the order in which their packets came.
fn record(senders: &[&Sender]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let medium = Archive::new(folder.path()).medium().unwrap();
    let mut log = Log::new(medium, (1, 2)).unwrap();
    let id = RecordingId(7);
    log.begin(id, "test", BEGIN).unwrap();
    let mut packets: Vec<(u32, &Sent)> = Vec::new();
    for sender in senders {
        let track = log.track(TrackInfo {
            reliable: false,
            recording: id,
            topic: sender.topic.clone(),
            media: sender.media.clone(),
        });
        packets.extend(sender.packets.iter().map(|sent| (track, sent)));
    }
    packets.sort_by_key(|(_, sent)| sent.arrival);
    for (track, sent) in packets {
        let kind = if sent.is_rtcp {
            Kind::Rtcp
        } else {
            Kind::Packet
        };
        let time = BEGIN + sent.arrival;
        let record = Record::new(kind, time, &sent.bytes);
        log.packet(&Record { track, ..record });
        log.tick(time);
    }
    log.end(id, BEGIN + 5_000 * MS);
    let safe = log.close(BEGIN + 5_000 * MS);
    assert!(safe > 0);
    folder
}

fn export_to(folder: &TempDir, name: &str) -> Result<Exported, ExportError> {
    let archive = Archive::new(folder.path());
    let recording = archive.recordings().unwrap().pop().unwrap();
    let path = folder.path().join(name);
    let file = File::create(&path).unwrap();
    let format = Format::of(&path).unwrap();
    export(
        &archive.medium().unwrap(),
        &recording,
        (format, file),
        |_| {},
    )
}

/// Decodes all of a file: FFmpeg has nothing to say of it.
#[track_caller]
fn plays(path: &Path) {
    let output = Command::new("ffmpeg")
        .args("-nostdin -v warning -xerror -i".split(' '))
        .arg(path)
        .args("-f null -".split(' '))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // G.711 in Matroska has channels without places: one is the middle.
    let guessed = "Guessed Channel Layout";
    let mut said = said.lines().filter(|line| !line.starts_with(guessed));
    assert_eq!(said.next(), None);
    assert!(output.status.success());
}

/// Codec, number of decoded frames and time of the first, by stream.
fn streams(path: &Path) -> Vec<(String, u64, f64)> {
    let output = Command::new("ffprobe")
        .args("-v error -count_frames -show_streams -show_packets -of json -i".split(' '))
        .arg(path)
        .output()
        .unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packets = found["packets"].as_array().unwrap();
    let first = |index: &Value| {
        let mut own = packets
            .iter()
            .filter(|packet| packet["stream_index"] == *index);
        let time = own.next().unwrap()["pts_time"].as_str().unwrap();
        time.parse::<f64>().unwrap()
    };
    let streams = found["streams"].as_array().unwrap().iter();
    streams
        .map(|stream| {
            let frames = stream["nb_read_frames"].as_str().unwrap();
            (
                stream["codec_name"].as_str().unwrap().to_owned(),
                frames.parse().unwrap(),
                first(&stream["index"]),
            )
        })
        .collect()
}

#[test]
fn every_codec_goes_into_the_files_that_take_it() {
    let senders = [
        Sender::h264("test/h264"),
        Sender::h265("test/h265"),
        Sender::vp8("test/vp8"),
        Sender::vp9("test/vp9"),
        Sender::av1("test/av1"),
        Sender::opus("test/opus"),
        Sender::aac("test/aac"),
        Sender::pcmu("test/pcmu"),
    ];
    let folder = record(&senders.each_ref());
    let all = [
        "h264",
        "hevc",
        "vp8",
        "vp9",
        "av1",
        "opus",
        "aac",
        "pcm_mulaw",
    ];
    for (name, codecs) in [
        ("all.mkv", &all[..]),
        ("some.webm", &["vp8", "vp9", "av1", "opus"]),
        ("some.mp4", &["h264", "hevc", "vp9", "av1", "opus", "aac"]),
    ] {
        let exported = export_to(&folder, name).unwrap();
        assert_eq!(exported.broken, 0);
        assert_eq!(exported.left_out.len(), all.len() - codecs.len());
        let path = folder.path().join(name);
        plays(&path);
        let found = streams(&path);
        let names: Vec<_> = found.iter().map(|(codec, ..)| codec.as_str()).collect();
        assert_eq!(names, codecs, "{name}");
        for ((codec, decoded, _), (_, written)) in found.iter().zip(&exported.tracks) {
            assert!(*written >= 100, "{name}, {codec}: {written}");
            assert_eq!(decoded, written, "{name}, {codec}");
        }
    }
}

#[test]
fn sender_reports_keep_picture_and_sound_in_step() {
    for reported in [true, false] {
        let video = Sender::h264("test/anna/video").sent_with(reported, 20);
        // The sound takes a way that is 300 ms longer.
        let audio = Sender::opus("test/anna/audio").sent_with(reported, 320);
        let folder = record(&[&video, &audio]);
        for name in ["film.mkv", "film.mp4"] {
            export_to(&folder, name).unwrap();
            let found = streams(&folder.path().join(name));
            let apart = found[1].2 - found[0].2;
            if reported {
                assert!(apart.abs() <= STEP, "{name}: {apart}");
            } else {
                // Nobody can know better.
                assert!((apart - 0.300).abs() <= STEP, "{name}: {apart}");
            }
        }
    }
}

#[test]
fn a_replay_knows_from_reports_when_what_is_to_be_shown() {
    for reported in [true, false] {
        let video = Sender::h264("test/anna/video").sent_with(reported, 20);
        let audio = Sender::opus("test/anna/audio").sent_with(reported, 320);
        let folder = record(&[&video, &audio]);
        let archive = Archive::new(folder.path());
        let recording = archive.recordings().unwrap().pop().unwrap();
        for seconds in [0, 2] {
            let mut replay = Replay::new(archive.reader(), recording.clone());
            replay.seek(Duration::from_secs(seconds), &[0, 1]).unwrap();
            let clocks = replay.clocks().unwrap();
            // How much later than it is to be shown each track's quickest packet came.
            let mut late = [i64::MAX; 2];
            while let Some(next) = replay.pull().unwrap() {
                let Ok(packet) = Packet::decode(&next.payload) else {
                    continue;
                };
                if !next.is_rtcp {
                    let header = packet.header;
                    let shown = clocks.shown(next.track, header.ssrc, header.timestamp);
                    let came = i64::try_from(next.at.as_nanos()).unwrap();
                    late[next.track] = late[next.track].min(came - shown.unwrap());
                }
            }
            let late = late.map(|late| late as f64 / 1e9);
            let sound = if reported { 0.300 } else { 0.0 };
            assert!(late[0].abs() < STEP, "{late:?}");
            assert!((late[1] - sound).abs() < STEP, "{late:?}");
        }
    }
}

#[test]
fn packets_out_of_order_and_twice_change_nothing() {
    let mut video = Sender::h264("test/video");
    let straight = record(&[&video]);
    video.disturb();
    let disturbed = record(&[&video]);
    let films = [straight, disturbed].map(|folder| {
        let exported = export_to(&folder, "film.mkv").unwrap();
        assert_eq!(exported.broken, 0);
        std::fs::read(folder.path().join("film.mkv")).unwrap()
    });
    assert!(films[0] == films[1]);
}

#[test]
fn a_lost_packet_costs_its_frame_alone() {
    for mut video in [
        Sender::h264("test/video"),
        Sender::h265("test/video"),
        Sender::vp9("test/video"),
        Sender::av1("test/video"),
    ] {
        let whole = video.frames;
        video.lose_inside_a_frame();
        let folder = record(&[&video]);
        let exported = export_to(&folder, "film.mp4").unwrap();
        assert_eq!(
            (exported.broken, exported.tracks),
            (1, vec![(0, whole - 1)]),
            "{}",
            video.media.encoding
        );
    }
}

#[test]
fn what_cannot_be_exported_says_why() {
    let pcmu = Sender::pcmu("test/pcmu");
    let folder = record(&[&pcmu]);
    let Err(ExportError::Nothing(reasons)) = export_to(&folder, "film.webm") else {
        panic!("exported");
    };
    assert_eq!(reasons, ["test/pcmu: G.711 does not go into this format"]);
}
