//! Clients of a real broker that is killed, or stands still, without a word (ADR 0033).

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

#[path = "common/authority.rs"]
mod authority;
mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use authority::Authority;
use common::{Running, sangam};
use sangam_client::{
    Address, Client, ClientOptions, Outgoing, Received, StreamOptions, Target, UpInfo,
};
use sangam_io::tls::Trust;
use sangam_link::Backoff;
use sangam_model::{Filter, MediaInfo, Topic};
use sangam_wire::{Event, Refusal};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);
/// Until something is said again.
const AGAIN: Duration = Duration::from_millis(50);
/// A client misses its broker after 2 s. Before it did after three times the 5 s in which it is
/// heard itself; what is between the two is a busy machine's.
const MISSED_WITHIN: Duration = Duration::from_secs(7);
const SCHEMES: [&str; 6] = ["udp", "tcp", "tls", "ws", "wss", "quic"];

struct Broker {
    process: Running,
    ready: Value,
}

impl Broker {
    /// At every kind of port that clients come to.
    fn start(authority: &Authority, folder: &Path) -> Self {
        let args = "serve --dev --json --log error --listen 127.0.0.1:0 --http 127.0.0.1:0";
        let mut command = sangam(&args.split(' ').collect::<Vec<_>>());
        authority.equip(&mut command, folder);
        for kind in ["TLS", "WS", "WSS", "QUIC"] {
            command.env(format!("SANGAM_LISTEN_{kind}"), "127.0.0.1:0");
        }
        let mut process = Running::start(command);
        let ready = process.json_line();
        Self { process, ready }
    }

    fn address(&self, scheme: &str) -> Address {
        let socket = self.ready[scheme][0].as_str().unwrap();
        format!("{scheme}://{socket}").parse().unwrap()
    }
}

/// Two brokers that know nothing of each other.
fn brokers(folder: &Path) -> [Broker; 2] {
    let authority = Authority::new(folder);
    ["first", "second"].map(|name| {
        let folder = authority.broker(name, "127.0.0.1");
        Broker::start(&authority, &folder)
    })
}

fn client(addresses: Vec<Address>) -> Client {
    let options = ClientOptions {
        backoff: Backoff {
            first: Duration::from_millis(20),
            most: Duration::from_millis(200),
            flap_damping: Duration::ZERO,
        },
        stream: StreamOptions {
            trust: Some(Trust::Anybody),
            ..StreamOptions::default()
        },
        ..ClientOptions::default()
    };
    Client::connect(Target::Addresses(addresses), options).unwrap()
}

/// Receives until something is as wanted.
#[track_caller]
fn wait<T>(client: &mut Client, wanted: impl Fn(&Received) -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    let mut before = Vec::new();
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        let Some(received) = client.recv(left) else {
            break;
        };
        match wanted(&received) {
            Some(found) => return found,
            None => before.push(received),
        }
    }
    panic!("it did not come; instead: {before:?}");
}

fn up(received: &Received) -> Option<UpInfo> {
    match received {
        Received::Up(info) => Some(*info),
        _ => None,
    }
}

fn down(received: &Received) -> Option<Refusal> {
    match received {
        Received::Down(reason) => Some(*reason),
        _ => None,
    }
}

fn subscribed(received: &Received) -> Option<()> {
    matches!(received, Received::Subscribed(_)).then_some(())
}

fn payload(received: &Received) -> Option<Vec<u8>> {
    match received {
        Received::Event(packet) => Some(Event::decode(packet).unwrap().payload.to_vec()),
        _ => None,
    }
}

/// Every client publishes, and the one after it, by another transport, hears it.
#[track_caller]
fn each_reaches_the_next(clients: &mut [(&str, Client)]) {
    for index in 0..clients.len() {
        let (scheme, publisher) = &mut clients[index];
        let topic = Topic::new(&format!("test/{scheme}")).unwrap();
        let mut stream = publisher
            .publish(&topic, MediaInfo::data(), PATIENCE)
            .unwrap();
        let said = scheme.as_bytes().to_vec();
        let (scheme, listener) = &mut clients[(index + 1) % SCHEMES.len()];
        let end = Instant::now() + PATIENCE;
        let mut heard = None;
        // What is sent before the stream has reached its subscribers may reach none of them.
        while heard.is_none() && Instant::now() < end {
            stream.send(Outgoing::new(&said)).unwrap();
            let received = listener.recv(AGAIN);
            heard = received.and_then(|one| payload(&one).filter(|heard| *heard == said));
        }
        assert_eq!(heard, Some(said), "{scheme}");
    }
}

#[test]
fn a_client_leaves_a_killed_broker_for_its_next_address_by_every_transport() {
    let folder = tempfile::tempdir().unwrap();
    let [mut first, second] = brokers(folder.path());
    let mut clients = SCHEMES.map(|scheme| {
        let mut client = client(vec![first.address(scheme), second.address(scheme)]);
        client.subscribe(&Filter::new("test/#").unwrap()).unwrap();
        let at = wait(&mut client, up);
        wait(&mut client, subscribed);
        (scheme, client, at)
    });
    // SIGKILL: nothing of the program runs any more that could say goodbye.
    let killed = Instant::now();
    first.process.child.kill().unwrap();
    first.process.child.wait().unwrap();
    for (scheme, client, before) in &mut clients {
        wait(client, down);
        let missed = killed.elapsed();
        assert!(missed < MISSED_WITHIN, "{scheme}: after {missed:?}");
        let after = wait(client, up);
        assert_ne!(before.broker, after.broker, "{scheme}");
        wait(client, subscribed);
    }
    let mut clients = clients.map(|(scheme, client, _)| (scheme, client));
    each_reaches_the_next(&mut clients);
}

#[test]
fn a_client_notices_a_broker_that_stands_still_and_comes_back_when_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let [first, _] = brokers(folder.path());
    let mut clients = SCHEMES.map(|scheme| {
        let mut client = client(vec![first.address(scheme)]);
        client.subscribe(&Filter::new("test/#").unwrap()).unwrap();
        wait(&mut client, subscribed);
        (scheme, client)
    });
    let frozen = Instant::now();
    first.process.signal("STOP");
    // Its kernel still takes what is sent, and connections, too.
    for (scheme, client) in &mut clients {
        assert_eq!(wait(client, down), Refusal::Silent, "{scheme}");
        let missed = frozen.elapsed();
        assert!(missed < MISSED_WITHIN, "{scheme}: after {missed:?}");
    }
    first.process.signal("CONT");
    for (_, client) in &mut clients {
        wait(client, subscribed);
    }
    each_reaches_the_next(&mut clients);
}
