//! Clients over QUIC.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sangam_broker::DropReason;
use sangam_client::{Client, Received, Target};
use sangam_io::tls::Trust;
use sangam_node::{Broker, BrokerConfig};

use crate::support::certificates::Authority;
use crate::support::*;

fn config_with(authority: &Authority) -> BrokerConfig {
    BrokerConfig {
        quic: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
        identity: Some(authority.sign()),
        ..config(1)
    }
}

fn dial(broker: &Broker, authority: &Authority) -> Client {
    dial_at(broker.addresses().quic[0], authority)
}

fn dial_at(address: SocketAddr, authority: &Authority) -> Client {
    let address = format!("quic://{address}");
    let target = Target::Addresses(vec![address.parse().expect("an address")]);
    let mut options = options();
    options.stream.trust = Some(Trust::Roots(authority.roots()));
    Client::connect(target, options).expect("a client")
}

fn quic(broker: &Broker, authority: &Authority) -> Client {
    let mut client = dial(broker, authority);
    client.wait_up(PATIENCE).expect("a link to the broker");
    client
}

#[test]
fn clients_over_quic_and_udp_see_the_same_events() {
    let authority = Authority::new();
    let broker = start(config_with(&authority));
    // More than one shard's worth.
    let mut all: Vec<Client> = (0..8).map(|_| quic(&broker, &authority)).collect();
    all.push(udp(&broker));
    let mut subscribers: Vec<_> = all.iter_mut().collect();
    for subscriber in &mut subscribers {
        subscribe(subscriber, "hall/stage");
    }
    for publisher in &mut [udp(&broker), quic(&broker, &authority)] {
        let mut flow = Flow::open(publisher, "hall/stage", &mut subscribers);
        flow.pump(100, &mut subscribers);
    }
    assert_eq!(drops(&broker), []);
}

#[test]
fn audio_and_video_of_any_length_pass() {
    let authority = Authority::new();
    let broker = start(config_with(&authority));
    let mut subscriber = quic(&broker, &authority);
    let mut publisher = quic(&broker, &authority);
    subscribe(&mut subscriber, "hall/#");
    for (name, media, len) in [
        ("hall/audio", audio(), 160),
        ("hall/video", video(), 1_460),
        ("hall/jumbo", video(), 9_000),
    ] {
        let mut flow = Flow::new(publish_media(&mut publisher, name, media));
        flow.len = len;
        flow.reach(&mut [&mut subscriber]);
        flow.pump(50, &mut [&mut subscriber]);
    }
    assert_eq!(drops(&broker), []);
}

#[test]
fn a_client_that_does_not_trust_the_certificate_stays_out() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let broker = start(config_with(&theirs));
    let mut client = dial(&broker, &ours);
    let error = client
        .wait_up(Duration::from_secs(1))
        .expect_err("no trust");
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[test]
fn a_full_broker_says_so_to_quic_clients() {
    let authority = Authority::new();
    let broker = start(BrokerConfig {
        clients_max: 1,
        ..config_with(&authority)
    });
    let first = quic(&broker, &authority);
    let mut second = dial(&broker, &authority);
    assert!(second.wait_up(Duration::from_millis(300)).is_err());
    drop(first);
    second.wait_up(PATIENCE).expect("the first one's room");
}

#[test]
fn a_broker_that_stops_tells_its_quic_clients() {
    let authority = Authority::new();
    let broker = start(config_with(&authority));
    let mut client = quic(&broker, &authority);
    drop(broker);
    wait_for(&mut client, "the farewell", |received| {
        matches!(received, Received::Down(sangam_wire::Refusal::Leaving))
    });
}

/// An address translator: what comes from the client leaves by a port that changes when told.
struct Translator {
    address: SocketAddr,
    moves: Arc<AtomicUsize>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Translator {
    fn to(broker: SocketAddr) -> Self {
        let open = || {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            socket
                .set_read_timeout(Some(Duration::from_millis(1)))
                .expect("a timeout");
            socket
        };
        let inside = open();
        let address = inside.local_addr().expect("an address");
        let (moves, stopping) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (wanted, end) = (moves.clone(), stopping.clone());
        let work = move || {
            let (mut outside, mut client, mut moved) = (open(), None, 0);
            let mut bytes = [0; 2_048];
            while !end.load(Ordering::Relaxed) {
                while moved < wanted.load(Ordering::Relaxed) {
                    (outside, moved) = (open(), moved + 1);
                }
                if let Ok((len, from)) = inside.recv_from(&mut bytes) {
                    client = Some(from);
                    outside.send_to(&bytes[..len], broker).expect("sent");
                }
                if let (Ok((len, _)), Some(to)) = (outside.recv_from(&mut bytes), client) {
                    inside.send_to(&bytes[..len], to).expect("sent");
                }
            }
        };
        Self {
            address,
            moves,
            stopping,
            thread: Some(thread::spawn(work)),
        }
    }
}

impl Drop for Translator {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        let thread = self.thread.take().map(JoinHandle::join);
        assert!(matches!(thread, Some(Ok(()))));
    }
}

#[test]
fn a_client_whose_address_changes_keeps_its_session() {
    let authority = Authority::new();
    let broker = start(config_with(&authority));
    let translator = Translator::to(broker.addresses().quic[0]);
    let mut publisher = dial_at(translator.address, &authority);
    publisher.wait_up(PATIENCE).expect("a link to the broker");
    let mut subscriber = udp(&broker);
    subscribe(&mut subscriber, "hall/stage");
    let mut flow = Flow::open(&mut publisher, "hall/stage", &mut [&mut subscriber]);
    // The kernel chooses among two shards each time: most likely it was each of them once.
    for _ in 0..8 {
        translator.moves.fetch_add(1, Ordering::Relaxed);
        flow.pump(20, &mut [&mut subscriber]);
    }
    assert_eq!(publisher.counters().ups, 1);
}

#[test]
fn noise_at_the_quic_port_harms_nobody() {
    let authority = Authority::new();
    let broker = start(config_with(&authority));
    let (mut publisher, mut subscriber) = (quic(&broker, &authority), quic(&broker, &authority));
    subscribe(&mut subscriber, "hall/stage");
    let mut flow = Flow::open(&mut publisher, "hall/stage", &mut [&mut subscriber]);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let to = broker.addresses().quic[0];
    for round in 0_u32..3_000 {
        // All kinds of first bytes, and connection ids of shards that do not exist.
        let mut bytes: Vec<u8> = (0..round % 1_400 + 1)
            .map(|at| (round.wrapping_mul(2_654_435_761).wrapping_add(at * 97) >> 7) as u8)
            .collect();
        bytes[0] = round as u8;
        socket.send_to(&bytes, to).expect("sent");
    }
    flow.pump(100, &mut [&mut subscriber]);
    assert_eq!(dropped(&broker, DropReason::PoolExhausted), 0);
}
