//! Real processes of the program under test, and the little HTTP that the tests speak.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use sangam_model::{Class, MediaInfo};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);

/// The program with these arguments, and none of this process' `SANGAM_*` variables.
pub(crate) fn sangam(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sangam"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SANGAM_") {
            command.env_remove(name);
        }
    }
    command.args(args).stdin(Stdio::null());
    command
}

/// What a microphone sends.
pub(crate) fn opus() -> MediaInfo {
    MediaInfo {
        class: Class::Audio,
        payload_type: 111,
        channels: 2,
        clock_rate: 48_000,
        encoding: "opus".to_owned(),
        fmtp: String::new(),
    }
}

/// Runs the program to its end.
pub(crate) fn run(args: &[&str]) -> Output {
    sangam(args).output().unwrap()
}

/// What a finished program wrote, as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A program that is killed at the end of its test.
pub(crate) struct Running {
    pub(crate) child: Child,
    lines: Option<BufReader<std::process::ChildStdout>>,
}

impl Running {
    /// What a program that prints its counts each second has counted, once that is so much; of
    /// lines since it began none need have been read.
    #[track_caller]
    pub(crate) fn counts(&mut self, wanted: &str, least: u64) -> Value {
        const LINES_MAX: usize = 300;
        for _ in 0..LINES_MAX {
            let counts = self.json_line();
            if counts[wanted].as_u64() >= Some(least) {
                return counts;
            }
        }
        panic!("{wanted}: {}", self.json_line());
    }

    /// One that reads what the test says.
    pub(crate) fn told(mut command: Command) -> Self {
        command.stdin(Stdio::piped());
        Self::start(command)
    }

    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = child.stdout.take().map(BufReader::new);
        Self { child, lines }
    }

    /// The next line of standard output as JSON.
    pub(crate) fn json_line(&mut self) -> Value {
        let mut line = String::new();
        let lines = self.lines.as_mut().unwrap();
        lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}: {}", self.complaint()))
    }

    /// Sends a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.unwrap().success());
    }

    /// What it logs, line by line.
    pub(crate) fn log(&mut self) -> Log {
        let (tell, lines) = channel();
        let stderr = self.child.stderr.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        Log(lines)
    }

    /// Waits for the end: exit code and the rest of standard output.
    pub(crate) fn end(mut self) -> (i32, String) {
        let mut rest = String::new();
        if let Some(mut lines) = self.lines.take() {
            lines.read_to_string(&mut rest).unwrap();
        }
        let code = self.child.wait().unwrap().code();
        (code.unwrap_or(-1), rest)
    }

    fn complaint(&mut self) -> String {
        let _ = self.child.kill();
        let mut text = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_string(&mut text);
        }
        text
    }
}

/// Lines of a running program's log.
pub(crate) struct Log(Receiver<String>);

impl Log {
    /// The next line that says all of this.
    #[track_caller]
    pub(crate) fn says(&self, words: &[&str]) -> String {
        let until = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(line) = self.0.recv_timeout(left) else {
                panic!("nothing says {words:?}: {seen:#?}");
            };
            // Whatever the log is coloured with.
            let plain: String = line.chars().filter(|c| !c.is_control()).collect();
            if words.iter().all(|word| plain.contains(word)) {
                return plain;
            }
            seen.push(plain);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `sangam session --json` at a broker: what it says first, or what it complains of.
pub(crate) fn session(broker: &Broker, args: &[&str]) -> Result<Value, String> {
    let server = format!("http://{}", broker.http);
    let output = run(&[&["session", "--json", "--server", &server], args].concat());
    match output.status.success() {
        true => {
            let said = text(&output.stdout);
            Ok(serde_json::from_str(said.lines().next().unwrap_or("null")).unwrap())
        }
        false => Err(text(&output.stderr)),
    }
}

/// A broker on ports that the kernel chose.
pub(crate) struct Broker {
    pub(crate) process: Running,
    pub(crate) udp: SocketAddr,
    pub(crate) tcp: SocketAddr,
    pub(crate) http: SocketAddr,
}

impl Broker {
    pub(crate) fn start(more: &[&str]) -> Self {
        Self::of(Self::command(more))
    }

    /// What starts a broker.
    pub(crate) fn command(more: &[&str]) -> Command {
        let mut args = "serve --dev --json --log error --listen 127.0.0.1:0 --http 127.0.0.1:0"
            .split(' ')
            .collect::<Vec<_>>();
        args.extend(more);
        sangam(&args)
    }

    /// A broker that a command starts, which must listen on UDP, TCP and HTTP and say so as JSON.
    pub(crate) fn of(command: Command) -> Self {
        let mut process = Running::start(command);
        let ready = process.json_line();
        let address = |value: &Value| value.as_str().unwrap().parse().unwrap();
        Self {
            udp: address(&ready["udp"][0]),
            tcp: address(&ready["tcp"][0]),
            http: address(&ready["http"]),
            process,
        }
    }

    /// A broker that dials `neighbour`.
    pub(crate) fn linked(neighbour: &Self) -> Self {
        Self::start(&["--link", &neighbour.udp.to_string()])
    }

    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        self.request("GET", path, &[], "")
    }

    /// A request and its answer: status and body.
    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[&str],
        body: &str,
    ) -> (u16, String) {
        exchange(self.http, (method, path), headers, body)
    }

    /// The same, with the answer's headers.
    pub(crate) fn ask(&self, target: (&str, &str), headers: &[&str], body: &str) -> Answer {
        ask(self.http, target, headers, body)
    }
}

/// What stands at a path: status and body.
pub(crate) fn get(http: SocketAddr, path: &str) -> (u16, String) {
    exchange(http, ("GET", path), &[], "")
}

fn exchange(http: SocketAddr, target: (&str, &str), headers: &[&str], body: &str) -> (u16, String) {
    let answer = ask(http, target, headers, body);
    (answer.status, answer.body)
}

/// What is answered to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    /// A header, by its name in any case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let found = lines.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value)
    }
}

/// One request on a connection of its own.
pub(crate) fn ask(
    http: SocketAddr,
    (method, path): (&str, &str),
    headers: &[&str],
    body: &str,
) -> Answer {
    let mut stream = TcpStream::connect(http).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|header| header.starts_with("Host:")) {
        head += &format!("Host: {http}\r\n");
    }
    for header in headers {
        head += &format!("{header}\r\n");
    }
    head += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    Answer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

/// An offer of WebRTC with one sound to be sent, of a peer that nobody ever reaches.
pub(crate) fn sdp_offer() -> String {
    let print = ["AB"; 32].join(":");
    let lines = [
        "v=0",
        "o=- 1 2 IN IP4 127.0.0.1",
        "s=-",
        "t=0 0",
        "a=group:BUNDLE 0",
        "m=audio 9 UDP/TLS/RTP/SAVPF 111",
        "c=IN IP4 0.0.0.0",
        "a=mid:0",
        "a=sendrecv",
        "a=ice-ufrag:abcd",
        "a=ice-pwd:P2uYro0UCOQ4zxjKXaWCBui1",
        &format!("a=fingerprint:sha-256 {print}"),
        "a=setup:actpass",
        "a=rtcp-mux",
        "a=rtpmap:111 opus/48000/2",
    ];
    lines.map(|line| format!("{line}\r\n")).concat()
}

/// A short clip with picture and sound.
pub(crate) fn clip(folder: &Path) -> PathBuf {
    let path = folder.join("clip.mkv");
    let made = Command::new("ffmpeg")
        .args("-y -nostdin -loglevel error -f lavfi -i testsrc2=size=320x180:rate=25".split(' '))
        .args("-f lavfi -i sine=frequency=440:sample_rate=48000 -t 3".split(' '))
        .args("-c:v libx264 -preset ultrafast -tune zerolatency -g 25".split(' '))
        .args("-pix_fmt yuv420p -c:a libopus".split(' '))
        .arg(&path)
        .status();
    assert!(made.unwrap().success(), "FFmpeg makes no clip");
    path
}

/// The codecs of a file's streams, and its length in seconds.
pub(crate) fn probe(path: &Path) -> (Vec<String>, f64) {
    let output = Command::new("ffprobe")
        .args("-v error -show_streams -show_format -of json -i".split(' '))
        .arg(path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let codecs = found["streams"].as_array().unwrap().iter();
    let mut codecs: Vec<_> = codecs
        .map(|stream| stream["codec_name"].as_str().unwrap().to_owned())
        .collect();
    codecs.sort();
    let seconds = found["format"]["duration"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    (codecs, seconds)
}

/// What a program that succeeds complains of.
#[track_caller]
pub(crate) fn ends_well(output: &Output) -> String {
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    said
}

/// As [`ends_well`], for what plays by GStreamer's `rtspsrc`: at its own end it (1.22) fails now
/// and then to send the PAUSE that it interrupts itself, on a connection that stands.
#[track_caller]
pub(crate) fn rtspsrc_ends(output: &Output) {
    let said = text(&output.stderr);
    let only_paused = said.contains("gst_rtspsrc_pause");
    assert!(output.status.success() || only_paused, "{said}");
}

/// Presentation times of the packets of one kind, in seconds.
pub(crate) fn times(path: &Path, kind: &str) -> Vec<f64> {
    let output = Command::new("ffprobe")
        .args(["-v", "error", "-select_streams", kind])
        .args("-show_entries packet=pts_time -of csv=p=0".split(' '))
        .arg(path)
        .output()
        .unwrap();
    ends_well(&output);
    let said = text(&output.stdout);
    let times = said
        .lines()
        .filter_map(|line| line.trim_matches(',').parse().ok());
    times.collect()
}
