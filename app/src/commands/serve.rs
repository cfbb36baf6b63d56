//! `sangam serve`: one broker and its HTTP side, until somebody ends it.

use std::io::Read;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use sangam_control::monitor::threshold::Thresholds;
use sangam_control::session::Hears;
use sangam_io::port::Gateway;
use sangam_node::{Broker, StartError, Transport};
use sangam_webrtc::WebRtc;
use serde_json::json;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::Builder;
use tokio::sync::Notify;

use super::archive::{Recorder, near};
use super::config;
use super::demo::guests::{self, Door, Opened, Planned};
use crate::auth::Tokens;
use crate::cli::ServeArgs;
use crate::config::{Config, ConfigError, Neighbour, Problem, advice, check};
use crate::exit::{Exit, Failure, io};
use crate::identity::Identity;
use crate::monitor::{Monitor, Sampler, follow};
use crate::stop::{Signals, Wish};
use crate::turn::Relays;
use crate::{assemble, http, output, plans, sessions};

/// How long HTTP requests may go on once the broker is to end.
const GRACE: Duration = Duration::from_secs(2);
/// How long a broker that leaves serves on while streams take other ways: what a join, the first
/// events over it and the second for which the old way is kept need.
const DRAIN: Duration = Duration::from_millis(1_500);
/// How much longer while clients are there that may go elsewhere: what a link to another broker
/// and two overlaps of half a second need.
const DRAIN_CLIENTS: Duration = Duration::from_millis(1_500);

/// Connections that may wait to be taken, as far as `net.core.somaxconn` lets them: the library's
/// 128 let the rest of a crowd that comes at once try again a second later.
const HTTP_WAITING: u32 = 4_096;
/// The monitor's.
const OWN_DOORS: u64 = 1;
const DRAIN_LOOK: Duration = Duration::from_millis(50);

/// Runs a broker.
pub(super) fn run(args: &ServeArgs, json: bool) -> Result<(), Failure> {
    let config = configuration(args)?;
    let tokens = assemble::tokens(&config)?;
    let identity = identity(&config)?;
    if let Some(advice) = advice(&config) {
        tracing::warn!("{advice}");
    }
    let mut parts = assemble::broker(&config, &identity, tokens.clone())?;
    let webrtc = assemble::webrtc(&config)?;
    parts
        .gateways
        .extend(webrtc.clone().map(|gateway| gateway as Arc<dyn Gateway>));
    let broker = Broker::start(parts).map_err(not_started)?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(io("cannot start the HTTP side"))?;
    let access = http::Access {
        api: config.api.clone(),
        tokens,
    };
    let done = runtime.block_on(serve(args, (config, access), (broker, webrtc), json));
    // Requests hold the broker, and the broker's folder stays locked until it is gone.
    drop(runtime);
    drop(identity);
    done
}

async fn serve(
    args: &ServeArgs,
    (config, access): (Config, http::Access),
    (broker, webrtc): (Broker, Option<Arc<WebRtc>>),
    json: bool,
) -> Result<(), Failure> {
    let listener = listen(config.listen.http).await?;
    let address = listener.local_addr().map_err(io("HTTP"))?;
    let broker = Arc::new(broker);
    let tokens = access.tokens.clone();
    let floors = sessions::keep_gates(&broker)?;
    let boards = floors.boards();
    let (planned, hear) = demonstration(args, &config).unzip();
    let hosting = sessions::host((&config, address), &access, (&broker, floors), hear)?;
    let guests = open(planned.zip(hosting.as_ref()), (&config, address), &broker).await;
    let reached = (address, broker.addresses().udp.as_slice());
    let recorder = Recorder::start(&config, reached, tokens.is_some())?;
    let started = Instant::now();
    let method = config.routing.method.plans();
    method.map_or(Ok(()), |method| plans::follow(&broker, method))?;
    let monitor = watched(&config, &broker, started)?;
    let state = Arc::new(http::State {
        broker,
        webrtc,
        relays: Relays::of(&config.webrtc),
        name: config.broker.name,
        access,
        address,
        neighbours: config.neighbours.len(),
        started,
        latest: monitor.latest(),
        sessions: hosting.as_ref().map(|hosting| hosting.api.clone()),
        login: hosting.as_ref().and_then(|hosting| hosting.login.clone()),
        page: http::Page::new(config.page.folder, config.page.brokers),
        boards,
        orders: recorder.orders(),
        refusals: sessions::refusals(hosting.as_ref()),
    });
    let closed = Arc::new(Notify::new());
    if args.until_stdin_closes {
        notice_closed_stdin(Arc::clone(&closed));
    }
    // Before anybody is told to whom a signal may be sent.
    let mut signals = Signals::catch().map_err(io("cannot wait for signals"))?;
    ready(&state, guests.as_ref().map(Opened::link), json);
    let stopping = Arc::new(Notify::new());
    let stopped = Arc::clone(&stopping);
    let broker = Arc::clone(&state.broker);
    let served = http::serve(listener, state, async move { stopped.notified().await });
    let mut served = std::pin::pin!(served);
    loop {
        tokio::select! {
            ended = &mut served => return ended.map_err(io("HTTP")),
            () = closed.notified() => break,
            signal = signals.next() => match signal {
                Wish::Reload => reload(args, &broker, tokens.as_deref()),
                Wish::End => break,
            },
        }
    }
    tokio::select! {
        ended = &mut served => return ended.map_err(io("HTTP")),
        () = part(guests, recorder) => {}
    }
    drain(broker).await;
    tracing::info!("stopping");
    stopping.notify_one();
    let ended = tokio::time::timeout(GRACE, served).await;
    ended.map_or(Ok(()), |ended| ended.map_err(io("HTTP")))
}

/// The demonstration meeting, where it is wanted: of a broker by itself, as those that share their
/// sessions would have one each.
fn demonstration(args: &ServeArgs, config: &Config) -> Option<(Planned, Hears)> {
    let wanted = args.dev && !args.no_demo;
    let alone = config.sessions.enabled && config.sessions.etcd.is_empty();
    (wanted && alone).then(Planned::new).flatten()
}

/// Opens it; a broker serves without, too.
async fn open(
    place: Option<(Planned, &sessions::Hosting)>,
    (config, http): (&Config, SocketAddr),
    broker: &Broker,
) -> Option<Opened> {
    let (planned, hosting) = place?;
    let Some(udp) = broker.addresses().udp.first() else {
        tracing::info!("no demonstration meeting: its guests come by UDP");
        return None;
    };
    let http = near(http);
    let door = Door {
        link: sessions::link(config, http),
        url: format!("http://{http}"),
        api_token: config.api.token.clone(),
        broker: format!("udp://{}", near(*udp)),
    };
    let opened = planned.open(&hosting.sessions, door).await;
    opened
        .inspect_err(|failure| tracing::warn!(%failure, "no demonstration meeting"))
        .ok()
}

/// Lets go of what runs beside the broker, while it serves on.
async fn part(guests: Option<Opened>, recorder: Recorder) {
    if let Some(guests) = guests {
        guests.end().await;
    }
    recorder.end().await;
}

/// Reports on the broker each second.
fn watched(config: &Config, broker: &Arc<Broker>, started: Instant) -> Result<Monitor, Failure> {
    let sampler = Sampler::new((&config.broker.name, &config.broker.region), started);
    let sampler = sampler.planned_by(config.routing.method.plans());
    let watch = (Thresholds::new(config.rules()), follow(Some(broker)));
    Monitor::start(broker, sampler, watch).map_err(io("cannot watch the broker"))
}

/// Lets streams and clients find another way, where there is one.
async fn drain(broker: Arc<Broker>) {
    if !broker.links().iter().any(|link| link.up) {
        return;
    }
    tracing::info!("draining");
    broker.drain();
    tokio::time::sleep(DRAIN).await;
    let until = Instant::now() + DRAIN_CLIENTS;
    while broker.peers() > OWN_DOORS && Instant::now() < until {
        tokio::time::sleep(DRAIN_LOOK).await;
    }
}

/// Reads the certificate, the keys of tokens and the rules for links again. What is wrong with one
/// is told, and that one stays as it was.
fn reload(args: &ServeArgs, broker: &Broker, tokens: Option<&Tokens>) {
    let config = match configuration(args) {
        Ok(config) => config,
        Err(error) => {
            return tracing::error!(%error, "the configuration stays as it was");
        }
    };
    match show(&config, broker) {
        Ok(()) => tracing::info!("the certificate was read again"),
        Err(error) => tracing::error!(%error, "the certificate stays as it was"),
    }
    broker.set_rules(config.link_rules());
    match tokens.map(|tokens| tokens.reload(&config.auth)) {
        None => {}
        Some(Ok(())) => tracing::info!("the keys of tokens were read again"),
        Some(Err(error)) => tracing::error!(%error, "the keys of tokens stay as they were"),
    }
}

fn show(config: &Config, broker: &Broker) -> Result<(), Failure> {
    let (identity, authorities) = assemble::certificate(&config.tls)?;
    let Some(identity) = identity else {
        return Ok(());
    };
    let shown = broker.show(&identity, authorities.as_ref());
    shown.map_err(|error| Failure::new(Exit::Configuration, error.to_string()))
}

pub(super) async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    let listening = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(HTTP_WAITING)
    };
    listening().map_err(|error| {
        Failure::new(
            Exit::Configuration,
            format!("HTTP cannot listen on {address}: {error}"),
        )
        .hint("stop the program that holds the port, or choose another by --http")
    })
}

/// File, variables and options together.
fn configuration(args: &ServeArgs) -> Result<Config, Failure> {
    let base = if args.dev {
        Config::dev()
    } else {
        Config::default()
    };
    let mut config = config::read(&args.file, &base)?;
    if !args.listen.is_empty() {
        config.listen.move_to(&args.listen);
    }
    if !args.webrtc.is_empty() {
        config.listen.webrtc.clone_from(&args.webrtc);
    }
    if let Some(http) = args.http {
        config.listen.http = http;
    }
    if let Some(region) = &args.region {
        config.broker.region.clone_from(region);
    }
    config.links.join.extend(args.join.iter().cloned());
    if let Some(name) = &args.name {
        config.broker.name.clone_from(name);
    }
    if let Some(folder) = &args.data_dir {
        config.broker.data_dir = Some(folder.clone());
    }
    if args.no_auth {
        config.auth.required = false;
    }
    if let Some(shards) = args.shards {
        config.broker.shards = shards;
    }
    config
        .neighbours
        .extend(args.link.iter().map(|address| Neighbour {
            address: vec![address.clone()],
            fallback: None,
        }));
    config.legs.extend(args.leg.iter().map(|leg| leg.0.clone()));
    let wrong = check(&config);
    if wrong.is_empty() {
        return Ok(config);
    }
    let problems = wrong
        .into_iter()
        .map(|(place, message)| Problem { place, message });
    Err(config::failure(&ConfigError(problems.collect())))
}

fn identity(config: &Config) -> Result<Identity, Failure> {
    let identity = match &config.broker.data_dir {
        Some(folder) => Identity::kept(folder),
        None => Identity::ephemeral(),
    };
    let identity =
        identity.map_err(|error| Failure::new(Exit::Configuration, error.to_string()))?;
    if identity.ephemeral {
        tracing::info!("no broker.data_dir: this broker has a new identity with every start");
    }
    Ok(identity)
}

fn not_started(error: StartError) -> Failure {
    let exit = match error {
        StartError::Io(_) => Exit::Failure,
        _ => Exit::Configuration,
    };
    Failure::new(exit, error.to_string())
}

/// Tells people and programs where the broker is.
fn ready(state: &http::State, meeting: Option<&str>, as_json: bool) {
    let (id, name) = (state.broker.id(), &state.name);
    let addresses = state.broker.addresses();
    let (udp, tcp, http) = (&addresses.udp, &addresses.tcp, state.address);
    let (streams, quic) = (&addresses.streams, &addresses.quic);
    let webrtc = state
        .webrtc
        .as_ref()
        .map(|gateway| gateway.addresses())
        .unwrap_or_default();
    tracing::info!(%id, name, ?udp, ?tcp, ?streams, ?quic, ?webrtc, %http, "ready");
    if let Some(link) = meeting.filter(|_| !as_json) {
        output::text(&guests::words(link, state.page.is_there()));
    }
    if as_json {
        output::json_line(&json!({
            "event": "ready", "id": id.to_string(), "name": name, "udp": addresses.udp,
            "tcp": addresses.tcp, "tls": addresses.of(Transport::Tls),
            "ws": addresses.of(Transport::Ws), "wss": addresses.of(Transport::Wss),
            "quic": addresses.quic, "quic_links": addresses.quic_links,
            "webrtc": webrtc, "http": state.address, "meeting": meeting,
        }));
    }
}

/// A thread, as reading standard input cannot be called off.
fn notice_closed_stdin(closed: Arc<Notify>) {
    thread::spawn(move || {
        let mut sink = [0; 64];
        while std::io::stdin().read(&mut sink).is_ok_and(|read| read > 0) {}
        closed.notify_one();
    });
}
