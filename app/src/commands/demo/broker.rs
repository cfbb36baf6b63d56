//! A broker of the demonstration: this program again, as a child.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::Stdio;

use serde::Deserialize;

use crate::exit::{Exit, Failure, io};
use crate::ffmpeg::Child;

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

#[derive(Deserialize)]
struct Ready {
    udp: Vec<SocketAddr>,
    http: SocketAddr,
}

impl DemoBroker {
    /// Starts a broker on kernel-chosen ports, linked with `neighbour`.
    pub(super) fn start(
        name: &'static str,
        neighbour: Option<SocketAddr>,
    ) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(io("cannot find this program"))?;
        let mut args: Vec<String> = ["serve", "--dev", "--json", "--log", "warn", "--name", name]
            .into_iter()
            .chain([
                "--listen",
                "127.0.0.1:0",
                "--http",
                "127.0.0.1:0",
                "--until-stdin-closes",
            ])
            .map(str::to_owned)
            .collect();
        args.extend(
            neighbour
                .iter()
                .flat_map(|to| ["--link".to_owned(), to.to_string()]),
        );
        let mut child = Child::start(&program.display().to_string(), &args, Stdio::piped())?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout() {
            BufReader::new(stdout)
                .read_line(&mut line)
                .map_err(io("no word from the broker"))?;
        }
        let ready: Option<Ready> = serde_json::from_str(&line).ok();
        let Some(Ready { udp, http }) = ready else {
            child.wait()?;
            return Err(Failure::new(
                Exit::Failure,
                format!("the broker {name} did not start"),
            ));
        };
        let udp = udp.first().copied().ok_or_else(|| {
            Failure::new(Exit::Failure, format!("the broker {name} has no UDP port"))
        })?;
        Ok(Self {
            name,
            child,
            udp,
            http,
        })
    }
}
