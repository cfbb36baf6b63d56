//! A proxy of somebody else's.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::common::Running;

const PATIENCE: Duration = Duration::from_secs(30);

/// A proxy with CONNECT, ended with its test.
pub(crate) struct Proxy {
    pub(crate) process: Running,
    pub(crate) url: String,
}

impl Proxy {
    pub(crate) fn start(folder: &Path, allowed: u16, login: Option<&str>) -> Self {
        // It says nothing about the port it took, so that one is chosen for it.
        let port = {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().port()
        };
        let file = folder.join("tinyproxy.conf");
        let login = login.map_or_else(String::new, |login| format!("BasicAuth {login}\n"));
        let lines = format!(
            "Port {port}\nListen 127.0.0.1\nAllow 127.0.0.1\nConnectPort {allowed}\n{login}"
        );
        fs::write(&file, lines).unwrap();
        let mut command = Command::new("tinyproxy");
        command.arg("-d").arg("-c").arg(&file);
        let process = Running::start(command);
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < until, "tinyproxy does not start");
            std::thread::yield_now();
        }
        let url = format!("http://127.0.0.1:{port}");
        Self { process, url }
    }
}
