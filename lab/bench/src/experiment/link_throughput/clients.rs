//! Clients of a broker 90 ms away, by one of its transports.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sangam_client::{
    Address, Buffers, Client, ClientOptions, Outgoing, Received, Scheme, SendError, StreamOptions,
    Target,
};
use sangam_emulator::{Emulator, Site};
use sangam_io::tls::{Roots, Trust};
use sangam_model::{Class, Filter, MediaInfo, Topic};
use sangam_wire::{Event, Flags};

use super::{Flow, PATH_BITS_PER_S};
use crate::error::Error;
use crate::process::{Broker, Carrier, Queuing, Setup, client_port};
use crate::scenario::Folder;

const TOPIC: &str = "bench/throughput";
const PAYLOAD: usize = 1_200;
/// All streams of a path together, in percent of what it carries.
const OFFERED: u64 = 120;
/// A publisher's events leave together so often.
const TURN: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(30);
/// Clients of a path that open at once.
const OPENERS: usize = 16;

/// Where clients are, whom they call and whom they believe.
type At<'a> = (&'a Site, &'a Address, &'a Trust);

/// Starts a broker at the far site of each pair, its publisher beside it and its clients at the
/// near site.
///
/// # Errors
/// If a broker does not start or a client does not get in.
pub(super) fn open(
    network: &Emulator,
    scheme: Scheme,
    (pairs, connections): (usize, usize),
) -> Result<Flow, Error> {
    let folder = Folder::new()?;
    let mut flow = Flow::default();
    for (number, pair) in network.sites().chunks_exact(2).take(pairs).enumerate() {
        let (near, far) = (&pair[0], &pair[1]);
        let setup = Setup {
            number: number + 1,
            shards: 1,
            queuing: Queuing::Double,
            neighbours: Vec::new(),
            port: 0,
            site: Some(far.clone()),
            carrier: Carrier::Udp,
            program: None,
            webrtc: false,
            clients: true,
            sessions: false,
            routing: None,
        };
        let broker = Broker::start(&setup, folder.path())?;
        let trust = Roots::load(&broker.home().join("ca.crt"));
        let trust = trust.map_err(|error| Error::Broker(error.to_string()))?;
        let address = Address {
            scheme,
            host: broker.udp.ip().to_string(),
            port: client_port(scheme).unwrap_or(broker.udp.port()),
            path: match scheme.is_websocket() {
                true => "/v1/connect".to_owned(),
                false => String::new(),
            },
        };
        let at = (near, &address, &Trust::Roots(trust));
        for client in listeners(at, connections)? {
            let (stop, received) = (Arc::clone(&flow.stop), Arc::clone(&flow.received));
            let receive = move || {
                read(client, (&stop, &received));
                Ok(())
            };
            flow.ends.push(thread::spawn(receive));
        }
        let bits_per_s = PATH_BITS_PER_S * OFFERED / 100 / connections as u64;
        let (stop, at, broker_at) = (Arc::clone(&flow.stop), far.clone(), broker.udp);
        let publish = move || publish((&at, broker_at), bits_per_s, &stop);
        flow.ends.push(thread::spawn(publish));
        flow.brokers.push(broker);
    }
    flow.folder = Some(folder);
    Ok(flow)
}

/// Clients that have subscribed; each took several round trips.
fn listeners(at: At<'_>, count: usize) -> Result<Vec<Client>, Error> {
    let hands = OPENERS.min(count);
    let share = |hand: usize| (hand..count).step_by(hands).map(move |_| listener(at));
    thread::scope(|scope| {
        let open = |hand| scope.spawn(move || share(hand).collect::<Result<Vec<_>, _>>());
        let opening: Vec<_> = (0..hands).map(open).collect();
        let mut clients = Vec::with_capacity(count);
        for hand in opening {
            let opened = hand.join();
            clients.extend(opened.map_err(|_| Error::Join("a client panicked".to_owned()))??);
        }
        Ok(clients)
    })
}

/// A client that has subscribed.
fn listener((site, address, trust): At<'_>) -> Result<Client, Error> {
    let few = Buffers {
        small: 512,
        large: 16,
    };
    let options = ClientOptions {
        receive_buffers: few,
        send_buffers: few,
        queue: 256,
        // A round trip of the whole path.
        socket_buffer: 4 << 20,
        stream: StreamOptions {
            trust: Some(trust.clone()),
            ..StreamOptions::default()
        },
        ..ClientOptions::default()
    };
    let target = Target::Addresses(vec![address.clone()]);
    let mut client = connect(site, target, options)?;
    let subscribed = client.subscribe(&filter());
    subscribed.map_err(|error| Error::Join(format!("{address}: {error}")))?;
    let until = Instant::now() + PATIENCE;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        if let Some(Received::Subscribed(_)) = client.recv(left) {
            return Ok(client);
        }
    }
    Err(Error::Join(format!("{address} does not answer")))
}

fn connect(site: &Site, target: Target, options: ClientOptions) -> Result<Client, Error> {
    let connect = || Client::connect(target, options).map_err(io::Error::other);
    site.enter(connect)
        .map_err(|error| Error::System("a client of a site", error))
}

fn read(mut client: Client, (stop, received): (&AtomicBool, &AtomicU64)) {
    while !stop.load(Ordering::Relaxed) {
        let Some(Received::Event(packet)) = client.recv(TURN) else {
            continue;
        };
        if let Ok(event) = Event::decode(&packet) {
            received.fetch_add(event.payload.len() as u64, Ordering::Relaxed);
        }
    }
}

/// Publishes at a rate until it is time to stop.
fn publish(
    (site, broker): (&Site, SocketAddr),
    bits_per_s: u64,
    stop: &AtomicBool,
) -> io::Result<()> {
    let options = ClientOptions::default();
    // It publishes for as long as it is there.
    let mut client = connect(site, Target::Udp(broker), options).map_err(io::Error::other)?;
    let media = MediaInfo {
        class: Class::Video,
        payload_type: 96,
        clock_rate: 90_000,
        ..MediaInfo::data()
    };
    let stream = client.publish(&topic(), media, PATIENCE);
    let mut stream = stream.map_err(io::Error::other)?;
    // Each needs no other, so that what is shed costs what it is.
    let flags = Flags::FRAME_START.with(Flags::FRAME_END).with(Flags::KEY);
    let payload = [0; PAYLOAD];
    let (begun, mut sent) = (Instant::now(), 0_u128);
    while !stop.load(Ordering::Relaxed) {
        let due = begun.elapsed().as_micros() * u128::from(bits_per_s) / 8_000_000;
        while sent < due {
            let event = Outgoing {
                flags,
                layer: 0,
                payload: &payload,
            };
            // What the client's own queue has no room for is not offered.
            if stream.send(event) == Err(SendError::Closed) {
                return Err(io::Error::other("the broker has closed the stream"));
            }
            sent += PAYLOAD as u128;
        }
        thread::sleep(TURN);
    }
    Ok(())
}

fn topic() -> Topic {
    let topic = Topic::new(TOPIC);
    topic.unwrap_or_else(|_| unreachable!("a plain name is a topic"))
}

fn filter() -> Filter {
    let filter = Filter::new(TOPIC);
    filter.unwrap_or_else(|_| unreachable!("a plain name is a filter"))
}
