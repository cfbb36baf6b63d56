//! `sangam archive serve`: the recordings by RTSP, and with a broker what is published now.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sangam_client::{Buffers, Client, ClientOptions};
use sangam_rtsp::{Counted, Credentials, Links, Rtsp, Settings};
use serde_json::{Map, Value, json};

use super::mover::Mover;
use super::nodes::Nodes;
use super::statistics::Statistics;
use super::store::Carrier;
use crate::cli::{ArchiveServeArgs, Place};
use crate::commands::config;
use crate::commands::peer::{self, Length, Pass};
use crate::commands::table::{self, Live};
use crate::config::{Config, ConfigError, Problem, Rtsp as Section, Tls, check};
use crate::exit::{Exit, Failure, io};
use crate::stop::Stop;
use crate::{assemble, http, output};

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
    let config = configuration(options)?;
    let mut settings = settings(place, &config.rtsp)?;
    if let Some(blocks) = options.cache {
        settings.blocks_max = usize::try_from(blocks).unwrap_or(usize::MAX);
    }
    let (live, mut pass) = broker(&config.rtsp, options)?.unzip();
    // A second one, as a publisher does not hear itself.
    let ingest = match config.rtsp.ingest {
        true => broker(&config.rtsp, options)?.map(|(client, _)| client),
        false => None,
    };
    let is_live = live.is_some();
    let links = Links { live, ingest };
    let server = Rtsp::start(settings, links).map_err(|error| {
        let hint = "stop the program that holds the port, or choose another by --listen";
        Failure::new(Exit::Configuration, format!("RTSP: {error}")).hint(hint)
    })?;
    let server = Arc::new(server);
    let mut shown = Shown::new(&config.tls, &server)?;
    let http = config
        .rtsp
        .http
        .map(|address| http::Aside::start(address, Arc::clone(&server)));
    let http = http.transpose()?;
    let care = options.care.clone();
    let carrier = Carrier::start(place, Some(care.move_rate), &stop)?;
    let mover = Mover::start(server.films(), care, &stop)?;
    let nodes = Nodes::start(&server, options.node_listen, &stop)?;
    announce(&server, (is_live, http.as_ref()), as_json);
    let mut live = Live::new();
    let mut statistics = Statistics::open(options.statistics.as_deref())?;
    while !stop.is_set() {
        let second = Length::new(Some(SECOND.as_secs()));
        while !stop.is_set() && !second.is_over() {
            thread::park_timeout(NAP);
        }
        if let Some(token) = pass.as_mut().and_then(Pass::renewed) {
            server.set_token(token);
        }
        shown.renew(&server);
        statistics.write(&server);
        match as_json {
            true => output::json_line(&to_json("second", &server.counts())),
            false => live.show(&text(&server.counts())),
        }
    }
    if as_json {
        output::json_line(&to_json("summary", &server.counts()));
    }
    mover.end();
    carrier.end();
    nodes.end();
    Ok(())
}

/// File, variables and options together.
fn configuration(options: &ArchiveServeArgs) -> Result<Config, Failure> {
    let mut config = config::read(&options.file, &Config::default())?;
    let Config { rtsp, tls, .. } = &mut config;
    let all = |given: &[SocketAddr], known: &mut Vec<SocketAddr>| {
        if !given.is_empty() {
            *known = given.to_vec();
        }
    };
    // Who names an address for TLS only wants no other.
    if !options.listen_tls.is_empty() && options.file.config.is_none() {
        rtsp.listen.clear();
    }
    all(&options.listen, &mut rtsp.listen);
    all(&options.listen_tls, &mut rtsp.listen_tls);
    if !options.broker.is_empty() {
        let addresses = options.broker.iter();
        rtsp.brokers = addresses.map(ToString::to_string).collect();
    }
    rtsp.http = options.http.or(rtsp.http);
    rtsp.ingest |= options.ingest;
    let path = |given: &Option<PathBuf>, known: &mut Option<PathBuf>| {
        if given.is_some() {
            known.clone_from(given);
        }
    };
    path(&options.credentials, &mut rtsp.credentials);
    path(&options.ingest_credentials, &mut rtsp.ingest_credentials);
    path(&options.certificate, &mut tls.certificate);
    path(&options.key, &mut tls.key);
    rtsp.players = options.players.unwrap_or(rtsp.players);
    rtsp.bandwidth = options.bandwidth.unwrap_or(rtsp.bandwidth);
    rtsp.admission &= !options.no_admission;
    let per_address = options.players_per_address;
    rtsp.players_per_address = per_address.unwrap_or(rtsp.players_per_address);
    let wrong = check(&config);
    if wrong.is_empty() {
        return Ok(config);
    }
    let problems = wrong.into_iter();
    let problems = problems.map(|(place, message)| Problem { place, message });
    Err(config::failure(&ConfigError(problems.collect())))
}

/// What the server is started with; whoever should know of something is told.
fn settings(place: &Place, rtsp: &Section) -> Result<Settings, Failure> {
    let read = |path: &Option<PathBuf>| path.as_deref().map(credentials).transpose();
    let credentials = read(&rtsp.credentials)?;
    let publishers = read(&rtsp.ingest_credentials)?.or_else(|| credentials.clone());
    let mut all = rtsp.listen.iter().chain(&rtsp.listen_tls);
    let is_open = all.any(|address| !address.ip().is_loopback());
    if is_open && credentials.is_none() {
        tracing::warn!(
            "whoever reaches this address may see every recording, and every topic of the broker: \
             no --credentials"
        );
    }
    if is_open && rtsp.ingest && publishers.is_none() {
        tracing::warn!("whoever reaches this address may publish: no --ingest-credentials");
    }
    let connections_max = connections(rtsp.players, open_files());
    if connections_max < rtsp.players {
        tracing::warn!(
            "{connections_max} connections instead of {}: raise the limit of open files by \
             `ulimit -Hn`, or LimitNOFILE= in the service",
            rtsp.players
        );
    }
    Ok(Settings {
        listen: rtsp.listen.clone(),
        listen_tls: rtsp.listen_tls.clone(),
        archive: place.folder.clone(),
        credentials,
        publishers,
        connections_max,
        sessions_max: rtsp.players,
        per_address: rtsp.players_per_address,
        bits_max: (rtsp.bandwidth > 0).then(|| rtsp.bandwidth.saturating_mul(1_000_000)),
        admits_all: !rtsp.admission,
        ..Settings::default()
    })
}

/// Says where what is played.
fn announce(server: &Rtsp, (is_live, http): (bool, Option<&http::Aside>), as_json: bool) {
    let plain = server.addresses().iter().map(|address| ("rtsp", address));
    let secure = server.addresses_tls().iter();
    for (scheme, address) in plain.chain(secure.map(|address| ("rtsps", address))) {
        tracing::info!("recordings are played at {scheme}://{address}/archive/RECORDING");
        if is_live {
            tracing::info!("topics are played at {scheme}://{address}/live/TOPIC");
        }
    }
    if as_json {
        output::json_line(&json!({
            "event": "ready", "rtsp": server.addresses(), "rtsps": server.addresses_tls(),
            "http": http.map(http::Aside::address), "live": is_live,
        }));
    }
}

/// The client of the broker, if one is named. Recordings are served while it is not reached.
fn broker(rtsp: &Section, options: &ArchiveServeArgs) -> Result<Option<(Client, Pass)>, Failure> {
    let addresses = rtsp.addresses();
    if addresses.is_empty() {
        return Ok(None);
    }
    let client = ClientOptions {
        queue: QUEUE,
        receive_buffers: Buffers {
            small: 2 * QUEUE,
            large: 256,
        },
        // Without cameras key frames are asked for, and nothing else is sent.
        send_buffers: match rtsp.ingest {
            true => ClientOptions::default().send_buffers,
            false => Buffers {
                small: 256,
                large: 1,
            },
        },
        ..ClientOptions::default()
    };
    peer::begin(&addresses, &options.peer, client).map(Some)
}

/// The certificate that is shown, and the files that newer ones come by.
struct Shown {
    tls: Tls,
    /// What stood in them last.
    files: Option<[Vec<u8>; 2]>,
}

impl Shown {
    /// Shows what there is.
    fn new(tls: &Tls, server: &Rtsp) -> Result<Self, Failure> {
        let mut shown = Self {
            tls: tls.clone(),
            files: None,
        };
        shown.files = shown.read();
        shown.show(server)?;
        Ok(shown)
    }

    /// Shows a newer one, if there is one. To be called every second or so.
    fn renew(&mut self, server: &Rtsp) {
        // Whoever writes it may be at it just now.
        let Some(files) = self.read() else {
            return;
        };
        if self.files.as_ref() == Some(&files) {
            return;
        }
        self.files = Some(files);
        match self.show(server) {
            Ok(()) => tracing::info!("the certificate was read again"),
            Err(error) => tracing::warn!(%error, "the certificate stays as it was"),
        }
    }

    fn show(&self, server: &Rtsp) -> Result<(), Failure> {
        let (identity, _) = assemble::certificate(&self.tls)?;
        let Some(identity) = identity else {
            return Ok(());
        };
        let shown = server.show(&identity);
        shown.map_err(|error| Failure::new(Exit::Configuration, error.to_string()))
    }

    fn read(&self) -> Option<[Vec<u8>; 2]> {
        let certificate = fs::read(self.tls.certificate.as_deref()?).ok()?;
        Some([certificate, fs::read(self.tls.key.as_deref()?).ok()?])
    }
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
pub(in crate::commands) fn credentials(path: &Path) -> Result<Credentials, Failure> {
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
