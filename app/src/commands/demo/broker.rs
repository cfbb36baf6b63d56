//! A broker of the demonstration: this program again, as a child.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;

use crate::exit::{Exit, Failure, io};
use crate::ffmpeg::Child;

/// How long a broker may take to answer and to say goodbye.
const PATIENCE: Duration = Duration::from_secs(5);
const SERVE: &str =
    "serve --dev --no-demo --json --log warn --listen 127.0.0.1:0 --until-stdin-closes --name";

/// A running broker process. It ends with its owner, as its input is closed then.
#[derive(Debug)]
pub(super) struct DemoBroker {
    /// Its name.
    pub(super) name: &'static str,
    /// Its process.
    pub(super) child: Child,
    /// Where clients and neighbours reach it.
    pub(super) udp: SocketAddr,
    /// Where its metrics are.
    pub(super) http: SocketAddr,
}

/// The line a broker prints when it is ready.
#[derive(Deserialize)]
struct Ready {
    udp: Vec<SocketAddr>,
    http: SocketAddr,
}

impl DemoBroker {
    /// Starts a broker on kernel-chosen ports, linked with `neighbours`.
    pub(super) fn start(name: &'static str, neighbours: &[SocketAddr]) -> Result<Self, Failure> {
        Self::with(name, ["--http", "127.0.0.1:0"], neighbours)
    }

    /// The same, but for what a configuration file says.
    pub(super) fn with_config(
        name: &'static str,
        file: &Path,
        neighbours: &[SocketAddr],
    ) -> Result<Self, Failure> {
        Self::with(name, ["--config", &file.display().to_string()], neighbours)
    }

    fn with(
        name: &'static str,
        more: [&str; 2],
        neighbours: &[SocketAddr],
    ) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(io("cannot find this program"))?;
        let mut args: Vec<String> = SERVE
            .split(' ')
            .chain([name])
            .chain(more)
            .map(str::to_owned)
            .collect();
        for neighbour in neighbours {
            args.extend(["--link".to_owned(), neighbour.to_string()]);
        }
        let mut child = Child::start(&program.display().to_string(), &args, Stdio::piped())?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout() {
            let read = BufReader::new(stdout).read_line(&mut line);
            read.map_err(io("no word from the broker"))?;
        }
        let silent = || Failure::new(Exit::Failure, format!("the broker {name} did not start"));
        let Ok(Ready { udp, http }) = serde_json::from_str(&line) else {
            child.wait()?;
            return Err(silent());
        };
        let udp = udp.first().copied().ok_or_else(silent)?;
        Ok(Self {
            name,
            child,
            udp,
            http,
        })
    }

    /// The sum of a metric over the broker's threads, of those series whose labels hold `label`.
    pub(super) fn count(&self, name: &str, label: &str) -> Result<u64, Failure> {
        let text = self
            .metrics()
            .map_err(io(format!("no metrics from {}", self.name)))?;
        let of_each_thread = text.lines().filter_map(|line| line.strip_prefix(name));
        let wanted = of_each_thread.filter(|rest| rest.starts_with('{') && rest.contains(label));
        let values = wanted.filter_map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok());
        Ok(values.sum::<f64>() as u64)
    }

    /// Ends the process; false if it had to be killed.
    pub(super) fn stop(&mut self) -> bool {
        self.child.end(PATIENCE)
    }

    fn metrics(&self) -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&self.http, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    }
}
