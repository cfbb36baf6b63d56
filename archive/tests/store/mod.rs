//! An S3 server that is not ours, and a proxy before it that is not always kind.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]
#![allow(dead_code, reason = "each test file uses its own part")]

use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use sangam_archive::bucket::Bucket;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);
/// Who may come in.
const KEY: &str = "who";
const SECRET: &str = "nobody-shall-see-this";
/// The bucket that is there.
const BUCKET: &str = "films";

/// What the proxy does with requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Hands them on.
    Kind,
    /// Answers 503.
    Busy,
    /// Hands on half of what is read.
    Short,
    /// Flips a bit of what is read.
    Wrong,
    /// Answers after so long.
    Slow(Duration),
}

/// The server, ended with its test.
pub(crate) struct Store {
    child: Child,
    folder: TempDir,
    proxy: SocketAddr,
    mood: Arc<Mutex<(Mood, u64)>>,
}

impl Store {
    pub(crate) fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let [files, notes] = ["files", "notes"].map(|name| folder.path().join(name));
        fs::create_dir_all(files.join(BUCKET)).unwrap();
        fs::create_dir_all(&notes).unwrap();
        // It says nothing about the port it took, so that one is chosen for it.
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = port.local_addr().unwrap();
        drop(port);
        let child = Command::new(program())
            .args(["--access", KEY, "--secret", SECRET, "--port"])
            .arg(at.to_string())
            .args(["--quiet", "posix", "--sidecar"])
            .args([&notes, &files])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("versitygw: scripts/setup.sh test installs it");
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(at).is_err() {
            assert!(Instant::now() < until, "versitygw does not start");
            thread::park_timeout(Duration::from_millis(10));
        }
        let mood = Arc::new(Mutex::new((Mood::Kind, 0)));
        let proxy = listen(at, mood.clone());
        Self {
            child,
            folder,
            proxy,
            mood,
        }
    }

    /// What the proxy does from now on.
    pub(crate) fn set(&self, mood: Mood) {
        self.mood.lock().unwrap().0 = mood;
    }

    /// Requests so far that it was not kind to.
    pub(crate) fn unkind(&self) -> u64 {
        self.mood.lock().unwrap().1
    }

    /// What a user would have in the environment.
    pub(crate) fn settings(&self) -> Vec<(String, String)> {
        let endpoint = format!("http://{}", self.proxy);
        let settings = [
            ("AWS_ENDPOINT_URL", &*endpoint),
            ("AWS_ACCESS_KEY_ID", KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET),
            ("AWS_REGION", "us-east-1"),
        ];
        let owned = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        owned.to_vec()
    }

    /// A bucket below a prefix.
    pub(crate) fn bucket(&self, prefix: &str) -> Bucket {
        Bucket::with(&place(prefix), self.settings()).unwrap()
    }

    /// Files that the server keeps below a prefix.
    pub(crate) fn files(&self, prefix: &str) -> PathBuf {
        self.folder.path().join("files").join(BUCKET).join(prefix)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The place of a prefix.
pub(crate) fn place(prefix: &str) -> String {
    format!("s3://{BUCKET}/{prefix}")
}

/// Where `go install` puts it, unless it is elsewhere.
fn program() -> PathBuf {
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join("go/bin/versitygw"));
    home.filter(|path| path.exists())
        .unwrap_or_else(|| "versitygw".into())
}

fn listen(server: SocketAddr, mood: Arc<Mutex<(Mood, u64)>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let mood = mood.clone();
            // Whoever hangs up has what he wanted.
            thread::spawn(move || serve(client, server, &mood).ok());
        }
    });
    at
}

/// One request; the connection ends with it.
fn serve(
    mut client: TcpStream,
    server: SocketAddr,
    mood: &Mutex<(Mood, u64)>,
) -> std::io::Result<()> {
    let (head, body) = message(&mut client)?;
    let is_read = head.starts_with("GET ");
    let mood = {
        let mut mood = mood.lock().unwrap();
        let is_unkind = match mood.0 {
            Mood::Kind => false,
            Mood::Busy | Mood::Slow(_) => true,
            Mood::Short | Mood::Wrong => is_read,
        };
        mood.1 += u64::from(is_unkind);
        if is_unkind { mood.0 } else { Mood::Kind }
    };
    if mood == Mood::Busy {
        let error = "<Error><Code>SlowDown</Code></Error>";
        let len = error.len();
        let head = format!("HTTP/1.1 503 Slow Down\r\nConnection: close\r\nContent-Length: {len}");
        return client.write_all(format!("{head}\r\n\r\n{error}").as_bytes());
    }
    if let Mood::Slow(time) = mood {
        let until = Instant::now() + time;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            thread::park_timeout(left);
        }
    }
    let mut upstream = TcpStream::connect(server)?;
    upstream.write_all(
        head.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")
            .as_bytes(),
    )?;
    upstream.write_all(&body)?;
    let mut answer = Vec::new();
    upstream.read_to_end(&mut answer)?;
    let begin = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let begin = begin.map_or(answer.len(), |begin| begin + 4);
    let middle = begin + (answer.len() - begin) / 2;
    match mood {
        Mood::Short => answer.truncate(middle),
        Mood::Wrong if middle < answer.len() => answer[middle] ^= 1,
        _ => {}
    }
    client.write_all(&answer)?;
    client.shutdown(Shutdown::Both)
}

/// Head and body of a request.
fn message(client: &mut TcpStream) -> std::io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 65_536];
    loop {
        let read = client.read(&mut buffer)?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend(&buffer[..read]);
        let Some(end) = bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&bytes[..end + 4]).into_owned();
        let lines = head.lines().filter_map(|line| line.split_once(':'));
        let mut lengths = lines.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let len = lengths
            .next()
            .map_or(0, |(_, len)| len.trim().parse().unwrap());
        let mut body = bytes.split_off(end + 4);
        let so_far = body.len();
        body.resize(len, 0);
        client.read_exact(&mut body[so_far..])?;
        return Ok((head, body));
    }
}
