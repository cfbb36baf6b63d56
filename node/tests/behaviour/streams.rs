//! Clients over TLS and WebSockets: what holds over TCP holds there, and openings are bounded.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{Ipv6Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use sangam_broker::DropReason;
use sangam_client::{
    Address, Client, ClientError, ClientOptions, Outgoing, Received, StreamOptions, Target,
};
use sangam_io::tls::{Identity, Roots, Trust};
use sangam_node::{Broker, StartError, Transport};

use crate::support::relay::Relay;
use crate::support::*;

/// An authority and what it vouches for.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    fn identity(&self) -> Identity {
        let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let params = CertificateParams::new(names).expect("parameters");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        let (certificate, key) = (certificate.pem(), key.serialize_pem());
        Identity::from_pem(certificate.as_bytes(), key.as_bytes()).expect("they fit")
    }

    fn options(&self) -> ClientOptions {
        let roots = Roots::from_pem(self.0.pem().as_bytes()).expect("a certificate");
        ClientOptions {
            stream: StreamOptions {
                trust: Some(Trust::Roots(roots)),
                ..StreamOptions::default()
            },
            ..options()
        }
    }
}

/// A broker that serves every kind of stream at both families.
fn broker(authority: &Authority) -> Broker {
    let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    let mut config = config(1);
    let loopbacks = [config.tcp[0], v6];
    let kinds = [Transport::Tls, Transport::Ws, Transport::Wss];
    config.tcp.push(v6);
    config.streams = kinds
        .iter()
        .flat_map(|kind| loopbacks.map(|address| (*kind, address)))
        .collect();
    config.identity = Some(Arc::new(authority.identity()));
    start(config)
}

fn at(broker: &Broker, transport: Transport) -> Vec<SocketAddr> {
    broker.addresses().of(transport)
}

fn address(transport: Transport, socket: SocketAddr) -> Address {
    let text = format!("{}://{socket}", transport.name());
    text.parse().expect("an address")
}

fn by(addresses: &[Address]) -> Target {
    Target::Addresses(addresses.to_vec())
}

#[test]
fn events_pass_over_every_stream_and_family() {
    let authority = Authority::new("a");
    let broker = broker(&authority);
    let mut clients = Vec::new();
    for transport in Transport::ALL {
        for socket in at(&broker, transport) {
            let target = by(&[address(transport, socket)]);
            clients.push(connect_with(target, authority.options()));
        }
    }
    assert_eq!(clients.len(), 8);
    for client in &mut clients {
        subscribe(client, "hall/#");
    }
    let mut publisher = clients.pop().expect("the last one");
    let mut all: Vec<_> = clients.iter_mut().collect();
    let mut flow = Flow::open(&mut publisher, "hall/stage", &mut all);
    for len in [4, 125, 126, 1_200, 16_000] {
        flow.len = len;
        flow.pump(100, &mut all);
    }
    assert_eq!(drops(&broker), []);
}

#[test]
fn a_subscriber_behind_tls_that_stops_reading_loses_events_and_the_others_do_not() {
    let authority = Authority::new("a");
    for transport in [Transport::Tls, Transport::Ws, Transport::Wss] {
        let broker = broker(&authority);
        let relay = Relay::to(at(&broker, transport)[0]);
        let target = by(&[address(transport, relay.address)]);
        let mut sleeper = connect_with(target, authority.options());
        subscribe(&mut sleeper, "hall/#");
        let (mut publisher, mut reader) = (udp(&broker), udp(&broker));
        subscribe(&mut reader, "hall/#");
        let mut flow = Flow::open(
            &mut publisher,
            "hall/stage",
            &mut [&mut sleeper, &mut reader],
        );
        flow.len = 1_400;
        relay.pause(true);
        let mut sent = 0;
        while dropped(&broker, DropReason::PeerQueueFull) < 200 {
            assert!(sent < 40_000, "nothing is dropped");
            flow.pump(200, &mut [&mut reader]);
            sent += 200;
        }
        // It reads on, and is served again.
        relay.pause(false);
        while sleeper.recv(Duration::from_millis(300)).is_some() {}
        flow.pump(100, &mut [&mut sleeper, &mut reader]);
    }
}

#[test]
fn whoever_stalls_in_the_middle_of_an_opening_is_closed_and_harms_nobody() {
    let broker = broker(&Authority::new("a"));
    let mut witness = Witness::of(&broker);
    let hello = [&[0x16, 3, 1, 0x10, 0, 1, 0, 0x0f][..], &[0; 100]].concat();
    let mut stalled = Vec::new();
    for (transport, bytes) in [
        (Transport::Tls, &b""[..]),
        (Transport::Tls, &hello),
        (Transport::Ws, b""),
        (Transport::Ws, b"GET /v1/connect HTTP/1.1\r\nHost: a\r\n"),
        (Transport::Wss, &hello),
    ] {
        let mut socket = TcpStream::connect(at(&broker, transport)[0]).expect("a connection");
        socket.write_all(bytes).expect("sent");
        stalled.push(socket);
    }
    witness.is_unharmed();
    let count = stalled.len() as u64;
    for mut socket in stalled {
        socket
            .set_read_timeout(Some(PATIENCE))
            .expect("an open socket");
        // The end, or a reset of what was not read.
        let mut bytes = [0; 64];
        assert!(matches!(socket.read(&mut bytes), Ok(0)) || socket.read(&mut bytes).is_err());
    }
    eventually("all are counted", || {
        dropped(&broker, DropReason::StreamOpening) == count
    });
    witness.is_unharmed();
}

#[test]
fn garbage_instead_of_an_opening_is_counted_and_harms_nobody() {
    let broker = broker(&Authority::new("a"));
    let mut witness = Witness::of(&broker);
    let huge = format!("GET /v1/connect HTTP/1.1\r\nX: {}\r\n", "x".repeat(30_000));
    for (transport, bytes) in [
        (Transport::Tls, &[0xff; 600][..]),
        (Transport::Wss, b"GET /v1/connect HTTP/1.1\r\n\r\n"),
        (Transport::Ws, &[0x80; 9_000]),
        (Transport::Ws, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        (Transport::Ws, huge.as_bytes()),
    ] {
        let before = dropped(&broker, DropReason::StreamOpening);
        let mut socket = TcpStream::connect(at(&broker, transport)[0]).expect("a connection");
        // It may be closed before everything has left.
        let _ = socket.write_all(bytes);
        eventually("it is counted", || {
            dropped(&broker, DropReason::StreamOpening) == before + 1
        });
        witness.is_unharmed();
    }
}

#[test]
fn a_certificate_nobody_believes_is_told_at_once() {
    let authority = Authority::new("a");
    let broker = broker(&authority);
    let socket = at(&broker, Transport::Tls)[0];
    let stranger = Authority::new("b").options();
    let target = by(&[address(Transport::Tls, socket)]);
    let mut client = Client::connect(target, stranger).expect("a client");
    let error = client.wait_up(PATIENCE).expect_err("no trust");
    assert!(
        matches!(error, ClientError::Certificate { .. }),
        "{error:?}"
    );
    // Whoever trusts anybody may do so on this machine only.
    let anybody = ClientOptions {
        stream: StreamOptions {
            trust: Some(Trust::Anybody),
            ..StreamOptions::default()
        },
        ..options()
    };
    connect_with(by(&[address(Transport::Tls, socket)]), anybody.clone());
    let far = address(Transport::Tls, SocketAddr::from(([192, 0, 2, 1], 1)));
    let error = Client::connect(by(&[far]), anybody).expect_err("not on this machine");
    assert!(matches!(error, ClientError::Insecure(_)), "{error:?}");
}

#[test]
fn a_new_certificate_is_shown_to_who_comes_and_nobody_is_sent_away() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let broker = broker(&old);
    let socket = at(&broker, Transport::Wss)[0];
    let target = || by(&[address(Transport::Wss, socket)]);
    let mut before = connect_with(target(), old.options());
    subscribe(&mut before, "hall/#");
    broker.show(&new.identity(), None).expect("they fit");
    let mut after = connect_with(target(), new.options());
    let mut flow = Flow::open(&mut after, "hall/stage", &mut [&mut before]);
    flow.pump(10, &mut [&mut before]);
    assert_eq!(before.counters().ups, 1);
    let mut late = Client::connect(target(), old.options()).expect("a client");
    assert!(late.wait_up(PATIENCE).is_err());
}

#[test]
fn a_port_with_tls_needs_a_certificate() {
    let mut config = config(1);
    config.streams = vec![(Transport::Wss, config.tcp[0])];
    let error = Broker::start(config).expect_err("no certificate");
    assert!(matches!(error, StartError::Config(_)), "{error:?}");
}

/// Numbers of events, each of which must come once, until `done`.
fn carry(flow: &mut Numbers, subscriber: &mut Client, mut done: impl FnMut(&Client) -> bool) {
    // A fifth of what the broker lets one publisher send: faster is a flood, and is dropped.
    let (begun, pace) = (Instant::now(), Duration::from_micros(250));
    let until = begun + PATIENCE;
    let first = flow.sent;
    while !done(subscriber) {
        assert!(Instant::now() < until, "it does not move over");
        if begun.elapsed() >= pace * (flow.sent - first) {
            flow.send();
        }
        flow.receive(subscriber, pace);
    }
    (0..50).for_each(|_| flow.send());
    while flow.seen.len() < flow.sent as usize {
        assert!(
            Instant::now() < until,
            "{} of {}",
            flow.seen.len(),
            flow.sent
        );
        flow.receive(subscriber, Duration::from_millis(50));
    }
}

/// A publisher whose events are told apart by number, in whatever order they come.
struct Numbers {
    publisher: sangam_client::Publisher,
    sent: u32,
    seen: BTreeSet<u32>,
}

impl Numbers {
    fn new(publisher: sangam_client::Publisher) -> Self {
        Self {
            publisher,
            sent: 0,
            seen: BTreeSet::new(),
        }
    }

    fn send(&mut self) {
        let payload = numbered(self.sent, 100);
        let sent = self.publisher.send(Outgoing::new(&payload));
        sent.expect("a link that stays up");
        self.sent += 1;
    }

    fn receive(&mut self, subscriber: &mut Client, patience: Duration) {
        match subscriber.recv(patience) {
            Some(Received::Event(packet)) => {
                let number = number_of(&packet);
                assert!(self.seen.insert(number), "event {number} came twice");
            }
            Some(Received::Down(reason)) => panic!("the link went down: {reason}"),
            _ => {}
        }
    }
}

fn climbing(authority: &Authority) -> ClientOptions {
    ClientOptions {
        climb_after: Duration::from_millis(100),
        ..authority.options()
    }
}

/// A better way that does not work yet, and one that does.
fn ways(broker: &Broker) -> (Relay, Vec<Address>) {
    let better = Relay::to(at(broker, Transport::Wss)[0]);
    better.cut(true);
    let ways = vec![
        address(Transport::Wss, better.address),
        format!("udp://{}", udp_of(broker))
            .parse()
            .expect("an address"),
    ];
    (better, ways)
}

#[test]
fn a_subscriber_climbs_to_a_better_way_and_gets_every_event_once() {
    let authority = Authority::new("a");
    let broker = broker(&authority);
    let (better, ways) = ways(&broker);
    let mut subscriber = connect_with(by(&ways), climbing(&authority));
    subscribe(&mut subscriber, "hall/#");
    let mut publisher = udp(&broker);
    let mut flow = Numbers::new(publish(&mut publisher, "hall/stage"));
    announced(&mut subscriber, "hall/stage");
    better.cut(false);
    carry(&mut flow, &mut subscriber, |client| {
        client.counters().moves == 1
    });
    assert_eq!(subscriber.counters().ups, 1);
    // The other link has said goodbye.
    eventually("one link is left of each", || broker.peers() == 2);
}

#[test]
fn a_publisher_climbs_to_a_better_way_and_its_stream_loses_nothing() {
    let authority = Authority::new("a");
    let broker = broker(&authority);
    let (better, ways) = ways(&broker);
    let mut publisher = connect_with(by(&ways), climbing(&authority));
    let mut subscriber = udp(&broker);
    subscribe(&mut subscriber, "hall/#");
    let mut flow = Numbers::new(publish(&mut publisher, "hall/stage"));
    announced(&mut subscriber, "hall/stage");
    better.cut(false);
    carry(&mut flow, &mut subscriber, |_| {
        publisher.counters().moves == 1
    });
    assert_eq!(publisher.counters().ups, 1);
}

#[test]
fn a_client_falls_back_when_its_way_is_cut_and_climbs_up_again() {
    let authority = Authority::new("a");
    let broker = broker(&authority);
    let (better, ways) = ways(&broker);
    better.cut(false);
    let mut client = connect_with(by(&ways), climbing(&authority));
    subscribe(&mut client, "hall/#");
    better.cut(true);
    wait_for(&mut client, "it falls", |one| {
        matches!(one, Received::Down(_))
    });
    wait_for(&mut client, "it falls back", |one| {
        matches!(one, Received::Up(_))
    });
    better.cut(false);
    eventually("it climbs", || client.counters().moves == 1);
    let mut publisher = udp(&broker);
    let mut flow = Flow::open(&mut publisher, "hall/stage", &mut [&mut client]);
    flow.pump(20, &mut [&mut client]);
}

#[test]
fn a_better_way_that_leads_nowhere_disturbs_nobody() {
    let authority = Authority::new("a");
    let broker = broker(&authority);
    let (better, ways) = ways(&broker);
    // It takes connections and says nothing.
    better.pause(true);
    better.cut(false);
    let options = ClientOptions {
        climb_after: Duration::from_millis(20),
        ..authority.options()
    };
    let mut client = Client::connect(by(&ways), options).expect("a client");
    client
        .wait_up(2 * PATIENCE)
        .expect("a link by the second way");
    subscribe(&mut client, "hall/#");
    let mut publisher = udp(&broker);
    let mut flow = Flow::open(&mut publisher, "hall/stage", &mut [&mut client]);
    for _ in 0..10 {
        flow.pump(50, &mut [&mut client]);
        silent(&mut client);
    }
    assert_eq!((client.counters().moves, client.counters().ups), (0, 1));
}
