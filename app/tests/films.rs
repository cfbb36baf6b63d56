//! Films added to a real archive, played by real players, over disks that come, go and die.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;
#[path = "common/rtsp.rs"]
mod rtsp;

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Running, ends_well, probe, run, sangam, text, times};
use rtsp::Client;
use serde_json::Value;
use tempfile::TempDir;

/// Seconds of the film, with a key frame in each.
const SECONDS: f64 = 8.0;
const PATIENCE: Duration = Duration::from_secs(30);
/// VLC refuses to be root: then it is nobody.
const NOBODY: u32 = 65_534;

/// An archive, and films to be put into it.
struct Stage {
    folder: TempDir,
}

impl Stage {
    fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
        }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// A command on the archive: its lines of JSON.
    #[track_caller]
    fn archive(&self, args: &[&str]) -> Vec<Value> {
        let done = self.try_archive(args);
        assert!(done.status.success(), "{args:?}: {}", text(&done.stderr));
        let lines = text(&done.stdout);
        let lines = lines.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    fn try_archive(&self, args: &[&str]) -> std::process::Output {
        let place = self.path("archive");
        run(&[&["archive", "--json", "--archive", &place], args].concat())
    }

    /// A film of pictures of so many bits in a second, and a tone.
    fn film(&self, name: &str, codecs: &str, rate: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        let made = Command::new("ffmpeg")
            .args("-nostdin -y -v error -f lavfi -i testsrc2=size=640x360:rate=25".split(' '))
            .args("-f lavfi -i sine=frequency=440 -g 25 -t".split(' '))
            .arg(SECONDS.to_string())
            .args(codecs.split(' '))
            .args(["-b:v", rate])
            .arg(&path)
            .output();
        ends_well(&made.unwrap());
        path
    }

    /// A film of six blocks and what is left, in a transport stream.
    fn stream(&self) -> PathBuf {
        let codecs = "-c:v libx264 -preset ultrafast -c:a aac";
        self.film("film.ts", codecs, "7M")
    }

    fn serve(&self) -> Server {
        let place = self.path("archive");
        let serve = ["archive", "serve", "--json", "--listen", "127.0.0.1:0"];
        let mut process = Running::start(sangam(&[&serve[..], &["--archive", &place]].concat()));
        let ready = process.json_line();
        let address: SocketAddr = ready["rtsp"][0].as_str().unwrap().parse().unwrap();
        Server { process, address }
    }
}

struct Server {
    process: Running,
    address: SocketAddr,
}

impl Server {
    fn url(&self, name: &str) -> String {
        format!("rtsp://{}/archive/{name}", self.address)
    }

    /// What it counted in the end.
    fn end(self) -> Value {
        self.process.signal("TERM");
        let (code, said) = self.process.end();
        assert_eq!(code, 0);
        serde_json::from_str(said.lines().last().unwrap()).unwrap()
    }
}

/// Copies what FFmpeg receives into a file.
#[track_caller]
fn copy(url: &str, (transport, seek): (&str, Option<&str>), out: &Path) {
    let mut command = Command::new("ffmpeg");
    command.args("-nostdin -y -v fatal -rtsp_transport".split(' '));
    command.arg(transport);
    if let Some(seek) = seek {
        command.args(["-ss", seek]);
    }
    command
        .args(["-i", url, "-map", "0", "-c", "copy"])
        .arg(out);
    ends_well(&command.output().unwrap());
}

/// Checksums of all pictures of a file, decoded.
fn pictures(file: &Path) -> Vec<String> {
    let decoded = Command::new("ffmpeg")
        .args("-nostdin -v error -i".split(' '))
        .arg(file)
        .args("-map 0:v -f framemd5 -".split(' '))
        .output()
        .unwrap();
    let said = text(&decoded.stdout);
    let lines = said.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.rsplit(',').next().unwrap().trim().to_owned())
        .collect()
}

#[test]
fn a_film_is_added_and_played_by_ffmpeg_from_any_second() {
    let stage = Stage::new();
    let file = stage.stream();
    let added = &stage.archive(&["add", file.to_str().unwrap()])[0];
    assert_eq!(added["name"], "film");
    assert_eq!(added["bytes"], fs::metadata(&file).unwrap().len());
    assert!((added["seconds"].as_f64().unwrap() - SECONDS).abs() < 0.2);
    assert_eq!(added["starts"], SECONDS);
    assert_eq!(&stage.archive(&["list"])[0], added);

    let server = stage.serve();
    let original = pictures(&file);
    for transport in ["tcp", "udp"] {
        let out = stage.folder.path().join(format!("{transport}.ts"));
        let begin = Instant::now();
        copy(&server.url("film"), (transport, None), &out);
        // It comes at the pace of its clock.
        let took = begin.elapsed().as_secs_f64();
        assert!((SECONDS - 1.0..SECONDS + 6.0).contains(&took), "{took}");
        let played = pictures(&out);
        // A stream without an end leaves its last picture in the demultiplexer.
        assert!(played.len() + 1 >= original.len(), "{}", played.len());
        assert!(original.starts_with(&played), "{transport}");
        assert_eq!(probe(&out).0, ["aac", "h264"]);
    }
    let out = stage.folder.path().join("end.mkv");
    copy(&server.url("film"), ("tcp", Some("5.3")), &out);
    let shown = times(&out, "v");
    let seconds = shown.last().unwrap() - shown.first().unwrap();
    // It comes from the key frame before; FFmpeg begins to copy with the one behind, as what it has
    // of a transport stream when it seeks is mixed with what follows.
    assert!((1.6..3.3).contains(&seconds), "{seconds}");
    let counts = server.end();
    for none in ["late", "unreadable", "failed", "unsent_failed", "malformed"] {
        assert_eq!(counts[none], 0, "{none}: {counts}");
    }
    assert_eq!(counts["ended"], 3, "{counts}");
}

#[test]
fn our_own_player_has_every_byte_of_a_film_from_its_begin_and_from_a_key_frame() {
    let stage = Stage::new();
    let file = stage.stream();
    stage.archive(&["add", file.to_str().unwrap()]);
    let server = stage.serve();
    let original = fs::read(&file).unwrap();
    for (start, least) in [("0", original.len()), ("5", original.len() / 4)] {
        let out = stage.path(&format!("{start}.ts"));
        let url = server.url("film");
        let play = ["play", "--json", "--film", &url, "--start", start];
        let done = run(&[&play[..], &["--out", &out, "--max-loss", "0"]].concat());
        assert!(done.status.success(), "{}", text(&done.stderr));
        let played = fs::read(&out).unwrap();
        assert!(original.ends_with(&played), "from {start} s");
        assert!(played.len() >= least, "{} from {start} s", played.len());
        let said = text(&done.stdout);
        let summary: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        for none in ["lost", "starved", "late", "duplicates"] {
            assert_eq!(summary[none], 0, "{none}: {summary}");
        }
        assert_eq!(summary["bytes"], played.len());
    }
    server.end();
}

#[test]
fn our_own_player_says_what_a_server_refuses_and_where_there_is_none() {
    let stage = Stage::new();
    stage.archive(&["list"]);
    let server = stage.serve();
    let url = server.url("nothing");
    let done = run(&["play", "--film", &url]);
    assert_eq!(done.status.code(), Some(1));
    assert!(text(&done.stderr).contains("404"), "{}", text(&done.stderr));
    for (url, code) in [
        ("http://127.0.0.1/film", 2),
        ("rtsp://127.0.0.1:1/archive/film", 4),
    ] {
        assert_eq!(
            run(&["play", "--film", url]).status.code(),
            Some(code),
            "{url}"
        );
    }
    server.end();
}

#[test]
fn other_files_are_put_into_a_stream_and_those_that_do_not_fit_are_explained() {
    let stage = Stage::new();
    let file = stage.film("clip.mp4", "-c:v libx264 -preset ultrafast -c:a aac", "1M");
    let added = &stage.archive(&["add", file.to_str().unwrap(), "--name", "a clip"])[0];
    assert_eq!(added["name"], "a clip");
    assert_eq!(added["starts"], SECONDS);
    // Nothing of the way there is left.
    let left = fs::read_dir(stage.path("archive")).unwrap();
    let left = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(left.into_iter().all(|name| !name.starts_with("adding")));

    let again = stage.try_archive(&["add", file.to_str().unwrap(), "--name", "a clip"]);
    assert!(!again.status.success());
    assert!(text(&again.stderr).contains("--name"));

    let file = stage.film("strange.webm", "-c:v libvpx -c:a libopus", "1M");
    let refused = stage.try_archive(&["add", file.to_str().unwrap()]);
    let said = text(&refused.stderr);
    assert!(!refused.status.success());
    assert!(
        said.contains("vp8") && said.contains("-c:v libx264"),
        "{said}"
    );

    let words = stage.folder.path().join("words.txt");
    fs::write(&words, "no film at all").unwrap();
    let refused = stage.try_archive(&["add", words.to_str().unwrap()]);
    assert!(!refused.status.success());
    assert_eq!(stage.archive(&["list"]).len(), 1);
}

#[test]
fn films_of_older_codecs_are_added_and_played_by_ffmpeg() {
    let stage = Stage::new();
    let codecs = [
        ("mpeg1video", "-c:v mpeg1video -c:a mp2"),
        ("mpeg2video", "-c:v mpeg2video -c:a mp2"),
        ("mpeg4", "-c:v mpeg4 -c:a mp3"),
    ];
    let files = codecs.map(|(name, codecs)| {
        let file = stage.film(&format!("{name}.ts"), codecs, "2M");
        let added = &stage.archive(&["add", file.to_str().unwrap()])[0];
        assert_eq!(added["starts"], SECONDS, "{name}");
        file
    });
    let server = stage.serve();
    std::thread::scope(|scope| {
        for ((name, _), file) in codecs.iter().zip(&files) {
            let (server, stage) = (&server, &stage);
            scope.spawn(move || {
                let out = stage.folder.path().join(format!("{name}.played.ts"));
                copy(&server.url(name), ("tcp", None), &out);
                let (original, played) = (pictures(file), pictures(&out));
                // A stream without an end leaves its last picture in the demultiplexer.
                assert!(
                    played.len() + 1 >= original.len(),
                    "{name}: {}",
                    played.len()
                );
                assert!(original.starts_with(&played), "{name}");
                assert_eq!(probe(&out).0, probe(file).0);
            });
        }
    });
    assert_eq!(server.end()["ended"], 3);
}

/// VLC that writes what comes to a port into a file.
fn vlc(port: u16, folder: &Path, out: &Path) -> Running {
    fs::create_dir(folder).unwrap();
    for (folder, mode) in [(folder.parent().unwrap(), 0o711), (folder, 0o777)] {
        fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
    }
    let sout = format!("#std{{access=file,mux=ts,dst={}}}", out.display());
    let mut command = Command::new("cvlc");
    command.args(["-I", "dummy", "--sout", &sout]);
    command.arg(format!("rtp://127.0.0.1:{port}"));
    command.env("HOME", folder);
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let vlc = Running::start(command);
    let begin = Instant::now();
    let bound = format!(":{port:04X} ");
    while !fs::read_to_string("/proc/net/udp")
        .unwrap()
        .contains(&bound)
    {
        assert!(begin.elapsed() < PATIENCE, "VLC does not listen");
        std::thread::park_timeout(Duration::from_millis(50));
    }
    vlc
}

/// Debian's VLC is built without RTSP: somebody else asks for the film, and VLC takes what comes.
#[test]
fn vlc_takes_a_film_that_is_sent_to_it() {
    let stage = Stage::new();
    let file = stage.stream();
    stage.archive(&["add", file.to_str().unwrap()]);
    let mut server = stage.serve();
    let mut client = Client::connect(server.address, "film");
    assert_eq!(client.set_up(false).status, 200);
    let port = client.rtp.local_addr().unwrap().port();
    // Its port becomes VLC's.
    client.rtp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let folder = stage.folder.path().join("vlc");
    let out = folder.join("out.ts");
    let vlc = vlc(port, &folder, &out);
    let played = client.ask("PLAY", ("/", "Range: npt=3-\r\n"), "");
    assert_eq!(played.status, 200, "{}", played.text);
    server.process.counts("ended", 1);
    vlc.signal("TERM");
    vlc.end();
    let (original, shown) = (pictures(&file), pictures(&out));
    let known = shown.iter().filter(|picture| original.contains(picture));
    // Five seconds came; what VLC was still holding when it was ended is not there.
    let (known, shown) = (known.count(), shown.len());
    assert!(known >= 50 && known * 10 >= shown * 8, "{known} of {shown}");
    assert_eq!(probe(&out).0, ["aac", "h264"]);
}
