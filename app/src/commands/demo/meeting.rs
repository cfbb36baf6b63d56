//! `sangam demo --meeting`: two brokers, two guests with real media, and a link.

use std::fs;
use std::io::IsTerminal;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;

use super::broker::DemoBroker;
use super::guests::{GUESTS, NAME, TENANT, TITLE, identity};
use super::{SECONDS, words};
use crate::cli::DemoArgs;
use crate::commands::peer::Length;
use crate::commands::session::{Server, table};
use crate::commands::table::Live;
use crate::exit::{Exit, Failure, io};
use crate::ffmpeg::{self, Child};
use crate::output;
use crate::stop::Stop;

/// Where `sangam serve` is asked for; the second broker stands beside it.
const PORTS: [u16; 2] = [4680, 4681];
/// How often the table is looked up.
const EVERY: Duration = Duration::from_secs(1);
/// How long a guest may take to leave.
const PATIENCE: Duration = Duration::from_secs(5);

/// Opens the meeting and stays.
pub(super) fn run(args: &DemoArgs, as_json: bool, stop: &Stop) -> Result<(), Failure> {
    let seconds = args
        .seconds
        .or((!std::io::stdout().is_terminal()).then_some(SECONDS));
    let mut brokers = brokers(&args.out)?;
    let server = Server::new(&origin(brokers[0].http), None)?;
    let wanted = json!({ "tenant": TENANT, "name": NAME, "title": TITLE });
    server.post("/v1/sessions", &wanted.to_string())?;
    let mut guests = Vec::new();
    // Each comes by a broker of its own.
    for (at, (name, scene)) in GUESTS.into_iter().enumerate() {
        let clip = match &args.clip {
            Some(clip) => clip.clone(),
            None => ffmpeg::clip(&args.out, scene, stop)?,
        };
        guests.push(guest((&server, name), &brokers[at], &clip)?);
    }
    let links = [0, 1].map(|at: usize| format!("{}/m/{TENANT}/{NAME}", origin(brokers[at].http)));
    if as_json {
        output::json_line(&json!({ "event": "meeting", "links": links, "udp": brokers[1].udp }));
    } else {
        output::text(&words::meeting(&links, (brokers[1].child.id(), seconds)));
    }
    let watched = watch(&server, (as_json, stop), seconds, &mut guests);
    let mut stopped = true;
    for process in guests.iter_mut() {
        process.tell("{\"do\": \"leave\"}\n");
        stopped &= process.end(PATIENCE);
    }
    for broker in brokers.iter_mut().rev() {
        stopped &= broker.stop();
    }
    watched?;
    if stopped {
        return Ok(());
    }
    Err(Failure::new(
        Exit::Failure,
        "a guest or broker did not end when asked to and was killed",
    ))
}

/// Two linked brokers that know of each other's pages; the first one hosts the session.
fn brokers(folder: &Path) -> Result<[DemoBroker; 2], Failure> {
    let http = [port(PORTS[0])?, port(PORTS[1])?];
    let start = |at: usize, neighbours: &[SocketAddr]| {
        let name = ["demo-a", "demo-b"][at];
        let file = folder.join(format!("{name}.toml"));
        let (own, other) = (http[at], origin(http[1 - at]));
        let hosts = at == 0;
        let archive = folder.join("archive").display().to_string();
        let text = format!(
            "[listen]\nhttp = \"{own}\"\nwebrtc = [\"127.0.0.1:0\"]\n\n\
             [page]\nbrokers = [\"{other}\"]\n\n[sessions]\nenabled = {hosts}\n\
             archive = {archive:?}\n"
        );
        fs::write(&file, text).map_err(io(file.display()))?;
        DemoBroker::with_config(name, &file, neighbours)
    };
    let first = start(0, &[])?;
    let second = start(1, &[first.udp])?;
    Ok([first, second])
}

/// The wanted port of this machine, or a free one: both brokers must be told both.
fn port(wanted: u16) -> Result<SocketAddr, Failure> {
    let local = |port| TcpListener::bind(("127.0.0.1", port));
    let found = local(wanted).or_else(|_| local(0));
    let address = found.and_then(|listener| listener.local_addr());
    address.map_err(io("no port for HTTP"))
}

/// A member on the command line, with a clip for a camera.
fn guest(
    (server, name): (&Server, &str),
    broker: &DemoBroker,
    clip: &Path,
) -> Result<Child, Failure> {
    let session = format!("{TENANT}/{NAME}");
    let wanted = json!({ "identity": identity(name), "name": name, "role": "presenter" });
    let path = format!("/v1/sessions/{session}/tokens");
    let made = server.post(&path, &wanted.to_string())?;
    let program = std::env::current_exe().map_err(io("cannot find this program"))?;
    let url = format!("http://{}", server.authority);
    let (clip, to) = (clip.display().to_string(), broker.udp.to_string());
    let token = made["token"].as_str().unwrap_or_default();
    let words = [
        "session", "--server", &url, "join", &session, "--token", token,
    ];
    let args = words.into_iter().chain(["--file", &clip, "--to", &to]);
    Child::start(&program.display().to_string(), args, Stdio::null())
}

fn watch(
    server: &Server,
    (as_json, stop): (bool, &Stop),
    seconds: Option<u64>,
    guests: &mut [Child],
) -> Result<(), Failure> {
    let length = Length::new(seconds);
    let mut live = Live::new();
    while !stop.is_set() && !length.is_over() {
        let session = server.get(&format!("/v1/sessions/{TENANT}/{NAME}"))?;
        if as_json {
            let members = &session["members_total"];
            output::json_line(&json!({ "event": "second", "members": members }));
        } else {
            live.show(&table(&session));
        }
        for guest in guests.iter_mut() {
            if guest.ends_within(EVERY / GUESTS.len() as u32) {
                let words = guest.last_words();
                return Err(Failure::new(
                    Exit::Failure,
                    format!("a guest left: {words}"),
                ));
            }
        }
    }
    Ok(())
}

fn origin(http: SocketAddr) -> String {
    format!("http://{http}")
}
