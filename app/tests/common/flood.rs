//! A caller that asks as much as it can.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::text;

const PATIENCE: Duration = Duration::from_secs(30);

/// A hostile caller: many connections from an address of its own, each asking as fast as it is
/// answered.
pub(crate) struct Flood {
    stop: Arc<AtomicBool>,
    /// Answers that were 429.
    held_up: Arc<AtomicU64>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Flood {
    pub(crate) fn start(http: SocketAddr) -> Self {
        let mut flood = Self {
            stop: Arc::default(),
            held_up: Arc::default(),
            threads: Vec::new(),
        };
        for number in 0..4 {
            let (stop, held_up) = (Arc::clone(&flood.stop), Arc::clone(&flood.held_up));
            flood.threads.push(thread::spawn(move || {
                let mut stream = from_elsewhere(http);
                while !stop.load(Ordering::Relaxed) {
                    let status = rubbish(&mut stream, number % 2 == 0);
                    held_up.fetch_add(u64::from(status == 429), Ordering::Relaxed);
                }
            }));
        }
        flood
    }

    /// How many of its requests were held up.
    pub(crate) fn held_up(&self) -> u64 {
        self.held_up.load(Ordering::Relaxed)
    }

    /// How many of its requests were held up in all.
    pub(crate) fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|one| one.join().unwrap());
        self.held_up.load(Ordering::Relaxed)
    }
}

/// A connection from another address of this machine: each address has a share of its own.
fn from_elsewhere(http: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.9:0".parse().unwrap()).unwrap();
        socket.connect(http).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Asks for something, or sends what is no command; the status of the answer.
fn rubbish(stream: &mut TcpStream, asks: bool) -> u16 {
    let target = match asks {
        true => "GET /v1/sessions/acme/weekly",
        false => "POST /v1/sessions/acme/weekly/commands",
    };
    let body = if asks { "" } else { "<!DOCTYPE lock><lock/>" };
    let kind = "Content-Type: application/xml";
    let len = body.len();
    let request =
        format!("{target} HTTP/1.1\r\nHost: x\r\n{kind}\r\nContent-Length: {len}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let mut some = [0; 4_096];
    loop {
        let len = stream.read(&mut some).unwrap();
        assert!(len > 0, "the connection ends: {}", text(&answer));
        answer.extend_from_slice(&some[..len]);
        let said = text(&answer);
        let Some((head, body)) = said.split_once("\r\n\r\n") else {
            continue;
        };
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        let mut lens = lines.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let wanted: usize = lens.next().unwrap().1.parse().unwrap();
        if body.len() >= wanted {
            return head.split(' ').nth(1).unwrap().parse().unwrap();
        }
    }
}
