//! What the tests of a running broker have in common: brokers, clients, numbered events, patience.

// Each test program uses a part of it.
#![allow(dead_code)]

pub(crate) mod cable;
pub(crate) mod certificates;
pub(crate) mod raw;
pub(crate) mod relay;
pub(crate) mod shared;
pub(crate) mod source;
pub(crate) mod switch;
pub(crate) mod torrent;

use std::fmt::Debug;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sangam_broker::DropReason;
use sangam_client::{
    Buffers, Client, ClientOptions, Outgoing, Publisher, Received, SendError, Target,
};
use sangam_io::pool::Packet;
use sangam_link::Backoff;
use sangam_model::{BrokerId, Class, Filter, Incarnation, MediaInfo, StreamId, Topic};
use sangam_node::{Broker, BrokerConfig};
use sangam_wire::Event;

/// How long something that must happen may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(2);
/// How often in a row the same is read of what has settled: a thread may stand still that long.
const SETTLED: u32 = 3;
/// Number of events that only find out whether a path is open.
const PROBE: u32 = u32::MAX;
/// Events on their way at once: less than any queue of broker and client holds.
const WINDOW: u32 = 32;

/// A small broker on IPv4 loopback with ports of the kernel's choice.
pub(crate) fn config(id: u32) -> BrokerConfig {
    BrokerConfig {
        id: BrokerId(id),
        incarnation: Incarnation(1),
        secret: [id as u8; 16],
        shards: 2,
        pool_small: 4_096,
        pool_large: 64,
        ..BrokerConfig::default()
    }
}

/// The same on IPv6 loopback.
pub(crate) fn config_v6(id: u32) -> BrokerConfig {
    let loopback = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    let mut config = config(id);
    (config.udp, config.tcp) = (vec![loopback], vec![loopback]);
    config.accept_links[0].address = loopback.ip();
    config.accept_links[0].prefix = 128;
    config
}

/// A broker that dials these.
pub(crate) fn linked(id: u32, neighbours: &[&Broker]) -> BrokerConfig {
    let links = neighbours.iter().map(|broker| udp_of(broker)).collect();
    BrokerConfig {
        links,
        ..config(id)
    }
}

pub(crate) fn start(config: BrokerConfig) -> Broker {
    Broker::start(config).expect("a broker on loopback")
}

/// `count` brokers, each linked to the one before.
pub(crate) fn chain(count: u32) -> Vec<Broker> {
    let mut brokers: Vec<Broker> = Vec::new();
    for id in 1..=count {
        let before: Vec<_> = brokers.last().into_iter().collect();
        let broker = start(linked(id, &before));
        brokers.push(broker);
    }
    for (place, broker) in (1..).zip(&brokers) {
        let neighbours = usize::from(place > 1) + usize::from(place < count);
        links_up(broker, neighbours);
    }
    brokers
}

/// Waits until so many links are up.
#[track_caller]
pub(crate) fn links_up(broker: &Broker, count: usize) {
    eventually("links are up", || {
        broker.links().iter().filter(|link| link.up).count() == count
    });
}

/// Waits until the broker sends what is published here to so many neighbours.
#[track_caller]
pub(crate) fn routed(broker: &Broker, name: &str, links: usize) {
    let wanted = topic(name);
    eventually("the stream has its ways", || {
        let streams = broker.streams();
        streams
            .iter()
            .any(|stream| stream.topic == wanted && stream.links == links)
    });
}

pub(crate) fn udp_of(broker: &Broker) -> SocketAddr {
    broker.addresses().udp[0]
}

pub(crate) fn tcp_of(broker: &Broker) -> SocketAddr {
    broker.addresses().tcp[0]
}

/// A free port; another program may take it before the caller does.
pub(crate) fn free_port() -> u16 {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    socket.local_addr().expect("an address").port()
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "not within {PATIENCE:?}: {what}");
        thread::park_timeout(LOOK);
    }
}

/// The sum of a metric over all threads of the broker.
pub(crate) fn counted(broker: &Broker, name: &str) -> u64 {
    let samples = broker.samples();
    let of_name = samples.iter().filter(|sample| sample.name == name);
    of_name.map(|sample| sample.value as u64).sum()
}

/// What is read, once it stays the same for a moment: an event is received before the thread that
/// sent it counts it.
pub(crate) fn settled<T: PartialEq>(mut read: impl FnMut() -> T) -> T {
    let mut last = read();
    let mut same = 0;
    while same < SETTLED {
        thread::park_timeout(LOOK * 10);
        let now = read();
        same = if now == last { same + 1 } else { 0 };
        last = now;
    }
    last
}

/// Asserts that what is read becomes what is wanted: an answer is received before the thread that
/// gave it counts.
#[track_caller]
pub(crate) fn comes_to<T: PartialEq + Debug>(wanted: T, mut read: impl FnMut() -> T) {
    let until = Instant::now() + PATIENCE;
    let mut now = read();
    while now != wanted && Instant::now() < until {
        thread::park_timeout(LOOK);
        now = read();
    }
    assert_eq!(now, wanted, "not within {PATIENCE:?}");
}

/// How often the broker dropped something for this reason.
pub(crate) fn dropped(broker: &Broker, reason: DropReason) -> u64 {
    let label = ("reason", reason.name().to_owned());
    let samples = broker.samples();
    let of_reason = samples
        .iter()
        .filter(|sample| sample.name == "sangam_dropped_total" && sample.labels.contains(&label));
    of_reason.map(|sample| sample.value as u64).sum()
}

/// Everything the broker dropped, by reason, without what is merged on purpose.
pub(crate) fn drops(broker: &Broker) -> Vec<(&'static str, u64)> {
    let all = DropReason::ALL
        .into_iter()
        .map(|reason| (reason.name(), dropped(broker, reason)));
    all.filter(|(_, count)| *count > 0).collect()
}

pub(crate) fn options() -> ClientOptions {
    ClientOptions {
        receive_buffers: Buffers {
            small: 1_536,
            large: 64,
        },
        send_buffers: Buffers {
            small: 1_280,
            large: 64,
        },
        backoff: Backoff {
            first: Duration::from_millis(50),
            most: Duration::from_millis(400),
            flap_damping: Duration::ZERO,
        },
        trace_every: 0,
        ..ClientOptions::default()
    }
}

#[track_caller]
pub(crate) fn connect(target: Target) -> Client {
    connect_with(target, options())
}

#[track_caller]
pub(crate) fn connect_with(target: Target, options: ClientOptions) -> Client {
    let mut client = Client::connect(target, options).expect("a client");
    client.wait_up(PATIENCE).expect("a link to the broker");
    client
}

#[track_caller]
pub(crate) fn udp(broker: &Broker) -> Client {
    connect(Target::Udp(udp_of(broker)))
}

#[track_caller]
pub(crate) fn tcp(broker: &Broker) -> Client {
    connect(Target::Tcp(tcp_of(broker)))
}

#[track_caller]
pub(crate) fn door(broker: &Broker) -> Client {
    connect(Target::Door(broker.door().expect("a door")))
}

pub(crate) fn filter(text: &str) -> Filter {
    Filter::new(text).expect("a filter")
}

pub(crate) fn topic(text: &str) -> Topic {
    Topic::new(text).expect("a topic")
}

pub(crate) fn audio() -> MediaInfo {
    MediaInfo {
        class: Class::Audio,
        payload_type: 111,
        channels: 2,
        clock_rate: 48_000,
        encoding: "opus".to_owned(),
        fmtp: String::new(),
    }
}

pub(crate) fn video() -> MediaInfo {
    MediaInfo {
        class: Class::Video,
        payload_type: 96,
        channels: 0,
        clock_rate: 90_000,
        encoding: "H264".to_owned(),
        fmtp: "packetization-mode=1".to_owned(),
    }
}

/// Publishes data, which no age makes worthless.
#[track_caller]
pub(crate) fn publish(client: &mut Client, name: &str) -> Publisher {
    publish_media(client, name, MediaInfo::data())
}

#[track_caller]
pub(crate) fn publish_media(client: &mut Client, name: &str, media: MediaInfo) -> Publisher {
    client
        .publish(&topic(name), media, PATIENCE)
        .expect("leave to publish")
}

/// Subscribes and waits for the broker's answer.
#[track_caller]
pub(crate) fn subscribe(client: &mut Client, text: &str) {
    let wanted = filter(text);
    client.subscribe(&wanted).expect("a subscription");
    wait_for(
        client,
        "the subscription is taken",
        |received| matches!(received, Received::Subscribed(filter) if *filter == wanted),
    );
}

/// Receives until something of this kind comes; what comes before is let go.
#[track_caller]
pub(crate) fn wait_for(
    client: &mut Client,
    what: &str,
    wanted: impl Fn(&Received) -> bool,
) -> Received {
    let until = Instant::now() + PATIENCE;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match client.recv(left) {
            Some(received) if wanted(&received) => return received,
            Some(_) => {}
            None => assert!(!left.is_zero(), "not within {PATIENCE:?}: {what}"),
        }
    }
}

/// Waits until a stream on this topic is announced.
#[track_caller]
pub(crate) fn announced(client: &mut Client, name: &str) -> StreamId {
    let wanted = topic(name);
    let found = wait_for(
        client,
        "the stream is announced",
        |received| matches!(received, Received::Announce { topic, .. } if *topic == wanted),
    );
    match found {
        Received::Announce { stream, .. } => stream,
        other => panic!("not an announcement: {other:?}"),
    }
}

/// The payload of a numbered event of `len` bytes.
pub(crate) fn numbered(number: u32, len: usize) -> Vec<u8> {
    let mut payload = number.to_be_bytes().to_vec();
    payload.resize(len.max(4), number as u8);
    payload
}

/// The number of an event, once its payload is checked.
#[track_caller]
pub(crate) fn number_of(packet: &Packet) -> u32 {
    let event = Event::decode(packet).expect("an event");
    let head = event.payload.first_chunk().expect("a number in front");
    let number = u32::from_be_bytes(*head);
    assert_eq!(
        event.payload,
        numbered(number, event.payload.len()),
        "a changed payload"
    );
    number
}

/// The numbers of the events that come until `last` does, probes left out.
#[track_caller]
pub(crate) fn receive_until(client: &mut Client, last: u32) -> Vec<u32> {
    let mut numbers = Vec::new();
    let until = Instant::now() + PATIENCE;
    while numbers.last() != Some(&last) {
        let left = until.saturating_duration_since(Instant::now());
        assert!(
            !left.is_zero(),
            "event {last} did not come, only {numbers:?}"
        );
        if let Some(Received::Event(packet)) = client.recv(left) {
            numbers.push(number_of(&packet));
            numbers.retain(|number| *number != PROBE);
        }
    }
    numbers
}

/// A publisher of numbered events, and how far it has come.
pub(crate) struct Flow {
    pub(crate) publisher: Publisher,
    pub(crate) len: usize,
    next: u32,
}

impl Flow {
    pub(crate) fn new(publisher: Publisher) -> Self {
        Self {
            publisher,
            len: 100,
            next: 0,
        }
    }

    /// Publishes on `name` and sends until each subscriber has received something.
    #[track_caller]
    pub(crate) fn open(client: &mut Client, name: &str, subscribers: &mut [&mut Client]) -> Self {
        let mut flow = Self::new(publish(client, name));
        flow.reach(subscribers);
        flow
    }

    /// Sends until each subscriber receives, then leaves nothing on the way.
    #[track_caller]
    pub(crate) fn reach(&mut self, subscribers: &mut [&mut Client]) {
        for subscriber in subscribers.iter_mut() {
            eventually("a path to the subscriber is open", || {
                // A link that is not up yet is what is waited for.
                let _ = self.send(PROBE);
                matches!(
                    subscriber.recv(Duration::from_millis(20)),
                    Some(Received::Event(_))
                )
            });
        }
        self.pump(1, subscribers);
    }

    /// Sends `count` events; every subscriber must get each of them once and in order.
    #[track_caller]
    pub(crate) fn pump(&mut self, count: u32, subscribers: &mut [&mut Client]) {
        let end = self.next + count;
        while self.next < end {
            let first = self.next;
            let last = (first + WINDOW).min(end) - 1;
            for number in first..=last {
                self.send(number).expect("room for an event");
            }
            for (place, subscriber) in subscribers.iter_mut().enumerate() {
                let got = receive_until(subscriber, last);
                let wanted: Vec<u32> = (first..=last).collect();
                assert_eq!(got, wanted, "subscriber {place}");
            }
            self.next = last + 1;
        }
    }

    /// The number of the next event.
    pub(crate) fn sent(&self) -> u32 {
        self.next
    }

    fn send(&mut self, number: u32) -> Result<u16, SendError> {
        self.publisher
            .send(Outgoing::new(&numbered(number, self.len)))
    }
}

/// Asserts that nothing but control items comes for a moment.
#[track_caller]
pub(crate) fn silent(client: &mut Client) {
    let until = Instant::now() + Duration::from_millis(100);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match client.recv(left) {
            Some(Received::Event(packet)) => panic!("event {} came", number_of(&packet)),
            Some(_) => {}
            None if left.is_zero() => return,
            None => {}
        }
    }
}

/// A well-behaved publisher and a subscriber, who must not notice what others do.
pub(crate) struct Witness {
    subscriber: Client,
    flow: Flow,
    _publisher: Client,
}

impl Witness {
    #[track_caller]
    pub(crate) fn of(broker: &Broker) -> Self {
        Self::between(broker, broker)
    }

    /// Publishes at one broker and receives at another.
    #[track_caller]
    pub(crate) fn between(from: &Broker, to: &Broker) -> Self {
        let (mut publisher, mut subscriber) = (udp(from), udp(to));
        static WITNESSES: AtomicU32 = AtomicU32::new(0);
        let name = format!("witness/{}", WITNESSES.fetch_add(1, Ordering::Relaxed));
        subscribe(&mut subscriber, &name);
        let flow = Flow::open(&mut publisher, &name, &mut [&mut subscriber]);
        Self {
            subscriber,
            flow,
            _publisher: publisher,
        }
    }

    /// Every event still comes, once and in order.
    #[track_caller]
    pub(crate) fn is_unharmed(&mut self) {
        self.flow.pump(40, &mut [&mut self.subscriber]);
    }

    pub(crate) fn topic(&self) -> &str {
        self.flow.publisher.topic().as_str()
    }

    pub(crate) fn stream(&self) -> StreamId {
        self.flow.publisher.stream().expect("a link that stays up")
    }
}
