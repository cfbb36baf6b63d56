//! Units over TLS and WebSockets: the same as over TCP, and openings that are bounded.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, PKCS_ED25519,
};
use sangam_io::poll::{Events, Interest, Poller};
use sangam_io::stream::{Accept, Dial, Framed, FramedError, OutLimits, Progress, WebSocket};
use sangam_io::tls::{
    self, ALPN_HTTP, ALPN_UNITS, Clients, Identity, Roots, ServerName, TlsError, Trust, ed25519_key,
};
use sangam_model::limits::EVENT_LEN_MAX;

const LIMITS: OutLimits = OutLimits {
    units: 1_000,
    bytes: 1 << 20,
};
const DEADLINE: Option<Duration> = Some(Duration::from_secs(20));
const PATIENCE: Duration = Duration::from_secs(20);

/// Authorities are told apart by their names.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// An authority that exists for one test.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let name = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    fn roots(&self) -> Roots {
        Roots::from_pem(self.0.pem().as_bytes()).unwrap()
    }

    fn identity(&self, name: &str) -> (Identity, KeyPair) {
        let (certificate, key) = self.certificate(name, |_| {});
        let identity = Identity::from_pem(certificate.as_bytes(), key.serialize_pem().as_bytes());
        (identity.unwrap(), key)
    }

    fn certificate(
        &self,
        name: &str,
        change: impl Fn(&mut CertificateParams),
    ) -> (String, KeyPair) {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        change(&mut params);
        (params.signed_by(&key, &self.0).unwrap().pem(), key)
    }
}

/// What a server speaks, and a client that trusts it.
fn ways(tls: bool, websocket: bool) -> (Accept, Dial) {
    let (mut accept, mut dial) = (Accept::default(), Dial::default());
    if tls {
        let authority = Authority::new();
        let (identity, _) = authority.identity("localhost");
        let alpn = if websocket { ALPN_HTTP } else { ALPN_UNITS };
        accept.tls = Some(tls::server(&identity, Clients::Anonymous, &[alpn]).unwrap());
        dial.tls = Some(client(Trust::Roots(authority.roots()), "localhost"));
    }
    accept.websocket = websocket;
    dial.websocket = websocket.then(|| WebSocket {
        authority: "localhost".to_owned(),
        path: "/v1/connect".to_owned(),
    });
    (accept, dial)
}

fn client(trust: Trust, name: &str) -> (std::sync::Arc<tls::ClientConfig>, ServerName<'static>) {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let config = tls::client(trust, None, &[ALPN_UNITS, ALPN_HTTP]).unwrap();
    (config, name)
}

fn sockets(family: &str) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(family).unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    for socket in [&near, &far] {
        socket.set_nodelay(true).unwrap();
    }
    (near, far)
}

/// Both ends in one thread, driven by readiness.
struct Pair {
    near: Framed,
    far: Framed,
    poller: Poller,
    arrived: [Vec<Vec<u8>>; 2],
}

impl Pair {
    fn new(family: &str, (accept, dial): (Accept, Dial)) -> Self {
        let (near, far) = sockets(family);
        for socket in [&near, &far] {
            socket.set_nonblocking(true).unwrap();
        }
        let near = Framed::dial(near, &dial, LIMITS).unwrap();
        let far = Framed::accept(far, &accept, LIMITS).unwrap();
        let poller = Poller::new().unwrap();
        poller.add(near.fd(), 0, Interest::Read).unwrap();
        poller.add(far.fd(), 1, Interest::Read).unwrap();
        let arrived = [Vec::new(), Vec::new()];
        Self {
            near,
            far,
            poller,
            arrived,
        }
    }

    /// Goes on until both ends have nothing to do but wait, or one ends.
    fn drive(&mut self, until: impl Fn(&Self) -> bool) -> Result<(), FramedError> {
        let mut events = Events::with_capacity(2);
        while !until(self) {
            for (framed, token) in [(&mut self.near, 0), (&mut self.far, 1)] {
                let interest = match framed.write()? {
                    true => Interest::Read,
                    false => Interest::ReadWrite,
                };
                self.poller.modify(framed.fd(), token, interest).unwrap();
            }
            if until(self) {
                break;
            }
            assert!(
                self.poller.wait(&mut events, DEADLINE).unwrap() > 0,
                "nothing happens"
            );
            let ready: Vec<_> = events.iter().filter(|event| event.readable).collect();
            for event in ready {
                let framed = match event.token {
                    0 => &mut self.near,
                    _ => &mut self.far,
                };
                let units = &mut self.arrived[event.token as usize];
                framed.read_units(|unit| units.push(unit.to_vec()))?;
            }
        }
        Ok(())
    }
}

/// A server's end that somebody else speaks to by hand.
struct Answering {
    framed: Framed,
    peer: TcpStream,
}

impl Answering {
    fn new(accept: &Accept) -> Self {
        let (peer, far) = sockets("127.0.0.1:0");
        far.set_nonblocking(true).unwrap();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        Self {
            framed: Framed::accept(far, accept, LIMITS).unwrap(),
            peer,
        }
    }

    /// Reads until something ends it or `until` so many units came.
    fn read(&mut self, until: usize) -> (Vec<Vec<u8>>, Result<Progress, FramedError>) {
        let mut units = Vec::new();
        loop {
            ready(&self.framed, Interest::Read);
            let result = self.framed.read_units(|unit| units.push(unit.to_vec()));
            let over = !matches!(result, Ok(Progress::Idle | Progress::More));
            if !over {
                self.framed.write().unwrap();
            }
            if over || units.len() >= until {
                return (units, result);
            }
        }
    }

    /// What the peer gets to read until the end.
    fn said(mut self) -> String {
        drop(self.framed);
        let mut bytes = Vec::new();
        let mut buffer = [0; 1_024];
        // A reset behind the answer is an end like any other.
        while let Ok(count @ 1..) = self.peer.read(&mut buffer) {
            bytes.extend_from_slice(&buffer[..count]);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn ready(framed: &Framed, interest: Interest) {
    let poller = Poller::new().unwrap();
    poller.add(framed.socket().as_fd(), 0, interest).unwrap();
    let count = poller.wait(&mut Events::with_capacity(1), DEADLINE);
    assert_eq!(count.unwrap(), 1, "nothing comes");
}

const UPGRADE: &str = "GET /v1/connect HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: \
    websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

#[test]
fn units_of_every_size_pass_both_ways_over_every_stream() {
    let sizes = [1, 125, 126, 1_200, EVENT_LEN_MAX];
    for (tls, websocket) in [(false, false), (true, false), (false, true), (true, true)] {
        for family in ["127.0.0.1:0", "[::1]:0"] {
            let mut pair = Pair::new(family, ways(tls, websocket));
            pair.drive(|pair| pair.near.is_open() && pair.far.is_open())
                .unwrap();
            let sent: Vec<Vec<u8>> = sizes.iter().map(|size| vec![*size as u8; *size]).collect();
            for unit in &sent {
                pair.near.push_bytes(unit).unwrap();
                pair.far.push_bytes(unit).unwrap();
            }
            pair.drive(|pair| pair.arrived.iter().all(|units| units.len() == sizes.len()))
                .unwrap();
            assert_eq!(
                pair.arrived,
                [sent.clone(), sent],
                "{tls} {websocket} {family}"
            );
            assert_eq!(pair.near.queued(), OutLimits { units: 0, bytes: 0 });
        }
    }
}

#[test]
fn a_torrent_over_tls_arrives_whole_and_in_order() {
    for websocket in [false, true] {
        let mut pair = Pair::new("127.0.0.1:0", ways(true, websocket));
        pair.drive(|pair| pair.near.is_open() && pair.far.is_open())
            .unwrap();
        for round in 0..20_u8 {
            for n in 0..100_u8 {
                pair.far
                    .push_bytes(&[round, n].repeat(1 + usize::from(n) * 5))
                    .unwrap();
            }
            let wanted = 100 * (usize::from(round) + 1);
            pair.drive(|pair| pair.arrived[0].len() == wanted).unwrap();
        }
        let order = pair.arrived[0].iter().zip(0..);
        assert!(
            order
                .into_iter()
                .all(|(unit, n)| unit[..2] == [n / 100, n % 100].map(|x: u32| x as u8))
        );
    }
}

#[test]
fn the_end_of_a_stream_is_told_in_good_order() {
    for (tls, websocket) in [(true, false), (false, true), (true, true)] {
        let mut pair = Pair::new("127.0.0.1:0", ways(tls, websocket));
        pair.drive(|pair| pair.near.is_open() && pair.far.is_open())
            .unwrap();
        pair.near.push_bytes(b"last").unwrap();
        pair.near.finish();
        let mut units = Vec::new();
        let mut progress = Progress::Idle;
        while progress != Progress::Closed {
            ready(&pair.far, Interest::Read);
            progress = pair
                .far
                .read_units(|unit| units.push(unit.to_vec()))
                .unwrap();
        }
        assert_eq!(units, [b"last"]);
    }
}

#[test]
fn a_certificate_is_believed_for_its_name_time_and_authority_only() {
    let authority = Authority::new();
    let (good, _) = authority.identity("localhost");
    let (old, key) = authority.certificate("localhost", |params| {
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    });
    let old = Identity::from_pem(old.as_bytes(), key.serialize_pem().as_bytes()).unwrap();
    for (identity, roots, name, word) in [
        (&good, authority.roots(), "example.org", "another name"),
        (
            &good,
            Authority::new().roots(),
            "localhost",
            "authority's file",
        ),
        (&old, authority.roots(), "localhost", "expired"),
    ] {
        let accept = Accept {
            tls: Some(tls::server(identity, Clients::Anonymous, &[ALPN_UNITS]).unwrap()),
            ..Accept::default()
        };
        let dial = Dial {
            tls: Some(client(Trust::Roots(roots), name)),
            websocket: None,
        };
        let mut pair = Pair::new("127.0.0.1:0", (accept, dial));
        let error = pair.drive(|pair| pair.near.is_open()).unwrap_err();
        assert!(error.is_certificate(), "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn a_server_can_ask_who_calls() {
    let authority = Authority::new();
    let (server, _) = authority.identity("localhost");
    let (caller, key) = authority.identity("broker.example.org");
    let (stranger, _) = Authority::new().identity("broker.example.org");
    let wanted = |clients| Accept {
        tls: Some(tls::server(&server, clients, &[]).unwrap()),
        ..Accept::default()
    };
    let dial = |identity| {
        let trust = Trust::Roots(authority.roots());
        let config = tls::client(trust, identity, &[]).unwrap();
        Dial {
            tls: Some((config, ServerName::try_from("localhost").unwrap())),
            websocket: None,
        }
    };
    let required = || wanted(Clients::Required(authority.roots()));
    let optional = || wanted(Clients::Optional(authority.roots()));
    for (accept, identity, good) in [
        (required(), Some(&caller), true),
        (required(), None, false),
        (required(), Some(&stranger), false),
        (optional(), None, true),
        (optional(), Some(&stranger), false),
    ] {
        let mut pair = Pair::new("127.0.0.1:0", (accept, dial(identity)));
        let open = pair.drive(|pair| pair.far.is_open());
        assert_eq!(open.is_ok(), good, "{open:?}");
    }
    let (from, until) = caller.validity().unwrap();
    assert!(from < until, "{from:?} {until:?}");
    let public: [u8; 32] = key.public_key_raw().try_into().unwrap();
    assert_eq!(ed25519_key(&caller.chain()[0]), Some(public));
}

#[test]
fn whoever_trusts_anybody_still_gets_an_encrypted_stream() {
    let (accept, _) = ways(true, false);
    let dial = Dial {
        tls: Some(client(Trust::Anybody, "wrong.example.org")),
        websocket: None,
    };
    let mut pair = Pair::new("127.0.0.1:0", (accept, dial));
    pair.drive(|pair| pair.near.is_open() && pair.far.is_open())
        .unwrap();
}

#[test]
fn files_that_do_not_fit_say_what_to_do() {
    let authority = Authority::new();
    let (certificate, key) = authority.certificate("a", |_| {});
    let other = KeyPair::generate_for(&PKCS_ED25519)
        .unwrap()
        .serialize_pem();
    let key = key.serialize_pem();
    let load = |certificate: &str, key: &str| {
        let identity = Identity::from_pem(certificate.as_bytes(), key.as_bytes())?;
        tls::server(&identity, Clients::Anonymous, &[]).map(drop)
    };
    load(&certificate, &key).unwrap();
    for (certificate, key, word) in [
        (&certificate, &other, "not that of"),
        (&key, &key, "no certificate"),
        (&certificate, &certificate, "no private key"),
    ] {
        let error: TlsError = load(certificate, key).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
    let missing = std::path::Path::new("/nowhere/at.all");
    let error = Identity::load(missing, missing).unwrap_err();
    assert!(error.to_string().contains("/nowhere/at.all"), "{error}");
    assert!(matches!(
        Roots::from_pem(b"text"),
        Err(TlsError::NoCertificate(_))
    ));
}

#[test]
fn garbage_and_other_protocols_end_a_stream() {
    let (secure, _) = ways(true, false);
    let (web, _) = ways(false, true);
    for (accept, bytes) in [
        (&secure, &b"GET / HTTP/1.1\r\n\r\n"[..]),
        (&secure, &[0x16, 3, 1, 0, 4, 9, 9, 9, 9]),
        (&web, b"\x00\x05hello\r\n\r\n"),
        (&web, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ] {
        let mut server = Answering::new(accept);
        server.peer.write_all(bytes).unwrap();
        let (units, result) = server.read(usize::MAX);
        assert!(units.is_empty());
        assert!(result.is_err(), "{result:?}");
    }
}

#[test]
fn huge_headers_are_refused_early() {
    let (web, _) = ways(false, true);
    let mut server = Answering::new(&web);
    let head = format!("GET /v1/connect HTTP/1.1\r\nX: {}", "x".repeat(20_000));
    server.peer.write_all(head.as_bytes()).unwrap();
    let (_, result) = server.read(usize::MAX);
    assert!(result.unwrap_err().to_string().contains("431"));
}

#[test]
fn who_asks_for_something_else_is_told_where_websockets_are() {
    let (web, _) = ways(false, true);
    let mut server = Answering::new(&web);
    server
        .peer
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    assert!(server.read(usize::MAX).1.is_err());
    let said = server.said();
    assert!(
        said.starts_with("HTTP/1.1 404 ") && said.contains("/v1/connect"),
        "{said}"
    );
}

#[test]
fn a_request_may_come_byte_by_byte_and_pieces_and_pings_are_understood() {
    let (web, _) = ways(false, true);
    let mut server = Answering::new(&web);
    let (mut peer, bytes) = (server.peer.try_clone().unwrap(), UPGRADE.as_bytes());
    let writer = std::thread::spawn(move || {
        for byte in bytes {
            peer.write_all(&[*byte]).unwrap();
        }
        // A ping, then a unit in two pieces; the mask is zero.
        peer.write_all(&[0x89, 0x82, 0, 0, 0, 0, 7, 8]).unwrap();
        peer.write_all(&[0x02, 0x81, 0, 0, 0, 0, 1]).unwrap();
        peer.write_all(&[0x80, 0x81, 0, 0, 0, 0, 2]).unwrap();
        // Closes, and gets both answers.
        peer.write_all(&[0x88, 0x80, 0, 0, 0, 0]).unwrap();
    });
    let (units, result) = server.read(usize::MAX);
    writer.join().unwrap();
    assert_eq!(units, [[1, 2]]);
    assert!(matches!(result, Ok(Progress::Closed)), "{result:?}");
    let mut said = Vec::new();
    drop(server.framed);
    server.peer.read_to_end(&mut said).unwrap();
    assert!(said.starts_with(b"HTTP/1.1 101 "));
    assert!(
        said.ends_with(&[0x8a, 2, 7, 8, 0x88, 2, 3, 0xe8]),
        "{said:?}"
    );
}

#[test]
fn a_websocket_that_breaks_the_rules_is_told_which_way() {
    let (web, _) = ways(false, true);
    for (frame, code) in [
        (&[0x82, 1, 9][..], 1_002_u16),
        (&[0x82, 0xfe, 0x40, 1, 0, 0, 0, 0], 1_009),
    ] {
        let mut server = Answering::new(&web);
        server.peer.write_all(UPGRADE.as_bytes()).unwrap();
        server.peer.write_all(frame).unwrap();
        assert!(server.read(usize::MAX).1.is_err());
        drop(server.framed);
        let mut said = Vec::new();
        server.peer.read_to_end(&mut said).unwrap();
        assert!(said.ends_with(&code.to_be_bytes()), "{said:?}");
    }
}
