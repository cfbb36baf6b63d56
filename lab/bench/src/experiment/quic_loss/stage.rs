//! Two brokers, a lossy path, a sender and a receiver.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use sangam_client::{Address, Buffers, Client, ClientOptions, Scheme, StreamOptions, Target};
use sangam_emulator::{Emulator, Loss, Quality, Site};
use sangam_io::clock;
use sangam_io::tls::{Roots, Trust};
use sangam_model::{Filter, Topic};

use super::receiver::{Heard, Receiver};
use super::sender::Sender;
use super::{AUDIOS, DELAY, LOSS, Path};
use crate::error::Error;
use crate::load::Media;
use crate::measure::Window;
use crate::process::{Broker, Carrier, Queuing, Setup, client_port};
use crate::scenario::{self, Folder};

const SEED: u64 = 41;
/// Where sender, its broker and nobody else is; the other broker; and the receiver.
const SITES: [&str; 3] = ["near", "far", "home"];
const NAME: &str = "bench/loss";
/// From the first packets to the window, and from its end until all is repaired.
const SETTLE: Duration = Duration::from_secs(1);
const RUN_OUT: Duration = Duration::from_millis(1_500);
const PATIENCE: Duration = Duration::from_secs(20);

/// The streams, in the order of their numbers.
pub(super) const MEDIA: [Media; 1 + AUDIOS] = {
    let mut all = [Media::Audio; 1 + AUDIOS];
    all[0] = Media::Camera;
    all
};

/// Measures for a time what comes over a path, with or without repair.
///
/// # Errors
/// If sites cannot be made, a broker does not start or a client does not get in.
pub(super) fn run(path: Path, repair: bool, span: Duration) -> Result<Heard, Error> {
    let network = network(path)?;
    let folder = Folder::new()?;
    let brokers = brokers(path, &network, &folder)?;
    let sites = network.sites();
    let (window, over) = (Window::new(), AtomicBool::new(false));
    let live = Arc::new(AtomicU64::new(0));
    let receiver = Receiver::new(receiver(path, sites, &brokers[1])?, repair)?;
    let near = Target::Udp(brokers[0].udp);
    let sender = Sender::new(connect(&sites[0], near, ClientOptions::default())?)?;
    thread::scope(|scope| {
        let sent = scope.spawn(|| sender.run(&window, &over));
        let heard = scope.spawn(|| receiver.run(&window, (&live, &over)));
        let begun = scenario::wait("streams came", MEDIA.len(), || {
            live.load(Ordering::Relaxed) == MEDIA.len() as u64
        });
        if begun.is_ok() {
            thread::sleep(SETTLE);
            let from = clock::now();
            window.set(from, from + span);
            thread::sleep(span + RUN_OUT);
        }
        over.store(true, Ordering::Relaxed);
        let died = |_| Error::Join("a client's thread panicked".to_owned());
        let (sent, heard) = (sent.join().map_err(died)?, heard.join().map_err(died));
        begun?;
        let mut heard = heard?;
        for (stream, sent) in heard.streams.iter_mut().zip(sent) {
            stream.expected = sent;
        }
        Ok(heard)
    })
}

fn network(path: Path) -> Result<Emulator, Error> {
    let network = Emulator::new(&SITES, SEED).map_err(Error::Network)?;
    let lossy = Quality {
        loss: Loss::Random(LOSS),
        ..Quality::delayed(DELAY)
    };
    let (a, b) = match path {
        Path::Link(_) => (0, 1),
        Path::Client => (1, 2),
    };
    let set = network.control().set_both(a, b, &lossy);
    set.map_err(Error::Network)?;
    Ok(network)
}

/// The near one, and the far one that dials it.
fn brokers(path: Path, network: &Emulator, folder: &Folder) -> Result<[Broker; 2], Error> {
    let carrier = match path {
        Path::Link(carrier) => carrier,
        Path::Client => Carrier::Udp,
    };
    let start = |number: usize, neighbours| {
        let setup = Setup {
            number: number + 1,
            shards: 1,
            queuing: Queuing::Double,
            neighbours,
            carrier,
            program: None,
            port: 0,
            site: network.sites().get(number).cloned(),
            webrtc: false,
            clients: path == Path::Client,
            sessions: false,
            routing: None,
        };
        Broker::start(&setup, folder.path())
    };
    let near = start(0, Vec::new())?;
    let far = start(1, vec![carrier.port(near.udp)])?;
    Ok([near, far])
}

/// Beside the far broker, or at home by QUIC.
fn receiver(path: Path, sites: &[Site], broker: &Broker) -> Result<Client, Error> {
    let many = Buffers {
        small: 4_096,
        large: 1_024,
    };
    let mut options = ClientOptions {
        receive_buffers: many,
        queue: 2_048,
        socket_buffer: 4 << 20,
        ..ClientOptions::default()
    };
    if path != Path::Client {
        return connect(&sites[1], Target::Udp(broker.udp), options);
    }
    let trust = Roots::load(&broker.home().join("ca.crt"));
    let trust = trust.map_err(|error| Error::Broker(error.to_string()))?;
    options.stream = StreamOptions {
        trust: Some(Trust::Roots(trust)),
        ..StreamOptions::default()
    };
    let address = Address {
        scheme: Scheme::Quic,
        host: broker.udp.ip().to_string(),
        port: client_port(Scheme::Quic).unwrap_or(broker.udp.port()),
        path: String::new(),
    };
    connect(&sites[2], Target::Addresses(vec![address]), options)
}

fn connect(site: &Site, target: Target, options: ClientOptions) -> Result<Client, Error> {
    let connect = || Client::connect(target, options).map_err(io::Error::other);
    let client = site.enter(connect);
    let mut client = client.map_err(|error| Error::System("a client of a site", error))?;
    let up = client.wait_up(PATIENCE);
    up.map_err(|error| Error::Join(error.to_string()))?;
    Ok(client)
}

/// Where the stream of a number is published.
///
/// # Errors
/// None: the name is a topic.
pub(super) fn topic(number: usize) -> Result<Topic, Error> {
    Topic::new(&format!("{NAME}/{number}")).map_err(|error| Error::Join(error.to_string()))
}

/// What selects them all.
///
/// # Errors
/// None: the name is a filter.
pub(super) fn filter() -> Result<Filter, Error> {
    Filter::new(&format!("{NAME}/#")).map_err(|error| Error::Join(error.to_string()))
}
