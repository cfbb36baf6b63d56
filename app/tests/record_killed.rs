//! Picture and sound recorded by a process that is killed: what it leaves is exported to each kind
//! of file, and FFmpeg decodes all of it with picture and sound in step.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::{Broker, Running, ends_well, run, sangam, text};
use sangam_model::Random;
use serde_json::Value;
use tempfile::TempDir;

/// Kills in each run of `make test`; `make kills` asks for more.
const KILLS: u64 = 2;
/// How far apart picture and sound may be, in seconds.
const STEP: f64 = 0.040;
/// Packets that are safe before the kill at least, and up to so many more: of both clips some 170
/// come in a second, and two flashes are in the first two and a half.
const SAFE: u64 = 450;
const SAFE_MORE: usize = 500;

/// A clip that flashes and beeps in the first fifth of each second.
fn clip(folder: &Path, (name, encode): (&str, &str)) -> PathBuf {
    let path = folder.join(name);
    // A third of the picture moves, so that frames have several packets.
    let picture = "testsrc2=size=320x180:rate=25,drawbox=y=60:h=120:c=black:t=fill,\
                   drawbox=c=white:t=fill:enable='lt(mod(t,1),0.2)'";
    let sound = "aevalsrc='0.5*sin(2*PI*1000*t)*lt(mod(t,1),0.2)':s=48000";
    let mut command = Command::new("ffmpeg");
    command.args("-y -nostdin -v error -f lavfi -i".split(' '));
    command.args([picture, "-f", "lavfi", "-i", sound, "-t", "40"]);
    command.args("-pix_fmt yuv420p -g 25 -c:a libopus".split(' '));
    let made = command.args(encode.split(' ')).arg(&path).output();
    ends_well(&made.unwrap());
    path
}

fn publish(broker: &Broker, topic: &str, clip: &Path) -> Running {
    let (to, file) = (broker.udp.to_string(), clip.display().to_string());
    let publish = "publish --json --copy --topic".split(' ');
    let more = [topic, "--to", &to, "--file", &file];
    let args: Vec<_> = publish.chain(more).collect();
    let mut publisher = Running::start(sangam(&args));
    assert_eq!(publisher.json_line()["event"], "second");
    publisher
}

/// The number of a recording whose recorder is killed.
fn record(broker: &Broker, place: &str, random: &mut Random) -> String {
    let from = broker.udp.to_string();
    let args = "record test/# --json --archive".split(' ');
    let args: Vec<_> = args.chain([place, "--from", &from]).collect();
    let mut recorder = Running::start(sangam(&args));
    let begun = recorder.json_line();
    recorder.counts("safe_packets", SAFE + random.below(SAFE_MORE) as u64);
    // Wherever in its second.
    std::thread::park_timeout(Duration::from_millis(random.below(1_000) as u64));
    recorder.signal("KILL");
    assert_eq!(recorder.end().0, -1);
    begun["recording"].as_str().unwrap().to_owned()
}

fn export(place: &str, recording: &str, out: &Path) -> Value {
    let out = out.display().to_string();
    let export = ["archive", "export", recording, "--json", "--out", &out];
    let output = run(&[&export[..], &["--archive", place]].concat());
    ends_well(&output);
    serde_json::from_str(&text(&output.stdout)).unwrap()
}

/// Decodes all of a file, in which FFmpeg finds no error; when the stream of this number flashes
/// or beeps.
#[track_caller]
fn marks(path: &Path, (kind, number): (&str, usize)) -> Vec<f64> {
    let map = format!("0:{kind}:{number}");
    let (filter, [dark, light]) = match kind {
        "v" => (
            "blackdetect=d=0.1:pic_th=0.5:pix_th=0.15",
            ["black_start:", "black_end:"],
        ),
        _ => (
            "silencedetect=noise=-30dB:d=0.1",
            ["silence_start:", "silence_end:"],
        ),
    };
    let decoded = Command::new("ffmpeg")
        .args("-nostdin -hide_banner -nostats -v info -copyts -i".split(' '))
        .arg(path)
        .args(["-map", &map, &format!("-filter:{kind}"), filter])
        .args("-f null -".split(' '))
        .output();
    let said = ends_well(&decoded.unwrap());
    let times = |word: &str| -> Vec<f64> {
        let found = said.split(word).skip(1);
        let numbers = found.map(|rest| rest.split_whitespace().next().unwrap());
        numbers.map(|number| number.parse().unwrap()).collect()
    };
    // The end of the file ends what is dark as well.
    let dark = times(dark);
    let mut light = times(light);
    light.retain(|end| dark.iter().any(|begin| begin > end));
    light
}

#[track_caller]
fn plays(path: &Path) {
    let decoded = Command::new("ffmpeg")
        .args("-nostdin -v error -xerror -i".split(' '))
        .arg(path)
        .args("-map 0 -f null -".split(' '))
        .output();
    assert_eq!(ends_well(&decoded.unwrap()), "", "{}", path.display());
}

/// How far the sound of a clip is behind its picture at most, in seconds.
#[track_caller]
fn apart(path: &Path, (picture, sound): (usize, usize)) -> f64 {
    let (flashes, beeps) = (marks(path, ("v", picture)), marks(path, ("a", sound)));
    let nearest = |flash: &f64| {
        let distances = beeps.iter().map(|beep| beep - flash);
        distances.min_by(|a, b| a.abs().total_cmp(&b.abs()))
    };
    // The sound begins before the picture, which waits for a key frame.
    let distances = flashes
        .iter()
        .map(|flash| nearest(flash).unwrap_or(f64::INFINITY));
    let most = distances.max_by(|a, b| a.abs().total_cmp(&b.abs()));
    most.unwrap_or_else(|| panic!("{}: nothing flashes", path.display()))
}

/// Where each clip's picture and sound are among those of a file, as the export told.
fn places(exported: &Value) -> Vec<(usize, usize)> {
    let tracks = exported["tracks"].as_array().unwrap().iter();
    let topics: Vec<_> = tracks
        .map(|track| track["topic"].as_str().unwrap())
        .collect();
    let of = |kind: &str| -> Vec<&str> {
        let ending = format!("/{kind}");
        let own = topics
            .iter()
            .filter_map(|topic| topic.strip_suffix(&ending));
        own.collect()
    };
    let (pictures, sounds) = (of("video"), of("audio"));
    let sound = |clip: &&str| sounds.iter().position(|own| own == clip).unwrap();
    pictures.iter().map(sound).enumerate().collect()
}

#[test]
fn what_a_killed_recorder_leaves_plays_with_picture_and_sound_in_step() {
    let kills = std::env::var("KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let folder = TempDir::new().unwrap();
    let clips = [
        (
            "h264.mkv",
            "-c:v libx264 -preset ultrafast -tune zerolatency",
        ),
        ("vp8.mkv", "-c:v libvpx -deadline realtime -cpu-used 8"),
    ]
    .map(|clip| self::clip(folder.path(), clip));
    let place = folder.path().join("archive").display().to_string();
    let broker = Broker::start(&[]);
    let mut random = Random::new(kills);
    for kill in 0..kills {
        let _publishers = [
            publish(&broker, "test/h264", &clips[0]),
            publish(&broker, "test/vp8", &clips[1]),
        ];
        let recording = record(&broker, &place, &mut random);
        // Ended by the scrub, or left as it is.
        if kill % 2 == 0 {
            ends_well(&run(&["archive", "scrub", "--archive", &place]));
        }
        for (name, films) in [("film.mkv", 2), ("film.mp4", 1), ("film.webm", 1)] {
            let out = folder.path().join(name);
            let exported = export(&place, &recording, &out);
            plays(&out);
            let places = places(&exported);
            assert_eq!(places.len(), films, "{name}: {exported}");
            for place in places {
                let apart = apart(&out, place);
                assert!(apart.abs() <= STEP, "kill {kill}, {name}: {apart} s");
            }
        }
    }
}
