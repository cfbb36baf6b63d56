//! RTSP by TLS, RTSP 2.0, and what the operator of the server sees.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{
    Broker, Running, clip, ends_well, get, probe, rtspsrc_ends, run, sangam, text, times,
};
use tempfile::TempDir;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A broker where a clip is published, and an RTSP server whose settings stand in a file.
struct Stage {
    server: Running,
    folder: TempDir,
    /// The broker, and who publishes.
    _others: (Broker, Running),
    plain: String,
    secure: String,
    http: String,
}

impl Stage {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let own = issue(folder.path(), "first");
        let broker = Broker::start(&[]);
        let (of, file) = (broker.udp.to_string(), clip(folder.path()));
        let publish = ["publish", "--json", "--loop", "--to", &of];
        let what = [
            "--topic",
            "test/clip",
            "--file",
            &file.display().to_string(),
        ];
        let mut publisher = Running::start(sangam(&[&publish[..], &what].concat()));
        assert_eq!(publisher.json_line()["event"], "second");
        let at = |name: &str| own.join(name).display().to_string();
        let config = format!(
            "[tls]\ncertificate = {:?}\nkey = {:?}\n[rtsp]\nlisten = [\"127.0.0.1:0\"]\n\
             listen_tls = [\"127.0.0.1:0\"]\nhttp = \"127.0.0.1:0\"\nbrokers = [{of:?}]\n",
            at("broker.crt"),
            at("broker.key"),
        );
        let path = folder.path().join("sangam.toml");
        fs::write(&path, config).unwrap();
        let (path, place) = (path.display().to_string(), at("archive"));
        let serve = ["archive", "serve", "--json", "--config", &path];
        let serve = [&serve[..], &["--archive", &place]].concat();
        let mut server = Running::start(sangam(&serve));
        let ready = server.json_line();
        let address = |name: &str| ready[name][0].as_str().unwrap().to_owned();
        Self {
            plain: format!("rtsp://{}/live/test/clip", address("rtsp")),
            secure: format!("rtsps://{}/live/test/clip", address("rtsps")),
            http: ready["http"].as_str().unwrap().to_owned(),
            server,
            folder,
            _others: (broker, publisher),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A value of the metrics.
    #[track_caller]
    fn metric(&self, name: &str) -> u64 {
        let (status, text) = get(self.http.parse().unwrap(), "/metrics");
        assert_eq!(status, 200);
        let lines = text.lines();
        let mut values = lines.filter_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        values.next().unwrap_or_else(|| panic!("{name}: {text}"))
    }
}

/// An authority of this name in a folder, and a certificate that it has issued, with its key.
#[track_caller]
fn issue(folder: &Path, name: &str) -> PathBuf {
    let at = |part: &str| folder.join(name).join(part).display().to_string();
    ends_well(&run(&["ca", "init", "--dir", &at("ca"), "--name", name]));
    let (ca, out) = (at("ca"), at("server"));
    let issue = ["ca", "issue", "--dir", &ca, "--out", &out];
    ends_well(&run(&[&issue[..], &["--name", "127.0.0.1"]].concat()));
    folder.join(name).join("server")
}

/// FFmpeg copies four seconds.
#[track_caller]
fn ffmpeg(url: &str, out: &Path) {
    let output = Command::new("ffmpeg")
        .args("-nostdin -y -v error -i".split(' '))
        .arg(url)
        .args("-t 4 -c copy".split(' '))
        .arg(out)
        .output()
        .unwrap();
    ends_well(&output);
    assert_eq!(probe(out).0, ["h264", "opus"]);
    let (pictures, sounds) = (times(out, "v"), times(out, "a"));
    assert!(pictures.len() >= 60, "{}", pictures.len());
    assert!(sounds.len() >= 120, "{}", sounds.len());
}

/// GStreamer decodes so many pictures.
#[track_caller]
fn gstreamer(url: &str, more: &str, out: &Path) {
    let pipeline = format!(
        "rtspsrc location={url} {more} latency=200 ! application/x-rtp,media=video \
         ! rtph264depay ! h264parse ! avdec_h264 ! video/x-raw,format=I420 \
         ! identity eos-after=60 ! filesink sync=false location={}",
        out.display()
    );
    let mut command = Command::new("gst-launch-1.0");
    command.arg("-q").args(pipeline.split_whitespace());
    let player = command.stderr(Stdio::piped()).spawn().unwrap();
    let output = player.wait_with_output().unwrap();
    rtspsrc_ends(&output);
    let len = fs::metadata(out).unwrap().len();
    assert!(len >= 50 * 320 * 180 * 3 / 2, "{more}: {len}");
}

/// OpenSSL, which knows the authority of this name, believes the server.
fn is_believed(stage: &Stage, authority: &str) -> bool {
    let address = stage.secure.split('/').nth(2).unwrap();
    let authority = stage.file(authority).join("ca/ca.crt");
    let output = Command::new("openssl")
        .args(["s_client", "-connect", address, "-verify_return_error"])
        .args(["-verify_ip", "127.0.0.1", "-CAfile"])
        .arg(authority)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    output.status.success() && text(&output.stdout).contains("Verification: OK")
}

#[test]
fn encrypted_and_in_the_second_version_a_topic_is_played_by_ffmpeg_and_gstreamer() {
    let stage = Stage::new();
    ffmpeg(&stage.secure, &stage.file("secure.mkv"));
    // Nobody knows the test's authority.
    let any = "tls-validation-flags=0";
    gstreamer(&stage.secure, any, &stage.file("secure.raw"));
    let second = "default-rtsp-version=2-0";
    for (url, more) in [
        (&stage.plain, format!("{second} protocols=tcp")),
        (&stage.plain, format!("{second} protocols=udp")),
        (&stage.secure, format!("{second} {any} protocols=tcp")),
    ] {
        gstreamer(url, &more, &stage.file("second.raw"));
    }
    assert_eq!(stage.metric("sangam_rtsp_plays_total "), 5);
    for none in [
        "malformed",
        "unsent_failed",
        "live_malformed",
        "wrong_state",
    ] {
        assert_eq!(
            stage.metric(&format!("sangam_rtsp_{none}_total ")),
            0,
            "{none}"
        );
    }
}

#[test]
fn the_operator_sees_health_and_counts_and_renews_the_certificate() {
    let mut stage = Stage::new();
    let http = stage.http.parse().unwrap();
    for path in ["/healthz", "/readyz"] {
        assert_eq!(get(http, path).0, 200, "{path}");
    }
    assert_eq!(get(http, "/elsewhere").0, 404);
    let until = Instant::now() + PATIENCE;
    while stage.metric("sangam_rtsp_broker_up ") == 0 {
        assert!(Instant::now() < until, "the broker is not reached");
        thread::park_timeout(Duration::from_millis(100));
    }
    let newer = issue(stage.folder.path(), "second");
    assert!(is_believed(&stage, "first") && !is_believed(&stage, "second"));
    let shown = stage.file("first/server");
    // A certificate without its key changes nothing.
    fs::copy(newer.join("broker.crt"), shown.join("broker.crt")).unwrap();
    let log = stage.server.log();
    log.says(&["the certificate stays as it was"]);
    assert!(is_believed(&stage, "first"));
    fs::copy(newer.join("broker.key"), shown.join("broker.key")).unwrap();
    let until = Instant::now() + PATIENCE;
    while !is_believed(&stage, "second") {
        assert!(Instant::now() < until, "the newer certificate is not shown");
    }
    assert!(!is_believed(&stage, "first"));
    // Who speaks no TLS there is counted.
    let address = stage.secure.split('/').nth(2).unwrap();
    let plain = Command::new("ffprobe")
        .args(["-v", "error", &format!("rtsp://{address}/live/test/clip")])
        .output()
        .unwrap();
    assert!(!plain.status.success(), "{}", text(&plain.stdout));
    assert!(stage.metric("sangam_rtsp_connections_insecure_total ") >= 1);
}

#[test]
fn what_is_wrong_in_the_file_is_named() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("sangam.toml");
    for (config, word) in [
        (
            "[rtsp]\nlisten_tls = [\"127.0.0.1:0\"]\n",
            "tls.certificate",
        ),
        ("[rtsp]\ningest = true\n", "name the broker"),
        ("[rtsp]\nlisen = []\n", "\"listen\""),
    ] {
        fs::write(&path, config).unwrap();
        let path = path.display().to_string();
        let output = run(&["archive", "serve", "--config", &path]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains(word), "{said}");
    }
}
