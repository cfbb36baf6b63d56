//! Measures how far brokers are that this one may have no link with, in a thread of its own: it
//! waits for answers.
//!
//! What is asked needs no more of the other broker than what any stranger may ask: a hello without
//! a cookie, which is answered by a retry (`docs/spec/wire.md`); a QUIC packet of a version that
//! nobody speaks, which is answered by those that are (RFC 9000 section 6); a TCP connection.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sangam_io::clock;
use sangam_io::wake::Waker;
use sangam_model::{BrokerId, hash};
use sangam_wire::{Capabilities, DATAGRAM_MIN, Frame, Hello, Role, VERSION};

use super::nearest::AT_ONCE;
use crate::command::ControlEvent;
use crate::config::{LinkWay, Neighbour};

/// Whoever is farther is not near; also how long the thread may take to end.
const PATIENCE: Duration = Duration::from_millis(400);
/// The shortest of so many round trips counts.
const TRIES: usize = 3;
/// One datagram may be lost; by a way that loses as many, or answers too late, nobody is near.
const LOST_MAX: usize = 2;
/// Between two brokers: what is measured loads nobody.
const PAUSE: Duration = Duration::from_millis(20);
/// RFC 9000 section 14.1: a server drops what is shorter.
const QUIC_INITIAL: usize = 1_200;
/// RFC 9000 section 15: of the form 0x?a?a?a?a, so that nobody will ever speak it.
const NO_VERSION: [u8; 4] = [0x5a, 0xca, 0x1a, 0xba];

/// Where control hears the answers.
pub(super) type Answers = (SyncSender<ControlEvent>, Waker);

/// The way to ask the thread, for control. The thread ends with it.
#[derive(Debug)]
pub(super) struct SurveyDesk {
    questions: SyncSender<(BrokerId, Neighbour)>,
    over: Arc<AtomicBool>,
}

/// What the thread holds.
struct Surveyor {
    questions: Receiver<(BrokerId, Neighbour)>,
    answers: Answers,
    /// Secret, so that nobody knows our nonces.
    seed: u64,
    /// Nobody asks any more.
    over: Arc<AtomicBool>,
}

/// Starts the thread.
///
/// # Errors
/// The kernel gives no thread.
pub(super) fn survey(seed: u64, answers: Answers) -> io::Result<(SurveyDesk, JoinHandle<()>)> {
    let (asks, questions) = sync_channel(AT_ONCE);
    let over = Arc::new(AtomicBool::new(false));
    let surveyor = Surveyor {
        questions,
        answers,
        seed,
        over: over.clone(),
    };
    let thread = thread::Builder::new().name("sangam-survey".to_owned());
    let thread = thread.spawn(move || surveyor.run())?;
    let desk = SurveyDesk {
        questions: asks,
        over,
    };
    Ok((desk, thread))
}

impl SurveyDesk {
    /// Asks how far this broker is; `false` if too many are asked for already.
    pub(super) fn ask(&self, id: BrokerId, neighbour: Neighbour) -> bool {
        self.questions.try_send((id, neighbour)).is_ok()
    }
}

impl Drop for SurveyDesk {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

impl Surveyor {
    /// Runs until nobody can ask any more.
    fn run(self) {
        while let Ok((id, neighbour)) = self.questions.recv() {
            // As a link does, by the first way that works.
            let rtt = neighbour.ways.iter().find_map(|way| self.measure(way));
            let answer = ControlEvent::Surveyed { id, rtt };
            if self.over.load(Ordering::Relaxed) || self.answers.0.send(answer).is_err() {
                return;
            }
            self.answers.1.wake();
            thread::park_timeout(PAUSE);
        }
    }

    /// The shortest round trip; `None` without an answer in time.
    fn measure(&self, way: &LinkWay) -> Option<Duration> {
        let (mut best, mut lost) = (None::<Duration>, 0);
        for _ in 0..TRIES {
            if self.over.load(Ordering::Relaxed) {
                return None;
            }
            let nonce = hash::fold(clock::now().as_micros(), self.seed);
            match round_trip(way, nonce) {
                Ok(round) => best = Some(best.map_or(round, |best| round.min(best))),
                Err(error) => {
                    tracing::debug!(to = %way.address(), %error, "a distance is not measured");
                    lost += 1;
                }
            }
            if lost == LOST_MAX {
                break;
            }
        }
        best
    }
}

fn round_trip(way: &LinkWay, nonce: u64) -> io::Result<Duration> {
    match way {
        LinkWay::Udp(address) => exchange(*address, &hello(nonce), |answer| {
            answered(answer) == Some(nonce)
        }),
        LinkWay::Quic { address, .. } => {
            let own = nonce.to_be_bytes();
            let is_answer = |answer: &[u8]| versions_for(answer) == Some(&own[..]);
            exchange(*address, &no_version(own), is_answer)
        }
        LinkWay::Stream(way) => {
            let begun = Instant::now();
            TcpStream::connect_timeout(&way.address, PATIENCE)?;
            Ok(begun.elapsed())
        }
    }
}

/// How long the answer to a datagram takes; other datagrams are passed over.
fn exchange(
    to: SocketAddr,
    question: &[u8],
    is_answer: impl Fn(&[u8]) -> bool,
) -> io::Result<Duration> {
    let socket = match to {
        SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?,
        SocketAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?,
    };
    socket.connect(to)?;
    let mut answer = [0; QUIC_INITIAL];
    let begun = Instant::now();
    socket.send(question)?;
    loop {
        let left = PATIENCE.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        let len = socket.recv(&mut answer)?;
        if is_answer(&answer[..len]) {
            return Ok(begun.elapsed());
        }
    }
}

fn hello(nonce: u64) -> Vec<u8> {
    let hello = Frame::Hello(Hello {
        role: Role::Client,
        version_min: VERSION,
        version_max: VERSION,
        capabilities: Capabilities::OURS,
        nonce,
        datagram_max: DATAGRAM_MIN,
        clock_domain: clock::clock_domain(),
        cookie: None,
    });
    let mut bytes = Vec::new();
    hello.encode(&mut bytes);
    bytes
}

/// The nonce of the hello that this answers. Who refuses is as far as who does not.
fn answered(answer: &[u8]) -> Option<u64> {
    match Frame::decode(answer).ok()? {
        Frame::Retry { nonce, .. } => Some(nonce),
        Frame::Refuse(refuse) => Some(refuse.nonce),
        _ => None,
    }
}

/// A long header of no version, from a connection id of the caller's choice (RFC 8999 section
/// 5.1), as long as an Initial must be.
fn no_version(own: [u8; 8]) -> Vec<u8> {
    let mut bytes = vec![0xc0];
    bytes.extend(NO_VERSION);
    bytes.push(8);
    bytes.extend(own.map(|byte| !byte));
    bytes.push(8);
    bytes.extend(own);
    bytes.resize(QUIC_INITIAL, 0);
    bytes
}

/// The connection id that a version negotiation answers (RFC 8999 section 6).
fn versions_for(answer: &[u8]) -> Option<&[u8]> {
    let (first, rest) = answer.split_first()?;
    let (version, rest) = rest.split_first_chunk::<4>()?;
    let (len, rest) = rest.split_first()?;
    let is_negotiation = first & 0x80 != 0 && *version == [0; 4];
    rest.get(..usize::from(*len)).filter(|_| is_negotiation)
}

#[cfg(test)]
#[path = "../../tests/support/certificates.rs"]
mod certificates;

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use sangam_io::quic::broker_of;
    use sangam_io::wake::pair;

    use super::certificates::Authority;
    use super::*;
    use crate::Broker;
    use crate::config::{BrokerConfig, StreamWay, Transport};

    const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

    fn by_tcp(address: SocketAddr) -> LinkWay {
        LinkWay::Stream(StreamWay {
            transport: Transport::Tcp,
            address,
            proxy: None,
            name: String::new(),
            websocket: None,
        })
    }

    /// Hears everything and says nothing.
    fn silent() -> (UdpSocket, LinkWay) {
        let socket = UdpSocket::bind(LOOPBACK).expect("a socket");
        let way = LinkWay::Udp(socket.local_addr().expect("an address"));
        (socket, way)
    }

    #[test]
    fn a_broker_answers_by_each_of_its_ways() {
        let authority = Authority::new();
        let own = authority.sign();
        let broker = Broker::start(BrokerConfig {
            id: broker_of(&own.chain()[0]).expect("an Ed25519 key"),
            quic_links: vec![LOOPBACK],
            authorities: Some(authority.roots()),
            identity: Some(own),
            shards: 1,
            pool_small: 1_024,
            pool_large: 16,
            ..BrokerConfig::default()
        });
        let broker = broker.expect("a broker");
        let listens = broker.addresses();
        let ways = [
            LinkWay::Udp(listens.udp[0]),
            LinkWay::Quic {
                address: listens.quic_links[0],
                name: String::new(),
            },
            by_tcp(listens.tcp[0]),
        ];
        for way in ways {
            // A busy machine may be late once.
            let rounds: Vec<_> = (0..5).map(|nonce| round_trip(&way, nonce)).collect();
            assert!(rounds.iter().any(Result::is_ok), "{way:?}: {rounds:?}");
        }
    }

    #[test]
    fn who_is_silent_by_one_way_is_measured_by_the_next() {
        let (events, answers) = sync_channel(1);
        let (waker, _sleeper) = pair().expect("a descriptor");
        let (desk, thread) = survey(7, (events, waker)).expect("a thread");
        let (_socket, silent) = silent();
        let open = TcpListener::bind(LOOPBACK).expect("a listener");
        let by_tcp = by_tcp(open.local_addr().expect("an address"));
        for (id, ways) in [(1, vec![silent.clone(), by_tcp]), (2, vec![silent])] {
            assert!(desk.ask(BrokerId(id), Neighbour { ways }));
        }
        let answer = || answers.recv_timeout(Duration::from_secs(30));
        for (wanted, is_measured) in [(BrokerId(1), true), (BrokerId(2), false)] {
            let Ok(ControlEvent::Surveyed { id, rtt }) = answer() else {
                panic!("no answer");
            };
            assert_eq!((id, rtt.is_some()), (wanted, is_measured));
        }
        drop(desk);
        thread.join().expect("it ends with whoever asks");
    }

    #[test]
    fn versions_are_read_for_the_connection_they_answer() {
        let answer = [0x80, 0, 0, 0, 0, 2, 7, 8, 1, 9, 0, 0, 0, 1];
        assert_eq!(versions_for(&answer), Some(&[7, 8][..]));
        for len in 0..8 {
            assert_eq!(versions_for(&answer[..len]), None);
        }
        let mut of_a_version = answer;
        of_a_version[4] = 1;
        assert_eq!(versions_for(&of_a_version), None);
    }

    #[test]
    fn a_datagram_that_answers_something_else_is_passed_over() {
        let (socket, way) = silent();
        let thread = thread::spawn(move || {
            let mut question = [0; QUIC_INITIAL];
            let (len, from) = socket.recv_from(&mut question)?;
            let asked = match Frame::decode(&question[..len]) {
                Ok(Frame::Hello(hello)) => hello.nonce,
                _ => 0,
            };
            for nonce in [asked + 1, asked] {
                let mut retry = Vec::new();
                let cookie = [0; 16];
                Frame::Retry { nonce, cookie }.encode(&mut retry);
                socket.send_to(&retry, from)?;
            }
            io::Result::Ok(())
        });
        assert!(round_trip(&way, 7).is_ok());
        thread.join().expect("no panic").expect("a socket");
    }
}
