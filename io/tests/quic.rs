//! Two QUIC endpoints over real sockets.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../node/tests/support/certificates.rs"]
#[allow(dead_code, reason = "the broker's tests use all of it")]
mod certificates;

use core::time::Duration;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket as StdSocket};
use std::sync::Arc;
use std::time::Instant;

use certificates::Authority;
use sangam_io::clock;
use sangam_io::poll::{Events, Interest, Poller};
use sangam_io::pool::{Packet, Pool};
use sangam_io::quic::{Config, Endpoint, Event, Key};
use sangam_io::tls::{self, ClientConfig, Clients, Identity, ServerConfig, Trust};
use sangam_io::udp::{UdpOptions, UdpSocket};
use sangam_model::{BrokerId, Class, Incarnation, StreamId, Time};
use sangam_wire::{Event as WireEvent, Extensions, Flags, Frame, Header};

const PATIENCE: Duration = Duration::from_secs(10);

fn config() -> Config {
    Config {
        server: None,
        client: None,
        datagram_max: 1_472,
        idle: Duration::from_secs(5),
        connections_max: 64,
        strangers_per_s: 1_000,
        member: 0,
    }
}

fn server_of(authority: &Authority, clients: Clients) -> Arc<ServerConfig> {
    tls::server(&authority.sign(), clients, &[]).unwrap()
}

fn client_of(authority: &Authority, own: Option<&Identity>) -> Arc<ClientConfig> {
    tls::client(Trust::Roots(authority.roots()), own, &[]).unwrap()
}

/// An endpoint, and what it told so far.
struct End {
    endpoint: Endpoint,
    poller: Poller,
    connected: Option<Key>,
    units: Vec<Vec<u8>>,
    lost: Option<String>,
}

impl End {
    fn new(config: &Config) -> Self {
        let options = UdpOptions {
            // A new connection may send all it has at once.
            recv_buffer: 4 << 20,
            gro: true,
            path_mtu_discovery: true,
            ..UdpOptions::default()
        };
        let socket = UdpSocket::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &options);
        let endpoint = Endpoint::new(socket.unwrap(), config).unwrap();
        let poller = Poller::new().unwrap();
        poller.add(endpoint.fd(), 0, Interest::Read).unwrap();
        Self {
            endpoint,
            poller,
            connected: None,
            units: Vec::new(),
            lost: None,
        }
    }

    fn server(authority: &Authority) -> Self {
        Self::new(&Config {
            server: Some(server_of(authority, Clients::Anonymous)),
            ..config()
        })
    }

    fn client(authority: &Authority) -> Self {
        Self::new(&Config {
            client: Some(client_of(authority, None)),
            ..config()
        })
    }

    fn dial(&mut self, server: &Self) -> Key {
        let to = server.endpoint.local_addr();
        self.endpoint
            .connect(clock::now(), to, "127.0.0.1")
            .unwrap()
    }

    /// One turn of a thread that has nothing else to do.
    fn turn(&mut self) {
        let now = clock::now();
        while self.endpoint.receive(now, |_, _, _| {}).unwrap() {}
        if self.endpoint.deadline().is_some_and(|at| at <= now) {
            self.endpoint.timeout(now);
        }
        while let Some((key, event)) = self.endpoint.poll() {
            match event {
                Event::Connected => self.connected = Some(key),
                Event::Unit(unit) => self.units.push(unit.to_vec()),
                Event::Lost { cause, .. } => self.lost = Some(cause),
                other => panic!("{other:?}"),
            }
        }
        self.endpoint.flush(now);
    }
}

/// Lets both ends work until something holds.
#[track_caller]
fn until(ends: &mut [&mut End], what: &str, mut holds: impl FnMut(&[&mut End]) -> bool) {
    let end = Instant::now() + PATIENCE;
    let mut events = Events::with_capacity(4);
    loop {
        for one in ends.iter_mut() {
            one.turn();
        }
        if holds(ends) {
            return;
        }
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        let wait = Some(Duration::from_micros(500));
        ends[0].poller.wait(&mut events, wait).unwrap();
    }
}

fn connected(client: &mut End, server: &mut End) -> (Key, Key) {
    let key = client.dial(server);
    until(&mut [client, server], "the handshake is done", |ends| {
        ends.iter().all(|end| end.connected.is_some())
    });
    assert_eq!(client.connected, Some(key));
    (key, server.connected.unwrap())
}

fn event(pool: &Pool, class: Class, number: u16, len: usize) -> Packet {
    let header = Header {
        class,
        flags: Flags::NONE,
        stream: StreamId::new(BrokerId(1), Incarnation(1), 1),
        sequence: number,
        hop_limit: 15,
        layer: 0,
    };
    let payload = vec![number as u8; len];
    let event = WireEvent {
        header,
        extensions: Extensions::NONE,
        payload: &payload,
    };
    let mut packet = pool.take(event.encoded_len()).unwrap();
    event.write(&mut packet).unwrap();
    packet.freeze()
}

fn ping() -> Vec<u8> {
    let mut bytes = Vec::new();
    Frame::Ping {
        session: 1,
        sent_us: 2,
        traffic: None,
    }
    .encode(&mut bytes);
    bytes
}

fn bye() -> Vec<u8> {
    let mut bytes = Vec::new();
    let (session, reason) = (1, sangam_wire::Refusal::Goodbye);
    Frame::Bye { session, reason }.encode(&mut bytes);
    bytes
}

#[test]
fn frames_signs_of_life_and_events_of_all_classes_arrive_both_ways() {
    let authority = Authority::new();
    let (mut client, mut server) = (End::client(&authority), End::server(&authority));
    let (to_server, to_client) = connected(&mut client, &mut server);
    let pool = Pool::new(64, 4);
    let units: Vec<Vec<u8>> = [Class::Audio, Class::Video, Class::Rtcp, Class::Data]
        .into_iter()
        .map(|class| event(&pool, class, 7, 900).to_vec())
        .chain([ping(), bye()])
        .collect();
    for (end, key) in [(&mut client, to_server), (&mut server, to_client)] {
        for class in [Class::Audio, Class::Video, Class::Rtcp, Class::Data] {
            let packet = event(&pool, class, 7, 900);
            end.endpoint.send_event(key, packet, clock::now()).unwrap();
        }
        end.endpoint.send_frame(key, &ping()).unwrap();
    }
    // The stream for frames is opened by the dialer's first.
    client.endpoint.send_frame(to_server, &bye()).unwrap();
    until(&mut [&mut client, &mut server], "the frame", |ends| {
        ends[1].units.contains(&bye())
    });
    server.endpoint.send_frame(to_client, &bye()).unwrap();
    until(&mut [&mut client, &mut server], "everything", |ends| {
        ends.iter().all(|end| end.units.len() == units.len())
    });
    for end in [client, server] {
        let mut got = end.units;
        let mut wanted = units.clone();
        got.sort();
        wanted.sort();
        assert_eq!(got, wanted);
    }
    assert_eq!(pool.free(), (64, 4));
}

#[test]
fn an_event_beyond_the_path_comes_in_pieces() {
    let authority = Authority::new();
    let (mut client, mut server) = (End::client(&authority), End::server(&authority));
    let (key, _) = connected(&mut client, &mut server);
    let pool = Pool::new(64, 4);
    let whole = event(&pool, Class::Video, 9, 9_000);
    client
        .endpoint
        .send_event(key, whole.clone(), clock::now())
        .unwrap();
    let mut joined = Vec::new();
    let mut reassembler = sangam_link::Reassembler::new();
    let mut taken = 0;
    until(&mut [&mut client, &mut server], "all pieces", |ends| {
        let pieces = &ends[1].units[taken..];
        taken += pieces.len();
        pieces.iter().any(|piece| {
            assert!(piece.len() <= 1_472);
            reassembler.push(Time::ZERO, piece, &mut joined) == Ok(true)
        })
    });
    assert_eq!(joined[..], whole[..]);
}

#[test]
fn audio_overtakes_video_that_waits() {
    let authority = Authority::new();
    let (mut client, mut server) = (End::client(&authority), End::server(&authority));
    let (key, _) = connected(&mut client, &mut server);
    let pool = Pool::new(512, 4);
    // Far more than a new connection may have on its way.
    for number in 0..300 {
        let packet = event(&pool, Class::Video, number, 1_100);
        client
            .endpoint
            .send_event(key, packet, clock::now())
            .unwrap();
    }
    client.endpoint.flush(clock::now());
    let waiting = client.endpoint.waiting(key, clock::now());
    assert!(waiting.video > 0, "the path takes all at once: {waiting:?}");
    let audio = event(&pool, Class::Audio, 1, 80);
    client
        .endpoint
        .send_event(key, audio.clone(), clock::now())
        .unwrap();
    until(&mut [&mut client, &mut server], "all events", |ends| {
        ends[1].units.len() == 301
    });
    let place = server.units.iter().position(|unit| unit[..] == audio[..]);
    let ahead = place.expect("the audio came");
    assert!(ahead < 300, "audio came last");
    assert_eq!(client.endpoint.packets(), 0);
}

#[test]
fn a_server_whom_nobody_known_has_signed_is_not_believed() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let (mut client, mut server) = (End::client(&ours), End::server(&theirs));
    client.dial(&server);
    until(&mut [&mut client, &mut server], "the refusal", |ends| {
        ends[0].lost.is_some()
    });
    assert!(client.connected.is_none() && server.connected.is_none());
    let cause = client.lost.unwrap();
    assert!(cause.contains("certificate"), "{cause}");
}

#[test]
fn who_shows_no_certificate_stays_out_where_one_is_asked_for() {
    let authority = Authority::new();
    let mut server = End::new(&Config {
        server: Some(server_of(&authority, Clients::Required(authority.roots()))),
        ..config()
    });
    let mut stranger = End::client(&authority);
    stranger.dial(&server);
    until(&mut [&mut stranger, &mut server], "the refusal", |ends| {
        ends[0].lost.is_some()
    });
    assert!(server.connected.is_none());

    let own = authority.sign();
    let mut member = End::new(&Config {
        client: Some(client_of(&authority, Some(&own))),
        ..config()
    });
    let (_, key) = connected(&mut member, &mut server);
    assert_eq!(
        server.endpoint.certificate(key),
        own.chain().first().cloned()
    );
}

#[test]
fn a_peer_that_vanishes_is_noticed_and_one_that_closes_says_why() {
    let authority = Authority::new();
    let quick = Config {
        server: Some(server_of(&authority, Clients::Anonymous)),
        idle: Duration::from_millis(300),
        ..config()
    };
    let mut server = End::new(&quick);
    let mut client = End::client(&authority);
    connected(&mut client, &mut server);
    until(&mut [&mut server], "the idle timeout", |ends| {
        ends[0].lost.is_some()
    });
    drop(client);

    let (mut client, mut server) = (End::client(&authority), End::server(&authority));
    let (_, key) = connected(&mut client, &mut server);
    server.endpoint.close(key, clock::now(), "leaving");
    until(&mut [&mut client, &mut server], "the farewell", |ends| {
        ends[0].lost.is_some()
    });
    let cause = client.lost.take().unwrap();
    assert!(cause.contains("leaving"), "{cause}");
    until(
        &mut [&mut client, &mut server],
        "all is forgotten",
        |ends| ends.iter().all(|end| end.endpoint.connections() == 0),
    );
}

#[test]
fn a_client_that_moves_to_another_address_goes_on() {
    let authority = Authority::new();
    let (mut client, mut server) = (End::client(&authority), End::server(&authority));
    let relay = StdSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    relay.set_nonblocking(true).unwrap();
    let open = || StdSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (before, after) = (open(), open());
    for side in [&before, &after] {
        side.set_nonblocking(true).unwrap();
    }
    let (server_at, relay_at) = (server.endpoint.local_addr(), relay.local_addr().unwrap());
    let client_at = client.endpoint.local_addr();
    let key = client
        .endpoint
        .connect(clock::now(), relay_at, "127.0.0.1")
        .unwrap();
    // An address translator that forgets and chooses another port.
    let mut moved = false;
    let forward = |moved: bool| {
        let mut bytes = [0; 2_048];
        let side = if moved { &after } else { &before };
        while let Ok((len, _)) = relay.recv_from(&mut bytes) {
            side.send_to(&bytes[..len], server_at).unwrap();
        }
        for side in [&before, &after] {
            while let Ok((len, _)) = side.recv_from(&mut bytes) {
                relay.send_to(&bytes[..len], client_at).unwrap();
            }
        }
    };
    let pool = Pool::new(64, 4);
    until(&mut [&mut client, &mut server], "the handshake", |ends| {
        forward(moved);
        ends.iter().all(|end| end.connected.is_some())
    });
    moved = true;
    let packet = event(&pool, Class::Audio, 1, 80);
    client
        .endpoint
        .send_event(key, packet.clone(), clock::now())
        .unwrap();
    until(&mut [&mut client, &mut server], "the event", |ends| {
        forward(moved);
        ends[1].units.len() == 1
    });
    let to_client = server.connected.unwrap();
    server
        .endpoint
        .send_event(to_client, packet, clock::now())
        .unwrap();
    until(&mut [&mut client, &mut server], "the answer", |ends| {
        forward(moved);
        ends[0].units.len() == 1
    });
    assert_eq!(
        server.endpoint.peer(to_client),
        Some(after.local_addr().unwrap())
    );
}

#[test]
fn packets_of_another_socket_of_the_group_are_told_apart() {
    let authority = Authority::new();
    let second = Config {
        server: Some(server_of(&authority, Clients::Anonymous)),
        member: 1,
        ..config()
    };
    let (mut client, mut server) = (End::client(&authority), End::new(&second));
    // An address translator between them, which sends all to the first socket from now on.
    let relay = StdSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    relay.set_nonblocking(true).unwrap();
    let (client_at, server_at) = (client.endpoint.local_addr(), server.endpoint.local_addr());
    let forward = |to_server: SocketAddr| {
        let mut bytes = [0; 2_048];
        while let Ok((len, from)) = relay.recv_from(&mut bytes) {
            let to = if from == client_at {
                to_server
            } else {
                client_at
            };
            relay.send_to(&bytes[..len], to).unwrap();
        }
    };
    let via = relay.local_addr().unwrap();
    let key = client.endpoint.connect(clock::now(), via, "127.0.0.1");
    until(&mut [&mut client, &mut server], "the handshake", |ends| {
        forward(server_at);
        ends.iter().all(|end| end.connected.is_some())
    });
    let mut first = End::server(&authority);
    let packet = event(&Pool::new(64, 4), Class::Audio, 1, 80);
    client
        .endpoint
        .send_event(key.unwrap(), packet.clone(), clock::now())
        .unwrap();
    let end = Instant::now() + PATIENCE;
    while server.units.is_empty() {
        assert!(Instant::now() < end, "nothing was handed over");
        client.turn();
        forward(first.endpoint.local_addr());
        let now = clock::now();
        let hand_over = |member, from, bytes: &[u8]| {
            assert_eq!(member, 1);
            server.endpoint.handed_over(now, from, bytes);
        };
        first.endpoint.receive(now, hand_over).unwrap();
        server.turn();
    }
    assert_eq!(server.units, [packet[..].to_vec()]);
}

#[test]
fn strangers_must_prove_their_address_while_many_handshakes_are_under_way() {
    let authority = Authority::new();
    let mut server = End::server(&authority);
    // Callers who never answer: each leaves a handshake behind.
    let mut silent: Vec<End> = (0..40).map(|_| End::client(&authority)).collect();
    for caller in &mut silent {
        caller.dial(&server);
        caller.endpoint.flush(clock::now());
    }
    until(&mut [&mut server], "the callers are taken", |ends| {
        ends[0].endpoint.connections() >= 32
    });
    let mut client = End::client(&authority);
    connected(&mut client, &mut server);
    let counted = server.endpoint.counters();
    assert!(counted.retried >= 1, "{counted:?}");
}

#[test]
fn a_flood_of_strangers_is_not_answered_beyond_its_bound() {
    let authority = Authority::new();
    let mut server = End::new(&Config {
        server: Some(server_of(&authority, Clients::Anonymous)),
        strangers_per_s: 5,
        ..config()
    });
    let mut callers: Vec<End> = (0..30).map(|_| End::client(&authority)).collect();
    for caller in &mut callers {
        caller.dial(&server);
        caller.endpoint.flush(clock::now());
    }
    let mut ignored = 0;
    let end = Instant::now() + PATIENCE;
    while ignored == 0 {
        assert!(Instant::now() < end, "nobody was ignored");
        server.turn();
        ignored += server.endpoint.counters().ignored;
    }
}
