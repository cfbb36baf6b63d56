//! `sangam archive serve`: the recordings by RTSP, and with a broker what is published now.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sangam_client::{Buffers, Client, ClientOptions};
use sangam_rtsp::{Counted, Credentials, Rtsp, Settings};
use serde_json::{Map, Value, json};

use super::mover::Mover;
use crate::cli::{ArchiveServeArgs, Place};
use crate::commands::peer::{self, Length, Pass};
use crate::commands::table::{self, Live};
use crate::exit::{Exit, Failure, io};
use crate::output;
use crate::stop::Stop;

/// How often the counts are shown, and how soon the wish to end is noticed.
const SECOND: Duration = Duration::from_secs(1);
const NAP: Duration = Duration::from_millis(50);
/// Open files that are no connections: listeners, sockets, what is read.
const FILES_ELSE: usize = 64;
/// What may wait of what is published: a burst of key frames of a large meeting.
const QUEUE: usize = 8_192;
const HEAD: [&str; 3] = ["COUNT", "WHAT", "NUMBER"];

/// Serves until the user's patience ends.
pub(super) fn run(place: &Place, options: &ArchiveServeArgs, as_json: bool) -> Result<(), Failure> {
    let stop = Stop::on_signals().map_err(io("cannot wait for signals"))?;
    let credentials = options
        .credentials
        .as_deref()
        .map(credentials)
        .transpose()?;
    let is_open = options
        .listen
        .iter()
        .any(|address| !address.ip().is_loopback());
    if is_open && credentials.is_none() {
        tracing::warn!(
            "whoever reaches this address may see every recording, and every topic of the broker: \
             no --credentials"
        );
    }
    let connections_max = connections(options.players, open_files());
    if connections_max < options.players {
        tracing::warn!(
            "{connections_max} connections instead of {}: raise the limit of open files by \
             `ulimit -Hn`, or LimitNOFILE= in the service",
            options.players
        );
    }
    let (client, mut pass) = broker(options)?.unzip();
    let is_live = client.is_some();
    let settings = Settings {
        listen: options.listen.clone(),
        archive: place.folder.clone(),
        credentials,
        connections_max,
        sessions_max: options.players,
        per_address: options.players_per_address,
        ..Settings::default()
    };
    let server = Rtsp::start(settings, client).map_err(|error| {
        let hint = "stop the program that holds the port, or choose another by --listen";
        Failure::new(Exit::Configuration, format!("RTSP: {error}")).hint(hint)
    })?;
    let mover = Mover::start(place, options.move_rate, &stop)?;
    announce(&server, is_live, as_json);
    let mut live = Live::new();
    while !stop.is_set() {
        let second = Length::new(Some(SECOND.as_secs()));
        while !stop.is_set() && !second.is_over() {
            thread::park_timeout(NAP);
        }
        if let Some(token) = pass.as_mut().and_then(Pass::renewed) {
            server.set_token(token);
        }
        match as_json {
            true => output::json_line(&to_json("second", &server.counts())),
            false => live.show(&text(&server.counts())),
        }
    }
    if as_json {
        output::json_line(&to_json("summary", &server.counts()));
    }
    mover.end();
    Ok(())
}

/// Says where what is played.
fn announce(server: &Rtsp, is_live: bool, as_json: bool) {
    for address in server.addresses() {
        tracing::info!("recordings are played at rtsp://{address}/archive/RECORDING");
        if is_live {
            tracing::info!("topics are played at rtsp://{address}/live/TOPIC");
        }
    }
    if as_json {
        let addresses = server.addresses();
        output::json_line(&json!({ "event": "ready", "rtsp": addresses, "live": is_live }));
    }
}

/// The client of the broker, if one is named. Recordings are served while it is not reached.
fn broker(options: &ArchiveServeArgs) -> Result<Option<(Client, Pass)>, Failure> {
    if options.broker.is_empty() {
        return Ok(None);
    }
    let client = ClientOptions {
        queue: QUEUE,
        receive_buffers: Buffers {
            small: 2 * QUEUE,
            large: 256,
        },
        // Key frames are asked for, nothing else is sent.
        send_buffers: Buffers {
            small: 256,
            large: 1,
        },
        ..ClientOptions::default()
    };
    peer::begin(&options.broker, &options.peer, client).map(Some)
}

/// Connections that fit so many open files.
fn connections(wanted: usize, files: usize) -> usize {
    wanted.min(files.saturating_sub(FILES_ELSE))
}

/// Raises the limit of open files as far as this process may; where it is then.
fn open_files() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    let limit = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::warn!(%error, "the limit of open files stays where it is");
            current
        }
    };
    let limit = limit.map(usize::try_from);
    limit.map_or(usize::MAX, |limit| limit.unwrap_or(usize::MAX))
}

/// The name and the password that stand in a file.
fn credentials(path: &Path) -> Result<Credentials, Failure> {
    let text = fs::read_to_string(path).map_err(io(path.display()))?;
    let line = text.lines().next().and_then(|line| line.split_once(':'));
    let found = line
        .filter(|(user, password)| !user.is_empty() && !user.contains('"') && !password.is_empty());
    let Some((user, password)) = found else {
        let message = format!("{}: no NAME:PASSWORD in its first line", path.display());
        return Err(Failure::new(Exit::Configuration, message));
    };
    Ok(Credentials {
        user: user.to_owned(),
        password: password.to_owned(),
    })
}

/// What is not zero.
fn text(counts: &[Counted]) -> String {
    let counts = counts.iter().filter(|(_, _, value)| *value > 0);
    let rows: Vec<_> = counts
        .map(|(name, help, value)| vec![(*name).to_owned(), (*help).to_owned(), value.to_string()])
        .collect();
    table::render(&HEAD, &rows)
}

fn to_json(event: &str, counts: &[Counted]) -> Value {
    let counts = counts
        .iter()
        .map(|(name, _, value)| ((*name).to_owned(), json!(value)));
    let mut line = Map::from_iter(counts);
    line.insert("event".to_owned(), json!(event));
    Value::Object(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_the_rest() {
        assert_eq!(connections(1_024, 1_024), 960);
        assert_eq!(connections(1_024, usize::MAX), 1_024);
        assert_eq!(connections(8, 10), 0);
        assert!(open_files() > FILES_ELSE);
    }
}
